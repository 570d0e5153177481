/* SPDX-License-Identifier: MIT
 *
 * tile_inl.h - shared by forward and backward attention: dropout of a tile, and counting its multiply-adds.
 */
#ifndef WEFT_ATTENTION_TILE_H
#define WEFT_ATTENTION_TILE_H

#include "ops/attention/logits_tile_inl.h"
#include "ops/attention/reference_inl.h"

#include <stdatomic.h>

/* Returns the dropout factors of row r's probabilities, 0 or 1/(1-p), in `keep`. */
VINLINE void keep_factors(const struct job *job, const struct tile *t, int64_t r, vf keep[KEY_VECS])
{
    double dropout = job->attr->dropout;
    vu bits[KEY_VECS] = {{0}};
    if (dropout > 0)
        vrand(t->mask_key, (uint64_t)t->h << 32 | (uint64_t)(t->i + r), (uint32_t)(t->j / 4), bits);
    for (int c = 0; c < KEY_VECS; c++)
        keep[c] = vpick((vi)(bits[c] < mask_threshold(dropout)), vset(0), vset((float)(1 / (1 - dropout))));
}

/* Counts multiply-adds for checks: of the rows from position i and the keys from position j, `each` per visible pair
 * and `own` per pair in the reciprocal term's window. */
static inline void count_tile(const struct sizes *n, int64_t i, int64_t rows, int64_t j, int64_t each, int64_t own)
{
    struct weft_counter *counter = weft_counter();
    for (int64_t at = i; counter && at < i + rows; at++) {
        int64_t visible = weft_max(0, weft_min(WEFT_KEY_TILE, at - j + 1)), first = weft_max(j, at - n->window);
        int64_t near = weft_max(0, weft_min(j + WEFT_KEY_TILE, at) - first);
        atomic_fetch_add(&counter->attention, visible * each + (n->window ? near * own : 0));
    }
}

#endif
