/* SPDX-License-Identifier: MIT
 *
 * attention_amx_bwd.h - the backward pass on tiles (layout in attention_amx.h).
 *
 * A unit of work is a sequence and a key head, as in attention_bwd.h; its query heads come one after the other: the
 * rows of a head are packed once, then key tiles in order, for each the queries that see it in order.
 */
#ifndef WEFT_ATTENTION_AMX_BWD_H
#define WEFT_ATTENTION_AMX_BWD_H

#include "ops/attention_amx.h"
#include "ops/attention_bwd.h"

struct tiles_backward {
    /* of the sequence, a tile of 64 queries after the other */
    uint16_t *q, *qt, *go, *got; /* right operands */
    float *dq;                   /* [kd][64] */
    float *lse, *delta;          /* [64] */
    /* of the sequence when heads share keys, else of one tile */
    float *dk, *dv; /* [64][kd], [64][vd] */
    /* of one tile of keys */
    uint16_t *rows, *k, *kt, *v; /* staged rows, left operands */
    float *dbias;                /* [64][16] */
    /* of 64 keys and 64 queries */
    uint16_t *p, *ds, *dst; /* left operands of dV and dK, right operand of dQ^t */
    /* of one patch, and for the products of the next one */
    float *s[2], *dp[2];
    float *x; /* logits where they take a pass of their own */
};

static struct tiles_backward lay_tiles_backward(const struct sizes *n, struct space *s)
{
    int64_t kd = deep(n->k), vd = deep(n->v), rows = weft_round_up(n->longest, EDGE), kept = n->group > 1 ? rows : EDGE;
    return (struct tiles_backward){
        .q = take_halves(s, rows, kd),
        .qt = take_halves(s, rows, kd),
        .go = take_halves(s, rows, vd),
        .got = take_halves(s, rows, vd),
        .dq = take_floats(s, rows, kd),
        .lse = take_floats(s, rows, 1),
        .delta = take_floats(s, rows, 1),
        .dk = take_floats(s, kept, kd),
        .dv = take_floats(s, kept, vd),
        .rows = take_halves(s, EDGE, weft_max(kd, vd)),
        .k = take_halves(s, EDGE, kd),
        .kt = take_halves(s, EDGE, kd),
        .v = take_halves(s, EDGE, vd),
        .dbias = take_floats(s, EDGE, VLANES),
        .p = take_halves(s, EDGE, EDGE),
        .ds = take_halves(s, EDGE, EDGE),
        .dst = take_halves(s, EDGE, EDGE),
        .s = {take_floats(s, EDGE, SPAN), take_floats(s, EDGE, SPAN)},
        .dp = {take_floats(s, EDGE, SPAN), take_floats(s, EDGE, SPAN)},
        .x = take_floats(s, EDGE, SPAN),
    };
}

static enum weft_status tiles_bwd_plan(const struct weft_call *max, struct weft_booking *booking)
{
    struct space scratch = {0}, local = {0};
    struct job job = lay_job(max, &scratch);
    (void)lay_tiles_backward(&job.n, &local);
    return book(booking, &scratch, &local);
}

/* Packs 64 rows of one head, from row `at` of the sequence on. delta = <do, o> - dlse; <do, o> is the diagonal of the
 * product that dP is, with o for v: where a row has one key, dP - <do, o> is exactly 0. */
static void start_queries(const struct weft_call *call, const struct sizes *n, const struct tiles_backward *b,
                          int64_t row, int64_t rows, int64_t h, int64_t at)
{
    int64_t kd = deep(n->k), vd = deep(n->v);
    const struct weft_tensor *dlse = call->gout[LSE];
    stage(b->rows, head_of(call->in[Q], row, h, n->heads), rows, EDGE);
    weft_dnn_tiles_pack(EDGE, kd, b->rows, b->q + at * kd);
    weft_dnn_tiles_pack_transposed(kd, EDGE, b->rows, b->qt + at * kd);
    if (call->gout[O])
        stage(b->rows, head_of(call->gout[O], row, h, n->heads), rows, EDGE);
    else
        memset(b->rows, 0, (size_t)(EDGE * vd) * sizeof *b->rows);
    weft_dnn_tiles_pack(EDGE, vd, b->rows, b->go + at * vd);
    weft_dnn_tiles_pack_transposed(vd, EDGE, b->rows, b->got + at * vd);
    stage(b->v, head_of(call->out[O], row, h, n->heads), rows, EDGE);
    for (int64_t r = 0; r < EDGE; r++) {
        int64_t stat = (row + r) * n->heads + h, column = r % SPAN;
        if (column == 0)
            weft_dnn_tiles_product(SPAN, SPAN, vd, b->v + r * vd, b->got + (at + r) * vd, b->dp[0], false);
        b->delta[at + r] = b->dp[0][column * SPAN + column];
        b->lse[at + r] = r < rows ? ((const float *)call->out[LSE]->data)[stat] * LOG2E : INFINITY;
        if (dlse && r < rows)
            b->delta[at + r] -= ((const float *)dlse->data)[stat];
    }
}

