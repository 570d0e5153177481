/* SPDX-License-Identifier: MIT
 *
 * log.c - sends notices that are not part of a result to the registered receiver, each once.
 */
#include "base/base.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weft_log_fn *receiver;
static void *receiver_context;

void weft_log_set(weft_log_fn *fn, void *context)
{
    pthread_mutex_lock(&lock);
    receiver = fn;
    receiver_context = context;
    pthread_mutex_unlock(&lock);
}

/* Remembers only the first 32 keys. */
static bool is_new(const char *key)
{
    static char sent[32][48];
    static int count;
    for (int i = 0; i < count; i++)
        if (strncmp(sent[i], key, sizeof sent[i] - 1) == 0)
            return false;
    if (count < 32)
        snprintf(sent[count++], sizeof sent[0], "%s", key);
    return true;
}

void weft_note_once(const char *key, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&lock);
    if (receiver && is_new(key)) {
        vsnprintf(text, sizeof text, format, args);
        receiver(receiver_context, text);
    }
    pthread_mutex_unlock(&lock);
    va_end(args);
}
