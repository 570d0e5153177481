/* SPDX-License-Identifier: MIT
 *
 * form_run_index.c - runs atoms for shapes and indices.
 */
#include "graph/form_run.h"

#include <string.h>

/* ---- shapes */

void weft_run_reshape(struct run *r)
{
    weft_array_set(r->frame, r->out, &r->atom->type);
    if (weft_run_alloc(r))
        memcpy(r->out->data, r->in[0]->data, (size_t)weft_array_count(r->out) * sizeof(double));
}

void weft_run_permute(struct run *r)
{
    const struct weft_array *x = r->in[0];
    struct weft_array *y = r->out;
    int64_t stride[WEFT_FORM_DIMS], index[WEFT_FORM_DIMS] = {0}, step = 1, at = 0;
    for (int i = x->ndim - 1; i >= 0; i--, step *= x->dim[i + 1])
        stride[i] = step;
    y->ndim = x->ndim;
    for (int i = 0; i < x->ndim; i++)
        y->dim[i] = x->dim[r->atom->axes[i]];
    if (!weft_run_alloc(r))
        return;
    for (int64_t n = weft_array_count(y), e = 0; e < n; e++) {
        y->data[e] = x->data[at];
        for (int i = y->ndim - 1; i >= 0; i--) {
            at += stride[r->atom->axes[i]];
            if (++index[i] < y->dim[i])
                break;
            at -= stride[r->atom->axes[i]] * y->dim[i];
            index[i] = 0;
        }
    }
}

/* Copies rows `first` to `first + n` of x along the axis to the row `to` of the result. */
static void copy_rows(struct run *r, const struct weft_array *x, int64_t first, int64_t n, int64_t to)
{
    struct span from = weft_array_span(x, r->atom->axis), into = weft_array_span(r->out, r->atom->axis);
    for (int64_t o = 0; o < from.outer; o++)
        memcpy(r->out->data + (o * into.n + to) * into.inner, x->data + (o * from.n + first) * from.inner,
               (size_t)(n * from.inner) * sizeof(double));
}

void weft_run_rearrange(struct run *r)
{
    const struct weft_atom *a = r->atom;
    const struct weft_array *x = r->in[0];
    *r->out = (struct weft_array){.ndim = x->ndim};
    memcpy(r->out->dim, x->dim, sizeof x->dim);
    int64_t *n = &r->out->dim[a->axis], rows = x->dim[a->axis];
    *n = a->kind == WEFT_ATOM_slice ? a->count
         : a->kind == WEFT_ATOM_pad ? rows + a->first + a->count
                                    : rows + r->in[1]->dim[a->axis];
    if (!weft_run_alloc(r))
        return;
    if (a->kind == WEFT_ATOM_slice)
        copy_rows(r, x, a->first, a->count, 0);
    else
        copy_rows(r, x, 0, rows, a->kind == WEFT_ATOM_pad ? a->first : 0);
    if (a->kind == WEFT_ATOM_concat)
        copy_rows(r, r->in[1], 0, r->in[1]->dim[a->axis], rows);
}

/* ---- indices */

void weft_run_take(struct run *r)
{
    const struct weft_array *table = r->in[0], *index = r->in[1];
    struct weft_array *y = r->out;
    struct span s = weft_array_span(table, r->atom->axis);
    y->ndim = 0;
    for (int i = 0; i < r->atom->axis; i++)
        y->dim[y->ndim++] = table->dim[i];
    for (int i = 0; i < index->ndim; i++)
        y->dim[y->ndim++] = index->dim[i];
    for (int i = r->atom->axis + 1; i < table->ndim; i++)
        y->dim[y->ndim++] = table->dim[i];
    if (!weft_run_alloc(r))
        return;
    int64_t count = weft_array_count(index);
    for (int64_t o = 0; o < s.outer; o++)
        for (int64_t i = 0; i < count; i++)
            if (weft_run_index(r, index->data[i], s.n))
                memcpy(y->data + (o * count + i) * s.inner, table->data + (o * s.n + (int64_t)index->data[i]) * s.inner,
                       (size_t)s.inner * sizeof(double));
}

/* pick: y[.., i, ..] = x[.., index, ..]; put: y = x, then y[.., index, ..] = by[.., i, ..] */
void weft_run_along_index(struct run *r)
{
    bool puts = r->atom->kind == WEFT_ATOM_put;
    const struct weft_array *x = r->in[0], *index = r->in[1];
    struct span s = weft_array_span(x, r->atom->axis), k = weft_array_span(index, r->atom->axis);
    *r->out = puts ? *x : *index;
    if (!weft_run_alloc(r))
        return;
    if (puts)
        memcpy(r->out->data, x->data, (size_t)weft_array_count(x) * sizeof(double));
    for (int64_t o = 0; o < k.outer; o++)
        for (int64_t i = 0; i < k.n * k.inner; i++) {
            int64_t at = o * k.n * k.inner + i;
            if (!weft_run_index(r, index->data[at], s.n))
                return;
            int64_t other = (o * s.n + (int64_t)index->data[at]) * s.inner + i % k.inner;
            r->out->data[puts ? other : at] = puts ? r->in[2]->data[at] : x->data[other];
        }
}

void weft_run_top(struct run *r)
{
    const struct weft_array *x = r->in[0];
    struct span s = weft_array_span(x, r->atom->axis);
    int64_t k = weft_min(r->atom->count, s.n);
    *r->out = (struct weft_array){.ndim = x->ndim};
    memcpy(r->out->dim, x->dim, sizeof x->dim);
    r->out->dim[r->atom->axis] = k;
    if (!weft_run_alloc(r))
        return;
    for (int64_t o = 0; o < s.outer; o++)
        for (int64_t i = 0; i < s.inner; i++) {
            const double *from = x->data + o * s.n * s.inner + i;
            double *to = r->out->data + o * k * s.inner + i;
            for (int64_t j = 0, used = 0; j < s.n; j++) { /* inserts j after elements that are not smaller */
                int64_t at = used;
                while (at > 0 && from[(int64_t)to[(at - 1) * s.inner] * s.inner] < from[j * s.inner])
                    at--;
                used += used < k;
                for (int64_t m = used - 1; m > at; m--)
                    to[m * s.inner] = to[(m - 1) * s.inner];
                if (at < k)
                    to[at * s.inner] = (double)j;
            }
        }
}
