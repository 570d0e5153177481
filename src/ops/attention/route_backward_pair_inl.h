/* SPDX-License-Identifier: MIT
 *
 * route_backward_pair_inl.h - the backward pass of route.c for topk: a few positions per row.
 */
#ifndef WEFT_ROUTE_BWD_PAIR_H
#define WEFT_ROUTE_BWD_PAIR_H

#include "ops/attention/route_backward_tile_inl.h"

/* Returns head h of a row, given head 0. This is used because head_of divides, which takes longer than the product of
 * two heads. */
VINLINE struct head head_at(struct head first, int64_t h)
{
    first.at += h * first.width;
    return first;
}

/* Returns alpha if the positions i and s have a reciprocal term, else 0. */
static float pair_alpha(const struct job *job, int64_t i, int64_t s)
{
    return s < i && i - s <= job->n.window ? (float)job->attr->logits.ra_alpha : 0;
}

/* Returns the reciprocal term, without alpha, of the logit of head h, which reads key head kv; i_row and s_row are rows
 * of the key store. */
static float pair_reciprocal(const struct job *job, int64_t i_row, int64_t s_row, int64_t h, int64_t kv)
{
    const struct weft_call *call = job->call;
    const struct sizes *n = &job->n;
    float bias = 0, product = row_dot(head_of(call->in[Q_STORE], s_row, h, n->heads),
                                      head_of(call->in[K], i_row, kv, n->kv_heads));
    if (call->in[Q_BIAS])
        bias += ((const float *)call->in[Q_BIAS]->data)[s_row * n->heads + h];
    if (call->in[KEY_BIAS])
        bias += ((const float *)call->in[KEY_BIAS]->data)[i_row * n->heads + h];
    return scale_of(job, h) * product + bias;
}

/* Sets p[h] to logit - lse for the row at position i and the key at position s. */
static void set_pair(const struct job *job, int64_t row, int64_t seq, int64_t i, int64_t s, float *p)
{
    const struct weft_call *call = job->call;
    const struct sizes *n = &job->n;
    const float *lse = (const float *)call->in[LSE]->data + row * n->heads;
    int64_t at = key_row(call, seq, s), offset = weft_min(i - s, n->offsets - 1);
    float alpha = pair_alpha(job, i, s);
    struct head q = head_of(call->in[Q], row, 0, n->heads), k = head_of(call->in[K], at, 0, n->kv_heads);
    for (int64_t h = 0, kv = 0; h < n->heads; h++, kv += h == (kv + 1) * n->group) {
        float bias = 0, product = row_dot(head_at(q, h), head_at(k, kv));
        if (call->in[KEY_BIAS])
            bias += ((const float *)call->in[KEY_BIAS]->data)[at * n->heads + h];
        if (call->in[POS_BIAS])
            bias += ((const float *)call->in[POS_BIAS]->data)[h * n->offsets + offset];
        if (alpha != 0)
            bias += alpha * pair_reciprocal(job, key_row(call, seq, i), at, h, kv);
        p[h] = scale_of(job, h) * product + bias - lse[h];
    }
}

/* Returns R of one position, given the probabilities of all heads. */
static float pair_route(const struct job *job, const float *p)
{
    float sum = 0, top = 0;
    for (int64_t h = 0; h < job->n.heads; h++) {
        sum += p[h];
        top = p[h] > top ? p[h] : top;
    }
    return job->attr->head_max ? top : sum * (1 / (float)job->n.heads);
}

/* Replaces p[h] by dS for every head h. */
static void spread_pair(const struct job *job, float *p, float dr)
{
    float top = pair_route(job, p), share = dr * (1 / (float)job->n.heads);
    for (int64_t h = 0; h < job->n.heads; h++) {
        if (job->attr->head_max) {
            share = p[h] == top ? dr : 0;
            dr = p[h] == top ? 0 : dr;
        }
        p[h] *= share;
    }
}

/* Computes the weights and dS of the positions that row r selects; returns the number of positions. */
static int64_t set_pairs(const struct backward_job *bj, const struct backward *b, const struct tile *t, int64_t r)
{
    const struct job *job = &bj->job;
    const struct sizes *n = &job->n;
    int64_t first = (t->row + r) * n->topk, count = 0;
    const int32_t *position = (const int32_t *)job->call->out[CUT]->data + first;
    float *w = bj->weights + first, *p = bj->ds + first * n->heads, z = 0, delta = 0;
    for (; count < n->topk && position[count] >= 0; count++)
        set_pair(job, t->row + r, t->seq, t->i + r, position[count], p + count * n->heads);
    for (int64_t x = 0; x < count * n->heads; x += VLANES)
        vstore_f32(p + x, count * n->heads - x, vexp(vload_f32(p + x, count * n->heads - x)));
    for (int64_t x = 0; x < count; x++) {
        w[x] = pair_route(job, p + x * n->heads);
        z += w[x];
        b->e_pair[x] = row_dot(head_of(job->call->gout[Y], t->row + r, 0, 1),
                               head_of(job->call->in[U], key_row(job->call, t->seq, position[x]), 0, 1));
    }
    for (int64_t x = 0; job->attr->renormalise && x < count; x++) {
        w[x] /= z;
        delta += w[x] * b->e_pair[x];
    }
    for (int64_t x = 0; x < count; x++)
        spread_pair(job, p + x * n->heads, (b->e_pair[x] - delta) / (job->attr->renormalise ? z : 1));
    return count;
}

