/* SPDX-License-Identifier: MIT
 *
 * form_run.h - private declarations of the files form_run*.c, which run a form.
 */
#ifndef WEFT_FORM_RUN_H
#define WEFT_FORM_RUN_H

#include "graph/form_internal.h"

struct weft_array {
    int ndim;
    int64_t dim[WEFT_FORM_DIMS];
    double *data;
};

/* One atom while it runs. */
struct run {
    const struct weft_atom *atom;
    const struct weft_form_frame *frame;
    const struct weft_array *in[3];
    struct weft_array *out;
    struct weft_form_results *results;
    enum weft_status status;
};

struct span {
    int64_t outer, n, inner;
};

/* Sets an array's dimensions from a type. */
void weft_array_set(const struct weft_form_frame *frame, struct weft_array *x, const struct weft_type *t);
int64_t weft_array_count(const struct weft_array *x);
/* Divides the elements at an axis: `outer` blocks of `n` rows of `inner` elements. */
struct span weft_array_span(const struct weft_array *x, int axis);
/* Allocates the output, zeroed, with the dimensions that it has; returns whether that was possible. */
bool weft_run_alloc(struct run *r);
/* Returns whether an index is in range; the run fails if it is not. */
bool weft_run_index(struct run *r, double index, int64_t n);
/* Run one kind of atoms each. `along` are reductions, `rearrange` are slice, pad and concat, `along_index` are pick and
 * put, `rows` are sources and all atoms that depend on the sequences of rows. */
void weft_run_elementwise(struct run *r);
void weft_run_matmul(struct run *r);
void weft_run_along(struct run *r);
void weft_run_reshape(struct run *r);
void weft_run_permute(struct run *r);
void weft_run_rearrange(struct run *r);
void weft_run_take(struct run *r);
void weft_run_along_index(struct run *r);
void weft_run_top(struct run *r);
void weft_run_rows(struct run *r);

#endif
