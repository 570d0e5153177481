/* SPDX-License-Identifier: MIT
 *
 * route_backward_tile_inl.h - the backward pass of route.c for rms and none, tile by tile; and the memory layout that
 * topk shares.
 */
#ifndef WEFT_ROUTE_BWD_TILE_H
#define WEFT_ROUTE_BWD_TILE_H

#include "ops/attention/route_tile_inl.h"

enum { STRIPES = 32 };

struct backward_job {
    struct job job;
    float *delta;             /* [rows]: <dy, y> */
    float *weights, *ds;      /* topk: [rows][topk] and [rows][topk][heads] */
    int64_t *pairs;           /* topk: row * topk + x, sorted by key tile, then by row */
    int64_t *ends;            /* topk: index after the last pair of each key tile */
    float *own_dk, *own_bias; /* reciprocal term: gradients of own keys, [rows][kv_heads] rows, and of their biases,
                                 [rows][heads] */
};

static struct backward_job lay_job(const struct weft_call *call, struct space *scratch)
{
    struct sizes n = sizes_of(call);
    int64_t offsets = call->gin[POS_BIAS] ? n.offsets : 0, own_rows = n.window ? n.rows : 0;
    return (struct backward_job){
        .job = {.call = call,
                .attr = call->attr,
                .n = n,
                .spans = take(scratch, n.rows, 1, sizeof(struct span)),
                .scale_parts = take(scratch, STRIPES, n.heads, sizeof(double)),
                .pos_parts = take_floats(scratch, STRIPES * n.heads, offsets),
                .part_count = STRIPES},
        .delta = take_floats(scratch, n.rows, 1),
        .weights = take_floats(scratch, n.rows, n.topk),
        .ds = take_floats(scratch, n.rows * n.topk, n.heads),
        .pairs = take(scratch, n.rows, n.topk, sizeof(int64_t)),
        .ends = take(scratch, n.rows, 1, sizeof(int64_t)),
        .own_dk = take_floats(scratch, own_rows * n.kv_heads, n.k_padded),
        .own_bias = take_floats(scratch, own_rows, n.heads),
    };
}

struct backward {
    struct operands operands;
    float *q, *g;           /* rows of queries and of dy */
    float *dq, *dlse;       /* sums of a tile of rows, per head */
    float *dk, *du, *dbias; /* sums of a tile of keys: dk per key head, du over all heads, dbias per head */
    float *p, *R, *e;       /* tiles: first probabilities, then dS, per head; first R, then weights; <dy, u> */
    float *k, *ut;          /* tiles of keys, and of u, transposed */
    float *e_pair;          /* topk: <dy, u> of the positions that a row selects */
    /* For the reciprocal term: stored queries or own keys; per head, the gradient sums of own keys (first pass) or
     * stored queries (second pass) before scaling; gradients of the queries' biases. Meanwhile, e holds alpha dS in the
     * window. */
    float *rows, *mirrored, *dq_bias;
};

static struct backward lay_backward(const struct sizes *n, struct space *s)
{
    int64_t tiles = n->topk ? 0 : 1, reciprocal = n->window ? 1 : 0;
    return (struct backward){
        .operands = n->topk ? (struct operands){0} : lay_operands(n, s), /* topk recomputes no tiles */
        .q = take_floats(s, ROW_TILE * tiles, n->k_padded),
        .g = take_floats(s, ROW_TILE * tiles, n->u_padded),
        .dq = take_floats(s, n->heads * ROW_TILE, n->k_padded),
        .dlse = take_floats(s, n->heads, ROW_TILE),
        .dk = take_floats(s, n->kv_heads * WEFT_KEY_TILE, n->k_padded),
        .du = take_floats(s, WEFT_KEY_TILE, n->u_padded),
        .dbias = take_floats(s, n->heads, WEFT_KEY_TILE),
        .p = take_floats(s, n->heads * tiles, TILE),
        .R = take_floats(s, tiles, TILE),
        .e = take_floats(s, tiles, TILE),
        .k = take_floats(s, WEFT_KEY_TILE * tiles, n->k_padded),
        .ut = take_floats(s, n->u_padded * tiles, WEFT_KEY_TILE),
        .e_pair = take_floats(s, 1, n->topk),
        .rows = take_floats(s, WEFT_KEY_TILE * tiles * reciprocal, n->k_padded),
        .mirrored = take_floats(s, n->heads * WEFT_KEY_TILE * reciprocal, n->k_padded),
        .dq_bias = take_floats(s, n->heads * reciprocal, WEFT_KEY_TILE),
    };
}

static float row_dot(struct head a, struct head b)
{
    vf sum = vset(0);
    for (int64_t d = 0; d < b.width; d += VLANES)
        sum = vfma(load_part(a, a.at, d), load_part(b, b.at, d), sum);
    return vsum(sum);
}

