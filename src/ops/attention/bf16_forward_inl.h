/* SPDX-License-Identifier: MIT
 *
 * bf16_forward_inl.h - the forward pass on tiles (see bf16_inl.h for the layout).
 *
 * First, the keys and values of every visible tile are packed, once for all rows and heads that read them. After that,
 * a unit of work is a span of rows and a query head. Single rows are computed in a different way (bf16_decode_inl.h),
 * with bit-identical results.
 */
#ifndef WEFT_ATTENTION_BF16_FWD_H
#define WEFT_ATTENTION_BF16_FWD_H

#include "ops/attention/bf16_decode_inl.h"
#include "ops/attention/bf16_reciprocal_inl.h"

/* The packed keys and values of all sequences of a call, [slots][kv_heads][tiles]: each tile holds K [64][kd] and V^t
 * [vd][64]. */
struct packed {
    int64_t *seen; /* [slots]: number of positions of the sequence that are visible to some row */
    uint16_t *kv;
    uint64_t *poison; /* per tile: bit c is set if row c of V has non-finite values and was packed as zeros */
};

struct tiles_forward {
    const struct weft_dnn_tiles *tiles;
    uint16_t *rows, *qt, *p; /* staged rows; right operands [kd, 32] and [64, 32] */
    float *s, *o;            /* scores [64][32], outputs [vd][32] */
    float *top, *weight;     /* [32]: running maximum of logits and sum of powers */
    struct reciprocal_forward ra;
};

static struct packed lay_packed(const struct weft_call *call, struct space *s)
{
    struct sizes n = sizes_of(call);
    int64_t tiles = n.slots * call->in[TILES]->dim[1] * n.kv_heads;
    return (struct packed){
        .seen = take(s, n.slots, 1, sizeof(int64_t)),
        .kv = take_bf16(s, tiles, EDGE * (pad_tiles(n.k) + pad_tiles(n.v))),
        .poison = take(s, tiles, 1, sizeof(uint64_t)),
    };
}

static struct tiles_forward lay_tiles_forward(const struct sizes *n, struct space *s)
{
    return (struct tiles_forward){
        .tiles = weft_dnn_tiles(),
        .rows = take_bf16(s, EDGE, weft_max(pad_tiles(n->k), pad_tiles(n->v))),
        .qt = take_bf16(s, SPAN, pad_tiles(n->k)),
        .p = take_bf16(s, EDGE, SPAN),
        .s = take_floats(s, EDGE, SPAN),
        .o = take_floats(s, pad_tiles(n->v), SPAN),
        .top = take_floats(s, 1, SPAN),
        .weight = take_floats(s, 1, SPAN),
        .ra = lay_reciprocal_forward(n, s),
    };
}

static enum weft_status tiles_plan(const struct weft_call *max, struct weft_booking *booking)
{
    struct sizes n = sizes_of(max);
    struct space scratch = {0}, local = {0};
    (void)take(&scratch, n.rows, 1, sizeof(struct span));
    (void)lay_packed(max, &scratch);
    struct space row = {0};
    (void)lay_tiles_forward(&n, &local);
    (void)lay_row_forward(&n, &row); /* single rows use the same memory */
    if (row.status != WEFT_OK || row.used > local.used)
        local = row;
    return book(booking, &scratch, &local);
}

struct tiles_job {
    struct job job;
    struct packed packed;
    int64_t row_heads; /* number of heads in a unit of work for a single row */
};

/* Returns whether all values are finite. */
static bool all_finite(const uint16_t *x, int64_t count)
{
    uint16_t bad = 0;
    for (int64_t i = 0; i < count; i++)
        bad |= (x[i] & 0x7f80) == 0x7f80;
    return !bad;
}

/* Zeroes the rows that have non-finite values; returns a mask of these rows. */
static uint64_t zero_nonfinite_rows(uint16_t *rows, int64_t width)
{
    uint64_t poison = 0;
    if (all_finite(rows, EDGE * width))
        return 0;
    for (int64_t c = 0; c < EDGE; c++)
        if (!all_finite(rows + c * width, width)) {
            memset(rows + c * width, 0, (size_t)width * sizeof *rows);
            poison |= (uint64_t)1 << c;
        }
    return poison;
}

/* Returns the index of a key tile in the packed array. */
static int64_t packed_at(const struct weft_call *call, const struct sizes *n, int64_t seq, int64_t kv, int64_t tile)
{
    return (seq * n->kv_heads + kv) * call->in[TILES]->dim[1] + tile;
}

