/* SPDX-License-Identifier: MIT
 *
 * launch.h - runs training as a job of several ranks: hosts, layout, the mpirun command, and restarts after failures.
 *
 * Invariants:
 *  - MPI's own launcher starts the ranks. Its output is passed through.
 *  - A failed job is continued from its newest checkpoint. Its weights depend neither on failures nor on the number of
 *    ranks.
 *  - Nothing here prints or exits.
 */
#ifndef WEFT_LAUNCH_H
#define WEFT_LAUNCH_H

#include "base/base.h"

#include <stdatomic.h>

/* ---- hosts (hosts.c) */

enum { WEFT_MAX_HOSTS = 1024 };
struct weft_hosts {
    int count, slots; /* slots: of all hosts, that is, the maximum number of ranks */
    struct weft_host {
        char name[256];
        int slots;
    } * list;
};
/* Parses a list such as "a:2,b:2"; a host without a number has one slot. If `text` is NULL, the list is empty, which
 * means this host. The list must be released even after a failure. */
enum weft_status weft_hosts_parse(struct weft_hosts *hosts, const char *text);
void weft_hosts_release(struct weft_hosts *hosts);
/* Returns the hosts as text, which the caller frees. NULL: not enough memory. */
char *weft_hosts_print(const struct weft_hosts *hosts);
/* Returns the index of a rank's host, or -1. Ranks fill the hosts in order. */
int weft_hosts_find(const struct weft_hosts *hosts, int rank);
/* Removes a host from the list. */
void weft_hosts_drop(struct weft_hosts *hosts, int host);

/* ---- layout (layout.c) */

struct weft_layout {
    int ranks, hosts;
    int nodes, cores; /* this host's NUMA nodes, and processors that this process may use */
    int per_host;     /* maximum number of ranks per host */
    int threads;      /* threads per rank */
    int per_node;     /* ranks bound to each NUMA node; 0: not bound */
};
/* Chooses the layout. If `ranks` is 0 and there are no hosts, there is one rank per NUMA node, which keeps a rank's
 * memory local to its threads. Other hosts are assumed to be like this one. `sys` is /sys/devices/system/node. */
void weft_layout_make(struct weft_layout *layout, int ranks, const struct weft_hosts *hosts, const char *sys);

/* ---- the launcher (mpirun.c) */

struct weft_mpirun {
    bool mpich; /* false: Open MPI */
    char path[4096];
};
/* Finds a launcher. `name` is a program, or NULL for the first one available. */
enum weft_status weft_mpirun_find(struct weft_mpirun *m, const char *name);
/* Builds the command, which ends with NULL: mpirun, its options, the program and its arguments, and --resume if asked
 * for. Everything is allocated in the arena. */
enum weft_status weft_mpirun_words(const struct weft_mpirun *m, const struct weft_layout *layout, const char *hosts,
                                   const char *const *words, bool resume, struct weft_arena *arena,
                                   const char ***command);

/* ---- the job (job.c) */

enum weft_rank_job_notice {
    WEFT_RANK_JOB_STARTS,  /* fields: layout, command, attempt */
    WEFT_RANK_JOB_STALLED, /* a rank reported a lost rank; field: lost */
    WEFT_RANK_JOB_FAILED,  /* fields: code, step, end */
};

struct weft_rank_job {
    /* ---- set by the caller */
    const char *const *words; /* "train", and so on */
    const char *folder;       /* folder of the run; NULL: none, so there is nothing to resume */
    struct weft_mpirun mpirun;
    struct weft_hosts hosts;
    int ranks;          /* 0: one per NUMA node */
    int min_ranks;      /* minimum number of ranks after a loss; 0: the number must not shrink */
    int restarts;       /* maximum number of restarts */
    atomic_int *signal; /* 1: the ranks save and stop; 2 or more: they are terminated */
    void *context;
    void (*on_notice)(void *context, const struct weft_rank_job *job, enum weft_rank_job_notice notice);

    /* ---- results */
    struct weft_layout layout;
    const char *const *command;
    bool own_threads; /* OMP_NUM_THREADS was set by the user and is kept */
    int attempt;      /* from 0 */
    int code;         /* exit code of the launcher */
    int lost;         /* lost rank; -1: none known */
    int64_t step;     /* step of the newest checkpoint; -1: none */
    const char *end;  /* reason why the job is not restarted; NULL: it is restarted */
};

/* Returns when the job has finished, was stopped, or has failed and is not restarted. */
enum weft_status weft_rank_job_run(struct weft_rank_job *job);

#endif