/* What else is summed from dS: over rows, along diagonals, and with <q,k>. */
struct extras {
    float *dbias, *diagonals;
    vf dscale;
};

VINLINE void add_extras(struct extras *e, int64_t c, int64_t r, vf s, vf d)
{
    float *bias = e->dbias + c * VLANES, *diagonal = e->diagonals + r - c + EDGE - 1;
    e->dscale = vfma(d, s, e->dscale);
    vstore_f32(bias, VLANES, vload_f32(bias, VLANES) + d);
    vstore_f32(diagonal, VLANES, vload_f32(diagonal, VLANES) + d);
}

/* From logits x (times factor) and dP of the patch at row `at`: P and scale times dS, and the extras if wanted. Runs
 * errands on the way. */
WITH_BF16 VINLINE void soften_patch(const struct tiles_backward *b, const float *x, float factor, float scale,
                                    int64_t at, struct errands *errands, struct extras *extras)
{
    int64_t r = at % EDGE, now = at / SPAN % 2;
    vf lse[GROUPS], delta[GROUPS];
    for (int g = 0; g < GROUPS; g++) {
        lse[g] = vload_f32(b->lse + at + g * VLANES, VLANES);
        delta[g] = vload_f32(b->delta + at + g * VLANES, VLANES);
    }
    for (int64_t c = 0; c < EDGE; c += 2) {
        __m512i ds[2];
        for (int i = 0; i < 2; i++) {
            vf p[GROUPS], d[GROUPS];
            for (int g = 0; g < GROUPS; g++) {
                int64_t e = (c + i) * SPAN + g * VLANES;
                p[g] = power(vfma(vload_f32(x + e, VLANES), vset(factor), -lse[g]));
                d[g] = p[g] * (vload_f32(b->dp[now] + e, VLANES) - delta[g]);
                if (extras)
                    add_extras(extras, c + i, g * VLANES, vload_f32(b->s[now] + e, VLANES), d[g]);
                d[g] *= vset(scale);
            }
            ds[i] = halves(d[0], d[1]);
            _mm512_storeu_si512(b->p + (c + i) * EDGE + r, halves(p[0], p[1]));
            _mm512_storeu_si512(b->ds + (c + i) * EDGE + r, ds[i]);
        }
        _mm512_storeu_si512(b->dst + r * EDGE + c * VLANES, alternate(ds[0], ds[1], 0));
        _mm512_storeu_si512(b->dst + (r + VLANES) * EDGE + c * VLANES, alternate(ds[0], ds[1], VLANES));
        if (c % 8 == 6)
            run_slice(errands);
    }
}

WITH_BF16 static void soften_plain(const struct tiles_backward *b, const float *x, float factor, float scale,
                                   int64_t at, struct errands *errands)
{
    soften_patch(b, x, factor, scale, at, errands, NULL);
}

WITH_BF16 static void soften_extras(const struct tiles_backward *b, const float *x, float factor, float scale,
                                    int64_t at, struct errands *errands, struct extras *extras)
{
    soften_patch(b, x, factor, scale, at, errands, extras);
}

/* The products of the patch at row `at` of the sequence. */
static struct errands patch_products(const struct tiles_backward *b, const struct sizes *n, int64_t at)
{
    int64_t kd = deep(n->k), vd = deep(n->v), now = at / SPAN % 2;
    return (struct errands){.list = {{EDGE, SPAN, kd, b->k, b->qt + at * kd, b->s[now], false},
                                     {EDGE, SPAN, vd, b->v, b->got + at * vd, b->dp[now], false}},
                            .count = 2};
}

