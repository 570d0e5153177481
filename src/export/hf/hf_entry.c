/* SPDX-License-Identifier: MIT
 *
 * hf_entry.c - reads one weight from a file that a different program wrote: its type, shape and values.
 */
#include "export/hf/hf.h"

#include <string.h>

enum weft_status weft_hf_check(const struct weft_entry *e, const struct weft_hf_place *p)
{
    bool known = e->foreign ? strcmp(e->foreign, "F16") == 0 : e->dtype == WEFT_F32 || e->dtype == WEFT_BF16;
    bool same = e->ndim == p->ndim;
    for (int d = 0; same && d < p->ndim; d++)
        same = e->dim[d] == p->dim[d];
    if (!known)
        return FAIL(WEFT_INVALID, "%s is of type %s, but only F32, F16 and BF16 can be read", e->name,
                    e->foreign ? e->foreign : weft_dtype_name(e->dtype));
    if (!same)
        return FAIL(WEFT_INVALID, "%s does not have the shape required by its config, %lld x %lld", e->name,
                    (long long)p->dim[0], (long long)(p->ndim > 1 ? p->dim[1] : 1));
    return WEFT_OK;
}

float weft_hf_value(const struct weft_entry *e, int64_t i)
{
    uint16_t half;
    float x;
    if (!e->foreign && e->dtype == WEFT_F32) {
        memcpy(&x, (const char *)e->data + 4 * i, sizeof x);
        return x;
    }
    memcpy(&half, (const char *)e->data + 2 * i, sizeof half);
    return e->foreign ? weft_f32_from_f16(half) : weft_f32_from_bf16(half);
}
