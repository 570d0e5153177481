/* SPDX-License-Identifier: MIT
 *
 * route_spec.h - what route.c computes, in double and plain loops: inputs, sizes, addresses, and the formulas of its
 * opening comment, forward and backward.
 */
#ifndef WEFT_ROUTE_SPEC_H
#define WEFT_ROUTE_SPEC_H

#include "base/vmath.h"
#include "ops/ops.h"

enum { Q, K, SCALE, KEY_BIAS, POS_BIAS, SEQ, POS, TILES, LSE, U, INPUTS };
enum { Y, Z, CUT }; /* CUT is what chose the positions: themselves for top-k, the threshold for rms */

struct attr {
    int64_t heads, kv_heads;
    enum weft_route_mode mode;
    int64_t topk;
    double rms_factor;
    bool head_max, renormalise;
    bool reciprocal; /* the attention has a term that routes do not carry */
};

struct sizes {
    int64_t rows, heads, kv_heads, group; /* group: query heads per key head */
    int64_t k, u;                         /* widths of one head's key, and of u */
    int64_t k_padded, u_padded;           /* rounded up to whole vectors */
    int64_t k_deep;                       /* rounded up to whole steps of AMX; in bf16 no more bytes than k_padded */
    int64_t offsets;                      /* of pos_bias, 0 without */
    int64_t topk;                         /* 0 in the other modes */
};

static struct sizes sizes_of(const struct weft_call *call)
{
    const struct attr *a = call->attr;
    const struct weft_tensor *pos_bias = call->in[POS_BIAS];
    int64_t k = weft_tensor_width(call->in[K]) / a->kv_heads, u = weft_tensor_width(call->in[U]);
    return (struct sizes){
        .rows = call->in[Q]->dim[0],
        .heads = a->heads,
        .kv_heads = a->kv_heads,
        .group = a->heads / a->kv_heads,
        .k = k,
        .u = u,
        .k_padded = weft_round_up(k, VLANES),
        .k_deep = weft_round_up(k, 2 * VLANES),
        .u_padded = weft_round_up(u, VLANES),
        .offsets = pos_bias ? weft_tensor_width(pos_bias) : 0,
        .topk = a->mode == WEFT_ROUTE_TOPK ? a->topk : 0,
    };
}

static const int32_t *ints(const struct weft_call *call, int i) { return call->in[i]->data; }

/* Row of the key store where position j of a sequence stands. */
static int64_t key_row(const struct weft_call *call, int64_t seq, int64_t j)
{
    return ints(call, TILES)[seq * call->in[TILES]->dim[1] + j / WEFT_KEY_TILE] + j % WEFT_KEY_TILE;
}

/* ---- the formulas, for one query row at a time */

struct query {
    const struct weft_call *call;
    const struct attr *attr;
    struct sizes n;
    int64_t row, seq, i;
};

static struct query query_of(const struct weft_call *call, int64_t row)
{
    return (struct query){call, call->attr, sizes_of(call), row, ints(call, SEQ)[row], ints(call, POS)[row]};
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; d < n; d++)
        sum += a[d] * b[d];
    return sum;
}

static const double *ref_q(const struct query *q, int64_t h)
{
    return (const double *)q->call->in[Q]->data + (q->row * q->n.heads + h) * q->n.k;
}

static int64_t ref_key(const struct query *q, int64_t h, int64_t s)
{
    return (key_row(q->call, q->seq, s) * q->n.kv_heads + h / q->n.group) * q->n.k;
}

static const double *ref_k(const struct query *q, int64_t h, int64_t s)
{
    return (const double *)q->call->in[K]->data + ref_key(q, h, s);
}

static const double *ref_u(const struct query *q, int64_t s)
{
    return (const double *)q->call->in[U]->data + key_row(q->call, q->seq, s) * q->n.u;
}