/* Packs one unit of work: all heads of one key tile of one sequence. */
static void pack_unit(void *context, int64_t unit, int thread)
{
    const struct tiles_job *t = context;
    const struct weft_call *call = t->job.call;
    const struct sizes *n = &t->job.n;
    struct space local = {.base = call->local + (size_t)thread * call->local_stride};
    struct tiles_forward f = lay_tiles_forward(n, &local);
    int64_t tiles = call->in[TILES]->dim[1], seq = unit / tiles, tile = unit % tiles, kd = pad_tiles(n->k),
            vd = pad_tiles(n->v);
    int64_t keys = weft_min(EDGE, t->packed.seen[seq] - tile * EDGE);
    for (int64_t kv = 0; keys > 0 && kv < n->kv_heads; kv++) {
        int64_t at = packed_at(call, n, seq, kv, tile), row = key_row(call, seq, tile * EDGE);
        uint16_t *to = t->packed.kv + at * EDGE * (kd + vd);
        stage(to, head_of(call->in[K], row, kv, n->kv_heads), keys, EDGE);
        stage(f.rows, head_of(call->in[V], row, kv, n->kv_heads), keys, EDGE);
        t->packed.poison[at] = zero_nonfinite_rows(f.rows, vd);
        f.tiles->transpose(EDGE, vd, f.rows, to + EDGE * kd);
    }
}

/* Rescales the sums so far from the old maxima to the new ones. */
static void rescale_sums(const struct tiles_forward *f, const vf shrink[GROUPS], int64_t vd)
{
    for (int64_t d = 0; d < vd; d++)
        for (int g = 0; g < GROUPS; g++) {
            float *o = f->o + d * SPAN + g * VLANES;
            vf x = vload_f32(o, VLANES) * shrink[g];
            vi small =
                (vabs(x) < vset(WEFT_DNN_TILES_SMALLEST)) & (shrink[g] != vset(1)); /* where the maximum changed */
            vstore_f32(o, VLANES, vpick(small, vset(0), x));
        }
}

/* Updates the running maxima with the logits, which are s times factor, where factor >= 0, plus the keys' biases if
 * any. */
VINLINE void update_max(const struct tiles_forward *f, float factor, const float *bias, int64_t vd, vf base[GROUPS],
                        vf shrink[GROUPS])
{
    vi raised = vseti(0);
    for (int g = 0; g < GROUPS; g++) {
        vf old = vload_f32(f->top + g * VLANES, VLANES), high[4];
        high[0] = high[1] = high[2] = high[3] = vset(-INFINITY);
        for (int64_t c = 0; c < EDGE; c += 4)
            for (int i = 0; i < 4; i++) {
                vf s = vload_f32(f->s + (c + i) * SPAN + g * VLANES, VLANES);
                high[i] = vmax(bias ? vfma(s, vset(factor), vset(bias[c + i])) : s, high[i]);
            }
        vf highest = vmax(vmax(high[0], high[1]), vmax(high[2], high[3]));
        vf top = vmax(bias ? highest : highest * vset(factor), old);
        base[g] = vpick(top == vset(-INFINITY), vset(0), top); /* -inf: all keys have that bias */
        shrink[g] = power(old - base[g]);
        raised |= old != top;
        vstore_f32(f->top + g * VLANES, VLANES, top);
        keep_awake(f->tiles->amx);
    }
    if (vany(raised))
        rescale_sums(f, shrink, vd);
}

/* Computes the powers of the logits and their sums. Also prefetches the 16 KB at `soon`: V^t of this tile and K of the
 * next. */
VINLINE void tiles_softmax(const struct tiles_forward *f, float factor, const float *bias, const struct kept *kept,
                           int64_t vd, const char *soon)
{
    vf base[GROUPS], shrink[GROUPS], total[GROUPS][2] = {{{0}}};
    bool amx = f->tiles->amx;
    update_max(f, factor, bias, vd, base, shrink);
    for (int64_t c = 0; c < EDGE; c += 2) {
        vw row[2];
        for (int i = 0; i < 2; i++) {
            vf p[GROUPS];
            for (int g = 0; g < GROUPS; g++) {
                vf below = bias ? vset(bias[c + i]) - base[g] : -base[g];
                p[g] = power(vfma(vload_f32(f->s + (c + i) * SPAN + g * VLANES, VLANES), vset(factor), below));
                total[g][i] += p[g];
                if (kept)
                    p[g] = keep(kept, c + i, g * VLANES, p[g]);
            }
            row[i] = to_bf16(amx, p[0], p[1]);
        }
        store_interleaved(f->p + c * VLANES, row[0], row[1], 0);
        store_interleaved(f->p + (EDGE + c) * VLANES, row[0], row[1], VLANES);
        for (int line = 0; line < 8; line++, soon += 64)
            __builtin_prefetch(soon);
        keep_awake(f->tiles->amx);
    }
    for (int g = 0; g < GROUPS; g++) {
        float *weight = f->weight + g * VLANES;
        vstore_f32(weight, VLANES, vfma(vload_f32(weight, VLANES), shrink[g], total[g][0] + total[g][1]));
    }
}

