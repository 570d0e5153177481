/* SPDX-License-Identifier: MIT
 *
 * log.c - notices on stderr, each said once.
 */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void weft_note_once(const char *key, const char *format, ...)
{
    static char said[32][48];
    static int count;
    for (int i = 0; i < count; i++)
        if (strncmp(said[i], key, sizeof said[i] - 1) == 0)
            return;
    if (count < 32)
        snprintf(said[count++], sizeof said[0], "%s", key);
    va_list args;
    va_start(args, format);
    fputs("weft: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}
