/* SPDX-License-Identifier: MIT
 *
 * route_backward_inl.h - the backward pass of route.c (see its opening comment for the formulas), for training: the key
 * store is the call's own rows, and the rows of each sequence are contiguous and start at position 0.
 *
 * There are two passes, so that every sum has one owner and memory is linear in the number of positions: by tiles of
 * rows for dq and dlse, then by tiles of keys for dk, du and dkey_bias. Each recomputes the part of R that it needs;
 * with topk, the first pass saves the few weights and dS of every row, sorted by key tile for the second pass. dscale
 * and dpos_bias are summed over rows: the tiles are divided among a fixed number of stripes, each with its own part of
 * the sums, and the parts are added in order. For the reciprocal term, the first pass computes the gradients of own
 * keys and their biases, which the second pass adds to dk and dkey_bias; the second pass also computes the gradients of
 * stored queries and their biases.
 */
#ifndef WEFT_ROUTE_BWD_H
#define WEFT_ROUTE_BWD_H

#include "ops/attention/route_backward_pair_inl.h"

static enum weft_status bwd_plan(const struct weft_call *max, struct weft_booking *booking)
{
    struct space scratch = {0}, local = {0};
    TRY(refuse_decoding(max));
    struct backward_job b = lay_job(max, &scratch);
    (void)lay_backward(&b.job.n, &local);
    return book(booking, &scratch, &local);
}

/* On entry, b->dq holds dS k. Adds the sum of its products with q to dscale, and multiplies it by scale to get dq. */
static void finish_rows(const struct job *job, const struct backward *b, const struct tile *t, double *scale_part)
{
    const struct sizes *n = &job->n;
    struct weft_tensor *const *gin = job->call->gin;
    for (int64_t h = 0; h < n->heads; h++) {
        float *dq = b->dq + h * ROW_TILE * n->k_padded;
        vf scale = vset(scale_of(job, h));
        for (int64_t r = 0; r < t->rows; r++) {
            scale_part[h] += row_dot((struct head){dq, WEFT_F32, r * n->k_padded, n->k_padded, n->k},
                                     head_of(job->call->in[Q], t->row + r, h, n->heads));
            if (gin[LSE])
                ((float *)gin[LSE]->data)[(t->row + r) * n->heads + h] = -b->dlse[h * ROW_TILE + r];
        }
        for (int64_t x = 0; x < t->rows * n->k_padded; x += VLANES)
            vstore_f32(dq + x, VLANES, scale * vload_f32(dq + x, VLANES));
        if (gin[Q])
            narrow(head_of(gin[Q], t->row, h, n->heads), dq, n->k_padded, t->rows);
    }
}

/* Zeroes the sums of the reciprocal term for a tile of rows or of keys. */
static void start_mirrored(const struct job *job, const struct backward *b)
{
    const struct sizes *n = &job->n;
    if (!n->window)
        return;
    memset(b->mirrored, 0, (size_t)(n->heads * WEFT_KEY_TILE * n->k_padded) * sizeof(float));
    memset(b->dq_bias, 0, (size_t)(n->heads * WEFT_KEY_TILE) * sizeof(float));
}

static void start_own(const struct backward_job *bj, const struct tile *t)
{
    const struct sizes *n = &bj->job.n;
    int64_t wide = n->kv_heads * n->k_padded;
    if (!n->window)
        return;
    memset(bj->own_dk + t->row * wide, 0, (size_t)(t->rows * wide) * sizeof(float));
    memset(bj->own_bias + t->row * n->heads, 0, (size_t)(t->rows * n->heads) * sizeof(float));
}

/* On entry, the sums of own keys hold e q_store. Adds the sum of their products with the keys to dscale, and scale
 * times these sums to dk. */
static void finish_own(const struct backward_job *bj, const struct backward *b, const struct tile *t,
                       double *scale_part)
{
    const struct job *job = &bj->job;
    const struct sizes *n = &job->n;
    for (int64_t h = 0; n->window && h < n->heads; h++) {
        struct head own = own_head(job, t->seq, t->row, t->i, h);
        struct head got = {b->mirrored, WEFT_F32, h * ROW_TILE * n->k_padded, n->k_padded, n->k};
        for (int64_t r = 0; r < t->rows; r++, own.at += own.stride, got.at += got.stride) {
            scale_part[h] += row_dot(got, own);
            add_scaled(bj->own_dk + ((t->row + r) * n->kv_heads + h / n->group) * n->k_padded, n->k_padded,
                       scale_of(job, h), got);
        }
    }
}

/* Stores the gradients of a tile's stored queries, `keys` of them starting at row `to` of their store, and adds the
 * gradients that the tile's keys, starting at row `row` of the call, got as own keys. */
