/* SPDX-License-Identifier: MIT
 *
 * info_nce_reference_inl.h - reference of info_nce.c, in plain loops and double precision: inputs, shapes, and the
 * formulas of its opening comment, forward and backward.
 */
#ifndef WEFT_INFO_NCE_SPEC_H
#define WEFT_INFO_NCE_SPEC_H

#include "ops/ops.h"

#include <math.h>

enum { Z, SEQ, POS, TILES, INPUTS }; /* tiles [S, *] is used only for S */
enum { LOSS, UNIT, NORM, NLL, LSE };

#define SHORTEST 1e-6

struct attr {
    int64_t heads;
    enum weft_positives positives;
    double tau, lambda;
};

static int64_t views(const struct attr *attr) { return attr->positives == WEFT_POSITIVES_HALVES ? 2 : 1; }

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *attr = node->attr;
    struct weft_value *const *in = node->in;
    TRY(weft_node_heads(node, Z, "z", attr->heads));
    if (!(attr->tau > 0))
        return weft_node_fail(node, "tau = %g; it must be greater than 0", attr->tau);
    struct weft_shape rows = WEFT_SHAPE(weft_shape_rows(&in[Z]->shape));
    for (int i = SEQ; i <= POS; i++)
        if (!in[i] || in[i]->dtype != WEFT_I32 || !weft_shape_same(&in[i]->shape, &rows))
            return weft_node_fail(node, "seq and pos must be i32, one element per row of z");
    if (!in[TILES] || in[TILES]->shape.ndim != 2)
        return weft_node_fail(node, "tiles must be [sequences, tiles]");
    struct weft_dim n = in[TILES]->shape.dim[0], w = weft_fixed(weft_shape_width(&in[Z]->shape) / attr->heads);
    n.times *= attr->heads * views(attr);
    TRY(weft_node_output(node, LOSS, WEFT_F32, WEFT_SHAPE(weft_fixed(1))));
    TRY(weft_node_output(node, UNIT, WEFT_F32, WEFT_SHAPE(n, w)));
    for (int o = NORM; o <= LSE; o++)
        TRY(weft_node_output(node, o, WEFT_F32, WEFT_SHAPE(n)));
    return WEFT_OK;
}

/* vector_of returns the vector that a row's head belongs to, if the row's sequence has `length` rows; vector_rows
 * returns the number of rows of a vector. */
static int64_t vector_of(const struct weft_call *call, int64_t row, int64_t head, int64_t length)
{
    const struct attr *attr = call->attr;
    const int32_t *seq = call->in[SEQ]->data, *pos = call->in[POS]->data;
    int64_t context = seq[row] * attr->heads + head;
    return views(attr) == 1 ? context : 2 * context + (pos[row] >= length / 2);
}

static int64_t vector_rows(const struct attr *attr, int64_t vector, int64_t length)
{
    return views(attr) == 1 ? length : vector % 2 ? length - length / 2 : length / 2;
}

static int64_t positive(const struct attr *attr, int64_t i) { return views(attr) == 1 ? i : i ^ 1; }

/* Returns whether j is in i's sum. */
static bool in_sum(const struct attr *attr, int64_t i, int64_t j) { return views(attr) == 1 || i != j; }

/* ---- reference */

static int64_t ref_length(const struct weft_call *call, int64_t slot)
{
    const int32_t *seq = call->in[SEQ]->data;
    int64_t length = 0;
    for (int64_t r = 0; r < weft_tensor_count(call->in[SEQ]); r++)
        length += seq[r] == slot;
    return length;
}

static double ref_logit(const struct weft_call *call, int64_t i, int64_t j)
{
    int64_t w = call->out[UNIT]->dim[1];
    const double *unit = call->out[UNIT]->data;
    double sum = 0;
    for (int64_t c = 0; c < w; c++)
        sum += unit[i * w + c] * unit[j * w + c];
    return sum / ((const struct attr *)call->attr)->tau;
}

