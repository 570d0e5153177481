/* SPDX-License-Identifier: MIT
 *
 * jsonl.c - any bytes as JSONL or as plain text, compressed or not: plain text must not change. An input with
 * an odd number of bytes is read as JSONL.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "text/tokens/internal.h"

#include <zstd.h>
#include <zstd_errors.h>

enum { ENOUGH = 1 << 18 };

struct text {
    const uint8_t *data; /* the expected text, or NULL */
    size_t size, at;
};

static enum weft_status check_text(void *context, const char *bytes, size_t count)
{
    struct text *t = context;
    volatile unsigned char sum = 0;
    for (size_t i = 0; i < count; i++)
        sum = (unsigned char)(sum + (unsigned char)bytes[i]);
    MUST(!t->data || (count <= t->size - t->at && memcmp(bytes, t->data + t->at, count) == 0));
    t->at += count;
    return WEFT_OK;
}

static struct weft_source *source(const uint8_t *data, size_t size)
{
    struct weft_source *s = NULL;
    FILE *f = fmemopen((void *)data, size, "rb");
    if (f && weft_source_from(&s, f, "input") != WEFT_OK)
        s = NULL;
    return s;
}

/* Whether the input needs a large window or decompresses to many bytes: valid, but it would take all the time. */
static bool is_bomb(const uint8_t *data, size_t size)
{
    static char out[ENOUGH];
    ZSTD_DStream *zstd = ZSTD_createDStream();
    ZSTD_inBuffer from = {data, size, 0};
    ZSTD_outBuffer to = {out, sizeof out, 0};
    size_t status = ZSTD_DCtx_setParameter(zstd, ZSTD_d_windowLogMax, 18);
    while (!ZSTD_isError(status) && from.pos < from.size && to.pos < to.size)
        status = ZSTD_decompressStream(zstd, &to, &from);
    ZSTD_freeDStream(zstd);
    return to.pos == to.size || ZSTD_getErrorCode(status) == ZSTD_error_frameParameter_windowTooLarge;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool packed = fuzz_is_zstd(data, size);
    if (packed && is_bomb(data, size))
        return 0;
    struct text lines = {0}, plain = {packed ? NULL : data, size, 0};
    struct weft_source *s = size ? source(data, size) : NULL;
    if (s && size % 2)
        weft_documents_jsonl(s, "text", check_text, &lines);
    else if (s && weft_documents_plain(s, check_text, &plain) == WEFT_OK)
        MUST(!plain.data || plain.at == size);
    weft_source_close(s);
    return 0;
}