static void rows_by_pair(const struct backward_job *bj, const struct backward *b, struct tile *t, float *pos_part)
{
    const struct job *job = &bj->job;
    const struct sizes *n = &job->n;
    for (int64_t r = 0; r < t->rows; r++) {
        int64_t first = (t->row + r) * n->topk, count = set_pairs(bj, b, t, r);
        for (int64_t x = 0; x < count; x++) {
            int64_t s = ((const int32_t *)job->call->out[CUT]->data)[first + x], at = key_row(job->call, t->seq, s);
            const float *ds = bj->ds + (first + x) * n->heads, alpha = pair_alpha(job, t->i + r, s);
            struct head k = head_of(job->call->in[K], at, 0, n->kv_heads);
            for (int64_t h = 0, kv = 0; h < n->heads; h++, kv += h == (kv + 1) * n->group) {
                add_scaled(b->dq + (h * ROW_TILE + r) * n->k_padded, n->k_padded, ds[h], head_at(k, kv));
                b->dlse[h * ROW_TILE + r] += ds[h];
                if (pos_part)
                    pos_part[h * n->offsets + weft_min(t->i + r - s, n->offsets - 1)] += ds[h];
                if (alpha != 0) {
                    bj->own_bias[(t->row + r) * n->heads + h] += alpha * ds[h];
                    add_scaled(b->mirrored + (h * ROW_TILE + r) * n->k_padded, n->k_padded, alpha * ds[h],
                               head_of(job->call->in[Q_STORE], at, h, n->heads));
                }
            }
        }
    }
}

/* Returns the span whose key tile contains position s, given the span of a row of the same sequence. */
static int64_t pair_tile(const struct job *job, int64_t span, int64_t s)
{
    return span - ints(job->call, POS)[job->spans[span].row] / WEFT_KEY_TILE + s / WEFT_KEY_TILE;
}

static void sort_pairs(const struct backward_job *bj)
{
    const struct job *job = &bj->job;
    int64_t k = job->n.topk, *ends = bj->ends;
    const int32_t *position = job->call->out[CUT]->data;
    memset(ends, 0, (size_t)job->span_count * sizeof *ends);
    for (int round = 0; round < 2; round++) {
        for (int64_t x = 0; x < job->span_count; x++)
            for (int64_t pair = job->spans[x].row * k; pair < (job->spans[x].row + job->spans[x].rows) * k; pair++) {
                if (position[pair] < 0)
                    continue;
                int64_t *end = &ends[pair_tile(job, x, position[pair])];
                if (round == 1)
                    bj->pairs[*end] = pair;
                ++*end;
            }
        int64_t before = 0; /* counts are replaced by starts, which the second round advances to the ends */
        for (int64_t x = 0; round == 0 && x < job->span_count; x++) {
            int64_t count = ends[x];
            ends[x] = before;
            before += count;
        }
    }
}

static void keys_by_pair(const struct backward_job *bj, const struct backward *b, int64_t which)
{
    const struct job *job = &bj->job;
    const struct sizes *n = &job->n;
    const struct weft_call *call = job->call;
    for (int64_t x = which ? bj->ends[which - 1] : 0; x < bj->ends[which]; x++) {
        int64_t pair = bj->pairs[x], row = pair / n->topk, i = ints(call, POS)[row];
        int64_t s = ((const int32_t *)call->out[CUT]->data)[pair], c = s % WEFT_KEY_TILE;
        float alpha = pair_alpha(job, i, s);
        struct head q = head_of(call->in[Q], row, 0, n->heads);
        add_scaled(b->du + c * n->u_padded, n->u_padded, bj->weights[pair], head_of(call->gout[Y], row, 0, 1));
        for (int64_t h = 0, kv = 0; h < n->heads; h++, kv += h == (kv + 1) * n->group) {
            float ds = bj->ds[pair * n->heads + h];
            b->dbias[h * WEFT_KEY_TILE + c] += ds;
            add_scaled(b->dk + (kv * WEFT_KEY_TILE + c) * n->k_padded, n->k_padded, scale_of(job, h) * ds,
                       head_at(q, h));
            if (alpha == 0)
                continue;
            b->dq_bias[h * WEFT_KEY_TILE + c] += alpha * ds;
            add_scaled(b->mirrored + (h * WEFT_KEY_TILE + c) * n->k_padded, n->k_padded, alpha * ds,
                       head_of(call->in[K], key_row(call, ints(call, SEQ)[row], i), kv, n->kv_heads));
        }
    }
}

#endif