static void tiles_softmax_plain(const struct tiles_forward *f, float factor, int64_t vd, const char *soon)
{
    tiles_softmax(f, factor, NULL, NULL, vd, soon);
}

static void tiles_softmax_biased(const struct tiles_forward *f, const struct square *t, int64_t vd, const char *soon)
{
    tiles_softmax(f, t->factor, t->key_bias, NULL, vd, soon);
}

static void tiles_softmax_kept(const struct tiles_forward *f, const struct kept *kept, int64_t vd, const char *soon)
{
    tiles_softmax(f, 1, NULL, kept, vd, soon);
}

/* Returns a mask of the queries that attend to a non-finite row of V. */
static uint32_t poisoned(const struct square *t, uint64_t poison)
{
    int64_t first = poison ? weft_max(0, t->j + __builtin_ctzll(poison) - t->i) : SPAN;
    return first < SPAN ? ~(uint32_t)0 << first : 0;
}

static void start_tiles(const struct weft_call *call, const struct sizes *n, const struct tiles_forward *f,
                        struct span span, int64_t h)
{
    prefetch(head_of(call->out[O], span.row, h, n->heads), span.rows);
    stage(f->rows, head_of(call->in[Q], span.row, h, n->heads), span.rows, SPAN);
    f->tiles->pack_transposed(pad_tiles(n->k), SPAN, f->rows, f->qt);
    memset(f->o, 0, (size_t)(pad_tiles(n->v) * SPAN) * sizeof(float));
    for (int64_t r = 0; r < SPAN; r++) {
        f->top[r] = -INFINITY;
        f->weight[r] = 0;
    }
}

static void finish_tiles(const struct weft_call *call, const struct sizes *n, const struct tiles_forward *f,
                         struct span span, int64_t h, uint32_t poison)
{
    float *lse = call->out[LSE]->data, inverse[SPAN];
    for (int64_t r = 0; r < SPAN; r += VLANES) {
        vf weight = vload_f32(f->weight + r, VLANES);
        vstore_f32(inverse + r, VLANES, vpick(vlanes((uint16_t)(poison >> r)), vset(NAN), vset(1) / weight));
        vstore_f32(f->top + r, VLANES, vfma(vload_f32(f->top + r, VLANES), vset(LN2), vlog(weight)));
    }
    for (int64_t r = 0; r < span.rows; r++)
        lse[(span.row + r) * n->heads + h] = f->top[r];
    unstage(head_of(call->out[O], span.row, h, n->heads), f->o, SPAN, inverse, span.rows);
}

/* Computes one unit of work: one head of a span of rows. Spans of the same head are consecutive, so that its keys stay
 * in the cache. */
