/* SPDX-License-Identifier: MIT
 *
 * cross_entropy_reference_inl.h - reference of cross_entropy.c, in double and plain loops: inputs, shapes, and the
 * formulas of its opening comment, forward and backward.
 */
#ifndef WEFT_CROSS_ENTROPY_SPEC_H
#define WEFT_CROSS_ENTROPY_SPEC_H

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
    if (node->in[WEIGHT]->dtype != WEFT_F32 || !weft_shape_same(&node->in[WEIGHT]->shape, &one))
        return weft_node_fail(node, "the weight must be f32 [1]");
    TRY(weft_node_output(node, LOSS, WEFT_F32, one));
    TRY(weft_node_output(node, NLL, WEFT_F32, rows));
    TRY(weft_node_output(node, LSE, WEFT_F32, rows));
    return weft_node_output(node, PRED, WEFT_I32, rows);
}

/* ---- reference: row by row; logits are recomputed wherever they are needed */

static double logit(const struct weft_call *call, int64_t row, int64_t v)
{
    int64_t width = call->in[P]->dim[1];
    const double *x = (const double *)call->in[X]->data + row * width;
    const double *w = (const double *)call->in[P]->data + v * width;
    double sum = 0;
    for (int64_t i = 0; i < width; i++)
        sum += x[i] * w[i];
    return sum;
}

static void ref(const struct weft_call *call)
{
    const struct attr *a = call->attr;
    const int32_t *targets = call->in[TARGETS]->data;
    double *loss = call->out[LOSS]->data, *nll = call->out[NLL]->data, *lse = call->out[LSE]->data;
    int32_t *pred = call->out[PRED]->data;
    *loss = 0;
    for (int64_t r = 0; r < weft_tensor_rows(call->in[X]); r++) {
        double top = -INFINITY, sum = 0;
        nll[r] = lse[r] = 0;
        pred[r] = -1;
        for (int64_t v = 0; targets[r] >= 0 && v < call->in[P]->dim[0]; v++) {
            double l = logit(call, r, v);
            if (l > top) {
                sum *= exp(top - l);
                top = l;
                pred[r] = (int32_t)v;
            }
            sum += exp(l - top);
        }
        if (targets[r] < 0)
            continue;
        lse[r] = top + log(sum);
        nll[r] = lse[r] - logit(call, r, targets[r]);
        *loss += nll[r] + a->z_lambda * lse[r] * lse[r];
    }
    *loss *= *(const double *)call->in[WEIGHT]->data;
}

static void bwd_ref(const struct weft_call *call)
{
    const struct attr *a = call->attr;
    const double *x = call->in[X]->data, *w = call->in[P]->data;
    const int32_t *targets = call->in[TARGETS]->data;
    double *dx = call->gin[X] ? call->gin[X]->data : NULL, *dw = call->gin[W] ? call->gin[W]->data : NULL;
    double scale = *(const double *)call->gout[LOSS]->data * *(const double *)call->in[WEIGHT]->data;
    int64_t rows = weft_tensor_rows(call->in[X]), width = call->in[P]->dim[1];
    ref(call);
    const double *lse = call->out[LSE]->data;
    for (int64_t i = 0; dx && i < rows * width; i++)
        dx[i] = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t v = 0; targets[r] >= 0 && v < call->in[P]->dim[0]; v++) {
            double softmax = exp(logit(call, r, v) - lse[r]);
            double d = scale * ((1 + 2 * a->z_lambda * lse[r]) * softmax - (v == targets[r]));
            for (int64_t i = 0; dx && i < width; i++)
                dx[r * width + i] += d * w[v * width + i];
            for (int64_t i = 0; dw && i < width; i++)
                dw[v * width + i] += d * x[r * width + i];
        }
}

#endif
