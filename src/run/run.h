/* SPDX-License-Identifier: MIT
 *
 * run.h - one training run as a user means it: it must fit into memory and pass the gates; then come its steps and
 * scores and, with a folder, its config, log and checkpoints. `weft train` is this function with options around it.
 *
 * Invariants:
 *  - Nothing here prints or exits. What happens is reported through callbacks, in the calling thread.
 *  - The weights are a function of the settings: neither the folder, nor ranks, nor being stopped and resumed changes
 *    them.
 *  - Rank 0 writes the log and reports. Every rank checks the gates: each may be on a computer of its own.
 */
#ifndef WEFT_RUN_H
#define WEFT_RUN_H

#include "check/check.h"
#include "train/loop.h"

/* What a run reports besides failed checks and progress; the fields that say more are named. */
enum weft_run_notice {
    WEFT_RUN_GATES,   /* the gates were checked: gates_checks (0: they were skipped), gates_failed, gates_seconds. Not
                         where the folder has their result already */
    WEFT_RUN_ADOPTED, /* all weights were reported to on_weight: model->origin */
    WEFT_RUN_RESUMED, /* a checkpoint was loaded: progress.step, changes */
    WEFT_RUN_REPEATS, /* only `different` samples exist, so held-out ones occur in training */
    WEFT_RUN_BEGINS,  /* the first step comes next: progress */
};

struct weft_run {
    /* ---- what is wanted */
    const struct weft_spec *spec;
    struct weft_recipe *recipe;           /* for the spec; its data are opened here */
    const struct weft_settings *settings; /* both were taken from; only read with a folder, for its config.json */
    const char *folder;                   /* NULL: nothing is written */
    struct weft_comm *comm;               /* the ranks that train together, each with the same wishes; NULL: alone */
    int64_t verify_every;                 /* steps, on several ranks: see train/ranks/verify_rank.c; 0: never */
    bool resume;                          /* continue the run in the folder; begin one if there is none */
    bool unsafe;                          /* train even if a gate fails */
    double deadline;                      /* by weft_seconds: save and stop before it; 0: none */
    atomic_int *stop; /* save and stop when it is not 0; another thread or a signal handler may set it; may be NULL */
    /* Callbacks, each may be NULL. */
    void *context;
    weft_check_fn *on_failed_check;
    void (*on_notice)(void *context, const struct weft_run *run, enum weft_run_notice notice);
    weft_progress_fn *on_progress; /* after every step */
    weft_fit_fn *on_weight;        /* of a run that begins with weights of another: what becomes of each */

    /* ---- what came of it */
    struct weft_nn *model; /* with its weights; freed by weft_run_release */
    int gates_checks, gates_failed;
    double gates_seconds;
    char changes[1024]; /* of options, program and so on since the run was last stopped: "steps 3 -> 5"; "": none */
    double different;   /* samples of the task that differ from each other; 0: not known */
    struct weft_progress progress; /* the last */
    double loss, seconds;          /* of the last step; of training, over all processes that had a part in it */
    bool finished;                 /* all steps are done; if not, it was stopped, and saved where there is a folder */
    struct weft_scores scores;     /* where finished */
    int64_t moment_bytes;          /* of this rank */
    char weights_sha256[65];
    char chain[65];         /* that the log in its folder ends with; "": it has no folder */
    char stream_sha256[65]; /* of all samples it read, see weft_learner */
};

/* Trains. A run that was stopped is not a failure. */
enum weft_status weft_run_train(struct weft_run *run);
/* Also after a failure. */
void weft_run_release(struct weft_run *run);

#endif
