/* SPDX-License-Identifier: MIT
 *
 * backward_inl.h - the backward pass of attention.c (see its opening comment for the formulas).
 *
 * A unit of work is a sequence and a key head, so that every sum has one owner. It visits key tiles in order and, for
 * each tile, the query heads and blocks of rows in order. dk and dv of a tile are complete after the tile; dq is kept
 * in f32 for the whole sequence (memory linear in its length) and stored at the end. Gradients that sequences share are
 * summed per sequence, and the sums of the sequences are then added in order.
 */
#ifndef WEFT_ATTENTION_BWD_H
#define WEFT_ATTENTION_BWD_H

#include "ops/attention/tile_inl.h"

struct backward {
    float *dq, *delta;       /* [group][longest]: running gradients of queries, one row each; <do, o> - dlse */
    float *k, *kt, *vt;      /* the key tile; its keys and values, transposed */
    float *dk, *dv, *dbias;  /* gradients of the tile */
    float *q, *go;           /* queries and output gradients of the block of rows */
    float *s, *ds;           /* tile of scores: first products, then weights; their gradients */
    struct reciprocal_back { /* for the reciprocal term */
        float *own, *queries, *queries_t; /* own keys of the rows; queries of the tile, and the same transposed */
        float *s, *ds;                    /* products, and their gradients */
        float *dqueries, *dq_bias;        /* gradients of the tile */
        float *dk, *dkey_bias;            /* running gradients of own keys, and of their biases [group][longest] */
    } ra;
};

static struct reciprocal_back lay_reciprocal_back(const struct sizes *n, struct space *s)
{
    if (!n->window)
        return (struct reciprocal_back){0};
    return (struct reciprocal_back){
        .own = take_floats(s, ROW_TILE, n->k_padded),
        .queries = take_floats(s, WEFT_KEY_TILE, n->k_padded),
        .queries_t = take_floats(s, n->k_padded, WEFT_KEY_TILE),
        .s = take_floats(s, ROW_TILE, WEFT_KEY_TILE),
        .ds = take_floats(s, ROW_TILE, WEFT_KEY_TILE),
        .dqueries = take_floats(s, WEFT_KEY_TILE, n->k_padded),
        .dq_bias = take_floats(s, 1, WEFT_KEY_TILE),
        .dk = take_floats(s, n->longest, n->k_padded),
        .dkey_bias = take_floats(s, n->group, n->longest),
    };
}

static struct backward lay_backward(const struct sizes *n, struct space *s)
{
    return (struct backward){
        .dq = take_floats(s, n->group * n->longest, n->k_padded),
        .delta = take_floats(s, n->group, n->longest),
        .k = take_floats(s, WEFT_KEY_TILE, n->k_padded),
        .kt = take_floats(s, n->k_padded, WEFT_KEY_TILE),
        .vt = take_floats(s, n->v_padded, WEFT_KEY_TILE),
        .dk = take_floats(s, WEFT_KEY_TILE, n->k_padded),
        .dv = take_floats(s, WEFT_KEY_TILE, n->v_padded),
        .dbias = take_floats(s, 1, WEFT_KEY_TILE),
        .q = take_floats(s, ROW_TILE, n->k_padded),
        .go = take_floats(s, ROW_TILE, n->v_padded),
        .s = take_floats(s, ROW_TILE, WEFT_KEY_TILE),
        .ds = take_floats(s, ROW_TILE, WEFT_KEY_TILE),
        .ra = lay_reciprocal_back(n, s),
    };
}

static struct job lay_job(const struct weft_call *call, struct space *scratch)
{
    struct sizes n = sizes_of(call);
    return (struct job){
        .call = call,
        .attr = call->attr,
        .n = n,
        .spans = take(scratch, n.rows, 1, sizeof(struct span)),
        .scale_parts = take(scratch, n.slots, n.heads, sizeof(double)),
        .pos_parts = take(scratch, n.slots * n.heads, n.offsets, sizeof(float)),
    };
}

/* Makes each sequence one span, with one part of the gradients that all rows share. */
static void cut_sequences(struct job *job)
{
    job->span_count = cut_spans(job->call->in[SEQ], job->call->in[POS], INT32_MAX, job->spans);
    job->part_count = job->span_count;
}

static enum weft_status vector_bwd_plan(const struct weft_call *max, struct weft_booking *booking)
{
    struct space scratch = {0}, local = {0};
    struct job job = lay_job(max, &scratch);
    (void)lay_backward(&job.n, &local);
    return book(booking, &scratch, &local);
}

/* Computes the gradient of the reciprocal term from dS of row r and keys c to c+15: writes ra.ds and adds to the
 * sums. */
