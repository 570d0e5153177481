/* SPDX-License-Identifier: MIT
 *
 * safetensors_format.c - converts tensor types and checksums to and from the text stored in safetensors files.
 */
#include "ckpt/safetensors_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct type {
    const char *name;
    size_t bytes;
    int dtype; /* -1 if Weft does not support it */
} types[] = {{"F64", 8, WEFT_F64}, {"F32", 4, WEFT_F32}, {"I32", 4, WEFT_I32}, {"BF16", 2, WEFT_BF16},
             {"F16", 2, -1},       {"I64", 8, -1},       {"U64", 8, -1},       {"U32", 4, -1},
             {"I16", 2, -1},       {"U16", 2, -1},       {"I8", 1, -1},        {"U8", 1, -1},
             {"BOOL", 1, -1},      {"F8_E4M3", 1, -1},   {"F8_E5M2", 1, -1}};
enum { TYPES = sizeof types / sizeof types[0] };

static const struct type *type_of(enum weft_dtype dtype)
{
    const struct type *t = types;
    while (t->dtype != (int)dtype)
        t++;
    return t;
}

const char *weft_safetensors_type(const struct weft_entry *e)
{
    return e->foreign ? e->foreign : type_of(e->dtype)->name;
}

bool weft_safetensors_set_type(struct weft_entry *e, const char *name, size_t *bytes)
{
    int t = 0;
    while (t < TYPES && (!name || strcmp(name, types[t].name)))
        t++;
    if (t == TYPES)
        return false;
    *bytes = types[t].bytes;
    if (types[t].dtype < 0)
        e->foreign = types[t].name;
    else
        e->dtype = (enum weft_dtype)types[t].dtype;
    return true;
}

bool weft_safetensors_is_name(const char *name)
{
    return strlen(name) <= WEFT_SAFETENSORS_MAX_NAME && weft_text_printable(name);
}

/* ---- checksums */

static struct weft_safetensors_sum hex(uint64_t sum)
{
    struct weft_safetensors_sum h;
    snprintf(h.text, sizeof h.text, "%016" PRIx64, sum);
    return h;
}

static uint64_t sum_text(uint64_t before, const char *text) { return weft_checksum(before, text, strlen(text)); }

struct weft_safetensors_sum weft_safetensors_sum(const struct weft_entry *e, size_t bytes)
{
    uint64_t sum = sum_text(sum_text(0, e->name), weft_safetensors_type(e));
    sum = weft_checksum(sum, e->dim, (size_t)e->ndim * sizeof *e->dim);
    return hex(e->data ? weft_checksum(sum, e->data, bytes) : weft_checksum_whole(sum, e->sum, bytes));
}

struct weft_safetensors_sum weft_safetensors_sum_metadata(json_t *metadata)
{
    uint64_t sum = 0;
    const char *name;
    json_t *value;
    json_object_foreach(metadata, name, value)
    {
        if (strcmp(name, WEFT_SAFETENSORS_SUM))
            sum += sum_text(sum_text(0, name), json_string_value(value));
    }
    return hex(sum);
}

struct weft_safetensors_sum_name weft_safetensors_sum_name(const struct weft_entry *e)
{
    struct weft_safetensors_sum_name n;
    snprintf(n.text, sizeof n.text, WEFT_SAFETENSORS_SUM ".%s", e->name);
    return n;
}
