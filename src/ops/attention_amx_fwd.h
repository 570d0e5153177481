/* SPDX-License-Identifier: MIT
 *
 * attention_amx_fwd.h - the forward pass on tiles (layout in attention_amx.h).
 *
 * First the keys and values of every tile that the call sees are packed, once for all rows and heads that read them.
 * Then a unit of work is a span of rows and a query head.
 */
#ifndef WEFT_ATTENTION_AMX_FWD_H
#define WEFT_ATTENTION_AMX_FWD_H

#include "ops/attention_amx.h"

/* Keys and values of all tiles of all sequences of a call, in the order of [slots][tiles][kv_heads]. */
struct packed {
    int64_t *seen;    /* [slots]: positions of the sequence that some row of the call sees */
    uint16_t *k, *vt; /* [64][kd], [vd][64] */
    float *poison;    /* [64]: 0, or NaN for a row of V that is not finite */
};

/* 32 queries of a unit and what is summed for them. */
struct half {
    struct patch t;
    uint16_t *qt;        /* [kd, 32] */
    float *o;            /* [vd][32] */
    float *top, *weight; /* [32]: largest logit and sum of powers so far */
};

/* A unit has two halves, whose steps alternate: while the powers of one are made, the products of the other run. */
struct tiles_forward {
    struct half half[2];
    float *s[2];    /* [64][32], of a step and the next one */
    uint16_t *p[2]; /* [64, 32], of a step and the one before */
    uint16_t *rows; /* staged */
};

static struct packed lay_packed(const struct weft_call *call, struct space *s)
{
    struct sizes n = sizes_of(call);
    int64_t tiles = n.slots * call->in[TILES]->dim[1] * n.kv_heads;
    return (struct packed){
        .seen = take(s, n.slots, 1, sizeof(int64_t)),
        .k = take_halves(s, tiles, EDGE * deep(n.k)),
        .vt = take_halves(s, tiles, EDGE * deep(n.v)),
        .poison = take_floats(s, tiles, EDGE),
    };
}

static struct tiles_forward lay_tiles_forward(const struct sizes *n, struct space *s)
{
    struct tiles_forward f = {.rows = take_halves(s, EDGE, weft_max(deep(n->k), deep(n->v)))};
    for (int i = 0; i < 2; i++) {
        f.s[i] = take_floats(s, EDGE, SPAN);
        f.p[i] = take_halves(s, EDGE, SPAN);
        f.half[i].qt = take_halves(s, SPAN, deep(n->k));
        f.half[i].o = take_floats(s, deep(n->v), SPAN);
        f.half[i].top = take_floats(s, 1, SPAN);
        f.half[i].weight = take_floats(s, 1, SPAN);
    }
    return f;
}

static enum weft_status tiles_plan(const struct weft_call *max, struct weft_booking *booking)
{
    struct sizes n = sizes_of(max);
    struct space scratch = {0}, local = {0};
    (void)take(&scratch, n.rows, 1, sizeof(struct span));
    (void)lay_packed(max, &scratch);
    (void)lay_tiles_forward(&n, &local);
    return book(booking, &scratch, &local);
}

struct tiles_job {
    struct job job; /* first: what is shared takes a job */
    struct packed packed;
};

/* Zeros a row that is not finite, and tells with NaN. */
static float cleanse(uint16_t *row, int64_t width)
{
    __mmask32 bad = 0;
    __m512i exponent = _mm512_set1_epi16(0x7f80);
    for (int64_t d = 0; d < width; d += 32)
        bad |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(_mm512_loadu_si512(row + d), exponent), exponent);
    if (bad)
        memset(row, 0, (size_t)width * sizeof *row);
    return bad ? NAN : 0;
}

/* One key tile of one sequence, all heads. */
static void pack_unit(void *context, int64_t unit, int thread)
{
    const struct tiles_job *t = context;
    const struct weft_call *call = t->job.call;
    const struct sizes *n = &t->job.n;
    struct space local = {.base = call->local + (size_t)thread * call->local_stride};
    uint16_t *rows = lay_tiles_forward(n, &local).rows;
    int64_t tiles = call->in[TILES]->dim[1], seq = unit / tiles, j = unit % tiles * EDGE, kd = deep(n->k),
            vd = deep(n->v), keys = weft_min(EDGE, t->packed.seen[seq] - j);
    for (int64_t kv = 0; keys > 0 && kv < n->kv_heads; kv++) {
        int64_t at = unit * n->kv_heads + kv, row = key_row(call, seq, j);
        stage(t->packed.k + at * EDGE * kd, head_of(call->in[K], row, kv, n->kv_heads), keys, EDGE);
        stage(rows, head_of(call->in[V], row, kv, n->kv_heads), keys, EDGE);
        for (int64_t c = 0; c < EDGE; c++)
            t->packed.poison[at * EDGE + c] = cleanse(rows + c * vd, vd);
        weft_dnn_tiles_transpose(EDGE, vd, rows, t->packed.vt + at * EDGE * vd);
    }
}

