/* SPDX-License-Identifier: MIT
 *
 * mask.c - dropout masks of forms: the random bits of column c of position i. Those of attention are a counter per head
 * and query.
 */
#include "check/op/mask.h"
#include "ops/ops.h"

bool weft_mask_drops(const struct weft_drop *d, const int32_t step_key[4], int32_t sample, int32_t pos, int64_t head,
                     int64_t column)
{
    uint64_t key = weft_dropout_key(step_key, sample, d->layer, d->site);
    uint64_t place = (d->scores ? (uint64_t)head << 32 : 0) | (uint64_t)pos;
    uint32_t bits = weft_rand(key, place, (uint64_t)(column / 64 * 16 + column % 16)).u[column % 64 / 16];
    return bits < (uint32_t)(d->p * 0x1p32);
}
