/* SPDX-License-Identifier: MIT
 *
 * opform.h - the form of an op's case, run on the values of the reference, for the op harness (opcheck.c).
 */
#ifndef WEFT_OPFORM_H
#define WEFT_OPFORM_H

#include "check/op/optrial.h"

struct weft_opform {
    struct weft_optrial *t;
    struct weft_graph *graph; /* the graph of the case, which is not differentiated */
    struct weft_form form;
    struct weft_form_frame frame;
    struct weft_form_results results;
    double *whole[WEFT_OPTRIAL_VALUES]; /* integer inputs as numbers, indexed like `filled` */
    int32_t *seq, *pos;                 /* of every row; allocated only if the case has none */
};

/* Builds the form of t's case. The reference must be open and filled. Close it even after a failure. */
enum weft_status weft_opform_open(struct weft_opform *o, struct weft_optrial *t);
void weft_opform_close(struct weft_opform *o);
/* Runs the form on the values that the reference's inputs, parameters and states have now. With `dense`, the rows of a
 * sequence are one batch; *possible is false if the sequences are too different for it. */
enum weft_status weft_opform_run(struct weft_opform *o, bool dense, bool *possible);
/* Returns a result after a run, by the value of the differentiated graph; NULL if the form does not have it. */
const double *weft_opform_result(const struct weft_opform *o, const struct weft_value *v, int64_t *count);

#endif