/* Brings what is summed so far from the old tops to the new ones. */
static void raise_tops(const struct half *half, const vf shrink[GROUPS], int64_t vd)
{
    for (int64_t d = 0; d < vd; d++)
        for (int g = 0; g < GROUPS; g++) {
            float *o = half->o + d * SPAN + g * VLANES;
            vstore_f32(o, VLANES, vload_f32(o, VLANES) * shrink[g]);
        }
}

/* From logits s (times factor): powers p, their sums, and the new tops. Runs errands on the way. */
WITH_BF16 static void tiles_soften(const struct half *half, const float *s, float factor, int64_t vd, uint16_t *p,
                                   struct errands *errands)
{
    vf base[GROUPS], shrink[GROUPS], total[GROUPS][2];
    __mmask16 raised = 0;
    for (int g = 0; g < GROUPS; g++) {
        vf old = vload_f32(half->top + g * VLANES, VLANES), high[4] = {old, old, old, old};
        for (int64_t c = 0; c < EDGE; c += 4)
            for (int i = 0; i < 4; i++)
                high[i] = larger(vload_f32(s + (c + i) * SPAN + g * VLANES, VLANES) * vset(factor), high[i]);
        vf top = larger(larger(high[0], high[1]), larger(high[2], high[3]));
        base[g] = vpick(top == vset(-INFINITY), vset(0), top); /* only keys with a bias of -inf so far */
        shrink[g] = power(old - base[g]);
        raised |= _mm512_cmp_ps_mask((__m512)old, (__m512)top, _CMP_NEQ_UQ);
        vstore_f32(half->top + g * VLANES, VLANES, top);
        total[g][0] = total[g][1] = vset(0);
    }
    if (raised)
        raise_tops(half, shrink, vd);
    for (int64_t c = 0; c < EDGE; c += 2) {
        __m512i row[2];
        for (int i = 0; i < 2; i++) {
            vf x[GROUPS];
            for (int g = 0; g < GROUPS; g++) {
                x[g] = power(vfma(vload_f32(s + (c + i) * SPAN + g * VLANES, VLANES), vset(factor), -base[g]));
                total[g][i] += x[g];
            }
            row[i] = halves(x[0], x[1]);
        }
        _mm512_storeu_si512(p + c * VLANES, alternate(row[0], row[1], 0));
        _mm512_storeu_si512(p + (EDGE + c) * VLANES, alternate(row[0], row[1], VLANES));
        if (c % 8 == 6)
            run_slice(errands);
    }
    for (int g = 0; g < GROUPS; g++) {
        float *weight = half->weight + g * VLANES;
        vstore_f32(weight, VLANES, vfma(vload_f32(weight, VLANES), shrink[g], total[g][0] + total[g][1]));
    }
}

/* Queries that see a value which is not finite. */
static void spread_poison(const struct half *half, const float *poison)
{
    const struct patch *t = &half->t;
    for (int64_t c = 0; c < EDGE; c++)
        for (int64_t r = weft_max(0, t->j + c - t->i); poison[c] != 0 && r < SPAN; r++)
            half->weight[r] = NAN;
}

static void start_half(const struct job *job, const struct tiles_forward *f, struct half *half, struct span span,
                       int64_t h)
{
    const struct weft_call *call = job->call;
    const struct sizes *n = &job->n;
    stage(f->rows, head_of(call->in[Q], span.row, h, n->heads), span.rows, SPAN);
    weft_dnn_tiles_pack_transposed(deep(n->k), SPAN, f->rows, half->qt);
    memset(half->o, 0, (size_t)(deep(n->v) * SPAN) * sizeof(float));
    for (int64_t r = 0; r < SPAN; r++) {
        half->top[r] = -INFINITY;
        half->weight[r] = 0;
    }
    half->t = start_patch(job, h);
    half->t.i = ints(call, POS)[span.row];
}

static void finish_half(const struct job *job, const struct half *half, struct span span, int64_t h)
{
    const struct weft_call *call = job->call;
    const struct sizes *n = &job->n;
    float *lse = call->out[LSE]->data, inverse[SPAN];
    for (int64_t r = 0; r < SPAN; r += VLANES) {
        vf weight = vload_f32(half->weight + r, VLANES);
        vstore_f32(inverse + r, VLANES, vset(1) / weight);
        vstore_f32(half->top + r, VLANES, vfma(vload_f32(half->top + r, VLANES), vset(LN2), vlog(weight)));
    }
    for (int64_t r = 0; r < span.rows; r++)
        lse[(span.row + r) * n->heads + h] = half->top[r];
    unstage(head_of(call->out[O], span.row, h, n->heads), half->o, SPAN, inverse, span.rows);
}

