/* SPDX-License-Identifier: MIT
 *
 * bf16_backward_inl.h - the backward pass on tiles (see bf16_inl.h for the layout).
 *
 * A unit of work is a sequence and a key head, as in backward_inl.h. For each query head, the rows are packed once;
 * then key tiles are visited in order and, for each tile, the queries that attend to it, also in order.
 */
#ifndef WEFT_ATTENTION_BF16_BWD_H
#define WEFT_ATTENTION_BF16_BWD_H

#include "ops/attention/backward_inl.h"
#include "ops/attention/bf16_reciprocal_inl.h"

/* P and dS are computed for BATCH squares before the products that use them, so that dk and dv stay in the L1 cache
 * from one product to the next. */
enum { BATCH = 4, SQUARE = EDGE * EDGE };

struct tiles_backward {
    const struct weft_dnn_tiles *tiles;
    /* for the whole sequence, in tiles of 64 queries */
    uint16_t *q, *qt, *go, *got; /* right operands */
    float *dq;                   /* [kd][64] */
    float *lse, *delta;          /* [64] */
    /* for the whole sequence if heads share keys, else for one tile */
    float *dk, *dv; /* [64][kd], [64][vd] */
    /* for one tile of keys */
    uint16_t *rows, *k, *kt, *v; /* staged rows; left operands */
    float *dbias;                /* [64][16] */
    /* for BATCH squares */
    uint16_t *p, *ds, *dst; /* left operands for dV and dK, and right operand for dQ^t */
    /* for one square */
    float *s, *dp, *x; /* two products, and the logits if they are computed in the extra pass */
    struct reciprocal_backward ra;
};

static struct tiles_backward lay_tiles_backward(const struct sizes *n, struct space *s)
{
    int64_t kd = pad_tiles(n->k), vd = pad_tiles(n->v), rows = weft_round_up(n->longest, EDGE),
            kept = n->group > 1 ? rows : EDGE;
    return (struct tiles_backward){
        .tiles = weft_dnn_tiles(),
        .q = take_bf16(s, rows, kd),
        .qt = take_bf16(s, rows, kd),
        .go = take_bf16(s, rows, vd),
        .got = take_bf16(s, rows, vd),
        .dq = take_floats(s, rows, kd),
        .lse = take_floats(s, rows, 1),
        .delta = take_floats(s, rows, 1),
        .dk = take_floats(s, kept, kd),
        .dv = take_floats(s, kept, vd),
        .rows = take_bf16(s, EDGE, weft_max(kd, vd)),
        .k = take_bf16(s, EDGE, kd),
        .kt = take_bf16(s, EDGE, kd),
        .v = take_bf16(s, EDGE, vd),
        .dbias = take_floats(s, EDGE, VLANES),
        .p = take_bf16(s, BATCH, SQUARE),
        .ds = take_bf16(s, BATCH, SQUARE),
        .dst = take_bf16(s, BATCH, SQUARE),
        .s = take_floats(s, EDGE, EDGE),
        .dp = take_floats(s, EDGE, EDGE),
        .x = take_floats(s, EDGE, EDGE),
        .ra = lay_reciprocal_backward(n, BATCH, s),
    };
}

static enum weft_status tiles_bwd_plan(const struct weft_call *max, struct weft_booking *booking)
{
    struct space scratch = {0}, local = {0};
    struct job job = lay_job(max, &scratch);
    (void)lay_tiles_backward(&job.n, &local);
    return book(booking, &scratch, &local);
}

/* Packs 64 rows of one head, starting at row `at` of the sequence, and computes delta = <do, o> - dlse. <do, o> is
 * computed like dP, as the diagonal of a product with o instead of v, so dP - <do, o> is exactly 0 for a row with one
 * key. */
