/* SPDX-License-Identifier: MIT
 *
 * form_run_math.c - runs elementwise atoms, matmul and reductions.
 */
#include "graph/form_run.h"

#include <math.h>
#include <string.h>

/* ---- elementwise, with broadcasting */

struct steps {
    int64_t at[3];
    int64_t stride[3][WEFT_FORM_DIMS];
};

static void broadcast_dims(const struct run *r, struct weft_array *y)
{
    y->ndim = 0;
    for (int k = 0; k < 3 && r->in[k]; k++)
        y->ndim = y->ndim > r->in[k]->ndim ? y->ndim : r->in[k]->ndim;
    for (int i = 0; i < y->ndim; i++) {
        y->dim[i] = 1;
        for (int k = 0; k < 3 && r->in[k]; k++) {
            int own = i - (y->ndim - r->in[k]->ndim);
            if (own >= 0 && r->in[k]->dim[own] != 1)
                y->dim[i] = r->in[k]->dim[own];
        }
    }
}

static void find_strides(const struct weft_array *x, const struct weft_array *y, int64_t *stride)
{
    int64_t step = 1;
    for (int i = y->ndim - 1; i >= 0; i--) {
        int own = i - (y->ndim - x->ndim);
        stride[i] = own >= 0 && x->dim[own] != 1 ? step : 0;
        step *= own >= 0 ? x->dim[own] : 1;
    }
}

static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }

static double apply(const struct weft_atom *a, double x, double y, double z)
{
    switch (a->kind) {
    case WEFT_ATOM_add:
        return x + y;
    case WEFT_ATOM_sub:
        return x - y;
    case WEFT_ATOM_mul:
        return x * y;
    case WEFT_ATOM_div:
        return x / y;
    case WEFT_ATOM_max:
        return x > y ? x : y;
    case WEFT_ATOM_min:
        return x < y ? x : y;
    case WEFT_ATOM_less:
        return x < y;
    case WEFT_ATOM_equal:
        return x == y;
    case WEFT_ATOM_both:
        return x != 0 && y != 0;
    case WEFT_ATOM_choose:
        return x != 0 ? y : z;
    case WEFT_ATOM_exp:
        return exp(x);
    case WEFT_ATOM_log:
        return log(x);
    case WEFT_ATOM_sqrt:
        return sqrt(x);
    case WEFT_ATOM_tanh:
        return tanh(x);
    case WEFT_ATOM_sigmoid:
        return sigmoid(x);
    case WEFT_ATOM_softplus:
        return fmax(x, 0) + log1p(exp(-fabs(x)));
    case WEFT_ATOM_to:
        return a->type.of == WEFT_TRUTH ? x != 0 : a->type.of == WEFT_WHOLE ? trunc(x) : x;
    default:
        return x; /* expand, stop */
    }
}

/* Computes y for the last dimension, from the elements that `s` points to. */
static void apply_row(const struct run *r, const struct steps *s, double *y, int64_t n, int last)
{
    const double *in[3] = {0};
    for (int k = 0; k < 3 && r->in[k]; k++)
        in[k] = r->in[k]->data + s->at[k];
    int64_t step[3] = {0};
    for (int k = 0; k < 3 && last >= 0; k++)
        step[k] = s->stride[k][last];
    for (int64_t i = 0; i < n; i++)
        y[i] = apply(r->atom, in[0][i * step[0]], in[1] ? in[1][i * step[1]] : 0, in[2] ? in[2][i * step[2]] : 0);
}

/* Moves to the next row: increments the index of all dimensions but the last. */
static void advance(struct steps *s, const struct weft_array *y, int64_t *index)
{
    for (int i = y->ndim - 2; i >= 0; i--) {
        index[i]++;
        for (int k = 0; k < 3; k++)
            s->at[k] += s->stride[k][i];
        if (index[i] < y->dim[i])
            return;
        for (int k = 0; k < 3; k++)
            s->at[k] -= s->stride[k][i] * y->dim[i];
        index[i] = 0;
    }
}