/* P and dS of 64 keys and the 32 queries from t->i on, and the products of the next patch. */
static void backward_patch(const struct job *job, const struct tiles_backward *b, struct patch *t, int64_t which,
                           struct errands *errands)
{
    const struct sizes *n = &job->n;
    struct weft_tensor *const *gin = job->call->gin;
    bool plain = !t->biased && t->i >= t->j + EDGE;
    const float *s = b->s[t->i / SPAN % 2], *x = plain ? s : b->x;
    float scale = head_scale(job, t->h), factor = plain ? t->factor : 1, diagonals[EDGE + SPAN] = {0};
    if (!plain)
        set_logits(job, t, s, b->x);
    if (gin[SCALE] || gin[KEY_BIAS] || gin[POS_BIAS]) {
        struct extras extras = {b->dbias, diagonals, vset(0)};
        soften_extras(b, x, factor, scale, t->i, errands, &extras);
        job->scale_parts[which * n->heads + t->h] += vsum(extras.dscale);
    } else {
        soften_plain(b, x, factor, scale, t->i, errands);
    }
    float *parts = job->pos_parts + which * n->heads * n->offsets;
    for (int64_t d = 0; n->offsets && d < EDGE + SPAN - 1; d++)
        parts[patch_offset(job, t, d)] += diagonals[d];
    finish_errands(errands);
}

/* All queries of one head that see the key tile. */
static void backward_tile_keys(const struct job *job, const struct tiles_backward *b, struct patch *t, int64_t which,
                               int64_t g)
{
    const struct weft_call *call = job->call;
    const struct sizes *n = &job->n;
    struct span span = job->spans[which];
    int64_t keys = weft_min(EDGE, span.rows - t->j), row = key_row(call, ints(call, SEQ)[span.row], t->j);
    int64_t kv = t->h / n->group, kept = n->group > 1 ? t->j : 0, kd = deep(n->k), vd = deep(n->v);
    float *dk = b->dk + kept * kd, *dv = b->dv + kept * vd;
    stage(b->k, head_of(call->in[K], row, kv, n->kv_heads), keys, EDGE);
    weft_dnn_tiles_transpose(EDGE, kd, b->k, b->kt);
    stage(b->v, head_of(call->in[V], row, kv, n->kv_heads), keys, EDGE);
    memset(b->dbias, 0, (size_t)(EDGE * VLANES) * sizeof(float));
    set_key_bias(job, t, row, keys);
    struct errands errands = patch_products(b, n, t->j);
    finish_errands(&errands);
    for (int64_t i = t->j; i < span.rows; i += EDGE) {
        for (t->i = i; t->i < i + EDGE; t->i += SPAN) {
            errands = (struct errands){0};
            if (t->i + SPAN < weft_round_up(span.rows, EDGE))
                errands = patch_products(b, n, t->i + SPAN);
            backward_patch(job, b, t, which, &errands);
        }
        bool add = g > 0 || i > t->j;
        weft_dnn_tiles_product(EDGE, vd, EDGE, b->p, b->go + i * vd, dv, add);
        weft_dnn_tiles_product(EDGE, kd, EDGE, b->ds, b->q + i * kd, dk, add);
        weft_dnn_tiles_product(kd, EDGE, EDGE, b->kt, b->dst, b->dq + i * kd, t->j > 0);
    }
    for (int64_t c = 0; call->gin[KEY_BIAS] && c < keys; c++)
        ((float *)call->gin[KEY_BIAS]->data)[(row + c) * n->heads + t->h] =
            vsum(vload_f32(b->dbias + c * VLANES, VLANES));
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
    weft_dnn_tiles_begin();
    for (int64_t g = 0; g < n->group; g++) {
        struct patch t = start_patch(job, first + g);
        for (int64_t r = 0; r < span.rows; r += EDGE)
            start_queries(call, n, &b, span.row + r, weft_min(EDGE, span.rows - r), t.h, r);
        for (t.j = 0; t.j < span.rows; t.j += EDGE)
            backward_tile_keys(job, &b, &t, which, g);
        for (int64_t r = 0; call->gin[Q] && r < span.rows; r += EDGE)
            unstage(head_of(call->gin[Q], span.row + r, t.h, n->heads), b.dq + r * deep(n->k), EDGE, ones,
                    weft_min(EDGE, span.rows - r));
    }
    weft_dnn_tiles_end();
}

static void tiles_bwd(const struct weft_call *call)
{
    struct space scratch = {.base = call->scratch};
    struct job job = lay_job(call, &scratch);
    job.span_count = cut_spans(call, INT32_MAX, job.spans);
    weft_parallel(job.span_count * job.n.kv_heads, tiles_bwd_unit, &job);
    weft_parallel(job.n.heads, sum_parts, &job);
}

#endif
