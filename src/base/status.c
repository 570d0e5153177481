/* SPDX-License-Identifier: MIT
 *
 * status.c - stores the last error of each thread: a message, and the source lines that it passed through.
 */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[2048], trace[1024];

static const char *short_name(const char *file)
{
    const char *src = strstr(file, "src/");
    return src ? src + 4 : file;
}

enum weft_status weft_fail(enum weft_status status, const char *file, int line, const char *format, ...)
{
    char text[sizeof message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; (c = strchr(c, '\n'));) /* in quoted text: an error is one line */
        *c = ' ';
    weft_text_escape(text, message, sizeof message);
    snprintf(trace, sizeof trace, "at %s:%d", short_name(file), line);
    return status;
}

void weft_trace(const char *file, int line)
{
    size_t n = strlen(trace);
    snprintf(trace + n, sizeof trace - n, ", %s:%d", short_name(file), line);
}

static _Thread_local enum weft_status deferred;

void weft_defer(enum weft_status status)
{
    if (deferred == WEFT_OK)
        deferred = status;
}

enum weft_status weft_deferred(void)
{
    enum weft_status status = deferred;
    deferred = WEFT_OK;
    return status;
}

void weft_error_clear(void) { message[0] = trace[0] = 0; }

const char *weft_error(void) { return *trace ? message : "no error was recorded"; }

const char *weft_error_trace(void) { return trace; }

const char *weft_version(void) { return WEFT_VERSION; }

enum weft_status weft_size_mul(size_t a, size_t b, size_t *product)
{
    if (__builtin_mul_overflow(a, b, product))
        return FAIL(WEFT_NOMEM, "%zu x %zu bytes do not fit in memory: make the model or batch smaller", a, b);
    return WEFT_OK;
}

enum weft_status weft_size_add(size_t a, size_t b, size_t *sum)
{
    if (__builtin_add_overflow(a, b, sum))
        return FAIL(WEFT_NOMEM, "%zu + %zu bytes do not fit in memory: make the model or batch smaller", a, b);
    return WEFT_OK;
}
