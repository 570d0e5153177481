/* SPDX-License-Identifier: MIT
 *
 * attention_spec.h - what attention.c computes, in double and plain loops: inputs, sizes, addresses, the mask, and the
 * formulas of its opening comment, forward and backward.
 */
#ifndef WEFT_ATTENTION_SPEC_H
#define WEFT_ATTENTION_SPEC_H

#include "base/vmath.h"
#include "ops/ops.h"

enum { Q, K, V, SCALE, KEY_BIAS, POS_BIAS, SEQ, POS, TILES, SAMPLE, STAMP, Q_STORE, Q_BIAS, INPUTS };
enum { O, LSE };

struct attr {
    int64_t heads, kv_heads;
    double dropout;
    int layer, site;
    double ra_alpha;
    int64_t ra_window; /* 0: no reciprocal term */
};

struct sizes {
    int64_t rows, heads, kv_heads, group; /* group: query heads per key head */
    int64_t k, v;                         /* widths of one head */
    int64_t k_padded, v_padded;           /* rounded up to whole vectors */
    int64_t slots, longest;               /* sequences, and positions the rows of one can have */
    int64_t offsets;                      /* of pos_bias, 0 without */
    int64_t window;                       /* of the reciprocal term, 0 without */
};

static struct sizes sizes_of(const struct weft_call *call)
{
    const struct attr *a = call->attr;
    const struct weft_tensor *tiles = call->in[TILES], *pos_bias = call->in[POS_BIAS];
    int64_t k = weft_tensor_width(call->in[K]) / a->kv_heads, v = weft_tensor_width(call->in[V]) / a->kv_heads;
    return (struct sizes){
        .rows = call->in[Q]->dim[0],
        .heads = a->heads,
        .kv_heads = a->kv_heads,
        .group = a->heads / a->kv_heads,
        .k = k,
        .v = v,
        .k_padded = weft_round_up(k, VLANES),
        .v_padded = weft_round_up(v, VLANES),
        .slots = tiles->dim[0],
        .longest = weft_min(call->in[Q]->dim[0], tiles->dim[1] * WEFT_KEY_TILE),
        .offsets = pos_bias ? weft_tensor_width(pos_bias) : 0,
        .window = a->ra_window,
    };
}

static const int32_t *ints(const struct weft_call *call, int i) { return call->in[i]->data; }

/* Row of the key store where position j of a sequence stands. */
static int64_t key_row(const struct weft_call *call, int64_t seq, int64_t j)
{
    return ints(call, TILES)[seq * call->in[TILES]->dim[1] + j / WEFT_KEY_TILE] + j % WEFT_KEY_TILE;
}

/* ---- dropout: key j of query i is dropped when its 32 random bits are below the threshold */

static uint64_t mask_key(const struct weft_call *call, int64_t seq)
{
    const struct attr *a = call->attr;
    return a->dropout > 0 ? weft_dropout_key(ints(call, STAMP), ints(call, SAMPLE)[seq], a->layer, a->site) : 0;
}

static uint32_t mask_threshold(double dropout) { return (uint32_t)(dropout * 0x1p32); }

/* The 64 keys of a tile take sixteen counters of four words; words are dealt out so that one vector is one word. */
static uint32_t mask_bits(uint64_t key, int64_t h, int64_t i, int64_t j)
{
    uint64_t counter = (uint64_t)(j / 64 * 16 + j % 16);
    return weft_rand(key, (uint64_t)h << 32 | (uint64_t)i, counter).u[j % 64 / 16];
}

/* ---- the formulas, for one query row and head at a time */

struct query {
    const struct weft_call *call;
    struct sizes n;
    int64_t row, h, seq, i;
};

static struct query query_of(const struct weft_call *call, int64_t row, int64_t h)
{
    return (struct query){call, sizes_of(call), row, h, ints(call, SEQ)[row], ints(call, POS)[row]};
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; d < n; d++)
        sum += a[d] * b[d];
    return sum;
}

static const double *ref_q(const struct query *q)
{
    return (const double *)q->call->in[Q]->data + (q->row * q->n.heads + q->h) * q->n.k;
}

/* Where key j begins in k (width k), v (width v) and their gradients. */
static int64_t ref_key(const struct query *q, int64_t j, int64_t width)
{
    return (key_row(q->call, q->seq, j) * q->n.kv_heads + q->h / q->n.group) * width;
}

static double ref_scale(const struct query *q)
{
    const struct weft_tensor *scale = q->call->in[SCALE];
    return scale ? ((const double *)scale->data)[q->h] : 1 / sqrt((double)q->n.k);
}

static int64_t ref_offset(const struct query *q, int64_t j)
{
    return q->h * q->n.offsets + weft_min(q->i - j, q->n.offsets - 1);
}

/* Where query j of the store begins. */
static int64_t ref_stored(const struct query *q, int64_t j, int64_t width)
{
    return (key_row(q->call, q->seq, j) * q->n.heads + q->h) * width;
}

static bool ref_in_window(const struct query *q, int64_t j) { return j < q->i && q->i - j <= q->n.window; }

static double ref_reciprocal(const struct query *q, int64_t j)
{
    const struct weft_call *call = q->call;
    const double *stored = (const double *)call->in[Q_STORE]->data + ref_stored(q, j, q->n.k);
    double x = ref_scale(q) * dot(stored, (const double *)call->in[K]->data + ref_key(q, q->i, q->n.k), q->n.k);
    if (call->in[Q_BIAS])
        x += ((const double *)call->in[Q_BIAS]->data)[ref_stored(q, j, 1)];
    if (call->in[KEY_BIAS])
        x += ((const double *)call->in[KEY_BIAS]->data)[ref_stored(q, q->i, 1)];
    return ((const struct attr *)call->attr)->ra_alpha * x;
}