static void finish_mirrored(const struct backward_job *bj, const struct backward *b, int64_t row, int64_t keys,
                            int64_t to)
{
    const struct job *job = &bj->job;
    const struct sizes *n = &job->n;
    struct weft_tensor *const *gin = job->call->gin;
    for (int64_t h = 0; n->window && h < n->heads; h++) {
        float *got = b->mirrored + h * WEFT_KEY_TILE * n->k_padded;
        vf scale = vset(scale_of(job, h));
        for (int64_t x = 0; x < keys * n->k_padded; x += VLANES)
            vstore_f32(got + x, VLANES, scale * vload_f32(got + x, VLANES));
        if (gin[Q_STORE])
            narrow(head_of(gin[Q_STORE], to, h, n->heads), got, n->k_padded, keys);
        for (int64_t c = 0; c < keys; c++) {
            if (gin[Q_BIAS])
                ((float *)gin[Q_BIAS]->data)[(to + c) * n->heads + h] = b->dq_bias[h * WEFT_KEY_TILE + c];
            b->dbias[h * WEFT_KEY_TILE + c] += bj->own_bias[(row + c) * n->heads + h];
        }
    }
    for (int64_t x = 0; n->window && x < keys * n->kv_heads; x++) {
        const float *own = bj->own_dk + (row * n->kv_heads + x) * n->k_padded;
        float *dk = b->dk + (x % n->kv_heads * WEFT_KEY_TILE + x / n->kv_heads) * n->k_padded;
        for (int64_t d = 0; d < n->k_padded; d += VLANES)
            vstore_f32(dk + d, VLANES, vload_f32(dk + d, VLANES) + vload_f32(own + d, VLANES));
    }
}

static void rows_unit(void *context, int64_t stripe, int thread)
{
    const struct backward_job *bj = context;
    const struct job *job = &bj->job;
    const struct sizes *n = &job->n;
    struct space local = {.base = job->call->local + (size_t)thread * job->call->local_stride};
    struct backward b = lay_backward(n, &local);
    double *scale_part = job->scale_parts + stripe * n->heads;
    float *pos_part = job->call->gin[POS_BIAS] ? job->pos_parts + stripe * n->heads * n->offsets : NULL;
    memset(scale_part, 0, (size_t)n->heads * sizeof(double));
    if (pos_part)
        memset(pos_part, 0, (size_t)(n->heads * n->offsets) * sizeof(float));
    for (int64_t x = stripe; x < job->span_count; x += STRIPES) {
        struct tile t = {0};
        set_rows(job, &t, job->spans[x]);
        memset(b.dq, 0, (size_t)(n->heads * ROW_TILE * n->k_padded) * sizeof(float));
        memset(b.dlse, 0, (size_t)(n->heads * ROW_TILE) * sizeof(float));
        start_mirrored(job, &b);
        start_own(bj, &t);
        (n->topk ? rows_by_pair : rows_by_tile)(bj, &b, &t, pos_part);
        finish_rows(job, &b, &t, scale_part);
        finish_own(bj, &b, &t, scale_part);
    }
}

static void keys_unit(void *context, int64_t which, int thread)
{
    const struct backward_job *bj = context;
    const struct job *job = &bj->job;
    const struct sizes *n = &job->n;
    struct weft_tensor *const *gin = job->call->gin;
    struct space local = {.base = job->call->local + (size_t)thread * job->call->local_stride};
    struct backward b = lay_backward(n, &local);
    int64_t first = job->spans[which].row, keys = job->spans[which].rows;
    int64_t row = key_row(job->call, ints(job->call, SEQ)[first], ints(job->call, POS)[first]);
    memset(b.dk, 0, (size_t)(n->kv_heads * WEFT_KEY_TILE * n->k_padded) * sizeof(float));
    memset(b.du, 0, (size_t)(WEFT_KEY_TILE * n->u_padded) * sizeof(float));
    memset(b.dbias, 0, (size_t)(n->heads * WEFT_KEY_TILE) * sizeof(float));
    start_mirrored(job, &b);
    (n->topk ? keys_by_pair : keys_by_tile)(bj, &b, which);
    finish_mirrored(bj, &b, first, keys, row);
    for (int64_t kv = 0; gin[K] && kv < n->kv_heads; kv++)
        narrow(head_of(gin[K], row, kv, n->kv_heads), b.dk + kv * WEFT_KEY_TILE * n->k_padded, n->k_padded, keys);
    if (gin[U])
        narrow(head_of(gin[U], row, 0, 1), b.du, n->u_padded, keys);
    for (int64_t x = 0; gin[KEY_BIAS] && x < keys * n->heads; x++)
        ((float *)gin[KEY_BIAS]->data)[row * n->heads + x] = b.dbias[x % n->heads * WEFT_KEY_TILE + x / n->heads];
}

static void bwd(const struct weft_call *call)
{
    struct space scratch = {.base = call->scratch};
    struct backward_job bj = lay_job(call, &scratch);
    bj.job.span_count = cut_spans(call->in[SEQ], call->in[POS], ROW_TILE, bj.job.spans);
    if (bj.job.n.topk)
        sort_pairs(&bj);
    weft_parallel(STRIPES, rows_unit, &bj);
    weft_parallel(bj.job.span_count, keys_unit, &bj);
    weft_parallel(bj.job.n.heads, sum_parts, &bj.job);
}

#endif
