/* SPDX-License-Identifier: MIT
 *
 * mask.c - stores masks of pruned weights. Every span has the same capacity, and the masks of a weight's spans are
 * contiguous.
 */
#include "train/prune/mask.h"

enum { SPAN_WORDS = WEFT_SPAN / WEFT_MASK_WORD };

enum weft_status weft_masks_alloc(struct weft_learner *t)
{
    t->mask = weft_arena_alloc(&t->arena, (size_t)(t->span_count * SPAN_WORDS) * sizeof *t->mask);
    return t->mask ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for masks");
}

int64_t weft_mask_words(const struct weft_param *w) { return weft_div_up(w->count, WEFT_MASK_WORD); }

uint32_t *weft_mask_of(const struct weft_learner *t, const struct weft_param *w)
{
    int64_t span = 0;
    for (const struct weft_param *before = t->model->params.list; before < w; before++)
        span += weft_div_up(before->count, WEFT_SPAN);
    return t->mask + span * SPAN_WORDS;
}

int64_t weft_mask_bits(const uint32_t *mask, int64_t words)
{
    int64_t n = 0;
    for (int64_t i = 0; i < words; i++)
        n += __builtin_popcount(mask[i]);
    return n;
}

void weft_masks_count(struct weft_learner *t) { t->pruned = weft_mask_bits(t->mask, t->span_count * SPAN_WORDS); }

void weft_mask_apply(const struct weft_learner *t, int64_t span, float *values)
{
    const uint32_t *mask = t->mask + span * SPAN_WORDS;
    int64_t count = t->spans[span].count;
    for (int64_t at = 0; at < count; at += WEFT_MASK_WORD)
        for (int64_t i = at; mask[at / WEFT_MASK_WORD] && i < weft_min(at + WEFT_MASK_WORD, count); i++)
            values[i] = weft_mask_has(mask, i) ? 0 : values[i];
}