static double ref_logit(const struct query *q, int64_t j)
{
    const struct weft_call *call = q->call;
    double x = ref_scale(q) * dot(ref_q(q), (const double *)call->in[K]->data + ref_key(q, j, q->n.k), q->n.k);
    if (call->in[KEY_BIAS])
        x += ((const double *)call->in[KEY_BIAS]->data)[key_row(call, q->seq, j) * q->n.heads + q->h];
    if (call->in[POS_BIAS])
        x += ((const double *)call->in[POS_BIAS]->data)[ref_offset(q, j)];
    return ref_in_window(q, j) ? x + ref_reciprocal(q, j) : x;
}

static double ref_keep(const struct query *q, int64_t j)
{
    double dropout = ((const struct attr *)q->call->attr)->dropout;
    if (dropout == 0)
        return 1;
    uint32_t bits = mask_bits(mask_key(q->call, q->seq), q->h, q->i, j);
    return bits < mask_threshold(dropout) ? 0 : 1 / (1 - dropout);
}

static void ref_row(const struct query *q)
{
    double top = -INFINITY, sum = 0;
    double *o = (double *)q->call->out[O]->data + (q->row * q->n.heads + q->h) * q->n.v;
    for (int64_t j = 0; j <= q->i; j++)
        top = fmax(top, ref_logit(q, j));
    for (int64_t j = 0; j <= q->i; j++)
        sum += exp(ref_logit(q, j) - top);
    for (int64_t d = 0; d < q->n.v; d++)
        o[d] = 0;
    for (int64_t j = 0; j <= q->i; j++) {
        const double *v = (const double *)q->call->in[V]->data + ref_key(q, j, q->n.v);
        double weight = ref_keep(q, j) * exp(ref_logit(q, j) - top) / sum;
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

/* t[at ..] += factor x, where the gradient is wanted. */
static void ref_add(const struct weft_tensor *t, int64_t at, double factor, const double *x, int64_t n)
{
    for (int64_t d = 0; t && d < n; d++)
        ((double *)t->data)[at + d] += factor * x[d];
}

/* The reciprocal term's part of the gradients, from ds of one logit in its window. */
static void bwd_ref_reciprocal(const struct query *q, int64_t j, double ds)
{
    const struct weft_call *call = q->call;
    int64_t q_at = ref_stored(q, j, q->n.k), k_at = ref_key(q, q->i, q->n.k);
    const double *stored = (const double *)call->in[Q_STORE]->data + q_at, one = 1;
    const double *k = (const double *)call->in[K]->data + k_at;
    double d = ((const struct attr *)call->attr)->ra_alpha * ds, scale = ref_scale(q);
    ref_add(call->gin[Q_STORE], q_at, scale * d, k, q->n.k);
    ref_add(call->gin[K], k_at, scale * d, stored, q->n.k);
    ref_add(call->gin[SCALE], q->h, d * dot(stored, k, q->n.k), &one, 1);
    ref_add(call->gin[Q_BIAS], ref_stored(q, j, 1), d, &one, 1);
    ref_add(call->gin[KEY_BIAS], ref_stored(q, q->i, 1), d, &one, 1);
}

static void bwd_ref_row(const struct query *q)
{
    const struct weft_call *call = q->call;
    const struct sizes *n = &q->n;
    int64_t at = q->row * n->heads + q->h, v_wide = call->gout[O] ? n->v : 0;
    const double *go = v_wide ? (const double *)call->gout[O]->data + at * n->v : NULL, one = 1;
    double delta = dot(go, (const double *)call->out[O]->data + at * n->v, v_wide), scale = ref_scale(q);
    double lse = ((const double *)call->out[LSE]->data)[at];
    if (call->gout[LSE])
        delta -= ((const double *)call->gout[LSE]->data)[at];
    for (int64_t j = 0; j <= q->i; j++) {
        int64_t k_at = ref_key(q, j, n->k), v_at = ref_key(q, j, n->v);
        const double *k = (const double *)call->in[K]->data + k_at, *v = (const double *)call->in[V]->data + v_at;
        double p = exp(ref_logit(q, j) - lse), keep = ref_keep(q, j);
        double ds = p * (keep * dot(go, v, v_wide) - delta);
        ref_add(call->gin[Q], at * n->k, scale * ds, k, n->k);
        ref_add(call->gin[K], k_at, scale * ds, ref_q(q), n->k);
        ref_add(call->gin[V], v_at, keep * p, go, v_wide);
        ref_add(call->gin[SCALE], q->h, ds * dot(ref_q(q), k, n->k), &one, 1);
        ref_add(call->gin[KEY_BIAS], key_row(call, q->seq, j) * n->heads + q->h, ds, &one, 1);
        ref_add(call->gin[POS_BIAS], ref_offset(q, j), ds, &one, 1);
        if (ref_in_window(q, j))
            bwd_ref_reciprocal(q, j, ds);
    }
}

static void bwd_ref(const struct weft_call *call)
{
    static const int written[] = {Q, K, V, KEY_BIAS, Q_STORE, Q_BIAS};
    struct sizes n = sizes_of(call);
    for (int w = 0; w < 6; w++) {
        struct weft_tensor *t = call->gin[written[w]];
        if (t)
            memset(t->data, 0, (size_t)weft_tensor_count(t) * sizeof(double));
    }
    for (int64_t row = 0; row < n.rows; row++)
        for (int64_t h = 0; h < n.heads; h++) {
            struct query q = query_of(call, row, h);
            bwd_ref_row(&q);
        }
}

#endif
