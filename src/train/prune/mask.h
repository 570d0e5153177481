/* SPDX-License-Identifier: MIT
 *
 * mask.h - masks of pruned weights (mask.c): a bit for each element, bit i % 32 of word i / 32 for element i.
 */
#ifndef WEFT_MASK_H
#define WEFT_MASK_H

#include "train/learner.h"

enum { WEFT_MASK_WORD = 32 };

static inline bool weft_mask_has(const uint32_t *mask, int64_t i)
{
    return mask[i / WEFT_MASK_WORD] >> i % WEFT_MASK_WORD & 1;
}
static inline void weft_mask_set(uint32_t *mask, int64_t i)
{
    mask[i / WEFT_MASK_WORD] |= (uint32_t)1 << i % WEFT_MASK_WORD;
}

/* Allocates t->mask for all weights, empty. */
enum weft_status weft_masks_alloc(struct weft_learner *t);
/* Return the mask words of a weight, and their number. */
uint32_t *weft_mask_of(const struct weft_learner *t, const struct weft_param *w);
int64_t weft_mask_words(const struct weft_param *w);
int64_t weft_mask_bits(const uint32_t *mask, int64_t words); /* returns the number of set bits */
/* Sets the pruned values of a span to 0. */
void weft_mask_apply(const struct weft_learner *t, int64_t span, float *values);
/* Sets t->pruned from the masks. */
void weft_masks_count(struct weft_learner *t);

#endif
