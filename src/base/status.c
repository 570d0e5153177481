/* SPDX-License-Identifier: MIT
 *
 * status.c - the story of a failure: one message and the places it passed through, per thread.
 */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char story[2048];
static _Thread_local size_t story_length;

static const char *short_name(const char *file)
{
    const char *src = strstr(file, "src/");
    return src ? src + 4 : file;
}

static void append(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void append(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(story + story_length, sizeof story - story_length, format, args);
    va_end(args);
    if (n > 0)
        story_length += (size_t)weft_min(n, (int64_t)(sizeof story - story_length - 1));
}

enum weft_status weft_fail(enum weft_status status, const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(story, sizeof story, format, args);
    va_end(args);
    story_length = (size_t)weft_max(0, weft_min(n, sizeof story - 1));
    append("\n  at %s:%d", short_name(file), line);
    return status;
}

void weft_trace(const char *file, int line) { append(", %s:%d", short_name(file), line); }

void weft_error_clear(void)
{
    story[0] = 0;
    story_length = 0;
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

const char *weft_error(void) { return story_length ? story : "no failure was recorded"; }

const char *weft_version(void) { return WEFT_VERSION; }

enum weft_status weft_size_mul(size_t a, size_t b, size_t *product)
{
    if (__builtin_mul_overflow(a, b, product))
        return FAIL(WEFT_NOMEM, "%zu x %zu bytes do not fit in memory; make the model or batch smaller", a, b);
    return WEFT_OK;
}

enum weft_status weft_size_add(size_t a, size_t b, size_t *sum)
{
    if (__builtin_add_overflow(a, b, sum))
        return FAIL(WEFT_NOMEM, "%zu + %zu bytes do not fit in memory; make the model or batch smaller", a, b);
    return WEFT_OK;
}
