/* SPDX-License-Identifier: MIT
 *
 * route_reference_inl.h - reference of route.c, in plain loops and double precision: inputs, sizes, and the formulas of
 * its opening comment, forward and backward.
 */
#ifndef WEFT_ROUTE_SPEC_H
#define WEFT_ROUTE_SPEC_H

#include "ops/attention/logits_reference_inl.h"

enum { LSE = LOGIT_INPUTS, U, INPUTS };
enum { Y, Z, CUT }; /* CUT is the selection: positions for topk, the threshold for rms */

struct attr {
    struct geometry logits;
    enum weft_route_mode mode;
    int64_t topk;
    double rms_factor;
    bool head_max, renormalise;
};

static struct sizes sizes_of(const struct weft_call *call)
{
    const struct attr *a = call->attr;
    struct sizes n = logit_sizes(call);
    n.u = weft_tensor_width(call->in[U]);
    n.u_padded = weft_round_up(n.u, VLANES);
    if (call->in[K]->dtype == WEFT_BF16) { /* these are at most as large as k_padded and own_padded in f32 */
        n.k_tiles = pad_tiles(n.k);
        n.own_tiles = pad_tiles(n.own);
    }
    n.topk = a->mode == WEFT_ROUTE_TOPK ? a->topk : 0;
    return n;
}

/* ---- the formulas, for one query row at a time */

static struct query query_of(const struct weft_call *call, int64_t row)
{
    return (struct query){call, call->attr, sizes_of(call), row, 0, ints(call, SEQ)[row], ints(call, POS)[row]};
}

static const double *ref_u(const struct query *q, int64_t s)
{
    return (const double *)q->call->in[U]->data + key_row(q->call, q->seq, s) * q->n.u;
}

/* Returns exp(logit - lse). */
static double ref_p(struct query q, int64_t h, int64_t s)
{
    q.h = h;
    return exp(ref_logit(&q, s) - ((const double *)q.call->in[LSE]->data)[q.row * q.n.heads + h]);
}

/* Returns R, and the first head that has the maximum in *winner. */
static double ref_route(const struct query *q, int64_t s, int64_t *winner)
{
    double sum = 0, top = -1;
    for (int64_t h = 0; h < q->n.heads; h++) {
        double p = ref_p(*q, h, s);
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

/* Returns the position that follows `last` in order of descending R, then ascending position. If `last` is -1, returns
 * the first position; after the last position, returns -1. */
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

/* Writes the selection: the positions or the threshold. */
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

/* Returns whether s is in S_t. */
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

/* Adds the gradients that result from ds of one head's logit at position s, including the gradient of lse. */
static void bwd_ref_head(struct query q, int64_t h, int64_t s, double ds)
{
    double one = 1;
    q.h = h;
    bwd_ref_logit(&q, s, ds);
    ref_add(q.call->gin[LSE], q.row * q.n.heads + h, -ds, &one, 1);
}

/* Returns <dy, y>, or 0 if not renormalised. The rounding error of the stored y is the same for all s, and the softmax
 * cancels such an error as long as S_t contains most of R. For the few positions of topk, the sum is computed without
 * y. */
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
            bwd_ref_head(*q, h, s, ref_p(*q, h, s) * share * dr);
        }
    }
}

static void bwd_ref(const struct weft_call *call)
{
    bwd_ref_clear(call);
    ref_clear(call->gin[LSE]);
    ref_clear(call->gin[U]);
    for (int64_t row = 0; row < sizes_of(call).rows; row++) {
        struct query q = query_of(call, row);
        bwd_ref_row(&q);
    }
}

#endif
