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

struct tiles_forward {
    uint16_t *rows, *qt, *p; /* staged rows, right operands [kd, 64] and [64, 64] */
    float *s, *o;            /* [64][64], [vd][64] */
    float *top, *weight;     /* [64]: largest logit and sum of powers so far */
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
    return (struct tiles_forward){
        .rows = take_halves(s, EDGE, weft_max(deep(n->k), deep(n->v))),
        .qt = take_halves(s, EDGE, deep(n->k)),
        .p = take_halves(s, EDGE, EDGE),
        .s = take_floats(s, EDGE, EDGE),
        .o = take_floats(s, deep(n->v), EDGE),
        .top = take_floats(s, 1, EDGE),
        .weight = take_floats(s, 1, EDGE),
    };
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

/* Brings the sums of 32 queries from the old tops to the new ones. */
static void raise_tops(float *o, int64_t columns, const vf shrink[GROUPS], int64_t vd)
{
    for (int64_t d = 0; d < vd; d++)
        for (int g = 0; g < GROUPS; g++) {
            float *at = o + d * columns + g * VLANES;
            vstore_f32(at, VLANES, vload_f32(at, VLANES) * shrink[g]);
        }
}

/* For the 32 queries from r on: powers of the logits (s times factor), their sums, and the new tops. */
WITH_BF16 static void tiles_soften(const struct tiles_forward *f, int64_t r, int64_t columns, float factor, int64_t vd)
{
    const float *s = f->s + r;
    uint16_t *to = f->p + r * EDGE;
    vf base[GROUPS], shrink[GROUPS], total[GROUPS][2];
    __mmask16 raised = 0;
    for (int g = 0; g < GROUPS; g++) {
        vf old = vload_f32(f->top + r + g * VLANES, VLANES), high[4] = {old, old, old, old};
        for (int64_t c = 0; c < EDGE; c += 4)
            for (int i = 0; i < 4; i++)
                high[i] = larger(vload_f32(s + (c + i) * columns + g * VLANES, VLANES) * vset(factor), high[i]);
        vf top = larger(larger(high[0], high[1]), larger(high[2], high[3]));
        base[g] = vpick(top == vset(-INFINITY), vset(0), top); /* only keys with a bias of -inf so far */
        shrink[g] = power(old - base[g]);
        raised |= _mm512_cmp_ps_mask((__m512)old, (__m512)top, _CMP_NEQ_UQ);
        vstore_f32(f->top + r + g * VLANES, VLANES, top);
        total[g][0] = total[g][1] = vset(0);
    }
    if (raised)
        raise_tops(f->o + r, columns, shrink, vd);
    for (int64_t c = 0; c < EDGE; c += 2) {
        __m512i row[2];
        for (int i = 0; i < 2; i++) {
            vf p[GROUPS];
            for (int g = 0; g < GROUPS; g++) {
                p[g] = power(vfma(vload_f32(s + (c + i) * columns + g * VLANES, VLANES), vset(factor), -base[g]));
                total[g][i] += p[g];
            }
            row[i] = halves(p[0], p[1]);
        }
        _mm512_storeu_si512(to + c * VLANES, alternate(row[0], row[1], 0));
        _mm512_storeu_si512(to + (EDGE + c) * VLANES, alternate(row[0], row[1], VLANES));
    }
    for (int g = 0; g < GROUPS; g++) {
        float *weight = f->weight + r + g * VLANES;
        vstore_f32(weight, VLANES, vfma(vload_f32(weight, VLANES), shrink[g], total[g][0] + total[g][1]));
    }
}

/* Queries that see a value which is not finite. */
static void spread_poison(const struct tiles_forward *f, const struct square *t, const float *poison)
{
    for (int64_t c = 0; c < EDGE; c++)
        for (int64_t r = weft_max(0, t->j + c - t->i); poison[c] != 0 && r < EDGE; r++)
            f->weight[r] = NAN;
}

static void start_tiles(const struct weft_call *call, const struct sizes *n, const struct tiles_forward *f,
                        struct span span, int64_t h, int64_t columns)
{
    stage(f->rows, head_of(call->in[Q], span.row, h, n->heads), span.rows, columns);
    weft_dnn_tiles_pack_transposed(deep(n->k), columns, f->rows, f->qt);
    memset(f->o, 0, (size_t)(deep(n->v) * columns) * sizeof(float));
    for (int64_t r = 0; r < EDGE; r++) {
        f->top[r] = -INFINITY;
        f->weight[r] = 0;
    }
}

static void finish_tiles(const struct weft_call *call, const struct sizes *n, const struct tiles_forward *f,
                         struct span span, int64_t h, int64_t columns)
{
    float *lse = call->out[LSE]->data, inverse[EDGE];
    for (int64_t r = 0; r < EDGE; r += VLANES) {
        vf weight = vload_f32(f->weight + r, VLANES);
        vstore_f32(inverse + r, VLANES, vset(1) / weight);
        vstore_f32(f->top + r, VLANES, vfma(vload_f32(f->top + r, VLANES), vset(LN2), vlog(weight)));
    }
    for (int64_t r = 0; r < span.rows; r++)
        lse[(span.row + r) * n->heads + h] = f->top[r];
    unstage(head_of(call->out[O], span.row, h, n->heads), f->o, columns, inverse, span.rows);
}

/* One head of a span of rows. The spans of a head follow each other, so that its keys stay in the cache. */
static void tiles_unit(void *context, int64_t unit, int thread)
{
    const struct tiles_job *all = context;
    const struct weft_call *call = all->job.call;
    const struct sizes *n = &all->job.n;
    const struct packed *packed = &all->packed;
    struct space local = {.base = call->local + (size_t)thread * call->local_stride};
    struct tiles_forward f = lay_tiles_forward(n, &local);
    struct span span = all->job.spans[unit % all->job.span_count];
    int64_t h = unit / all->job.span_count, seq = ints(call, SEQ)[span.row], kd = deep(n->k), vd = deep(n->v);
    int64_t columns = weft_round_up(span.rows, SPAN), tile = seq * call->in[TILES]->dim[1];
    struct square t = start_square(&all->job, h);
    t.i = ints(call, POS)[span.row];
    start_tiles(call, n, &f, span, h, columns);
    weft_dnn_tiles_begin();
    for (t.j = 0; t.j < t.i + span.rows; t.j += EDGE, tile++) {
        int64_t keys = weft_min(EDGE, t.i + span.rows - t.j), at = tile * n->kv_heads + h / n->group;
        bool plain = !t.biased && t.j + EDGE <= t.i;
        weft_dnn_tiles_product(EDGE, columns, kd, packed->k + at * EDGE * kd, f.qt, f.s, false);
        if (!plain) {
            set_key_bias(&all->job, &t, key_row(call, seq, t.j), keys);
            set_logits(&all->job, &t, f.s, f.s, columns);
        }
        for (int64_t r = 0; r < columns; r += SPAN)
            tiles_soften(&f, r, columns, plain ? t.factor : 1, vd);
        spread_poison(&f, &t, packed->poison + at * EDGE);
        weft_dnn_tiles_product(vd, columns, EDGE, packed->vt + at * EDGE * vd, f.p, f.o, true);
    }
    weft_dnn_tiles_end();
    finish_tiles(call, n, &f, span, h, columns);
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
