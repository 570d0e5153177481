/* SPDX-License-Identifier: MIT
 *
 * contest.c - compares runners by time on a noisy machine: round robin, then medians.
 *
 * All contenders run in every round, so that a busy moment hits them alike. The order rotates from round to round. A
 * contender that may be dropped and is far behind after the first rounds runs no more: its time is not needed to know
 * who wins.
 */
#include "lab/lab.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS_BEFORE_DROP = 1, MAX_ROUNDS = 501 };

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, ascending);
    return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

static double timed(const struct weft_contender *c)
{
    double start = weft_seconds();
    c->run(c->context);
    return weft_seconds() - start;
}

static void drop_stragglers(struct weft_contender *list, int count)
{
    double best = 1e300;
    for (int i = 0; i < count; i++)
        if (list[i].may_drop)
            best = list[i].seconds < best ? list[i].seconds : best;
    for (int i = 0; i < count; i++)
        list[i].dropped = list[i].may_drop && list[i].seconds > 1.4 * best;
}

enum weft_status weft_contest(struct weft_contender *list, int count, double seconds, int *rounds)
{
    double *times = malloc((size_t)count * MAX_ROUNDS * sizeof *times);
    if (!times)
        return FAIL(WEFT_NOMEM, "no memory for a bench");
    double end = weft_seconds() + seconds;
    for (int i = 0; i < count; i++) {
        (void)timed(&list[i]); /* warm: pages, caches, clocks */
        list[i].seconds = timed(&list[i]);
        times[i * MAX_ROUNDS] = list[i].seconds;
    }
    drop_stragglers(list, count);
    int n = ROUNDS_BEFORE_DROP;
    for (; n < MAX_ROUNDS && (n < 3 || weft_seconds() < end); n++)
        for (int i = 0; i < count; i++) {
            int turn = (i + n) % count;
            if (!list[turn].dropped)
                times[turn * MAX_ROUNDS + n] = timed(&list[turn]);
        }
    for (int i = 0; i < count; i++)
        if (!list[i].dropped)
            list[i].seconds = median(times + i * MAX_ROUNDS, n);
    *rounds = n;
    free(times);
    return WEFT_OK;
}
