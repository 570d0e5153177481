/* SPDX-License-Identifier: MIT
 *
 * loop.h - the loop around steps: logging, evaluation, checkpoints, stopping (loop.c).
 */
#ifndef WEFT_LOOP_H
#define WEFT_LOOP_H

#include "train/learner.h"
#include "train/score/evaluate.h"

#include <stdatomic.h>

struct weft_progress {
    int64_t step, steps, tokens; /* steps done, total steps, tokens read */
    int64_t step_tokens;         /* tokens per step */
    double flops_per_token;
    struct weft_losses losses; /* losses of the last step */
    double tokens_per_s, seconds_left;
    double seconds;                         /* time of this process in seconds */
    const struct weft_diagnosis *diagnosis; /* diagnosis of this step; NULL: none was due */
};
typedef void weft_progress_fn(void *context, const struct weft_progress *now);

struct weft_record;
struct weft_loop {
    struct weft_learner *trainer;
    struct weft_progress progress; /* current progress */
    const char *folder;            /* folder for checkpoints; NULL: nothing is written */
    struct weft_record *record;    /* record of the folder; NULL without a folder and on ranks other than the first */
    weft_progress_fn *report;      /* called after every step; may be NULL */
    void *context;
    /* The loop stops if this is nonzero; another thread or a signal handler may set it. May be NULL. If one rank stops,
     * all ranks stop. */
    atomic_int *stop;
    double deadline; /* time before which to stop, as in weft_seconds(); 0: none */
};

/* Initialises a loop at the trainer's current step, with the remaining work in `progress`; the caller sets the other
 * fields. */
enum weft_status weft_loop_init(struct weft_loop *loop, struct weft_learner *t);
/* Runs steps and the actions due after each until all are done and scored, or the loop is stopped. A stopped loop saves
 * a checkpoint; then *finished is false and *scores undefined. */
enum weft_status weft_loop_run(struct weft_loop *loop, bool *finished, struct weft_scores *scores);

#endif
