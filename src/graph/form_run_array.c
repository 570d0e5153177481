/* SPDX-License-Identifier: MIT
 *
 * form_run_array.c - sizes and memory of arrays while a form runs.
 */
#include "graph/form_run.h"

#include <stdlib.h>

static int64_t extent_count(const struct weft_form_frame *frame, struct weft_extent e)
{
    const int64_t size[WEFT_SIZES] = {1, frame->batch, frame->fresh, frame->all, frame->all, frame->sequences};
    return e.times * size[e.size];
}

void weft_array_set(const struct weft_form_frame *frame, struct weft_array *x, const struct weft_type *t)
{
    x->ndim = t->ndim;
    for (int i = 0; i < t->ndim; i++)
        x->dim[i] = extent_count(frame, t->dim[i]);
}

int64_t weft_array_count(const struct weft_array *x)
{
    int64_t n = 1;
    for (int i = 0; i < x->ndim; i++)
        n *= x->dim[i];
    return n;
}

struct span weft_array_span(const struct weft_array *x, int axis)
{
    struct span s = {1, x->dim[axis], 1};
    for (int i = 0; i < axis; i++)
        s.outer *= x->dim[i];
    for (int i = axis + 1; i < x->ndim; i++)
        s.inner *= x->dim[i];
    return s;
}

bool weft_run_alloc(struct run *r)
{
    size_t bytes = sizeof(double);
    for (int i = 0; i < r->out->ndim && r->status == WEFT_OK; i++)
        r->status = weft_size_mul(bytes, (size_t)r->out->dim[i], &bytes);
    r->out->data = r->status == WEFT_OK ? calloc(1, bytes + sizeof(double)) : NULL;
    if (!r->out->data && r->status == WEFT_OK)
        r->status = FAIL(WEFT_NOMEM, "not enough memory to run a form");
    return r->out->data != NULL;
}

bool weft_run_index(struct run *r, double index, int64_t n)
{
    if (!(index >= 0 && index < (double)n) && r->status == WEFT_OK)
        r->status =
            FAIL(WEFT_INVALID, "%s: index %g is not below %lld", weft_atom_name(r->atom->kind), index, (long long)n);
    return r->status == WEFT_OK;
}
