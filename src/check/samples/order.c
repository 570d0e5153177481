/* SPDX-License-Identifier: MIT
 *
 * order.c - checks the order in which windows of texts are read: every epoch reads each window once, in its own order.
 *
 * Validation and test take disjoint parts of one order, so they share no window if the order is a permutation. The
 * check uses the data's own numbers of windows and some others; for large numbers it samples the order.
 */
#include "check/probe/dropout.h"
#include "check/samples/samples.h"
#include "text/text.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 1 << 16, SPREAD_KEY = 97, SMALL = 16, SOME = 4096, EPOCHS = 6 };

static const uint64_t epochs[EPOCHS] = {0, 1, 2, 3, 64, 1000};

struct order {
    uint64_t n, seed;
    uint64_t *list;
    int64_t repeated, outside;
    double alike, uneven; /* highest agreement of two orders, in places; largest deviation from chance, in sigmas */
    bool same;            /* all epochs begin with the same window */
};

/* Returns the window at a place in an epoch or, past the last epoch, of the held-out order. */
static uint64_t window(const struct order *o, int epoch, uint64_t i)
{
    return epoch < EPOCHS ? weft_order_sample(o->n, o->seed, epochs[epoch] * o->n + i)
                          : weft_order(o->n, weft_key_name(0, "held out"), i);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Checks all places, or one random place out of every `each`. */
static void look_for_repeats(struct order *o, int epoch)
{
    uint64_t each = o->n <= MOST ? 1 : o->n / MOST, count = weft_min((int64_t)o->n, MOST);
    for (uint64_t i = 0; i < count; i++) {
        o->list[i] = window(o, epoch, i * each + weft_below(SPREAD_KEY, i, each));
        o->outside += o->list[i] >= o->n;
    }
    qsort(o->list, (size_t)count, sizeof *o->list, by_number);
    for (uint64_t i = 1; i < count; i++)
        o->repeated += o->list[i] == o->list[i - 1];
}

/* Returns the number of places where two orders agree. Random permutations agree in one place on average. */
static double agreement(const struct order *a, int epoch, const struct order *b, int other)
{
    double equal = 0;
    for (uint64_t i = 0; i < a->n && i < SOME; i++)
        equal += window(a, epoch, i) == window(b, other, i);
    return equal;
}

static void look_for_likeness(struct order *o)
{
    struct order other = *o;
    other.seed++;
    for (int i = 0; i < EPOCHS; i++) {
        for (int j = 0; j < i; j++)
            o->alike = fmax(o->alike, agreement(o, i, o, j));
        o->alike = fmax(o->alike, agreement(o, i, &other, i));
    }
}

/* Returns how far the number of first-half windows in the first half of the places deviates from chance. */
static double unevenness(const struct order *o, int epoch)
{
    int64_t count = weft_min((int64_t)o->n / 2, SOME), low = 0;
    for (int64_t i = 0; i < count; i++)
        low += window(o, epoch, (uint64_t)i) < o->n / 2;
    return weft_count_sigmas(low, count, (double)(o->n / 2) / (double)o->n);
}

static bool begin_alike(const struct order *o)
{
    bool same = o->n > 1;
    for (uint64_t epoch = 1; epoch < 64 && same; epoch++)
        same = weft_order_sample(o->n, o->seed, epoch * o->n) == weft_order_sample(o->n, o->seed, 0);
    return same;
}

static void look(struct order *o)
{
    for (int epoch = 0; epoch <= EPOCHS; epoch++) {
        look_for_repeats(o, epoch);
        if (o->n >= SMALL)
            o->uneven = fmax(o->uneven, unevenness(o, epoch));
    }
    if (o->n >= SMALL)
        look_for_likeness(o);
    o->same |= begin_alike(o);
}

enum weft_status weft_check_order(const struct weft_trial *t, uint64_t seed, const int64_t *own, int own_count)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 100, 1000, 4097};
    int count = sizeof sizes / sizeof *sizes;
    struct order o = {.seed = seed, .list = calloc(MOST, sizeof *o.list)};
    if (!o.list)
        return FAIL(WEFT_NOMEM, "not enough memory for samples");
    for (int i = 0; i < count + own_count; i++) {
        o.n = (uint64_t)(i < count ? sizes[i] : own[i - count]);
        if (o.n > 0)
            look(&o);
    }
    free(o.list);
    weft_trial_report(t, o.repeated + o.outside == 0, (double)(o.repeated + o.outside), 0,
                      "order of windows: those that come twice in an epoch, or do not exist",
                      "it is not a permutation");
    weft_trial_report(t, !o.same && o.alike <= 12, o.alike, 12,
                      "order of windows: places that two epochs or seeds share", "%s",
                      o.same ? "all epochs begin with the same window" : "they have the same order");
    weft_trial_report(t, o.uneven <= 6, o.uneven, 6, "order of windows: first halves against chance, in sigmas",
                      "the order is not random");
    return WEFT_OK;
}