VINLINE void reciprocal_backward(const struct backward *b, const struct tile *t, int64_t r, int c, vf d, vf *own_bias,
                                 vf *dscale)
{
    const struct reciprocal_back *ra = &b->ra;
    vf e = vpick(in_window(t, r, c), vset(t->ra_alpha) * d, vset(0));
    *own_bias = *own_bias + e;
    *dscale = vfma(e, vload_f32(ra->s + r * WEFT_KEY_TILE + c, VLANES), *dscale);
    vstore_f32(ra->dq_bias + c, VLANES, vload_f32(ra->dq_bias + c, VLANES) + e);
    vstore_f32(ra->ds + r * WEFT_KEY_TILE + c, VLANES, vset(t->scale) * e);
}

/* For row r, replaces the products <q,k> in s by weights, and the products <do,v> in ds by scale times dS. Also adds dS
 * to the sums over rows and along diagonals, and dS <q,k> to dscale. */
static void softmax_backward(const struct job *job, const struct backward *b, const struct tile *t, int64_t r,
                             float lse, float delta, float *diagonals, vf *dscale)
{
    float *s = b->s + r * WEFT_KEY_TILE, *ds = b->ds + r * WEFT_KEY_TILE;
    vf keep[KEY_VECS], own_bias = vset(0);
    keep_factors(job, t, r, keep);
    diagonals += t->rows - 1 - r;
    for (int c = 0; c < WEFT_KEY_TILE; c += VLANES) {
        vf x = vload_f32(s + c, VLANES), dp = keep[c / VLANES] * vload_f32(ds + c, VLANES);
        vf p = vexp(logits(t, r, c, x) - vset(lse));
        vf d = p * (dp - vset(delta));
        *dscale = vfma(d, x, *dscale);
        vstore_f32(b->dbias + c, VLANES, vload_f32(b->dbias + c, VLANES) + d);
        vstore_f32(diagonals + c, VLANES, vload_f32(diagonals + c, VLANES) + d);
        vstore_f32(s + c, VLANES, keep[c / VLANES] * p);
        vstore_f32(ds + c, VLANES, vset(t->scale) * d);
        if (t->reciprocal)
            reciprocal_backward(b, t, r, c, d, &own_bias, dscale);
    }
    if (t->reciprocal)
        b->ra.dkey_bias[t->h % job->n.group * job->n.longest + t->i + r] += vsum(own_bias);
}

/* Computes, before the logits, the reciprocal products of the rows' own keys and the tile's queries; finish_reciprocal
 * adds their gradients after the logits. */
static void set_reciprocal_back(const struct job *job, const struct backward *b, struct tile *t)
{
    t->reciprocal = NULL;
    if (!reaches_window(job, t))
        return;
    widen(b->ra.own, job->n.k_padded, own_head(job, t->seq, t->row, t->i, t->h), t->rows);
    scores(t, b->ra.own, job->n.own, job->n.own_padded, b->ra.queries_t, b->ra.s);
    set_reciprocal(job, t, b->ra.s);
}

static void finish_reciprocal(const struct job *job, const struct backward *b, const struct tile *t)
{
    const struct reciprocal_back *ra = &b->ra;
    int64_t padded = job->n.k_padded;
    if (!t->reciprocal)
        return;
    struct left ds = {ra->ds, WEFT_KEY_TILE, 1}, ds_t = {ra->ds, 1, WEFT_KEY_TILE};
    product(t->keys, padded, t->rows, ds_t, ra->own, padded, ra->dqueries, padded);
    product(t->rows, padded, t->keys, ds, ra->queries, padded, ra->dk + t->i * padded, padded);
}