/* Steps of a unit: key tile s / halves for half s % halves. */
struct steps {
    const struct tiles_job *all;
    struct tiles_forward f;
    int64_t seq, h, halves, count, keys; /* keys: that the unit sees */
};

/* Where the packed keys of a step stand. */
static int64_t step_tile(const struct steps *u, int64_t s)
{
    int64_t tiles = u->all->job.call->in[TILES]->dim[1];
    return (u->seq * tiles + s / u->halves) * u->all->job.n.kv_heads + u->h / u->all->job.n.group;
}

static struct errand step_scores(const struct steps *u, int64_t s)
{
    int64_t kd = deep(u->all->job.n.k);
    const uint16_t *k = u->all->packed.k + step_tile(u, s) * EDGE * kd;
    return (struct errand){EDGE, SPAN, kd, k, u->f.half[s % u->halves].qt, u->f.s[s % 2], false};
}

static struct errand step_values(const struct steps *u, int64_t s)
{
    int64_t vd = deep(u->all->job.n.v);
    const uint16_t *vt = u->all->packed.vt + step_tile(u, s) * EDGE * vd;
    return (struct errand){vd, SPAN, EDGE, vt, u->f.p[s % 2], u->f.half[s % u->halves].o, true};
}

static void run_step(struct steps *u, int64_t s)
{
    const struct job *job = &u->all->job;
    struct half *half = &u->f.half[s % u->halves];
    struct patch *t = &half->t;
    struct errands errands = {0};
    if (s > 0 && u->halves == 2)
        errands.list[errands.count++] = step_values(u, s - 1);
    if (s + 1 < u->count)
        errands.list[errands.count++] = step_scores(u, s + 1);
    t->j = s / u->halves * EDGE;
    bool plain = !t->biased && t->j + EDGE <= t->i;
    if (!plain) {
        set_key_bias(job, t, key_row(job->call, u->seq, t->j), weft_min(EDGE, u->keys - t->j));
        set_logits(job, t, u->f.s[s % 2], u->f.s[s % 2]);
    }
    tiles_soften(half, u->f.s[s % 2], plain ? t->factor : 1, deep(job->n.v), u->f.p[s % 2], &errands);
    spread_poison(half, u->all->packed.poison + step_tile(u, s) * EDGE);
    if (u->halves == 1 || s + 1 == u->count)
        errands.list[errands.count++] = step_values(u, s);
    finish_errands(&errands);
}

/* One head of a span of rows. The spans of a head follow each other, so that its keys stay in the cache. */
static void tiles_unit(void *context, int64_t unit, int thread)
{
    const struct tiles_job *all = context;
    const struct weft_call *call = all->job.call;
    const struct sizes *n = &all->job.n;
    struct space local = {.base = call->local + (size_t)thread * call->local_stride};
    struct span span = all->job.spans[unit % all->job.span_count], part[2];
    struct steps u = {.all = all, .f = lay_tiles_forward(n, &local), .h = unit / all->job.span_count};
    u.seq = ints(call, SEQ)[span.row];
    u.keys = ints(call, POS)[span.row] + span.rows;
    u.halves = span.rows > SPAN ? 2 : 1;
    u.count = u.halves * weft_div_up(u.keys, EDGE);
    part[0] = (struct span){span.row, weft_min(SPAN, span.rows)};
    part[1] = (struct span){span.row + SPAN, span.rows - SPAN};
    for (int64_t i = 0; i < u.halves; i++)
        start_half(&all->job, &u.f, &u.f.half[i], part[i], u.h);
    weft_dnn_tiles_begin();
    struct errand first = step_scores(&u, 0);
    run_errand(&first, 0, EDGE);
    for (int64_t s = 0; s < u.count; s++)
        run_step(&u, s);
    weft_dnn_tiles_end();
    for (int64_t i = 0; i < u.halves; i++)
        finish_half(&all->job, &u.f.half[i], part[i], u.h);
}

static void tiles_run(const struct weft_call *call)
{
    struct space scratch = {.base = call->scratch};
    struct tiles_job t = {.job = {.call = call, .n = sizes_of(call)}};
    t.job.spans = take(&scratch, t.job.n.rows, 1, sizeof(struct span));
    t.packed = lay_packed(call, &scratch);
    t.job.span_count = cut_spans(call, EDGE, t.job.spans);
    memset(t.packed.seen, 0, (size_t)t.job.n.slots * sizeof *t.packed.seen);
    for (int64_t r = 0; r < t.job.n.rows; r++) {
        int64_t *seen = &t.packed.seen[ints(call, SEQ)[r]];
        *seen = weft_max(*seen, ints(call, POS)[r] + 1);
    }
    weft_parallel(t.job.n.slots * call->in[TILES]->dim[1], pack_unit, &t);
    weft_parallel(t.job.span_count * t.job.n.heads, tiles_unit, &t);
}

#endif
