/* SPDX-License-Identifier: MIT
 *
 * looks.c - computes the levels of several looks at a study. A study that is tested after 3 seeds and, if undecided,
 * again after 5 finds differences between equal arms more often than a study with a single test. So each look has a
 * stricter level, chosen so that the total error probability is alpha.
 *
 * Every look spends the same fraction of alpha (the error spending of Lan and DeMets, Biometrika 70, 1983, in equal
 * parts). Every look is a t test. No normal approximation describes the dependence between looks at 3 seeds, so the
 * limits come from simulated studies of equal arms, with fixed random numbers.
 */
#include "stats/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STUDIES = 1 << 20, LEAST_STUDIES = 1 << 17, TILE = 1 << 12, DRAWS = 1 << 26 };

struct studies {
    int64_t count, longest; /* number of studies; number of seeds at the last look */
    int64_t from, to;       /* number of seeds before this look, and at it */
    double limit;           /* limit of the previous look; studies beyond it have ended */
    double *mean, *squares; /* mean and sum of squared deviations of each study's seeds so far */
    double *t;              /* |t| of each study at this look; -1: the study ended at an earlier look */
    uint64_t key;
};

static void extend_study(const struct studies *s, int64_t i)
{
    for (int64_t n = s->from + 1; n <= s->to; n++) {
        double x = weft_normal(s->key, (uint64_t)(i * s->longest + n)), off = x - s->mean[i];
        s->mean[i] += off / (double)n;
        s->squares[i] += off * (x - s->mean[i]);
    }
    double n = (double)s->to;
    s->t[i] = fabs(s->mean[i]) / sqrt(s->squares[i] / (n - 1) / n);
}

static void extend_tile(void *context, int64_t tile, int thread)
{
    const struct studies *s = context;
    (void)thread;
    for (int64_t i = tile * TILE; i < weft_min(s->count, (tile + 1) * TILE); i++)
        if (s->t[i] >= 0 && s->t[i] <= s->limit)
            extend_study(s, i);
        else
            s->t[i] = -1;
}

static int from_large(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Returns the value exceeded by `beyond` studies, or `least` if that is larger. */
static double find_limit(const struct studies *s, int64_t beyond, double least, double *large)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->count; i++)
        if (s->t[i] >= least)
            large[n++] = s->t[i];
    qsort(large, (size_t)n, sizeof *large, from_large);
    return beyond < n ? large[beyond] : least;
}

static void simulate(struct studies *s, struct weft_looks *l, double alpha, double *large)
{
    double share = alpha / l->count;
    s->limit = INFINITY;
    for (int k = 0; k < l->count; k++) {
        double freedom = (double)(l->seeds[k] - 1);
        int64_t spent = (int64_t)((double)s->count * share * k), spend = (int64_t)((double)s->count * share * (k + 1));
        s->from = s->to;
        s->to = l->seeds[k];
        weft_parallel(weft_div_up(s->count, TILE), extend_tile, s);
        /* Every study whose |t| exceeds the limit ends at this look or has ended earlier, so at most share * (k + 1) of
         * all studies exceed it. This bounds the limit from below. */
        s->limit = find_limit(s, spend - spent, -0.99 * weft_t_quantile(share * (k + 1) / 2, freedom), large);
        l->alpha[k] = weft_t_beyond(s->limit, freedom);
    }
}

static enum weft_status check(const struct weft_looks *l)
{
    if (l->comparisons < 1 || l->count < 1 || l->count > WEFT_MAX_LOOKS)
        return FAIL(WEFT_INVALID, "%lld comparisons at %d looks: expected at least one of each, and at most %d looks",
                    (long long)l->comparisons, l->count, WEFT_MAX_LOOKS);
    for (int k = 0; k < l->count; k++)
        if (l->seeds[k] < (k ? l->seeds[k - 1] + 1 : l->count > 1 ? WEFT_LEAST_SEEDS : 1))
            return FAIL(WEFT_INVALID,
                        "look %d is after %lld seeds: the first look needs at least %d, and each look more than "
                        "the previous one",
                        k + 1, (long long)l->seeds[k], WEFT_LEAST_SEEDS);
    return WEFT_OK;
}

/* Copies the most recent levels if they are for the same looks, because a report is read several times and simulating
 * the levels is slow. */
static bool recall(const struct weft_looks *known, struct weft_looks *l)
{
    bool same = known->comparisons == l->comparisons && known->count == l->count &&
                memcmp(known->seeds, l->seeds, (size_t)l->count * sizeof *l->seeds) == 0;
    if (same)
        memcpy(l->alpha, known->alpha, sizeof l->alpha);
    return same;
}

enum weft_status weft_looks_init(struct weft_looks *l)
{
    static _Thread_local struct weft_looks known;
    TRY(check(l));
    if (recall(&known, l))
        return WEFT_OK;
    double alpha = WEFT_FAMILY_ALPHA / (double)l->comparisons;
    l->alpha[0] = alpha;
    if (l->count == 1)
        return WEFT_OK;
    struct studies s = {.longest = l->seeds[l->count - 1] + 1, .key = weft_key_name(0, "looks")};
    s.count = weft_max(LEAST_STUDIES, weft_min(MOST_STUDIES, DRAWS / s.longest));
    double *memory = calloc((size_t)(4 * s.count), sizeof *memory);
    if (!memory)
        return FAIL(WEFT_NOMEM, "not enough memory to simulate looks");
    s.mean = memory;
    s.squares = memory + s.count;
    s.t = memory + 2 * s.count;
    simulate(&s, l, alpha, memory + 3 * s.count);
    free(memory);
    known = *l;
    return WEFT_OK;
}

enum weft_status weft_look(const struct weft_looks *l, struct weft_comparison *c, int *look)
{
    int64_t seeds = c->seeds;
    bool decided = false;
    *look = 0;
    for (int k = 0; k < l->count && l->seeds[k] <= seeds && !decided; k++) {
        c->seeds = l->seeds[k];
        c->alpha = l->count > 1 ? l->alpha[k] : 0;
        TRY(weft_compare(c, 1, l->comparisons));
        decided = c->family.low > 0 || c->family.high < 0;
        *look = k + 1;
        c->alpha = l->count > 1 ? l->alpha[k] : 0; /* for the family's own comparison */
    }
    return WEFT_OK;
}
