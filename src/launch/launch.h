/* SPDX-License-Identifier: MIT
 *
 * launch.h - a training run as a job of several ranks: where they run, the mpirun that starts them, and what follows
 * when they fail.
 *
 * Invariants:
 *  - The ranks are started by MPI's own launcher; here is no other. What it prints is passed through.
 *  - A job that failed is continued from its newest checkpoint. Its weights do not depend on failures, nor on the
 *    number of ranks.
 *  - Nothing here prints or exits.
 */
#ifndef WEFT_LAUNCH_H
#define WEFT_LAUNCH_H

#include "base/base.h"

#include <stdatomic.h>

/* ---- hosts (hosts.c) */

enum { WEFT_MAX_HOSTS = 1024 };
struct weft_hosts {
    int count, slots; /* slots: of all; ranks that fit */
    struct weft_host {
        char name[256];
        int slots;
    } * list;
};
/* "a:2,b:2"; without a number a host has one slot. NULL: there are none, and this computer is meant. Release it also
 * after a failure. */
enum weft_status weft_hosts_parse(struct weft_hosts *hosts, const char *text);
void weft_hosts_release(struct weft_hosts *hosts);
/* The same as text; the caller frees it. NULL: not enough memory. */
char *weft_hosts_print(const struct weft_hosts *hosts);
/* The host of a rank: ranks fill hosts in their order. -1: none. */
int weft_hosts_find(const struct weft_hosts *hosts, int rank);
/* Leaves it out. */
void weft_hosts_drop(struct weft_hosts *hosts, int host);

/* ---- layout (layout.c) */

struct weft_layout {
    int ranks, hosts;
    int nodes, cores; /* of this computer: NUMA nodes, and processors that this process may use */
    int per_host;     /* ranks, at most */
    int threads;      /* of a rank */
    int per_node;     /* ranks of a NUMA node, which are bound to it; 0: they are not bound */
};
/* One rank per NUMA node has its memory beside its threads: so many it is if `ranks` is 0. Other hosts are taken to be
 * as this one. `sys` is /sys/devices/system/node. */
void weft_layout_make(struct weft_layout *layout, int ranks, const struct weft_hosts *hosts, const char *sys);

/* ---- the launcher (mpirun.c) */

struct weft_mpirun {
    bool mpich; /* or Open MPI */
    char path[4096];
};
/* `name`: a program, or NULL for the first that is there. */
enum weft_status weft_mpirun_find(struct weft_mpirun *m, const char *name);
/* The command: mpirun, its options, the program and its words, and --resume where asked for; ends with NULL. All of it
 * is in the arena. */
enum weft_status weft_mpirun_words(const struct weft_mpirun *m, const struct weft_layout *layout, const char *hosts,
                                   const char *const *words, bool resume, struct weft_arena *arena,
                                   const char ***command);

/* ---- the job (job.c) */

enum weft_rank_job_notice {
    WEFT_RANK_JOB_STARTS,  /* layout, command, attempt */
    WEFT_RANK_JOB_STALLED, /* a rank reported that it lost another: lost */
    WEFT_RANK_JOB_FAILED,  /* code, step, and what is done about it: ends, or starts again */
};

struct weft_rank_job {
    /* ---- what is wanted */
    const char *const *words; /* "train", and so on */
    const char *folder;       /* of the run; NULL: there is none, and nothing to continue from */
    struct weft_mpirun mpirun;
    struct weft_hosts hosts;
    int ranks;          /* 0: one per NUMA node */
    int min_ranks;      /* as few as this if it cannot be helped; 0: no fewer */
    int restarts;       /* at most */
    atomic_int *signal; /* not 0: the ranks save and stop; 2 or more: they end */
    void *context;
    void (*on_notice)(void *context, const struct weft_rank_job *job, enum weft_rank_job_notice notice);

    /* ---- what came of it */
    struct weft_layout layout;
    const char *const *command;
    bool own_threads; /* OMP_NUM_THREADS was set by the user, and stays */
    int attempt;      /* from 0 */
    int code;         /* that the launcher ended with */
    int lost;         /* rank; -1: none that is known */
    int64_t step;     /* of the newest checkpoint; -1: there is none */
    const char *end;  /* why it does not start again; NULL: it does */
};

/* Until the job is done, stopped, or not started again. */
enum weft_status weft_rank_job_run(struct weft_rank_job *job);

#endif