static void pack_queries(const struct weft_call *call, const struct sizes *n, const struct tiles_backward *b,
                         int64_t row, int64_t rows, int64_t h, int64_t at)
{
    int64_t kd = pad_tiles(n->k), vd = pad_tiles(n->v);
    const struct weft_tensor *dlse = call->gout[LSE];
    prefetch(head_of(call->in[Q], row + EDGE, h, n->heads), EDGE);
    prefetch(head_of(call->out[O], row + EDGE, h, n->heads), EDGE);
    stage(b->rows, head_of(call->in[Q], row, h, n->heads), rows, EDGE);
    b->tiles->pack(EDGE, kd, b->rows, b->q + at * kd);
    b->tiles->pack_transposed(kd, EDGE, b->rows, b->qt + at * kd);
    memset(b->rows, 0, (size_t)(EDGE * vd) * sizeof *b->rows);
    if (call->gout[O]) {
        prefetch(head_of(call->gout[O], row + EDGE, h, n->heads), EDGE);
        stage(b->rows, head_of(call->gout[O], row, h, n->heads), rows, EDGE);
    }
    b->tiles->pack(EDGE, vd, b->rows, b->go + at * vd);
    b->tiles->pack_transposed(vd, EDGE, b->rows, b->got + at * vd);
    stage(b->v, head_of(call->out[O], row, h, n->heads), rows, EDGE);
    for (int64_t r = 0; r < EDGE; r++) {
        int64_t stat = (row + r) * n->heads + h, column = r % SPAN;
        if (column == 0)
            b->tiles->product(SPAN, SPAN, vd, b->v + r * vd, b->got + (at + r) * vd, b->dp, false);
        b->delta[at + r] = b->dp[column * SPAN + column];
        b->lse[at + r] = r < rows ? ((const float *)call->out[LSE]->data)[stat] * LOG2E : INFINITY;
        if (dlse && r < rows)
            b->delta[at + r] -= ((const float *)dlse->data)[stat];
    }
}

/* The sums of dS that are needed in addition to the products: none; those over rows and with <q,k> (ROW_SUMS); these
 * and the sums along diagonals (ALL_SUMS); or all of these and dS itself, stored in place of dP (SUMS_AND_DS). The
 * value is always passed as a constant, so that each variant is compiled to its own loop. */
enum wanted { NO_SUMS, ROW_SUMS, ALL_SUMS, SUMS_AND_DS };

struct extras {
    float *dbias, *diagonals;
    vf dscale;
};

/* Destinations of a square's P and dS. */
struct square_out {
    uint16_t *p, *ds, *dst;
};

/* How to scale: logits are x times factor, plus the keys' biases if any; dS is multiplied by scale. */
struct scaling {
    const float *x, *bias;
    float factor, scale;
    const struct kept *kept; /* used only with dropout */
};

VINLINE void add_diagonal(struct extras *e, int64_t c, int64_t r, vf d)
{
    float *diagonal = e->diagonals + r - c + EDGE - 1;
    vstore_f32(diagonal, VLANES, vload_f32(diagonal, VLANES) + d);
}

/* Computes P, scale times dS and the extras from logits and dP, for 32 queries, starting at query r of the square at
 * row `at`. */
