/* SPDX-License-Identifier: MIT
 *
 * run.h - a complete training run: checks that it fits into memory and passes the gates, then trains and scores it and,
 * with a folder, writes its config, log and checkpoints. `weft train` adds only its command-line options.
 *
 * Invariants:
 *  - Nothing here prints or exits. Events are reported through callbacks, in the calling thread.
 *  - The weights are a function of the settings: neither the folder, nor ranks, nor stopping and resuming changes them.
 *  - Rank 0 writes the log and reports. Every rank checks the gates, because each may be on a different host.
 */
#ifndef WEFT_RUN_H
#define WEFT_RUN_H

#include "check/check.h"
#include "train/loop.h"

/* Events that a run reports in addition to failed checks and progress, each with the fields that describe it. */
enum weft_run_notice {
    WEFT_RUN_GATES,   /* the gates were checked: gates_checks (0: they were skipped), gates_failed, gates_seconds. Not
                         reported if the folder already has their result */
    WEFT_RUN_ADOPTED, /* all weights were reported to on_weight: model->origin */
    WEFT_RUN_RESUMED, /* a checkpoint was loaded: progress.step, changes */
    WEFT_RUN_REPEATS, /* only `different` distinct samples exist, so training also sees held-out samples */
    WEFT_RUN_BEGINS,  /* the first step follows: progress */
};

struct weft_run {
    /* ---- set by the caller */
    const struct weft_spec *spec;
    struct weft_recipe *recipe;           /* recipe that fits the spec; the run opens its data */
    const struct weft_settings *settings; /* settings of spec and recipe; saved as config.json if there is a folder */
    const char *folder;                   /* NULL: no files are written */
    struct weft_comm *comm; /* the ranks that train together, each with the same settings; NULL: a single process */
    int64_t verify_every;   /* interval in steps of checks between ranks (train/ranks/verify_rank.c); 0: never */
    bool resume;            /* continue the run in the folder, or begin one if there is none */
    bool unsafe;            /* train even if a gate fails */
    double deadline;        /* time, by weft_seconds, before which the run saves and stops; 0: none */
    atomic_int *stop; /* if nonzero, save and stop; may be set by another thread or a signal handler; may be NULL */
    /* Callbacks; each may be NULL. */
    void *context;
    weft_check_fn *on_failed_check;
    void (*on_notice)(void *context, const struct weft_run *run, enum weft_run_notice notice);
    weft_progress_fn *on_progress; /* after every step */
    weft_fit_fn *on_weight;        /* reports how each weight is initialised if the run starts from existing weights */

    /* ---- results */
    struct weft_nn *model; /* the model with its weights; freed by weft_run_release */
    int gates_checks, gates_failed;
    double gates_seconds;
    char changes[1024]; /* changes of options, program and so on since the run was last stopped, such as "steps 3 -> 5";
                           "": none */
    double different;   /* number of distinct samples of the task; 0: unknown */
    struct weft_progress progress; /* at the last step */
    double loss, seconds;          /* loss of the last step; training time, over all processes that took part */
    bool finished;             /* all steps are done; otherwise the run was stopped and, if it has a folder, saved */
    struct weft_scores scores; /* valid only if finished */
    int64_t moment_bytes;      /* optimiser moments of this rank */
    char weights_sha256[65];
    char chain[65];         /* last hash of the log's hash chain; "": no folder */
    char stream_sha256[65]; /* hash of all samples that the run read, see weft_learner */
};

/* Carries out the run. A run that is stopped returns WEFT_OK. */
enum weft_status weft_run_train(struct weft_run *run);
/* Frees the model. Must be called even after a failure. */
void weft_run_release(struct weft_run *run);

#endif