/* Adds the contributions of one block of rows and one key tile to dq, dk, dv and the other sums. */
static void backward_tile(const struct job *job, const struct backward *b, struct tile *t, int64_t which, int64_t g)
{
    const struct weft_call *call = job->call;
    const struct sizes *n = &job->n;
    int64_t row = job->spans[which].row + t->i, at = g * n->longest + t->i;
    const float *lse = (const float *)call->out[LSE]->data + row * n->heads + t->h;
    float diagonals[ROW_TILE + WEFT_KEY_TILE] = {0};
    vf dscale = vset(0);
    set_pos_bias(job, t);
    set_reciprocal_back(job, b, t);
    count_tile(n, t->i, t->rows, t->j, 3 * n->k + 2 * n->v, 3 * n->own);
    widen(b->q, n->k_padded, head_of(call->in[Q], row, t->h, n->heads), t->rows);
    if (call->gout[O])
        widen(b->go, n->v_padded, head_of(call->gout[O], row, t->h, n->heads), t->rows);
    else
        memset(b->go, 0, (size_t)(t->rows * n->v_padded) * sizeof(float));
    scores(t, b->q, n->k, n->k_padded, b->kt, b->s);
    scores(t, b->go, n->v, n->v_padded, b->vt, b->ds);
    for (int64_t r = 0; r < t->rows; r++)
        softmax_backward(job, b, t, r, lse[r * n->heads], b->delta[at + r], diagonals, &dscale);
    struct left weights_t = {b->s, 1, WEFT_KEY_TILE}, ds = {b->ds, WEFT_KEY_TILE, 1}, ds_t = {b->ds, 1, WEFT_KEY_TILE};
    product(t->keys, n->v_padded, t->rows, weights_t, b->go, n->v_padded, b->dv, n->v_padded);
    product(t->keys, n->k_padded, t->rows, ds_t, b->q, n->k_padded, b->dk, n->k_padded);
    product(t->rows, n->k_padded, t->keys, ds, b->k, n->k_padded, b->dq + at * n->k_padded, n->k_padded);
    finish_reciprocal(job, b, t);
    job->scale_parts[which * n->heads + t->h] += vsum(dscale);
    float *parts = job->pos_parts + which * n->heads * n->offsets;
    for (int64_t d = 0; n->offsets && d < t->rows - 1 + WEFT_KEY_TILE; d++)
        parts[diagonal_offset(job, t, d)] += diagonals[d];
}

/* Computes delta = <do, o> - dlse for up to 64 rows starting at `row`. <do, o> is summed over the width in the same
 * order as dP, so dP - <do, o> is exactly 0 for a row with one key. Uses vt and dv as temporary memory. */
static void set_delta(const struct job *job, const struct backward *b, int64_t row, int64_t rows, int64_t h, float *to)
{
    const struct weft_call *call = job->call;
    const struct sizes *n = &job->n;
    const struct weft_tensor *dlse = call->gout[LSE];
    float *o = b->vt, *go = b->dv;
    memset(to, 0, (size_t)rows * sizeof(float));
    if (call->gout[O]) {
        widen_transposed(o, head_of(call->out[O], row, h, n->heads), rows);
        widen_transposed(go, head_of(call->gout[O], row, h, n->heads), rows);
    }
    for (int64_t r = 0; call->gout[O] && r < rows; r += VLANES) {
        vf sum = vset(0);
        for (int64_t d = r; d < n->v * WEFT_KEY_TILE; d += WEFT_KEY_TILE)
            sum = vfma(vload_f32(go + d, VLANES), vload_f32(o + d, VLANES), sum);
        vstore_f32(to + r, rows - r, sum);
    }
    for (int64_t r = 0; dlse && r < rows; r++)
        to[r] -= ((const float *)dlse->data)[(row + r) * n->heads + h];
}

/* Zeroes the parts that one sequence adds to the shared gradients. */
static void start_parts(const struct job *job, int64_t which, int64_t first_head)
{
    const struct sizes *n = &job->n;
    int64_t slot = which * n->heads + first_head;
    memset(job->scale_parts + slot, 0, (size_t)n->group * sizeof(double));
    memset(job->pos_parts + slot * n->offsets, 0, (size_t)(n->group * n->offsets) * sizeof(float));
}

/* Prepares for the loop over tiles: computes delta of every row and zeroes the sums. */
static void start_unit(const struct job *job, const struct backward *b, int64_t which, int64_t first_head)
{
    const struct sizes *n = &job->n;
    struct span span = job->spans[which];
    start_parts(job, which, first_head);
    if (n->window) {
        memset(b->ra.dk, 0, (size_t)(span.rows * n->k_padded) * sizeof(float));
        memset(b->ra.dkey_bias, 0, (size_t)(n->group * n->longest) * sizeof(float));
    }
    for (int64_t g = 0; g < n->group; g++) {
        memset(b->dq + g * n->longest * n->k_padded, 0, (size_t)(span.rows * n->k_padded) * sizeof(float));
        for (int64_t r = 0; r < span.rows; r += WEFT_KEY_TILE)
            set_delta(job, b, span.row + r, weft_min(WEFT_KEY_TILE, span.rows - r), first_head + g,
                      b->delta + g * n->longest + r);
    }
}

/* Before the loop over rows, loads the stored queries of a head and a tile and zeroes their gradients; finish_stored
 * stores the gradients after the loop. */
static void start_stored(const struct job *job, const struct backward *b, const struct tile *t)
{
    const struct sizes *n = &job->n;
    struct head queries = stored_head(job, t->seq, t->j, t->h);
    widen(b->ra.queries, n->k_padded, queries, t->keys);
    widen_transposed(b->ra.queries_t, queries, t->keys);
    memset(b->ra.dqueries, 0, (size_t)(t->keys * n->k_padded) * sizeof(float));
    memset(b->ra.dq_bias, 0, WEFT_KEY_TILE * sizeof(float));
}