static void tiles_unit(void *context, int64_t unit, int thread)
{
    const struct tiles_job *all = context;
    const struct weft_call *call = all->job.call;
    const struct sizes *n = &all->job.n;
    struct space local = {.base = call->local + (size_t)thread * call->local_stride};
    struct tiles_forward f = lay_tiles_forward(n, &local);
    struct span span = all->job.spans[unit % all->job.span_count];
    int64_t h = unit / all->job.span_count, seq = ints(call, SEQ)[span.row], kd = pad_tiles(n->k), vd = pad_tiles(n->v);
    int64_t at = packed_at(call, n, seq, h / n->group, 0);
    uint32_t poison = 0;
    struct square t = start_square(&all->job, seq, h);
    struct kept kept;
    t.i = ints(call, POS)[span.row];
    start_tiles(call, n, &f, span, h);
    pack_own(&all->job, f.tiles, &f.ra, span, t.i, h);
    f.tiles->begin();
    for (t.j = 0; t.j < t.i + span.rows; t.j += EDGE, at++) {
        const uint16_t *k = all->packed.kv + at * EDGE * (kd + vd), *vt = k + EDGE * kd;
        multiply_reciprocal(&all->job, f.tiles, &f.ra, &t, seq, span.rows);
        bool plain = !t.special && !t.reciprocal && t.factor >= 0 && t.j + EDGE <= t.i;
        f.tiles->product(EDGE, SPAN, kd, k, f.qt, f.s, false);
        count_tile(n, t.i, span.rows, t.j, n->k + n->v, n->own);
        set_key_bias(&all->job, &t, key_row(call, seq, t.j), weft_min(EDGE, t.i + span.rows - t.j));
        if (!plain)
            set_logits(&all->job, &t, f.s, f.s, SPAN);
        if (all->job.attr->dropout > 0) {
            set_kept(&all->job, &t, SPAN, &kept);
            tiles_softmax_kept(&f, &kept, vd, (const char *)vt);
        } else if (plain && t.key_biased) {
            tiles_softmax_biased(&f, &t, vd, (const char *)vt);
        } else {
            tiles_softmax_plain(&f, plain ? t.factor : 1, vd, (const char *)vt);
        }
        poison |= poisoned(&t, all->packed.poison[at]);
        f.tiles->product(vd, SPAN, EDGE, vt, f.p, f.o, true);
    }
    f.tiles->end();
    finish_tiles(call, n, &f, span, h, poison);
}

/* ---- single rows */

static void single_unit(void *context, int64_t unit, int thread)
{
    const struct tiles_job *all = context;
    const struct weft_call *call = all->job.call;
    struct space local = {.base = call->local + (size_t)thread * call->local_stride};
    struct row_forward f = lay_row_forward(&all->job.n, &local);
    int64_t units = weft_div_up(all->job.n.heads, all->row_heads);
    f.h = unit % units * all->row_heads;
    f.heads = weft_min(all->row_heads, all->job.n.heads - f.h);
    row_unit(&all->job, &f, all->job.spans[unit / units].row);
}

/* Returns the number of heads per unit of work: one per lane, or fewer if threads would otherwise be idle. */
static int64_t heads_of_unit(const struct job *job)
{
    int64_t wanted = weft_div_up(weft_threads(), job->span_count);
    return weft_min(VLANES, weft_div_up(job->n.heads, wanted));
}

/* Moves the spans that are single rows to the end of the list; returns their number. */
static int64_t part_singles(struct job *job)
{
    int64_t n = job->span_count;
    for (int64_t i = 0; i < n;)
        if (job->spans[i].rows == 1) {
            struct span last = job->spans[--n];
            job->spans[n] = job->spans[i];
            job->spans[i] = last;
        } else {
            i++;
        }
    return job->span_count - n;
}

/* ---- the whole pass */

static void run_spans(struct tiles_job *t)
{
    const struct weft_call *call = t->job.call;
    memset(t->packed.seen, 0, (size_t)t->job.n.slots * sizeof *t->packed.seen);
    for (int64_t i = 0; i < t->job.span_count; i++) {
        struct span span = t->job.spans[i];
        int64_t *seen = &t->packed.seen[ints(call, SEQ)[span.row]];
        *seen = weft_max(*seen, ints(call, POS)[span.row] + span.rows);
    }
    weft_parallel(t->job.n.slots * call->in[TILES]->dim[1], pack_unit, t);
    weft_parallel(t->job.span_count * t->job.n.heads, tiles_unit, t);
}

static void tiles_run(const struct weft_call *call)
{
    struct space scratch = {.base = call->scratch};
    struct tiles_job t = {.job = {.call = call, .attr = call->attr, .n = sizes_of(call)}}, singles;
    t.job.spans = take(&scratch, t.job.n.rows, 1, sizeof(struct span));
    t.packed = lay_packed(call, &scratch);
    t.job.span_count = cut_spans(call->in[SEQ], call->in[POS], SPAN, t.job.spans);
    singles = t;
    singles.job.span_count = decodes_rows(&t.job) ? part_singles(&t.job) : 0;
    t.job.span_count -= singles.job.span_count;
    singles.job.spans += t.job.span_count;
    if (t.job.span_count)
        run_spans(&t);
    if (singles.job.span_count) {
        singles.row_heads = heads_of_unit(&singles.job);
        weft_parallel(singles.job.span_count * weft_div_up(t.job.n.heads, singles.row_heads), single_unit, &singles);
    }
}

#endif