/* ---- a tile */

/* Returns the divisor of a row's weights. */
static float divisor(const struct job *job, int64_t row)
{
    return job->attr->renormalise ? ((const float *)job->call->out[Z]->data)[row] : 1;
}

/* Replaces R by weights, and P by dS of every head, for sixteen keys of a row starting at element `at` of the tile.
 * With head_max, the first head that has the maximum gets the whole gradient. */
VINLINE void route_backward_lanes(const struct job *job, const struct backward *b, int64_t at, vf cut, float delta,
                                  float z)
{
    vf R = vload_f32(b->R + at, VLANES), none = vset(0);
    vi chosen = R >= cut;
    vf dr = vpick(chosen, (vload_f32(b->e + at, VLANES) - vset(delta)) / vset(z), none);
    vf mean = dr * vset(1 / (float)job->n.heads);
    for (int64_t h = 0; h < job->n.heads; h++, at += TILE) {
        vf p = vload_f32(b->p + at, VLANES), share = mean;
        if (job->attr->head_max) {
            vi first = p == R;
            share = vpick(first, dr, none);
            dr = vpick(first, none, dr);
        }
        vstore_f32(b->p + at, VLANES, p * share);
    }
    vstore_f32(b->R + at - job->n.heads * TILE, VLANES, vpick(chosen, R / vset(z), none));
}

/* Loads the data shared by all tiles of the same rows. */
static void start_tiles(const struct job *job, const struct backward *b, const struct tile *t)
{
    set_queries(job, t, &b->operands);
    widen(b->g, job->n.u_padded, head_of(job->call->gout[Y], t->row, 0, 1), t->rows);
}

/* Computes weights and dS of a tile. */
static void set_ds(const struct backward_job *bj, const struct backward *b, struct tile *t)
{
    const struct job *job = &bj->job;
    const struct sizes *n = &job->n;
    bool rms = job->attr->mode == WEFT_ROUTE_RMS;
    set_routes(job, t, &b->operands, b->p, TILE, b->R);
    widen_transposed(b->ut, head_of(job->call->in[U], t->key_row, 0, 1), t->keys);
    scores(t, b->g, n->u, n->u_padded, b->ut, b->e);
    for (int64_t r = 0; r < t->rows; r++) {
        float cut = rms ? ((const float *)job->call->out[CUT]->data)[t->row + r] : 0, z = divisor(job, t->row + r);
        for (int64_t c = 0; c < WEFT_KEY_TILE; c += VLANES)
            route_backward_lanes(job, b, r * WEFT_KEY_TILE + c, vset(cut), bj->delta[t->row + r], z);
    }
}

/* Sums dS over the tile's keys for dlse, and along the tile's diagonals for dpos_bias. */
static void sum_ds(const struct job *job, const struct tile *t, const float *ds, float *dlse, float *pos_part)
{
    float diagonals[ROW_TILE + WEFT_KEY_TILE] = {0};
    for (int64_t r = 0; r < t->rows; r++) {
        vf sum = vset(0);
        float *along = diagonals + t->rows - 1 - r;
        for (int64_t c = 0; c < WEFT_KEY_TILE; c += VLANES) {
            vf d = vload_f32(ds + r * WEFT_KEY_TILE + c, VLANES);
            sum = sum + d;
            vstore_f32(along + c, VLANES, vload_f32(along + c, VLANES) + d);
        }
        dlse[r] += vsum(sum);
    }
    for (int64_t d = 0; pos_part && d < t->rows - 1 + WEFT_KEY_TILE; d++)
        pos_part[diagonal_offset(job, t, d)] += diagonals[d];
}

/* Sets e to alpha dS in the window and to 0 elsewhere. */
static void set_mirrored(const struct backward *b, const struct tile *t, const float *ds)
{
    for (int64_t r = 0; r < t->rows; r++)
        for (int64_t c = 0, at = r * WEFT_KEY_TILE; c < WEFT_KEY_TILE; c += VLANES, at += VLANES)
            vstore_f32(b->e + at, VLANES,
                       vpick(in_window(t, r, c), vset(t->ra_alpha) * vload_f32(ds + at, VLANES), vset(0)));
}

/* Adds the gradients of the own keys of the tile's rows, from its queries. */
static void add_own(const struct backward_job *bj, const struct backward *b, const struct tile *t, const float *ds)
{
    const struct job *job = &bj->job;
    int64_t padded = job->n.k_padded;
    if (!reaches_window(job, t))
        return;
    set_mirrored(b, t, ds);
    for (int64_t r = 0; r < t->rows; r++) {
        vf sum = vset(0);
        for (int64_t c = 0; c < WEFT_KEY_TILE; c += VLANES)
            sum = sum + vload_f32(b->e + r * WEFT_KEY_TILE + c, VLANES);
        bj->own_bias[(t->row + r) * job->n.heads + t->h] += vsum(sum);
    }
    widen(b->rows, padded, stored_head(job, t->seq, t->j, t->h), t->keys);
    product(t->rows, padded, t->keys, (struct left){b->e, WEFT_KEY_TILE, 1}, b->rows, padded,
            b->mirrored + t->h * ROW_TILE * padded, padded);
}