VINLINE void softmax_backward_span(const struct tiles_backward *b, const struct scaling *m, bool biased, bool drops,
                                   int64_t at, int64_t r, struct square_out to, enum wanted wanted,
                                   struct extras *extras)
{
    vf lse[GROUPS], delta[GROUPS];
    bool amx = b->tiles->amx;
    for (int g = 0; g < GROUPS; g++) {
        lse[g] = vload_f32(b->lse + at + r + g * VLANES, VLANES);
        delta[g] = vload_f32(b->delta + at + r + g * VLANES, VLANES);
    }
    for (int64_t c = 0; c < EDGE; c += 2) {
        vw ds[2];
        for (int i = 0; i < 2; i++) {
            vf p[GROUPS], d[GROUPS];
            for (int g = 0; g < GROUPS; g++) {
                int64_t e = (c + i) * EDGE + r + g * VLANES;
                vf below = biased ? vset(m->bias[c + i]) - lse[g] : -lse[g];
                p[g] = power(vfma(vload_f32(m->x + e, VLANES), vset(m->factor), below));
                vf dp = vload_f32(b->dp + e, VLANES);
                d[g] = p[g] * ((drops ? keep(m->kept, c + i, r + g * VLANES, dp) : dp) - delta[g]);
                if (drops)
                    p[g] = keep(m->kept, c + i, r + g * VLANES, p[g]);
                if (wanted != NO_SUMS)
                    extras->dscale = vfma(d[g], vload_f32(b->s + e, VLANES), extras->dscale);
                if (wanted >= ALL_SUMS)
                    add_diagonal(extras, c + i, r + g * VLANES, d[g]);
                if (wanted == SUMS_AND_DS)
                    vstore_f32(b->dp + e, VLANES, d[g]);
            }
            if (wanted != NO_SUMS) {
                float *bias = extras->dbias + (c + i) * VLANES;
                vstore_f32(bias, VLANES, vload_f32(bias, VLANES) + (d[0] + d[1]));
            }
            vw kept = to_bf16(amx, p[0], p[1]);
            ds[i] = to_bf16(amx, d[0] * vset(m->scale), d[1] * vset(m->scale));
            memcpy(to.p + (c + i) * EDGE + r, &kept, sizeof kept);
            memcpy(to.ds + (c + i) * EDGE + r, &ds[i], sizeof ds[i]);
        }
        store_interleaved(to.dst + r * EDGE + c * VLANES, ds[0], ds[1], 0);
        store_interleaved(to.dst + (r + VLANES) * EDGE + c * VLANES, ds[0], ds[1], VLANES);
    }
}

/* One loop for each combination that models use, and one for all others. */
#define SOFTMAX_BACKWARD(name, biased, drops, wanted)                                                                  \
    static void name(const struct tiles_backward *b, const struct scaling *m, int64_t at, struct square_out to,        \
                     struct extras *extras)                                                                            \
    {                                                                                                                  \
        for (int64_t r = 0; r < EDGE; r += SPAN)                                                                       \
            softmax_backward_span(b, m, biased, drops, at, r, to, wanted, extras);                                     \
    }
SOFTMAX_BACKWARD(softmax_backward_plain, false, false, NO_SUMS)
SOFTMAX_BACKWARD(softmax_backward_plain_rows, false, false, ROW_SUMS)
SOFTMAX_BACKWARD(softmax_backward_plain_all, false, false, ALL_SUMS)
SOFTMAX_BACKWARD(softmax_backward_biased, true, false, NO_SUMS)
SOFTMAX_BACKWARD(softmax_backward_biased_rows, true, false, ROW_SUMS)
SOFTMAX_BACKWARD(softmax_backward_dropout, false, true, ALL_SUMS)
SOFTMAX_BACKWARD(softmax_backward_reciprocal, false, false, SUMS_AND_DS)
SOFTMAX_BACKWARD(softmax_backward_reciprocal_dropout, false, true, SUMS_AND_DS)
#undef SOFTMAX_BACKWARD

