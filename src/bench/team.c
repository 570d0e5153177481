/* SPDX-License-Identifier: MIT
 *
 * team.c - measures the cost of sharing work between threads: an empty call, and moving a cache line between two cores.
 * The smallest of many times is taken, because other load on the machine only ever adds time.
 */
#include "bench/slack.h"

#include <math.h>
#include <stdatomic.h>

enum { CALLS = 2000, MOST_CALLS = 20000, BATCHES = 400, ENOUGH = 20, ROUNDS = 200 };
#define PATIENCE 1e-3 /* seconds: limit for a batch, because a thread on the same core never answers */
#define SLOW 1e-5     /* seconds: in a slower call both threads shared a core, which is temporary */
#define WAKE 50e-6    /* as in base/threads.c */
#define LINE 1e-7     /* the usual value within a processor, used if two threads never run at the same time */

static void nothing(void *context, int64_t tile, int thread)
{
    (void)context;
    (void)tile;
    (void)thread;
}

static double least_call(void)
{
    double least = INFINITY;
    for (int i = 0; i < CALLS || (i < MOST_CALLS && least > SLOW); i++) {
        double start = weft_seconds();
        weft_parallel(2, nothing, NULL);
        least = fmin(least, weft_seconds() - start);
    }
    return least;
}

struct ball {
    _Alignas(128) _Atomic int at; /* number of throws; tile 0 makes the even-numbered ones */
    _Alignas(128) double seconds; /* time of a batch; INFINITY: it took too long */
};

static void play(void *context, int64_t tile, int thread)
{
    (void)thread;
    struct ball *b = context;
    double start = weft_seconds();
    for (int turn = (int)tile; turn < 2 * ROUNDS; turn += 2) {
        for (int spins = 0; atomic_load(&b->at) != turn; spins++)
            if (spins % 64 == 63 && weft_seconds() - start > PATIENCE)
                return;
        atomic_store(&b->at, turn + 1);
    }
    if (tile == 0)
        b->seconds = weft_seconds() - start;
}

static double least_line(void)
{
    double least = INFINITY;
    for (int i = 0, good = 0; i < BATCHES && good < ENOUGH; i++) {
        struct ball ball = {.seconds = INFINITY};
        weft_parallel(2, play, &ball);
        least = fmin(least, ball.seconds / (2 * ROUNDS));
        good += isfinite(ball.seconds);
    }
    return isfinite(least) ? least : LINE;
}

/* Uses even shares, so that the caller does not run the other thread's tile before that thread has joined. */
void weft_team_measure(struct weft_team_cost *cost)
{
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, 2);
    weft_threads_even();
    *cost = (struct weft_team_cost){least_call(), least_line(), WAKE};
    weft_threads_leave(&scope);
}
