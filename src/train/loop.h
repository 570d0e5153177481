/* SPDX-License-Identifier: MIT
 *
 * loop.h - the loop around steps: logs, scores, checkpoints, stopping (loop.c).
 */
#ifndef WEFT_LOOP_H
#define WEFT_LOOP_H

#include "train/learner.h"
#include "train/score/evaluate.h"

#include <stdatomic.h>

struct weft_progress {
    int64_t step, steps, tokens; /* done, to do, read so far */
    int64_t step_tokens;         /* of one step */
    double flops_per_token;
    struct weft_losses losses; /* of the last step */
    double tokens_per_s, seconds_left;
    double seconds;                         /* of this process */
    const struct weft_diagnosis *diagnosis; /* after this step; NULL: none was due */
};
typedef void weft_progress_fn(void *context, const struct weft_progress *now);

struct weft_record;
struct weft_loop {
    struct weft_learner *trainer;
    struct weft_progress progress; /* as it is now */
    const char *folder;            /* where checkpoints are saved; NULL: nothing is written */
    struct weft_record *record;    /* of the folder; NULL on other ranks than the first, too */
    weft_progress_fn *report;      /* called after every step; may be NULL */
    void *context;
    /* Stop when it is not 0; another thread or a signal handler may set it; NULL: nobody does. What one rank decides
     * the others follow. */
    atomic_int *stop;
    double deadline; /* by weft_seconds; stop before it; 0: none */
};

/* A loop from where the trainer is, with the work that is left in `progress`; the other fields are the caller's. */
enum weft_status weft_loop_init(struct weft_loop *loop, struct weft_learner *t);
/* Steps, with what is due after each, until all are done and scored or it is stopped. What was stopped is saved;
 * then *finished is false and *scores unknown. */
enum weft_status weft_loop_run(struct weft_loop *loop, bool *finished, struct weft_scores *scores);

#endif