/* Computes P and dS of one square, and adds its contribution to the sums that are not products. */
static void softmax_backward_square(const struct job *job, const struct tiles_backward *b, struct square *t,
                                    int64_t which, int64_t x, struct square_out to)
{
    const struct sizes *n = &job->n;
    struct weft_tensor *const *gin = job->call->gin;
    int64_t kd = pad_tiles(n->k), vd = pad_tiles(n->v), at = t->i;
    recompute_reciprocal(job, &b->ra, t, job->spans[which]);
    bool plain = !t->special && !t->reciprocal && t->i > t->j, by_key = plain && t->key_biased;
    bool sums = gin[SCALE] || gin[KEY_BIAS] || gin[POS_BIAS];
    double dscale = 0;
    struct kept kept;
    struct scaling m = {plain ? b->s : b->x, t->key_bias, plain ? t->factor : 1, scale_of(job, t->h), &kept};
    float diagonals[2 * EDGE] = {0};
    struct extras extras = {b->dbias, diagonals, vset(0)};
    b->tiles->product(EDGE, EDGE, kd, b->k, b->qt + at * kd, b->s, false);
    b->tiles->product(EDGE, EDGE, vd, b->v, b->got + at * vd, b->dp, false);
    if (!plain)
        set_logits(job, t, b->s, b->x, EDGE);
    if (job->attr->dropout > 0)
        set_kept(job, t, EDGE, &kept);
    if (t->reciprocal) {
        (job->attr->dropout > 0 ? softmax_backward_reciprocal_dropout : softmax_backward_reciprocal)(b, &m, at, to,
                                                                                                     &extras);
        dscale = reciprocal_square(&b->ra, t, b->dp, m.scale, x);
    } else if (job->attr->dropout > 0) {
        softmax_backward_dropout(b, &m, at, to, &extras);
    } else if (by_key) {
        (sums ? softmax_backward_biased_rows : softmax_backward_biased)(b, &m, at, to, &extras);
    } else if (gin[POS_BIAS]) {
        softmax_backward_plain_all(b, &m, at, to, &extras);
    } else {
        (sums ? softmax_backward_plain_rows : softmax_backward_plain)(b, &m, at, to, &extras);
    }
    if (sums)
        job->scale_parts[which * n->heads + t->h] += vsum(extras.dscale) + dscale;
    float *parts = job->pos_parts + which * n->heads * n->offsets;
    for (int64_t d = 0; n->offsets && d < 2 * EDGE - 1; d++)
        parts[square_offset(job, t, d)] += diagonals[d];
}

/* Adds the contributions of `count` squares, starting at row `first`, to dq, dk, dv and the other sums. */
static void backward_squares(const struct job *job, const struct tiles_backward *b, struct square *t, int64_t which,
                             int64_t first, int64_t count, float *dk, float *dv, bool add)
{
    int64_t kd = pad_tiles(job->n.k), vd = pad_tiles(job->n.v);
    for (int64_t x = 0; x < count; x++) {
        struct square_out to = {b->p + x * SQUARE, b->ds + x * SQUARE, b->dst + x * SQUARE};
        t->i = first + x * EDGE;
        softmax_backward_square(job, b, t, which, x, to);
        count_tile(&job->n, t->i, weft_min(EDGE, job->spans[which].rows - t->i), t->j, 3 * job->n.k + 2 * job->n.v,
                   3 * job->n.own);
    }
    for (int64_t x = 0, at = first; x < count; x++, at += EDGE)
        b->tiles->product(EDGE, vd, EDGE, b->p + x * SQUARE, b->go + at * vd, dv, add || x > 0);
    for (int64_t x = 0, at = first; x < count; x++, at += EDGE)
        b->tiles->product(EDGE, kd, EDGE, b->ds + x * SQUARE, b->q + at * kd, dk, add || x > 0);
    for (int64_t x = 0, at = first; x < count; x++, at += EDGE)
        b->tiles->product(kd, EDGE, EDGE, b->kt, b->dst + x * SQUARE, b->dq + at * kd, t->j > 0);
    reciprocal_products(job, &b->ra, t->j, first, count);
}

