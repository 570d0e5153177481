/* SPDX-License-Identifier: MIT
 *
 * program.c - finds the program that runs studies, by default this one, and its hash.
 */
#include "base/base.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char path[4096] = "/proc/self/exe", hash[65]; /* hash: cached; "": not computed yet */
static bool is_set;

enum weft_status weft_program_set(const char *program)
{
    char new_hash[65];
    if (!program || strlen(program) >= sizeof path)
        return FAIL(WEFT_INVALID, "%s: pass the path of the program weft",
                    program ? "the path is too long" : "no path");
    TRY(weft_sha256_file(program, new_hash));
    pthread_mutex_lock(&lock);
    snprintf(path, sizeof path, "%s", program);
    memcpy(hash, new_hash, sizeof hash);
    is_set = true;
    pthread_mutex_unlock(&lock);
    return WEFT_OK;
}

const char *weft_program(void) { return path; }

enum weft_status weft_program_check(void)
{
    pthread_mutex_lock(&lock);
    bool set = is_set;
    pthread_mutex_unlock(&lock);
    return set ? WEFT_OK
               : FAIL(WEFT_INVALID, "a study runs the program weft, and its path has not been set: call "
                                    "weft_program_set() with the path of weft first");
}

enum weft_status weft_program_path(char real[4096])
{
    if (!realpath(path, real))
        return FAIL(WEFT_IO, "the program's own file %s cannot be found: %s", path, strerror(errno));
    return WEFT_OK;
}

enum weft_status weft_program_hash(char hex[65])
{
    enum weft_status status = WEFT_OK;
    pthread_mutex_lock(&lock);
    if (!*hash)
        status = weft_sha256_file(path, hash);
    memcpy(hex, hash, sizeof hash);
    pthread_mutex_unlock(&lock);
    return status;
}
