/* SPDX-License-Identifier: MIT
 *
 * reference_inl.h - reference of attention.c, in plain loops and double precision: inputs, sizes, the dropout mask, and
 * the formulas of its opening comment, forward and backward.
 */
#ifndef WEFT_ATTENTION_SPEC_H
#define WEFT_ATTENTION_SPEC_H

#include "ops/attention/logits_reference_inl.h"

enum { V = LOGIT_INPUTS, SAMPLE, STEP_KEY, INPUTS };
enum { O, LSE };

struct attr {
    struct geometry logits;
    double dropout;
    int layer, site;
};

static struct sizes sizes_of(const struct weft_call *call)
{
    struct sizes n = logit_sizes(call);
    n.v = weft_tensor_width(call->in[V]) / n.kv_heads;
    n.v_padded = weft_round_up(n.v, VLANES);
    return n;
}

/* ---- dropout: key j of query i is dropped if its 32 random bits are below the threshold */

static uint64_t mask_key(const struct weft_call *call, int64_t seq)
{
    const struct attr *a = call->attr;
    return a->dropout > 0 ? weft_dropout_key(ints(call, STEP_KEY), ints(call, SAMPLE)[seq], a->layer, a->site) : 0;
}

static uint32_t mask_threshold(double dropout) { return (uint32_t)(dropout * 0x1p32); }

/* Returns the random bits of key j. The 64 keys of a tile use sixteen counters of four words: word w of all counters
 * serves keys 16w to 16w+15, one vector. */
static uint32_t mask_bits(uint64_t key, int64_t h, int64_t i, int64_t j)
{
    uint64_t counter = (uint64_t)(j / 64 * 16 + j % 16);
    return weft_rand(key, (uint64_t)h << 32 | (uint64_t)i, counter).u[j % 64 / 16];
}

/* ---- the formulas, for one query row and head at a time */

static struct query query_of(const struct weft_call *call, int64_t row, int64_t h)
{
    return (struct query){call, call->attr,           sizes_of(call),       row,
                          h,    ints(call, SEQ)[row], ints(call, POS)[row], call->rounds};
}

static double ref_keep(const struct query *q, int64_t j)
{
    double dropout = q->attr->dropout;
    if (dropout == 0)
        return 1;
    uint32_t bits = mask_bits(mask_key(q->call, q->seq), q->h, q->i, j);
    return bits < mask_threshold(dropout) ? 0 : 1 / (1 - dropout);
}

static void ref_row(const struct query *q)
{
    double top = -INFINITY, sum = 0, high = -INFINITY;
    double *o = (double *)q->call->out[O]->data + (q->row * q->n.heads + q->h) * q->n.v;
    for (int64_t j = 0; j <= q->i; j++)
        top = fmax(top, ref_logit(q, j));
    for (int64_t j = 0; j <= q->i; j++)
        sum += exp(ref_logit(q, j) - top);
    for (int64_t d = 0; d < q->n.v; d++)
        o[d] = 0;
    for (int64_t j = 0; j <= q->i; j++) {
        const double *v = (const double *)q->call->in[V]->data + ref_key(q, j, q->n.v);
        for (int64_t x = j; j % WEFT_KEY_TILE == 0 && x <= weft_min(q->i, j + WEFT_KEY_TILE - 1); x++)
            high = fmax(high, ref_logit(q, x)); /* the maximum up to the end of j's tile; P is rounded relative to it */
        double weight = ref_operand(q, ref_keep(q, j) * exp(ref_logit(q, j) - high)) * exp(high - top) / sum;
        for (int64_t d = 0; d < q->n.v; d++)
            o[d] += weight * v[d];
    }
    ((double *)q->call->out[LSE]->data)[q->row * q->n.heads + q->h] = top + log(sum);
}

static void ref(const struct weft_call *call)
{
    struct sizes n = sizes_of(call);
    for (int64_t row = 0; row < n.rows; row++)
        for (int64_t h = 0; h < n.heads; h++) {
            struct query q = query_of(call, row, h);
            ref_row(&q);
        }
}

/* Returns <a, b>, where `a` is rounded first if the kernel rounds it. */
static double dot_operand(const struct query *q, const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; d < n; d++)
        sum += ref_operand(q, a[d]) * b[d];
    return sum;
}

static void bwd_ref_row(const struct query *q)
{
    const struct weft_call *call = q->call;
    const struct sizes *n = &q->n;
    int64_t at = q->row * n->heads + q->h, v_wide = call->gout[O] ? n->v : 0;
    const double *go = v_wide ? (const double *)call->gout[O]->data + at * n->v : NULL;
    double delta = dot_operand(q, go, (const double *)call->out[O]->data + at * n->v, v_wide);
    double lse = ((const double *)call->out[LSE]->data)[at];
    if (call->gout[LSE])
        delta -= ((const double *)call->gout[LSE]->data)[at];
    for (int64_t j = 0; j <= q->i; j++) {
        int64_t v_at = ref_key(q, j, n->v);
        double p = exp(ref_logit(q, j) - lse), keep = ref_keep(q, j), operand = ref_operand(q, keep * p);
        for (int64_t d = 0; call->gin[V] && d < v_wide; d++)
            ((double *)call->gin[V]->data)[v_at + d] += operand * ref_operand(q, go[d]);
        double dp = dot_operand(q, go, (const double *)call->in[V]->data + v_at, v_wide);
        bwd_ref_logit(q, j, p * (keep * dp - delta));
    }
}

static void bwd_ref(const struct weft_call *call)
{
    struct sizes n = sizes_of(call);
    bwd_ref_clear(call);
    ref_clear(call->gin[V]);
    for (int64_t row = 0; row < n.rows; row++)
        for (int64_t h = 0; h < n.heads; h++) {
            struct query q = query_of(call, row, h);
            bwd_ref_row(&q);
        }
}

#endif
