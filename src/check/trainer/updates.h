/* SPDX-License-Identifier: MIT
 *
 * updates.h - updates computed plainly: of every element, or of large models of a part of every tensor.
 */
#ifndef WEFT_UPDATES_H
#define WEFT_UPDATES_H

#include "check/probe/gate.h"
#include "check/trainer/definitions.h"

struct weft_updates {
    const struct weft_learner *trainer;
    struct weft_plain plain;
    int64_t count, tried; /* elements that are compared; updates so far */
    struct weft_run {
        int param;
        int64_t first, count, at; /* in the flat arrays; `at` in `before` */
        double error;             /* of the last update; the largest in it, relative to what is allowed */
        const char *what;         /* and where */
        int64_t element;
    } * runs;
    int64_t run_count;
    float *before[4]; /* of these elements before the update: weight, gradient, moments */
    double norm;      /* of all gradients before the update, after the optimiser's own limit */
    /* The largest error relative to what is allowed, and where: */
    double error;
    const char *what;
    int at;
    int64_t element, step;
};
enum weft_status weft_updates_open(struct weft_updates *u, const struct weft_learner *trainer);
void weft_updates_close(struct weft_updates *u);
/* Before and after weft_learner_step or weft_learner_update, with the gradient in sums[0]. */
void weft_updates_before(struct weft_updates *u);
void weft_updates_after(struct weft_updates *u);
/* Reports what was found in all updates; `what` says which. */
void weft_updates_report(const struct weft_trial *t, const struct weft_updates *u, const char *what);

#endif