void weft_run_elementwise(struct run *r)
{
    struct weft_array *y = r->out;
    if (!r->atom->in[1] && r->atom->kind == WEFT_ATOM_expand)
        weft_array_set(r->frame, y, &r->atom->type);
    else
        broadcast_dims(r, y);
    if (!weft_run_alloc(r))
        return;
    struct steps s = {0};
    int64_t index[WEFT_FORM_DIMS] = {0}, last = y->ndim ? y->dim[y->ndim - 1] : 1, n = weft_array_count(y);
    for (int k = 0; k < 3 && r->in[k]; k++)
        find_strides(r->in[k], y, s.stride[k]);
    for (int64_t at = 0; at < n; at += last) {
        apply_row(r, &s, y->data + at, last, y->ndim - 1);
        advance(&s, y, index);
    }
}

/* ---- matrices */

static double dot(const double *a, const double *b, int64_t n, int64_t stride)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i * stride];
    return sum;
}

void weft_run_matmul(struct run *r)
{
    const struct weft_array *a = r->in[0], *b = r->in[1];
    struct weft_array *y = r->out, am = *a, bm = *b;
    bool transposed = r->atom->transposed;
    int64_t m = a->dim[a->ndim - 2], k = a->dim[a->ndim - 1], n = b->dim[b->ndim - (transposed ? 2 : 1)];
    am.ndim -= 2;
    bm.ndim -= 2;
    struct run batch = {.in = {&am, &bm}};
    broadcast_dims(&batch, y);
    struct steps s = {0};
    struct weft_array blocks = *y;
    blocks.ndim++; /* advance() leaves the last dimension alone */
    int64_t index[WEFT_FORM_DIMS] = {0}, count = weft_array_count(y);
    find_strides(&am, y, s.stride[0]);
    find_strides(&bm, y, s.stride[1]);
    y->dim[y->ndim++] = m;
    y->dim[y->ndim++] = n;
    if (!weft_run_alloc(r))
        return;
    for (int64_t block = 0; block < count; block++, advance(&s, &blocks, index))
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                const double *row = a->data + (s.at[0] * m + i) * k, *matrix = b->data + s.at[1] * k * n;
                y->data[(block * m + i) * n + j] = dot(row, matrix + (transposed ? j * k : j), k, transposed ? 1 : n);
            }
}

/* ---- reductions */

static double reduce(enum weft_atom_kind kind, const double *x, int64_t n, int64_t stride)
{
    double sum = 0, top = -INFINITY;
    int64_t best = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i * stride];
        best = x[i * stride] > top ? i : best;
        top = x[i * stride] > top ? x[i * stride] : top;
    }
    if (kind == WEFT_ATOM_sum)
        return sum;
    if (kind != WEFT_ATOM_logsumexp)
        return kind == WEFT_ATOM_argmax ? (double)best : top;
    sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i * stride] - top);
    return top + log(sum);
}

void weft_run_along(struct run *r)
{
    const struct weft_array *x = r->in[0];
    struct span s = weft_array_span(x, r->atom->axis);
    bool keeps = r->atom->kind == WEFT_ATOM_softmax;
    *r->out = (struct weft_array){.ndim = x->ndim};
    memcpy(r->out->dim, x->dim, sizeof x->dim);
    r->out->dim[r->atom->axis] = keeps ? s.n : 1;
    if (!weft_run_alloc(r))
        return;
    for (int64_t o = 0; o < s.outer; o++)
        for (int64_t i = 0; i < s.inner; i++) {
            const double *from = x->data + o * s.n * s.inner + i;
            double *to = r->out->data + (keeps ? o * s.n * s.inner : o * s.inner) + i;
            double value = reduce(keeps ? WEFT_ATOM_logsumexp : r->atom->kind, from, s.n, s.inner);
            if (!keeps)
                *to = value;
            for (int64_t j = 0; keeps && j < s.n; j++)
                to[j * s.inner] = exp(from[j * s.inner] - value);
        }
}
