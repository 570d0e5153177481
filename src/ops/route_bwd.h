/* SPDX-License-Identifier: MIT
 *
 * route_bwd.h - the backward pass of route.c (formulas in its opening comment), for training: the key store is the
 * call's own rows, and each sequence's rows stand together, from position 0 on.
 *
 * Two passes, so that every sum has one owner and memory stays linear in the positions: by tiles of rows for dq and
 * dlse, then by tiles of keys for dk, du and dkey_bias. Each rebuilds what it needs of R; with top-k the first pass
 * leaves the few weights and slopes of every row, sorted by key tile for the second. dscale and dpos_bias are summed
 * over rows: the tiles are dealt out to a fixed number of stripes that keep a part each, and the parts are added in
 * order. Of the reciprocal term the first pass makes what own keys and their biases get and leaves it to the second,
 * which makes what the stored queries and their biases get.
 */
#ifndef WEFT_ROUTE_BWD_H
#define WEFT_ROUTE_BWD_H

#include "ops/route_tile.h"

enum { STRIPES = 32 };

struct backward_job {
    struct job job;
    float *delta;             /* [rows]: <dy, y> */
    float *weights, *ds;      /* top-k: [rows][topk] and [rows][topk][heads] */
    int64_t *pairs;           /* top-k: row * topk + x, by key tile, then by row */
    int64_t *ends;            /* where the pairs of a key tile end */
    float *own_dk, *own_bias; /* reciprocal term: [rows][kv_heads] rows and [rows][heads], gradients of own keys */
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
    float *dq, *dlse;       /* sums of a tile of rows, by head */
    float *dk, *du, *dbias; /* sums of a tile of keys: by key head, for all, by head */
    float *p, *R, *e;       /* tiles of probabilities by head, then of dS; of R, then of weights; of <dy, u> */
    float *k, *ut;          /* the tiles of keys, and of u transposed */
    float *e_pair;          /* top-k: <dy, u> of a row's positions */
    /* Reciprocal term: the tile's queries; by head what own keys (first pass) or stored queries (second) get, before
     * the scale; the queries' biases. e then is alpha dS in the window. */
    float *queries, *mirrored, *dq_bias;
};

static struct backward lay_backward(const struct sizes *n, struct space *s)
{
    int64_t tiles = n->topk ? 0 : 1, reciprocal = n->window ? 1 : 0;
    return (struct backward){
        .operands = n->topk ? (struct operands){0} : lay_operands(n, s), /* with top-k no tile is ever rebuilt */
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
        .queries = take_floats(s, WEFT_KEY_TILE * tiles * reciprocal, n->k_padded),
        .mirrored = take_floats(s, n->heads * WEFT_KEY_TILE * reciprocal, n->k_padded),
        .dq_bias = take_floats(s, n->heads * reciprocal, WEFT_KEY_TILE),
    };
}

static enum weft_status bwd_plan(const struct weft_call *max, struct weft_booking *booking)
{
    struct space scratch = {0}, local = {0};
    TRY(refuse_decoding(max));
    struct backward_job b = lay_job(max, &scratch);
    (void)lay_backward(&b.job.n, &local);
    return book(booking, &scratch, &local);
}

static float row_dot(struct head a, struct head b)
{
    vf sum = vset(0);
    for (int64_t d = 0; d < b.width; d += VLANES)
        sum = vfma(load_part(a, a.at, d), load_part(b, b.at, d), sum);
    return vsum(sum);
}

/* ---- rms and none: a tile */

/* What the weights are divided by. */
static float divisor(const struct job *job, int64_t row)
{
    return job->attr->renormalise ? ((const float *)job->call->out[Z]->data)[row] : 1;
}

/* Row r, keys c .. c+15: from R and e to the weights (in R's place) and dS of every head (in P's). With a maximum over
 * heads, the first that has it takes all. */
VINLINE void soften_back(const struct job *job, const struct backward *b, int64_t at, vf cut, float delta, float z)
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

/* What all tiles of the same rows share. */
static void start_tiles(const struct job *job, const struct backward *b, const struct tile *t)
{
    set_queries(job, t, &b->operands);
    widen(b->g, job->n.u_padded, head_of(job->call->gout[Y], t->row, 0, 1), t->rows);
}

