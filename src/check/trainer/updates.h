/* SPDX-License-Identifier: MIT
 *
 * updates.h - recomputes updates in plain code: of every element or, in large models, of a part of every tensor.
 */
#ifndef WEFT_UPDATES_H
#define WEFT_UPDATES_H

#include "check/probe/gate.h"
#include "check/trainer/definitions.h"

struct weft_updates {
    const struct weft_learner *trainer;
    struct weft_plain plain;
    int64_t count, tried; /* number of compared elements; number of updates so far */
    struct weft_run {
        int param;
        int64_t first, count, at; /* range in the flat arrays; its start in `before` */
        double error;             /* largest error of the last update, relative to the allowed error */
        const char *what;         /* name and element of the value with this error */
        int64_t element;
    } * runs;
    int64_t run_count;
    float *before[4]; /* weight, gradient and moments of these elements before the update */
    double norm;      /* global gradient norm before the update, after the optimiser's own limit */
    /* The largest error, relative to the allowed error, and where it occurs: */
    double error;
    const char *what;
    int at;
    int64_t element, step;
};
enum weft_status weft_updates_open(struct weft_updates *u, const struct weft_learner *trainer);
void weft_updates_close(struct weft_updates *u);
/* To be called before and after weft_learner_step or weft_learner_update, with the gradient in sums[0]. */
void weft_updates_before(struct weft_updates *u);
void weft_updates_after(struct weft_updates *u);
/* Reports the result of all updates as one check; `what` names them. */
void weft_updates_report(const struct weft_trial *t, const struct weft_updates *u, const char *what);

#endif