static void rows_by_tile(const struct backward_job *bj, const struct backward *b, struct tile *t, float *pos_part)
{
    const struct job *job = &bj->job;
    const struct sizes *n = &job->n;
    for (int64_t row = t->row; row < t->row + t->rows; row++)
        bj->delta[row] = job->attr->renormalise
                             ? row_dot(head_of(job->call->gout[Y], row, 0, 1), head_of(job->call->out[Y], row, 0, 1))
                             : 0;
    start_tiles(job, b, t);
    for (int64_t j = 0; j < t->i + t->rows; j += WEFT_KEY_TILE) {
        set_keys(job, t, j);
        set_ds(bj, b, t);
        for (int64_t h = 0; h < n->heads; h++) {
            const float *ds = b->p + h * TILE;
            if (h % n->group == 0)
                widen(b->k, n->k_padded, head_of(job->call->in[K], t->key_row, h / n->group, n->kv_heads), t->keys);
            t->h = h;
            sum_ds(job, t, ds, b->dlse + h * ROW_TILE, pos_part);
            product(t->rows, n->k_padded, t->keys, (struct left){ds, WEFT_KEY_TILE, 1}, b->k, n->k_padded,
                    b->dq + h * ROW_TILE * n->k_padded, n->k_padded);
            add_own(bj, b, t, ds);
        }
    }
}

/* Adds the gradients of the tile's stored queries, from the own keys of its rows, for head h. */
static void add_stored(const struct job *job, const struct backward *b, const struct tile *t, int64_t h)
{
    int64_t padded = job->n.k_padded;
    float *bias = b->dq_bias + h * WEFT_KEY_TILE;
    if (!reaches_window(job, t))
        return;
    set_mirrored(b, t, b->p + h * TILE);
    for (int64_t at = 0; at < t->rows * WEFT_KEY_TILE; at += VLANES) {
        float *sum = bias + at % WEFT_KEY_TILE;
        vstore_f32(sum, VLANES, vload_f32(sum, VLANES) + vload_f32(b->e + at, VLANES));
    }
    widen(b->rows, padded, own_head(job, t->seq, t->row, t->i, h), t->rows);
    product(t->keys, padded, t->rows, (struct left){b->e, 1, WEFT_KEY_TILE}, b->rows, padded,
            b->mirrored + h * WEFT_KEY_TILE * padded, padded);
}

/* Adds the contribution of head h of the tile's rows to dk and dkey_bias. */
static void add_keys(const struct job *job, const struct backward *b, const struct tile *t, int64_t h)
{
    int64_t padded = job->n.k_padded;
    float *ds = b->p + h * TILE, *bias = b->dbias + h * WEFT_KEY_TILE;
    vf scale = vset(scale_of(job, h));
    for (int64_t at = 0; at < t->rows * WEFT_KEY_TILE; at += VLANES) {
        vf d = vload_f32(ds + at, VLANES);
        float *sum = bias + at % WEFT_KEY_TILE;
        vstore_f32(sum, VLANES, vload_f32(sum, VLANES) + d);
        vstore_f32(ds + at, VLANES, scale * d);
    }
    widen(b->q, padded, head_of(job->call->in[Q], t->row, h, job->n.heads), t->rows);
    product(t->keys, padded, t->rows, (struct left){ds, 1, WEFT_KEY_TILE}, b->q, padded,
            b->dk + h / job->n.group * WEFT_KEY_TILE * padded, padded);
}

/* Visits the key tile of span `which` with the rows of that span and all later rows of the sequence. */
static void keys_by_tile(const struct backward_job *bj, const struct backward *b, int64_t which)
{
    const struct job *job = &bj->job;
    int64_t first = job->spans[which].row, padded = job->n.u_padded;
    const int32_t *seq = ints(job->call, SEQ);
    for (int64_t x = which; x < job->span_count && seq[job->spans[x].row] == seq[first]; x++) {
        struct tile t = {0};
        set_rows(job, &t, job->spans[x]);
        set_keys(job, &t, ints(job->call, POS)[first]);
        start_tiles(job, b, &t);
        set_ds(bj, b, &t);
        product(t.keys, padded, t.rows, (struct left){b->R, 1, WEFT_KEY_TILE}, b->g, padded, b->du, padded);
        for (int64_t h = 0; h < job->n.heads; h++) {
            add_stored(job, b, &t, h);
            add_keys(job, b, &t, h); /* also scales dS */
        }
    }
}

#endif
