/* SPDX-License-Identifier: MIT
 *
 * jsonl.c - any bytes as JSONL and as plain text, compressed or not: read or refused, and plain text is not changed.
 * Odd numbers of bytes are taken for JSONL.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "text/internal.h"

#include <zstd.h>
#include <zstd_errors.h>

enum { ENOUGH = 1 << 18 };

struct text {
    const uint8_t *data; /* what must come, if it is known */
    size_t size, at;
};

static enum weft_status look(void *context, const char *bytes, size_t count)
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

/* Whether a few bytes ask for a large window or decompress to much: correct, but all the time would go there. */
static bool swells(const uint8_t *data, size_t size)
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
    if (packed && swells(data, size))
        return 0;
    struct text lines = {0}, plain = {packed ? NULL : data, size, 0};
    struct weft_source *s = size ? source(data, size) : NULL;
    if (s && size % 2)
        weft_documents_jsonl(s, "text", look, &lines);
    else if (s && weft_documents_plain(s, look, &plain) == WEFT_OK)
        MUST(!plain.data || plain.at == size);
    weft_source_close(s);
    return 0;
}