/* Weights and dS of a tile. */
static void set_slopes(const struct backward_job *bj, const struct backward *b, struct tile *t)
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
            soften_back(job, b, r * WEFT_KEY_TILE + c, vset(cut), bj->delta[t->row + r], z);
    }
}

/* Sums of dS over the tile's keys, for dlse, and along its diagonals. */
static void sum_slopes(const struct job *job, const struct tile *t, const float *ds, float *dlse, float *pos_part)
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

/* e = alpha dS in the window, else 0. */
static void set_mirrored(const struct backward *b, const struct tile *t, const float *ds)
{
    for (int64_t r = 0; r < t->rows; r++)
        for (int64_t c = 0, at = r * WEFT_KEY_TILE; c < WEFT_KEY_TILE; c += VLANES, at += VLANES)
            vstore_f32(b->e + at, VLANES,
                       vpick(in_window(t, r, c), vset(t->ra_alpha) * vload_f32(ds + at, VLANES), vset(0)));
}

/* What the own keys of the tile's rows get from its queries. */
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
    widen(b->queries, padded, stored_head(job, t, t->h), t->keys);
    product(t->rows, padded, t->keys, (struct left){b->e, WEFT_KEY_TILE, 1}, b->queries, padded,
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
        set_slopes(bj, b, t);
        for (int64_t h = 0; h < n->heads; h++) {
            const float *ds = b->p + h * TILE;
            if (h % n->group == 0)
                widen(b->k, n->k_padded, head_of(job->call->in[K], t->key_row, h / n->group, n->kv_heads), t->keys);
            t->h = h;
            sum_slopes(job, t, ds, b->dlse + h * ROW_TILE, pos_part);
            product(t->rows, n->k_padded, t->keys, (struct left){ds, WEFT_KEY_TILE, 1}, b->k, n->k_padded,
                    b->dq + h * ROW_TILE * n->k_padded, n->k_padded);
            add_own(bj, b, t, ds);
        }
    }
}

/* What the tile's stored queries get from the own keys of its rows, by head h. */
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
    product(t->keys, padded, t->rows, (struct left){b->e, 1, WEFT_KEY_TILE}, own_keys(job, &b->operands.ra, h), padded,
            b->mirrored + h * WEFT_KEY_TILE * padded, padded);
}

/* The part of dk and dkey_bias that head h of the tile's rows makes. */
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

/* The key tile of span `which`, against its own rows and all later ones of the sequence. */
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
        set_slopes(bj, b, &t);
        product(t.keys, padded, t.rows, (struct left){b->R, 1, WEFT_KEY_TILE}, b->g, padded, b->du, padded);
        for (int64_t h = 0; h < job->n.heads; h++) {
            add_stored(job, b, &t, h);
            add_keys(job, b, &t, h); /* scales dS */
        }
    }
}

/* ---- top-k: a few positions of each row */

/* Alpha where the reciprocal term joins the positions i and s, else 0. */
static float pair_alpha(const struct job *job, int64_t i, int64_t s)
{
    return s < i && i - s <= job->n.window ? (float)job->attr->logits.ra_alpha : 0;
}

/* The reciprocal term of the logit of head h, before alpha; the rows are those of the key store. */
static float pair_reciprocal(const struct job *job, int64_t i_row, int64_t s_row, int64_t h)
{
    const struct weft_call *call = job->call;
    const struct sizes *n = &job->n;
    float bias = 0, product = row_dot(head_of(call->in[Q_STORE], s_row, h, n->heads),
                                      head_of(call->in[K], i_row, h / n->group, n->kv_heads));
    if (call->in[Q_BIAS])
        bias += ((const float *)call->in[Q_BIAS]->data)[s_row * n->heads + h];
    if (call->in[KEY_BIAS])
        bias += ((const float *)call->in[KEY_BIAS]->data)[i_row * n->heads + h];
    return scale_of(job, h) * product + bias;
}

