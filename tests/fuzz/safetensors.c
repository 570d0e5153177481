/* SPDX-License-Identifier: MIT
 *
 * safetensors.c - any bytes as a safetensors file: if it opens, every tensor can be read to its last byte and found by
 * name. Each input is tried unchanged, and again with the header length corrected, which a fuzzer rarely guesses.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "ckpt/ckpt.h"

#include <string.h>

static void check_entry(const struct weft_safetensors *f, const struct weft_entry *e)
{
    struct weft_tensor to = {malloc(2 * e->bytes + 1), WEFT_F32, e->ndim, {0}};
    MUST(to.data && weft_safetensors_find(f, e->name) == e);
    memcpy(to.dim, e->dim, sizeof to.dim);
    weft_checksum(0, e->data, e->bytes);
    if (weft_safetensors_read(f, e->name, &to) == WEFT_OK)
        MUST(weft_tensor_count(&to) * (int64_t)weft_dtype_bytes(e->dtype) == (int64_t)e->bytes);
    free(to.data);
}

static void try_file(const uint8_t *data, size_t size)
{
    struct weft_safetensors *f;
    size_t bytes = 0;
    if (weft_safetensors_open(&f, fuzz_file(data, size)) != WEFT_OK)
        return;
    for (int i = 0; i < weft_safetensors_count(f); i++) {
        check_entry(f, weft_safetensors_at(f, i));
        bytes += weft_safetensors_at(f, i)->bytes;
    }
    MUST(bytes < size);
    weft_safetensors_metadata(f, "format");
    (void)weft_safetensors_verify(f, NULL);
    weft_safetensors_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_file(data, size);
    const uint8_t *end = size > 8 ? memrchr(data + 8, '}', size - 8) : NULL;
    if (end) {
        uint8_t *copy = malloc(size);
        uint64_t length = (uint64_t)(end + 1 - data) - 8;
        MUST(copy);
        memcpy(copy, data, size);
        memcpy(copy, &length, sizeof length);
        try_file(copy, size);
        free(copy);
    }
    return 0;
}
