/* SPDX-License-Identifier: MIT
 *
 * slack.h - how much of a training step threads can share: its tiles as one thread runs them (slack.c), the time a team
 * takes for them (schedule.c, team.c), and both for a whole model (speedup.c).
 *
 * Invariants: nothing here prints. A tile is taken to last as long as it did when one thread ran alone: threads that
 * wait for the same memory, and memory of another processor, are not predicted.
 */
#ifndef WEFT_SLACK_H
#define WEFT_SLACK_H

#include "bench/bench.h"

/* ---- what one thread did (slack.c) */

/* A call of weft_parallel. */
struct weft_slack_call {
    int op;
    double before; /* seconds that the caller worked since the call before */
    int64_t tiles;
    int64_t first; /* index of its first tile's time */
};

struct weft_slack_op {
    const char *name;
    bool backward;
    int64_t runs;   /* in a step: of its nodes */
    double alone;   /* seconds after its last call, in all its runs */
    double seconds; /* all of it */
    int64_t tiles;  /* of the call with the fewest, of those that take a twentieth of its time or more */
};

struct weft_slack {
    struct weft_slack_call *calls;
    int64_t call_count, call_room;
    double *times; /* of tiles */
    int64_t time_count, time_room;
    struct weft_slack_op *ops; /* in the order of their first run */
    int64_t op_count, op_room;
};
/* Runs forward and backward `runs` times, with work cut for so many threads, and keeps the least time of each tile.
 * The calling thread computes alone. */
enum weft_status weft_slack_record(struct weft_slack *s, const struct weft_stage *stage, int threads, int runs);
void weft_slack_release(struct weft_slack *s);

/* ---- what a team would do (schedule.c) */

/* What a team costs, in seconds (team.c). */
struct weft_team_cost {
    double call; /* a call of two threads that have nothing to do */
    double line; /* a cache line from one core to another */
    double wake; /* until a thread that sleeps is awake */
};
void weft_team_measure(struct weft_team_cost *cost);
/* Seconds of each op on so many threads, into ops[op_count]. */
void weft_slack_schedule(const struct weft_slack *s, const struct weft_team_cost *cost, int threads, double *ops);

/* ---- a model's forward and backward pass on more threads than there are (speedup.c) */

enum { WEFT_SPEEDUP_TEAMS = 9, WEFT_SPEEDUP_OPS = 64 };
struct weft_speedup {
    struct weft_team_cost cost;
    int teams[WEFT_SPEEDUP_TEAMS]; /* numbers of threads: 1, 2, 4 .. 128, and the one asked for if it is another */
    int team_count, asked;         /* asked: the index of that */
    double seconds[WEFT_SPEEDUP_TEAMS];
    struct weft_speedup_op {
        const char *name;
        bool backward;
        int64_t runs, tiles;
        double seconds[WEFT_SPEEDUP_TEAMS];
    } ops[WEFT_SPEEDUP_OPS]; /* those first that take longest on the threads asked for */
    int op_count;
};
/* `call`: what a call of two threads costs, in seconds; 0: as measured. */
enum weft_status weft_speedup_measure(const struct weft_spec *spec, int threads, double call,
                                      struct weft_speedup *speedup);

#endif
