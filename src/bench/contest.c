/* SPDX-License-Identifier: MIT
 *
 * contest.c - compares times on a noisy machine: round robin, quotients within a round, medians over rounds.
 *
 * All contenders run in every round, one right after the other, so that load on the machine affects them alike and the
 * quotient of two times of a round is more reliable than a quotient of medians. The order rotates from round to round.
 * A contender that may be dropped and is clearly slower after the first round is not run again.
 */
#include "bench/bench.h"
#include "dnn/dnn.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_BEFORE_DROP = 1, MAX_ROUNDS = 501 };

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

double weft_median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, ascending);
    return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The threads of a different library spin for some milliseconds after its matmuls, and would compete with the next
 * contender for the cores. */
static void wait_for_quiet(void)
{
    const struct timespec moment = {0, 1000000};
    double before, now = cpu_seconds();
    int moments = 0;
    do {
        before = now;
        nanosleep(&moment, NULL);
        now = cpu_seconds();
    } while (now - before > 2e-4 && ++moments < 100);
}

static enum weft_status run_timed(const struct weft_contender *c, double *seconds)
{
    if (!weft_dnn_bare_is_own())
        wait_for_quiet();
    double start = weft_seconds();
    TRY(c->run(c->context));
    *seconds = weft_seconds() - start;
    return WEFT_OK;
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

/* Sets the median and quartiles over rounds of contender i's time divided by the first one's. */
static void find_quotient(struct weft_contender *c, const double *times, int i, int rounds, double *room)
{
    for (int r = 0; r < rounds; r++)
        room[r] = times[i * MAX_ROUNDS + r] / times[r];
    c->quotient = weft_median(room, rounds);
    c->quotient_low = room[rounds / 4];
    c->quotient_high = room[rounds - 1 - rounds / 4];
}

static double weighted_quotient(const struct weft_contender *list, int count, const double *times, int rounds,
                                double *room)
{
    for (int r = 0; r < rounds; r++) {
        room[r] = 0;
        for (int i = 1; i < count; i++)
            room[r] += list[i].weight * times[i * MAX_ROUNDS + r] / times[r];
    }
    return weft_median(room, rounds);
}

/* Warms up each contender (pages, caches, clocks) and times it once, then runs the rounds. */
static enum weft_status run_rounds(struct weft_contender *list, int count, double end, double *times, int *rounds)
{
    for (int i = 0; i < count; i++) {
        TRY(run_timed(&list[i], &list[i].seconds));
        TRY(run_timed(&list[i], &list[i].seconds));
        times[i * MAX_ROUNDS] = list[i].seconds;
    }
    drop_stragglers(list, count);
    int n = ROUNDS_BEFORE_DROP;
    for (; n < MAX_ROUNDS && (n < 3 || weft_seconds() < end); n++)
        for (int i = 0; i < count; i++) {
            int turn = (i + n) % count;
            if (!list[turn].dropped)
                TRY(run_timed(&list[turn], &times[turn * MAX_ROUNDS + n]));
        }
    *rounds = n;
    return WEFT_OK;
}

static void summarise(struct weft_contender *list, int count, double *times, double *room, struct weft_contest *result)
{
    for (int i = 0; i < count; i++)
        if (!list[i].dropped)
            find_quotient(&list[i], times, i, result->rounds, room);
    result->weighted_quotient = weighted_quotient(list, count, times, result->rounds, room);
    for (int i = 0; i < count; i++)
        if (!list[i].dropped)
            list[i].seconds = weft_median(times + i * MAX_ROUNDS, result->rounds);
}

enum weft_status weft_contest(struct weft_contender *list, int count, double seconds, struct weft_contest *result)
{
    double *times = malloc((size_t)(count + 1) * MAX_ROUNDS * sizeof *times);
    if (!times)
        return FAIL(WEFT_NOMEM, "not enough memory for a benchmark");
    double end = weft_seconds() + seconds, *room = times + (size_t)count * MAX_ROUNDS;
    enum weft_status status = run_rounds(list, count, end, times, &result->rounds);
    if (status == WEFT_OK)
        summarise(list, count, times, room, result);
    free(times);
    return status;
}
