/* SPDX-License-Identifier: MIT
 *
 * cross_entropy_reference_inl.h - reference of cross_entropy.c, in plain loops and double precision: inputs, shapes,
 * and the formulas of its opening comment, forward and backward.
 */
#ifndef WEFT_CROSS_ENTROPY_SPEC_H
#define WEFT_CROSS_ENTROPY_SPEC_H

#include "ops/dot_inl.h"
#include "ops/ops.h"

#include <math.h>

enum { X, P, P_DX, TARGETS, WEIGHT, W, INPUTS };
enum { LOSS, NLL, LSE, PRED };

struct attr {
    double z_lambda;
};

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_value *x = node->in[X], *p = node->in[P], *targets = node->in[TARGETS];
    if (x->dtype != p->dtype || p->shape.ndim != 2 || weft_shape_width(&x->shape) != weft_shape_width(&p->shape))
        return weft_node_fail(node, "x must be %s and as wide as W", weft_dtype_name(p->dtype));
    struct weft_shape rows = WEFT_SHAPE(weft_shape_rows(&x->shape)), one = WEFT_SHAPE(weft_fixed(1));
    if (targets->dtype != WEFT_I32 || !weft_shape_same(&targets->shape, &rows))
        return weft_node_fail(node, "targets must be i32, one per row of x");
    const struct weft_value *weight = node->in[WEIGHT];
    if (weight && (weight->dtype != WEFT_F32 || !weft_shape_same(&weight->shape, &one)))
        return weft_node_fail(node, "the weight must be f32 [1]");
    TRY(weft_node_output(node, LOSS, WEFT_F32, one));
    TRY(weft_node_output(node, NLL, WEFT_F32, rows));
    TRY(weft_node_output(node, LSE, WEFT_F32, rows));
    return weft_node_output(node, PRED, WEFT_I32, rows);
}

/* ---- the reference works row by row and recomputes logits wherever they are needed */

static double ref_weight(const struct weft_call *call)
{
    double scored = 0;
    if (call->in[WEIGHT])
        return *(const double *)call->in[WEIGHT]->data;
    for (int64_t r = 0; r < weft_tensor_rows(call->in[X]); r++)
        scored += ((const int32_t *)call->in[TARGETS]->data)[r] >= 0 ? 1 : 0;
    return scored > 0 ? 1 / scored : 1;
}

static double logit(const struct weft_call *call, int64_t row, int64_t v)
{
    int64_t width = call->in[P]->dim[1];
    const double *x = (const double *)call->in[X]->data + row * width;
    return dot_f64(x, (const double *)call->in[P]->data + v * width, width);
}

static void ref_row(void *context, int64_t r, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    const int32_t *targets = call->in[TARGETS]->data;
    double *nll = call->out[NLL]->data, *lse = call->out[LSE]->data, top = -INFINITY, sum = 0;
    int32_t *pred = call->out[PRED]->data;
    nll[r] = lse[r] = 0;
    pred[r] = -1;
    if (targets[r] < 0)
        return;
    for (int64_t v = 0; v < call->in[P]->dim[0]; v++) {
        double l = logit(call, r, v);
        if (l > top) {
            sum *= exp(top - l);
            top = l;
            pred[r] = (int32_t)v;
        }
        sum += exp(l - top);
    }
    lse[r] = top + log(sum);
    nll[r] = lse[r] - logit(call, r, targets[r]);
}

static void ref(const struct weft_call *call)
{
    const struct attr *a = call->attr;
    const int32_t *targets = call->in[TARGETS]->data;
    const double *nll = call->out[NLL]->data, *lse = call->out[LSE]->data;
    double *loss = call->out[LOSS]->data;
    int64_t rows = weft_tensor_rows(call->in[X]);
    weft_parallel(rows, ref_row, (void *)call);
    *loss = 0;
    for (int64_t r = 0; r < rows; r++)
        if (targets[r] >= 0)
            *loss += nll[r] + a->z_lambda * lse[r] * lse[r];
    *loss *= ref_weight(call);
}

/* Returns the derivative of the loss with respect to a logit. */
static double slope(const struct weft_call *call, double weight, int64_t r, int64_t v)
{
    const struct attr *a = call->attr;
    double lse = ((const double *)call->out[LSE]->data)[r], softmax = exp(logit(call, r, v) - lse);
    double scale = *(const double *)call->gout[LOSS]->data * weight;
    return scale * ((1 + 2 * a->z_lambda * lse) * softmax - (v == ((const int32_t *)call->in[TARGETS]->data)[r]));
}

static void add_multiple(double *to, double times, const double *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += times * from[i];
}

static void bwd_ref_row(void *context, int64_t r, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    const double *w = call->in[P]->data;
    int64_t width = call->in[P]->dim[1];
    double *dx = (double *)call->gin[X]->data + r * width, weight = ref_weight(call);
    for (int64_t i = 0; i < width; i++)
        dx[i] = 0;
    if (((const int32_t *)call->in[TARGETS]->data)[r] >= 0)
        for (int64_t v = 0; v < call->in[P]->dim[0]; v++)
            add_multiple(dx, slope(call, weight, r, v), w + v * width, width);
}

static void bwd_ref_word(void *context, int64_t v, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    const int32_t *targets = call->in[TARGETS]->data;
    const double *x = call->in[X]->data;
    double weight = ref_weight(call);
    int64_t width = call->in[P]->dim[1];
    for (int64_t r = 0; r < weft_tensor_rows(call->in[X]); r++)
        if (targets[r] >= 0)
            add_multiple((double *)call->gin[W]->data + v * width, slope(call, weight, r, v), x + r * width, width);
}

static void bwd_ref(const struct weft_call *call)
{
    ref(call);
    if (call->gin[X])
        weft_parallel(weft_tensor_rows(call->in[X]), bwd_ref_row, (void *)call);
    if (call->gin[W])
        weft_parallel(call->in[P]->dim[0], bwd_ref_word, (void *)call);
}

#endif