static double ref_scale(const struct query *q, int64_t h)
{
    const struct weft_tensor *scale = q->call->in[SCALE];
    return scale ? ((const double *)scale->data)[h] : 1 / sqrt((double)q->n.k);
}

static int64_t ref_offset(const struct query *q, int64_t h, int64_t s)
{
    return h * q->n.offsets + weft_min(q->i - s, q->n.offsets - 1);
}

/* exp(logit - lse) */
static double ref_p(const struct query *q, int64_t h, int64_t s)
{
    const struct weft_call *call = q->call;
    double x = ref_scale(q, h) * dot(ref_q(q, h), ref_k(q, h, s), q->n.k);
    if (call->in[KEY_BIAS])
        x += ((const double *)call->in[KEY_BIAS]->data)[key_row(call, q->seq, s) * q->n.heads + h];
    if (call->in[POS_BIAS])
        x += ((const double *)call->in[POS_BIAS]->data)[ref_offset(q, h, s)];
    return exp(x - ((const double *)call->in[LSE]->data)[q->row * q->n.heads + h]);
}

/* R and, where it is a maximum, the first head that has it. */
static double ref_route(const struct query *q, int64_t s, int64_t *winner)
{
    double sum = 0, top = -1;
    for (int64_t h = 0; h < q->n.heads; h++) {
        double p = ref_p(q, h, s);
        sum += p;
        *winner = p > top ? h : *winner;
        top = fmax(p, top);
    }
    return q->attr->head_max ? top : sum / (double)q->n.heads;
}

static double ref_r(const struct query *q, int64_t s)
{
    int64_t winner;
    return ref_route(q, s, &winner);
}

/* The position that follows `last` when they are ordered by falling R and then by position; -1 begins, and ends. */
static int64_t ref_next(const struct query *q, int64_t last)
{
    int64_t best = -1;
    double bound = last < 0 ? INFINITY : ref_r(q, last), top = -1;
    for (int64_t s = 0; s <= q->i; s++) {
        double r = ref_r(q, s);
        if ((r < bound || (r == bound && s > last)) && r > top) {
            best = s;
            top = r;
        }
    }
    return best;
}

/* Writes what chooses S_t. */
static void ref_choose(const struct query *q)
{
    int64_t s = -1, k = q->n.topk;
    for (int64_t x = 0; x < k; x++) {
        s = x <= q->i ? ref_next(q, s) : -1;
        ((int32_t *)q->call->out[CUT]->data)[q->row * k + x] = (int32_t)s;
    }
    double squares = 0;
    if (q->attr->mode != WEFT_ROUTE_RMS)
        return;
    for (s = 0; s <= q->i; s++)
        squares += ref_r(q, s) * ref_r(q, s);
    ((double *)q->call->out[CUT]->data)[q->row] = q->attr->rms_factor * sqrt(squares / (double)(q->i + 1));
}

/* Whether s is in S_t. */
static bool ref_chosen(const struct query *q, int64_t s)
{
    const struct weft_tensor *cut = q->call->out[CUT];
    bool found = q->attr->mode == WEFT_ROUTE_NONE;
    if (q->attr->mode == WEFT_ROUTE_RMS)
        found = ref_r(q, s) >= ((const double *)cut->data)[q->row];
    for (int64_t x = 0; x < q->n.topk; x++)
        found |= ((const int32_t *)cut->data)[q->row * q->n.topk + x] == s;
    return found;
}

static void ref(const struct weft_call *call)
{
    struct sizes n = sizes_of(call);
    for (int64_t row = 0; row < n.rows; row++) {
        struct query q = query_of(call, row);
        double *y = (double *)call->out[Y]->data + row * n.u, z = 0;
        ref_choose(&q);
        for (int64_t d = 0; d < n.u; d++)
            y[d] = 0;
        for (int64_t s = 0; s <= q.i; s++) {
            double r = ref_chosen(&q, s) ? ref_r(&q, s) : 0;
            z += r;
            for (int64_t d = 0; d < n.u; d++)
                y[d] += r * ref_u(&q, s)[d];
        }
        for (int64_t d = 0; q.attr->renormalise && d < n.u; d++)
            y[d] /= z;
        ((double *)call->out[Z]->data)[row] = z;
    }
}