static void finish_stored(const struct job *job, const struct backward *b, const struct tile *t)
{
    const struct sizes *n = &job->n;
    struct weft_tensor *const *gin = job->call->gin;
    if (gin[Q_STORE])
        narrow(head_of(gin[Q_STORE], t->key_row, t->h, n->heads), b->ra.dqueries, n->k_padded, t->keys);
    for (int64_t c = 0; c < t->keys; c++) {
        if (gin[Q_BIAS])
            ((float *)gin[Q_BIAS]->data)[(t->key_row + c) * n->heads + t->h] = b->ra.dq_bias[c];
        b->dbias[c] += b->ra.dkey_bias[t->h % n->group * n->longest + t->j + c];
    }
}

/* Visits all rows that attend to the key tile, head by head, and completes the tile's gradients. */
static void backward_keys(const struct job *job, const struct backward *b, struct tile *t, int64_t which, int64_t kv)
{
    const struct weft_call *call = job->call;
    const struct sizes *n = &job->n;
    int64_t end = job->spans[which].rows;
    widen(b->k, n->k_padded, head_of(call->in[K], t->key_row, kv, n->kv_heads), t->keys);
    widen_transposed(b->kt, head_of(call->in[K], t->key_row, kv, n->kv_heads), t->keys);
    widen_transposed(b->vt, head_of(call->in[V], t->key_row, kv, n->kv_heads), t->keys);
    memset(b->dk, 0, (size_t)(t->keys * n->k_padded) * sizeof(float));
    memset(b->dv, 0, (size_t)(t->keys * n->v_padded) * sizeof(float));
    for (int64_t g = 0; g < n->group; g++) {
        set_head(job, t, kv * n->group + g);
        memset(b->dbias, 0, WEFT_KEY_TILE * sizeof(float));
        if (n->window)
            start_stored(job, b, t);
        for (t->i = t->j; t->i < end; t->i += ROW_TILE) {
            t->rows = weft_min(ROW_TILE, end - t->i);
            backward_tile(job, b, t, which, g);
        }
        if (n->window)
            finish_stored(job, b, t);
        for (int64_t c = 0; call->gin[KEY_BIAS] && c < t->keys; c++)
            ((float *)call->gin[KEY_BIAS]->data)[(t->key_row + c) * n->heads + t->h] = b->dbias[c];
    }
    /* own keys get gradients only from their own tile and earlier ones, so these gradients are complete here */
    for (int64_t x = 0; n->window && x < t->keys * n->k_padded; x++)
        b->dk[x] += b->ra.dk[t->j * n->k_padded + x];
    if (call->gin[K])
        narrow(head_of(call->gin[K], t->key_row, kv, n->kv_heads), b->dk, n->k_padded, t->keys);
    if (call->gin[V])
        narrow(head_of(call->gin[V], t->key_row, kv, n->kv_heads), b->dv, n->v_padded, t->keys);
}

static void bwd_unit(void *context, int64_t unit, int thread)
{
    const struct job *job = context;
    const struct weft_call *call = job->call;
    const struct sizes *n = &job->n;
    struct space local = {.base = call->local + (size_t)thread * call->local_stride};
    struct backward b = lay_backward(n, &local);
    int64_t which = unit / n->kv_heads, kv = unit % n->kv_heads;
    struct span span = job->spans[which];
    struct tile t = {.seq = ints(call, SEQ)[span.row]};
    t.mask_key = mask_key(call, t.seq);
    start_unit(job, &b, which, kv * n->group);
    for (t.j = 0; t.j < span.rows; t.j += WEFT_KEY_TILE) {
        t.keys = weft_min(WEFT_KEY_TILE, span.rows - t.j);
        t.key_row = key_row(call, t.seq, t.j);
        backward_keys(job, &b, &t, which, kv);
    }
    for (int64_t g = 0; call->gin[Q] && g < n->group; g++)
        narrow(head_of(call->gin[Q], span.row, kv * n->group + g, n->heads), b.dq + g * n->longest * n->k_padded,
               n->k_padded, span.rows);
}

static void vector_bwd(const struct weft_call *call)
{
    struct space scratch = {.base = call->scratch};
    struct job job = lay_job(call, &scratch);
    cut_sequences(&job);
    weft_parallel(job.span_count * job.n.kv_heads, bwd_unit, &job);
    weft_parallel(job.n.heads, sum_parts, &job);
}

#endif