/* Visits all queries of one head that attend to the key tile. */
static void backward_tile_keys(const struct job *job, const struct tiles_backward *b, struct square *t, int64_t which,
                               int64_t g)
{
    const struct weft_call *call = job->call;
    const struct sizes *n = &job->n;
    struct span span = job->spans[which];
    int64_t seq = ints(call, SEQ)[span.row], keys = weft_min(EDGE, span.rows - t->j), row = key_row(call, seq, t->j);
    int64_t kv = t->h / n->group, kept = n->group > 1 ? t->j : 0, kd = pad_tiles(n->k), vd = pad_tiles(n->v);
    float *dk = b->dk + kept * kd, *dv = b->dv + kept * vd, dbias[EDGE];
    prefetch(head_of(call->in[K], row + EDGE, kv, n->kv_heads), EDGE);
    prefetch(head_of(call->in[V], row + EDGE, kv, n->kv_heads), EDGE);
    if (call->gin[K])
        prefetch(head_of(call->gin[K], row, kv, n->kv_heads), keys);
    if (call->gin[V])
        prefetch(head_of(call->gin[V], row, kv, n->kv_heads), keys);
    stage(b->k, head_of(call->in[K], row, kv, n->kv_heads), keys, EDGE);
    b->tiles->transpose(EDGE, kd, b->k, b->kt);
    stage(b->v, head_of(call->in[V], row, kv, n->kv_heads), keys, EDGE);
    memset(b->dbias, 0, (size_t)(EDGE * VLANES) * sizeof(float));
    set_key_bias(job, t, row, keys);
    start_stored_tile(job, &b->ra, t, seq, keys);
    for (int64_t i = t->j; i < span.rows; i += BATCH * EDGE)
        backward_squares(job, b, t, which, i, weft_min(BATCH, weft_div_up(span.rows - i, EDGE)), dk, dv,
                         g > 0 || i > t->j);
    for (int64_t c = 0; c < keys; c++)
        dbias[c] = vsum(vload_f32(b->dbias + c * VLANES, VLANES));
    finish_stored_tile(job, &b->ra, t, row, keys, dbias);
    for (int64_t c = 0; call->gin[KEY_BIAS] && c < keys; c++)
        ((float *)call->gin[KEY_BIAS]->data)[(row + c) * n->heads + t->h] = dbias[c];
    if (g == n->group - 1)
        add_own_gradient(job, &b->ra, t->j, dk);
    if (call->gin[K] && g == n->group - 1)
        narrow(head_of(call->gin[K], row, kv, n->kv_heads), dk, kd, keys);
    if (call->gin[V] && g == n->group - 1)
        narrow(head_of(call->gin[V], row, kv, n->kv_heads), dv, vd, keys);
}

static void tiles_bwd_unit(void *context, int64_t unit, int thread)
{
    const struct job *job = context;
    const struct weft_call *call = job->call;
    const struct sizes *n = &job->n;
    struct space local = {.base = call->local + (size_t)thread * call->local_stride};
    struct tiles_backward b = lay_tiles_backward(n, &local);
    int64_t which = unit / n->kv_heads, first = unit % n->kv_heads * n->group;
    struct span span = job->spans[which];
    float ones[EDGE];
    for (int r = 0; r < EDGE; r++)
        ones[r] = 1;
    start_parts(job, which, first);
    start_own(job, &b.ra, span, unit % n->kv_heads);
    b.tiles->begin();
    for (int64_t g = 0; g < n->group; g++) {
        struct square t = start_square(job, ints(call, SEQ)[span.row], first + g);
        if (n->window)
            memset(b.ra.down_bias, 0, (size_t)weft_round_up(span.rows, EDGE) * sizeof(float));
        for (int64_t r = 0; r < span.rows; r += EDGE)
            pack_queries(call, n, &b, span.row + r, weft_min(EDGE, span.rows - r), t.h, r);
        for (t.j = 0; t.j < span.rows; t.j += EDGE)
            backward_tile_keys(job, &b, &t, which, g);
        for (int64_t r = 0; call->gin[Q] && r < span.rows; r += EDGE)
            unstage(head_of(call->gin[Q], span.row + r, t.h, n->heads), b.dq + r * pad_tiles(n->k), EDGE, ones,
                    weft_min(EDGE, span.rows - r));
    }
    b.tiles->end();
}

static void tiles_bwd(const struct weft_call *call)
{
    struct space scratch = {.base = call->scratch};
    struct job job = lay_job(call, &scratch);
    cut_sequences(&job);
    weft_parallel(job.span_count * job.n.kv_heads, tiles_bwd_unit, &job);
    weft_parallel(job.n.heads, sum_parts, &job);
}

#endif
