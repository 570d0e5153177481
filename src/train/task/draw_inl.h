/* SPDX-License-Identifier: MIT
 *
 * draw_inl.h - draws distinct tokens, and counts the ways to do so.
 */
#ifndef WEFT_DRAW_H
#define WEFT_DRAW_H

#include "train/tasks.h"

/* The random numbers of one sample, in order. */
struct draw {
    uint64_t key, drawn;
};

static inline struct draw draw_begin(const struct weft_spec *spec, const char *task, uint64_t index)
{
    return (struct draw){weft_key(weft_key_name((uint64_t)spec->seed, task), index), 0};
}

static inline int64_t draw_below(struct draw *d, int64_t n)
{
    return (int64_t)weft_below(d->key, d->drawn++, (uint64_t)n);
}

/* Returns a random token from first to first + count - 1 that is not among tokens[0 .. n). There must be one. */
static inline int32_t draw_other(struct draw *d, int64_t first, int64_t count, const int32_t *tokens, int64_t n)
{
    for (;;) {
        int32_t token = (int32_t)(first + draw_below(d, count));
        int64_t i = 0;
        while (i < n && tokens[i] != token)
            i++;
        if (i == n)
            return token;
    }
}

/* Returns the number of ordered selections of n distinct values out of `count`: count! / (count-n)! */
static inline double draw_ways(int64_t count, int64_t n)
{
    double ways = 1;
    for (int64_t i = 0; i < n; i++)
        ways *= (double)(count - i);
    return ways;
}

#endif
