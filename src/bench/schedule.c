/* SPDX-License-Identifier: MIT
 *
 * schedule.c - predicts the time that a team of threads takes for a recorded step. Tiles are distributed as in
 * base/threads.c: every thread has a share, takes its tiles in order, and then takes tiles of the other shares.
 *
 * Each thread of a call moves three cache lines: its share, the call that it joins, and the count of threads that have
 * left. Threads that have waited too long sleep and must be woken.
 */
#include "bench/slack.h"

#include <math.h>

enum { SHARES = 64, MAX_THREADS = 4096 }; /* as in base/threads.c */
#define SPIN 50e-6

struct share {
    int64_t next, end;
};

struct team {
    struct share shares[SHARES];
    int share_count, threads;
    struct thread {
        double free; /* time at which it takes its next tile */
        int past;    /* distance from its own share to its current one */
    } thread[MAX_THREADS];
};

static void start(struct team *t, int64_t tiles, int threads, const struct weft_team_cost *cost, double wake)
{
    t->share_count = (int)weft_min(weft_min(threads, tiles), SHARES);
    t->threads = (int)weft_min(threads, tiles);
    for (int i = 0; i < t->share_count; i++)
        t->shares[i] = (struct share){tiles * i / t->share_count, tiles * (i + 1) / t->share_count};
    double called = cost->line * (t->threads - 2);
    for (int i = 0; i < t->threads; i++)
        t->thread[i] = (struct thread){called + (i ? wake + 0.5 * cost->call + cost->line * (i - 1) : 0), 0};
}

/* Returns the next tile of a thread; -1: none is left. */
static int64_t take(struct team *t, int thread)
{
    for (int *past = &t->thread[thread].past; *past < t->share_count; ++*past) {
        struct share *s = &t->shares[(thread + *past) % t->share_count];
        if (s->next < s->end)
            return s->next++;
    }
    return -1;
}

static int earliest(const struct team *t)
{
    int best = 0;
    for (int i = 1; i < t->threads; i++)
        if (t->thread[i].free < t->thread[best].free)
            best = i;
    return best;
}

static double run_call(struct team *t, const double *times, int64_t tiles, int threads,
                       const struct weft_team_cost *cost, double wake)
{
    double end = 0;
    if (threads == 1 || tiles < 2) {
        for (int64_t i = 0; i < tiles; i++)
            end += times[i];
        return end;
    }
    start(t, tiles, threads, cost, wake);
    for (int64_t left = tiles; left; left--) {
        int thread = earliest(t);
        t->thread[thread].free += times[take(t, thread)];
        end = fmax(end, t->thread[thread].free);
    }
    return end + 0.5 * cost->call + cost->line * (t->threads - 2);
}

void weft_slack_schedule(const struct weft_slack *s, const struct weft_team_cost *cost, int threads, double *ops)
{
    static _Thread_local struct team team;
    double idle = 0; /* time that workers have waited */
    for (int64_t o = 0; o < s->op_count; o++)
        ops[o] = s->ops[o].alone;
    for (int64_t c = 0; c < s->call_count; c++) {
        const struct weft_slack_call *call = &s->calls[c];
        double wake = idle + call->before > SPIN ? cost->wake : 0;
        double took = call->before + run_call(&team, s->times + call->first, call->tiles, threads, cost, wake);
        idle = call->tiles < 2 ? idle + took : 0;
        ops[call->op] += took;
    }
}