/* t[at ..] += factor x, where the gradient is wanted. */
static void ref_add(const struct weft_tensor *t, int64_t at, double factor, const double *x, int64_t n)
{
    for (int64_t d = 0; t && d < n; d++)
        ((double *)t->data)[at + d] += factor * x[d];
}

/* What dR of position s means for the logits of one head, and for what they are made of. */
static void bwd_ref_head(const struct query *q, int64_t h, int64_t s, double ds)
{
    const struct weft_call *call = q->call;
    const struct sizes *n = &q->n;
    int64_t at = q->row * n->heads + h;
    double one = 1, scale = ref_scale(q, h);
    ref_add(call->gin[Q], at * n->k, scale * ds, ref_k(q, h, s), n->k);
    ref_add(call->gin[K], ref_key(q, h, s), scale * ds, ref_q(q, h), n->k);
    ref_add(call->gin[SCALE], h, ds * dot(ref_q(q, h), ref_k(q, h, s), n->k), &one, 1);
    ref_add(call->gin[KEY_BIAS], key_row(call, q->seq, s) * n->heads + h, ds, &one, 1);
    ref_add(call->gin[POS_BIAS], ref_offset(q, h, s), ds, &one, 1);
    ref_add(call->gin[LSE], at, -ds, &one, 1);
}

/* <dy, y>, where it is wanted. What y lost when it was stored is the same for all s, and what is the same for all s the
 * softmax cancels, as long as S_t holds most of R; of the few positions of top-k it is summed anew. */
static double ref_delta(const struct query *q, const double *g, double z)
{
    const double *y = (const double *)q->call->out[Y]->data + q->row * q->n.u;
    double sum = 0;
    for (int64_t s = 0; q->n.topk && s <= q->i; s++)
        sum += ref_chosen(q, s) ? ref_r(q, s) / z * dot(g, ref_u(q, s), q->n.u) : 0;
    return !q->attr->renormalise ? 0 : q->n.topk ? sum : dot(g, y, q->n.u);
}

static void bwd_ref_row(const struct query *q)
{
    const struct weft_call *call = q->call;
    const struct attr *a = q->attr;
    const struct sizes *n = &q->n;
    const double *g = (const double *)call->gout[Y]->data + q->row * n->u;
    double z = a->renormalise ? ((const double *)call->out[Z]->data)[q->row] : 1, delta = ref_delta(q, g, z);
    for (int64_t s = 0; s <= q->i; s++) {
        if (!ref_chosen(q, s))
            continue;
        int64_t winner = -1;
        double w = ref_route(q, s, &winner) / z, dr = (dot(g, ref_u(q, s), n->u) - delta) / z;
        ref_add(call->gin[U], key_row(call, q->seq, s) * n->u, w, g, n->u);
        for (int64_t h = 0; h < n->heads; h++) {
            double share = a->head_max ? (h == winner ? 1 : 0) : 1 / (double)n->heads;
            bwd_ref_head(q, h, s, ref_p(q, h, s) * share * dr);
        }
    }
}

static void bwd_ref(const struct weft_call *call)
{
    static const int written[] = {Q, K, KEY_BIAS, LSE, U};
    for (size_t w = 0; w < sizeof written / sizeof *written; w++) {
        struct weft_tensor *t = call->gin[written[w]];
        if (t)
            memset(t->data, 0, (size_t)weft_tensor_count(t) * sizeof(double));
    }
    for (int64_t row = 0; row < sizes_of(call).rows; row++) {
        struct query q = query_of(call, row);
        bwd_ref_row(&q);
    }
}

#endif
