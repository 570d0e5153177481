/* SPDX-License-Identifier: MIT
 *
 * tile_inl.h - shared by forward and backward attention in addition to the logits: dropout of a tile.
 */
#ifndef WEFT_ATTENTION_TILE_H
#define WEFT_ATTENTION_TILE_H

#include "ops/attention/logits_tile_inl.h"
#include "ops/attention/reference_inl.h"

/* The dropout factors of row r's probabilities: 0 or 1/(1-p). */
VINLINE void keep_factors(const struct job *job, const struct tile *t, int64_t r, vf keep[KEY_VECS])
{
    double dropout = job->attr->dropout;
    vu bits[KEY_VECS] = {{0}};
    if (dropout > 0)
        vrand(t->mask_key, (uint64_t)t->h << 32 | (uint64_t)(t->i + r), (uint32_t)(t->j / 4), bits);
    for (int c = 0; c < KEY_VECS; c++)
        keep[c] = vpick((vi)(bits[c] < mask_threshold(dropout)), vset(0), vset((float)(1 / (1 - dropout))));
}

#endif
