/* SPDX-License-Identifier: MIT
 *
 * slack.h - predicts how well a training step scales with threads: records its tiles on one thread (slack.c), computes
 * the time that a team takes for them (schedule.c, team.c), and combines both for a whole model (speedup.c).
 *
 * Nothing here prints. A tile is assumed to take as long as it did when one thread ran alone, so neither contention for
 * memory nor accesses to another processor's memory are predicted.
 */
#ifndef WEFT_SLACK_H
#define WEFT_SLACK_H

#include "bench/bench.h"

/* ---- the record of one thread (slack.c) */

/* A call of weft_parallel. */
struct weft_slack_call {
    int op;
    double before; /* seconds of the caller's own work since the previous call */
    int64_t tiles;
    int64_t first; /* index of its first tile's time */
};

struct weft_slack_op {
    const char *name;
    bool backward;
    int64_t runs;   /* number of its nodes in a step */
    double alone;   /* seconds after the last call, summed over its runs */
    double seconds; /* total time */
    int64_t tiles;  /* minimum number of tiles per call, ignoring the calls with the fewest tiles if they take less than
                       5% of the time */
};

struct weft_slack {
    struct weft_slack_call *calls;
    int64_t call_count, call_room;
    double *times; /* seconds per tile */
    int64_t time_count, time_room;
    struct weft_slack_op *ops; /* in the order of their first run */
    int64_t op_count, op_room;
};
/* Runs forward and backward passes `runs` times, with work cut for this number of threads, and keeps the smallest time
 * of each tile. The calling thread computes alone. */
enum weft_status weft_slack_record(struct weft_slack *s, const struct weft_stage *stage, int threads, int runs);
void weft_slack_release(struct weft_slack *s);

/* ---- the time of a team (schedule.c) */

/* The overhead of a team, in seconds (team.c). */
struct weft_team_cost {
    double call; /* an empty call on two threads */
    double line; /* moving a cache line between two cores */
    double wake; /* waking a sleeping thread */
};
void weft_team_measure(struct weft_team_cost *cost);
/* Writes the seconds of each op on this number of threads into ops[op_count]. */
void weft_slack_schedule(const struct weft_slack *s, const struct weft_team_cost *cost, int threads, double *ops);

/* ---- a model's forward and backward pass on more threads than the machine has (speedup.c) */

enum { WEFT_SPEEDUP_TEAMS = 9, WEFT_SPEEDUP_OPS = 64 };
struct weft_speedup {
    struct weft_team_cost cost;
    int teams[WEFT_SPEEDUP_TEAMS]; /* numbers of threads: 1, 2, 4 .. 128, and the requested one if not among these */
    int team_count, asked;         /* asked: index of the requested one */
    double seconds[WEFT_SPEEDUP_TEAMS];
    struct weft_speedup_op {
        const char *name;
        bool backward;
        int64_t runs, tiles;
        double seconds[WEFT_SPEEDUP_TEAMS];
    } ops[WEFT_SPEEDUP_OPS]; /* in descending order of their time on the requested threads */
    int op_count;
};
/* `call`: the overhead of a call on two threads, in seconds; 0: measure it. */
enum weft_status weft_speedup_measure(const struct weft_spec *spec, int threads, double call,
                                      struct weft_speedup *speedup);

#endif