/* p[h] = logit - lse of a row at position i and the key at position s. */
static void set_pair(const struct job *job, int64_t row, int64_t seq, int64_t i, int64_t s, float *p)
{
    const struct weft_call *call = job->call;
    const struct sizes *n = &job->n;
    const float *lse = (const float *)call->in[LSE]->data + row * n->heads;
    int64_t at = key_row(call, seq, s), offset = weft_min(i - s, n->offsets - 1);
    float alpha = pair_alpha(job, i, s);
    for (int64_t h = 0; h < n->heads; h++) {
        float bias = 0, product = row_dot(head_of(call->in[Q], row, h, n->heads),
                                          head_of(call->in[K], at, h / n->group, n->kv_heads));
        if (call->in[KEY_BIAS])
            bias += ((const float *)call->in[KEY_BIAS]->data)[at * n->heads + h];
        if (call->in[POS_BIAS])
            bias += ((const float *)call->in[POS_BIAS]->data)[h * n->offsets + offset];
        if (alpha != 0)
            bias += alpha * pair_reciprocal(job, key_row(call, seq, i), at, h);
        p[h] = scale_of(job, h) * product + bias - lse[h];
    }
}

/* R of one position from the probabilities of its heads. */
static float pair_route(const struct job *job, const float *p)
{
    float sum = 0, top = 0;
    for (int64_t h = 0; h < job->n.heads; h++) {
        sum += p[h];
        top = p[h] > top ? p[h] : top;
    }
    return job->attr->head_max ? top : sum * (1 / (float)job->n.heads);
}

/* p[h] becomes dS of head h. */
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

/* Weights and dS of row r's positions; returns how many there are. */
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
            for (int64_t h = 0; h < n->heads; h++) {
                add_scaled(b->dq + (h * ROW_TILE + r) * n->k_padded, n->k_padded, ds[h],
                           head_of(job->call->in[K], at, h / n->group, n->kv_heads));
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

/* The key tile, by number of its span, that position s is in for the rows of a span. */
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
        int64_t before = 0; /* counts become starts; the second round moves them to the ends */
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
        add_scaled(b->du + c * n->u_padded, n->u_padded, bj->weights[pair], head_of(call->gout[Y], row, 0, 1));
        for (int64_t h = 0; h < n->heads; h++) {
            float ds = bj->ds[pair * n->heads + h];
            b->dbias[h * WEFT_KEY_TILE + c] += ds;
            add_scaled(b->dk + (h / n->group * WEFT_KEY_TILE + c) * n->k_padded, n->k_padded, scale_of(job, h) * ds,
                       head_of(call->in[Q], row, h, n->heads));
            if (alpha == 0)
                continue;
            b->dq_bias[h * WEFT_KEY_TILE + c] += alpha * ds;
            add_scaled(b->mirrored + (h * WEFT_KEY_TILE + c) * n->k_padded, n->k_padded, alpha * ds,
                       head_of(call->in[K], key_row(call, ints(call, SEQ)[row], i), h / n->group, n->kv_heads));
        }
    }
}

/* ---- the two passes */

/* dq so far is dS k: the sum of its products with q is dscale, and the scale times it is dq. */
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

/* Sums of the reciprocal term start from 0: of a tile of rows, or of keys. */
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

/* What own keys got is e q_store: the sum of its products with them is dscale, and the scale times it is for dk. */
static void finish_own(const struct backward_job *bj, const struct backward *b, const struct tile *t,
                       double *scale_part)
{
    const struct job *job = &bj->job;
    const struct sizes *n = &job->n;
    for (int64_t h = 0; n->window && h < n->heads; h++) {
        struct head own = own_head(job, t, h);
        struct head got = {b->mirrored, WEFT_F32, h * ROW_TILE * n->k_padded, n->k_padded, n->k};
        for (int64_t r = 0; r < t->rows; r++, own.at += own.stride, got.at += got.stride) {
            scale_part[h] += row_dot(got, own);
            add_scaled(bj->own_dk + ((t->row + r) * n->kv_heads + h / n->group) * n->k_padded, n->k_padded,
                       scale_of(job, h), got);
        }
    }
}

/* The gradients of a tile's stored queries, `keys` of them from row `to` of their store on; and what its keys, from row
 * `row` of the call on, got as own keys. */
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
