/* SPDX-License-Identifier: MIT
 *
 * jsonl.c - any bytes as JSONL and as plain text, compressed or not: read or refused, and plain text is not changed.
 * Odd numbers of bytes are taken for JSONL.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "text/internal.h"

#include <string.h>

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

/* Memory is what takes the time here: a compressed frame may ask for 128 MiB. Let it fail, and keep little aside. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=1:max_allocation_size_mb=32:allocator_may_return_null=1";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool packed = size >= 4 && (memcmp(data, "\x28\xb5\x2f\xfd", 4) == 0 || memcmp(data + 1, "\x2a\x4d\x18", 3) == 0);
    struct text lines = {0}, plain = {packed ? NULL : data, size, 0};
    struct weft_source *s = size ? source(data, size) : NULL;
    if (s && size % 2)
        weft_documents_jsonl(s, "text", look, &lines);
    else if (s && weft_documents_plain(s, look, &plain) == WEFT_OK)
        MUST(!plain.data || plain.at == size);
    weft_source_close(s);
    return 0;
}