static void ref_means(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    const double *z = call->in[Z]->data;
    const int32_t *seq = call->in[SEQ]->data;
    double *unit = call->out[UNIT]->data;
    int64_t w = call->out[UNIT]->dim[1];
    for (int64_t i = 0; i < weft_tensor_count(call->out[UNIT]); i++)
        unit[i] = 0;
    for (int64_t r = 0; r < weft_tensor_count(call->in[SEQ]); r++) {
        int64_t length = ref_length(call, seq[r]);
        for (int64_t head = 0; head < attr->heads; head++) {
            int64_t i = vector_of(call, r, head, length);
            for (int64_t c = 0; c < w; c++)
                unit[i * w + c] += z[(r * attr->heads + head) * w + c] / (double)vector_rows(attr, i, length);
        }
    }
}

/* Computes norms, then unit vectors. Returns the number of vectors kept. */
static int64_t ref_units(const struct weft_call *call)
{
    int64_t n = call->out[UNIT]->dim[0], w = call->out[UNIT]->dim[1], v = views(call->attr), kept = 0;
    double *unit = call->out[UNIT]->data, *norm = call->out[NORM]->data;
    for (int64_t i = 0; i < n; i++) {
        double squares = 0;
        for (int64_t c = 0; c < w; c++)
            squares += unit[i * w + c] * unit[i * w + c];
        norm[i] = sqrt(squares);
    }
    for (int64_t i = 0; i < n; i += v) {
        bool drop = norm[i] < SHORTEST || norm[i + v - 1] < SHORTEST;
        for (int64_t j = i; j < i + v; j++) {
            for (int64_t c = 0; c < w; c++)
                unit[j * w + c] = drop ? 0 : unit[j * w + c] / norm[j];
            norm[j] = drop ? 0 : norm[j];
            kept += !drop;
        }
    }
    return kept;
}

static void ref(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    const double *norm = call->out[NORM]->data;
    double *nll = call->out[NLL]->data, *lse = call->out[LSE]->data, *loss = call->out[LOSS]->data;
    int64_t n = call->out[UNIT]->dim[0];
    ref_means(call);
    int64_t kept = ref_units(call);
    *loss = 0;
    for (int64_t i = 0; i < n; i++) {
        double hit = ref_logit(call, i, positive(attr, i)), sum = 0;
        for (int64_t j = 0; j < n; j++)
            sum += norm[j] > 0 && in_sum(attr, i, j) ? exp(ref_logit(call, i, j) - hit) : 0;
        nll[i] = norm[i] > 0 ? log(sum) : 0;
        lse[i] = norm[i] > 0 ? nll[i] + hit : 0;
        *loss += attr->lambda * nll[i] / (double)weft_max(1, kept);
    }
}

static double ref_coefficient(const struct weft_call *call, int64_t i, int64_t j)
{
    const struct attr *attr = call->attr;
    const double *lse = call->out[LSE]->data;
    double l = ref_logit(call, i, j), p = in_sum(attr, i, j) ? exp(l - lse[i]) + exp(l - lse[j]) : 0;
    return p - (j == positive(attr, i)) - (i == positive(attr, j));
}

/* Sums g - <g, unit> unit term by term, as c_ij (unit_j - s_ij unit_i). */
static void bwd_ref(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    const double *unit = call->out[UNIT]->data, *norm = call->out[NORM]->data;
    const int32_t *seq = call->in[SEQ]->data;
    int64_t n = call->out[UNIT]->dim[0], w = call->out[UNIT]->dim[1], kept = 0;
    for (int64_t i = 0; i < n; i++)
        kept += norm[i] > 0;
    for (int64_t r = 0; r < weft_tensor_count(call->in[SEQ]); r++) {
        int64_t length = ref_length(call, seq[r]);
        for (int64_t head = 0; head < attr->heads; head++) {
            double *dz = (double *)call->gin[Z]->data + (r * attr->heads + head) * w;
            int64_t i = vector_of(call, r, head, length);
            double scale = *(const double *)call->gout[LOSS]->data * attr->lambda / ((double)kept * attr->tau) /
                           (norm[i] * (double)vector_rows(attr, i, length));
            for (int64_t c = 0; c < w; c++)
                dz[c] = 0;
            for (int64_t j = 0; norm[i] > 0 && j < n; j++) {
                double s = ref_logit(call, i, j) * attr->tau, factor = scale * ref_coefficient(call, i, j);
                for (int64_t c = 0; norm[j] > 0 && c < w; c++)
                    dz[c] += factor * (unit[j * w + c] - s * unit[i * w + c]);
            }
        }
    }
}

#endif
