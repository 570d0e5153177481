/* SPDX-License-Identifier: MIT
 *
 * bf16_decode_inl.h - the forward pass of a single row, as in decoding, bit-identical to bf16_forward_inl.h.
 *
 * A single row would use only one of the 32 query columns of a tile, and its keys and values are read only once, so
 * packing them would cost more than using them. So here lanes are heads, keys are transposed on the fly, and values are
 * read in place. Sums have the order of the tile products (dnn/pairs_inl.h): even and odd elements separately, in steps
 * of 32. A unit of work is a row and up to 16 query heads.
 */
#ifndef WEFT_ATTENTION_BF16_DECODE_H
#define WEFT_ATTENTION_BF16_DECODE_H

#include "ops/attention/bf16_inl.h"

enum { HALF = 32 }; /* number of keys, or columns, in one step of a product */

/* Without multiply-add instructions, this pass would be slower than the one on tiles. */
#if defined(__FMA__) || defined(__aarch64__)
enum { DECODES = 1 };
#else
enum { DECODES = 0 };
#endif

struct row_forward {
    uint16_t *rows, *keys; /* staged keys [64][kd], and the same as transposed pairs, [4][kd / 2][16 keys] */
    float *q;              /* queries [16][kd] */
    float *by_head;        /* [16][64]: products, head by head */
    float *s, *p;          /* [64][16]: products or logits, and powers */
    float *o;              /* outputs [16][vd] */
    int64_t h, heads;      /* the first head, and the number of heads */
    vf factor, top, weight;
    uint32_t poison; /* mask of the heads with a non-finite value so far */
};

static struct row_forward lay_row_forward(const struct sizes *n, struct space *s)
{
    int64_t kd = pad_tiles(n->k), vd = pad_tiles(n->v);
    return (struct row_forward){
        .rows = take_bf16(s, EDGE, kd),
        .keys = take_bf16(s, EDGE, kd),
        .q = take_floats(s, VLANES, kd),
        .by_head = take_floats(s, VLANES, EDGE),
        .s = take_floats(s, EDGE, VLANES),
        .p = take_floats(s, EDGE, VLANES),
        .o = take_floats(s, VLANES, vd),
    };
}

/* Returns whether the single rows of a call can be computed by this pass, which depends on the inputs given and the
 * signs of the scales. The choice does not affect results. */
static bool decodes_rows(const struct job *job)
{
    const struct weft_tensor *const *in = job->call->in;
    bool fits = DECODES && !in[POS_BIAS] && !in[Q_STORE] && !(job->attr->dropout > 0);
    for (int64_t h = 0; fits && h < job->n.heads; h++)
        fits = scale_of(job, h) >= 0;
    return fits;
}

static void start_row(const struct job *job, struct row_forward *f, int64_t row)
{
    const struct sizes *n = &job->n;
    int64_t kd = pad_tiles(n->k), vd = pad_tiles(n->v);
    float factor[VLANES] = {0};
    for (int64_t l = 0; l < f->heads; l++) {
        struct head q = head_of(job->call->in[Q], row, f->h + l, n->heads);
        factor[l] = scale_of(job, f->h + l) * LOG2E;
        for (int64_t d = 0; d < kd; d += VLANES)
            vstore_f32(f->q + l * kd + d, VLANES, d < n->k ? load_part(q, q.at, d) : vset(0));
    }
    memset(f->o, 0, (size_t)(VLANES * vd) * sizeof *f->o);
    memset(f->by_head, 0, (size_t)(VLANES * EDGE) * sizeof *f->by_head);
    f->factor = vload_f32(factor, VLANES);
    f->top = vset(-INFINITY);
    f->weight = vset(0);
    f->poison = 0;
}

/* Multiplies one head's query with 64 keys. */
static void multiply_keys(const struct row_forward *f, int64_t lane, int64_t kd)
{
    enum { PANELS = EDGE / VLANES }; /* enough chains to hide the latency of a multiply-add */
    const char *keys = (const char *)f->keys;
    const float *q = f->q + lane * kd;
    vf sum[PANELS] = {{0}};
    for (int64_t d = 0; d < kd; d += HALF, q += HALF) {
        vf even[PANELS] = {{0}}, odd[PANELS] = {{0}};
        for (int p = 0; p < HALF / 2; p++)
#pragma GCC unroll 4
            for (int c = 0; c < PANELS; c++) {
                vu pair;
                memcpy(&pair, keys + (c * kd / 2 + d / 2 + p) * (int64_t)sizeof pair, sizeof pair);
                even[c] = vfma((vf)(pair << 16), vset(q[2 * p]), even[c]);
                odd[c] = vfma((vf)(pair & 0xffff0000), vset(q[2 * p + 1]), odd[c]);
            }
        for (int c = 0; c < PANELS; c++)
            sum[c] = d == 0 ? even[c] + odd[c] : sum[c] + (even[c] + odd[c]);
    }
    for (int c = 0; c < PANELS; c++)
        vstore_f32(f->by_head + lane * EDGE + c * VLANES, VLANES, sum[c]);
}

/* Computes the products of all heads in s [64][16]. */
static void multiply_heads(const struct job *job, const struct row_forward *f, int64_t row, int64_t keys)
{
    const struct sizes *n = &job->n;
    int64_t kd = pad_tiles(n->k);
    for (int64_t l = 0; l < f->heads; l++) {
        int64_t kv = (f->h + l) / n->group;
        if (l == 0 || kv != (f->h + l - 1) / n->group) {
            stage(f->rows, head_of(job->call->in[K], row, kv, n->kv_heads), keys, EDGE);
            weft_dnn_tiles()->pack_transposed(kd, EDGE, f->rows, f->keys);
        }
        multiply_keys(f, l, kd);
    }
    for (int64_t c = 0; c < EDGE; c += VLANES) {
        vf x[VLANES];
        for (int l = 0; l < VLANES; l++)
            x[l] = vload_f32(f->by_head + l * EDGE + c, VLANES);
        transpose(x);
        for (int l = 0; l < VLANES; l++)
            vstore_f32(f->s + (c + l) * VLANES, VLANES, x[l]);
    }
}

/* Returns the biases of a key for all heads, in units of ln 2. */
VINLINE vf bias_of(const struct job *job, const struct row_forward *f, int64_t row)
{
    const struct weft_tensor *bias = job->call->in[KEY_BIAS];
    return vload_f32((const float *)bias->data + row * job->n.heads + f->h, f->heads) * vset(LOG2E);
}

/* Like set_logits, but for a tile that is only partly visible to the row. */
static void set_row_logits(const struct job *job, const struct row_forward *f, int64_t row, int64_t keys)
{
    for (int64_t c = 0; c < EDGE; c++) {
        vf b = job->call->in[KEY_BIAS] && c < keys ? bias_of(job, f, row + c) : vset(0);
        vf y = vfma(f->factor, vload_f32(f->s + c * VLANES, VLANES), b + vset(0));
        vstore_f32(f->s + c * VLANES, VLANES, c < keys ? y : vset(-INFINITY));
    }
}

/* Does the work of update_max and tiles_softmax, for one row. */
VINLINE void row_softmax(const struct job *job, struct row_forward *f, vf factor, bool biased, int64_t row, int64_t vd)
{
    vf old = f->top, high = vset(-INFINITY), total[2] = {vset(0), vset(0)};
    for (int64_t c = 0; c < EDGE; c++) {
        vf s = vload_f32(f->s + c * VLANES, VLANES);
        high = vmax(biased ? vfma(s, factor, bias_of(job, f, row + c)) : s, high);
    }
    f->top = vmax(biased ? high : high * factor, old);
    vf base = vpick(f->top == vset(-INFINITY), vset(0), f->top), shrink = power(old - base);
    for (int64_t l = 0; l < f->heads; l++)
        for (int64_t d = 0; old[l] != f->top[l] && d < vd; d += VLANES) {
            vf x = vload_f32(f->o + l * vd + d, VLANES) * vset(shrink[l]);
            vstore_f32(f->o + l * vd + d, VLANES, vpick(vabs(x) < vset(WEFT_DNN_TILES_SMALLEST), vset(0), x));
        }
    for (int64_t c = 0; c < EDGE; c++) {
        vf below = biased ? bias_of(job, f, row + c) - base : -base;
        vf p = power(vfma(vload_f32(f->s + c * VLANES, VLANES), factor, below));
        total[c % 2] += p;
        vstore_f32(f->p + c * VLANES, VLANES, vwiden(vnarrow(p)));
    }
    f->weight = vfma(f->weight, shrink, total[0] + total[1]);
}

/* Adds columns d to d + 16 wide - 1 of up to 32 weighted values, starting at value `first`, to o. */
VINLINE void weigh_columns(int wide, struct head v, const float *p, int64_t first, int64_t last, int64_t d, float *o,
                           vf *doubt)
{
    vf sum[2][4] = {{{0}}};
    for (int64_t c = first; c < last; c += 2)
#pragma GCC unroll 2
        for (int odd = 0; odd < 2; odd++) {
            if (c + odd >= last)
                break;
            vf weight = vset(p[(c + odd) * VLANES]);
#pragma GCC unroll 4
            for (int i = 0; i < wide; i++) {
                vf x = load_part(v, v.at + (c + odd) * v.stride, d + i * VLANES);
                *doubt += x - x; /* 0 for finite x, else NaN */
                sum[odd][i] = vfma(x, weight, sum[odd][i]);
            }
        }
    for (int i = 0; i < wide; i++)
        vstore_f32(o + i * VLANES, VLANES, vload_f32(o + i * VLANES, VLANES) + (sum[0][i] + sum[1][i]));
}

/* Adds the weighted values of one head to o. */
static void weigh_values(const struct job *job, struct row_forward *f, int64_t lane, int64_t row, int64_t keys)
{
    const struct sizes *n = &job->n;
    struct head v = head_of(job->call->in[V], row, (f->h + lane) / n->group, n->kv_heads);
    int64_t vd = pad_tiles(n->v);
    vf doubt = vset(0);
    for (int64_t first = 0; first < keys; first += HALF) {
        int64_t d = 0, last = weft_min(keys, first + HALF);
        float *o = f->o + lane * vd;
        for (; d + 4 * VLANES <= n->v; d += 4 * VLANES)
            weigh_columns(4, v, f->p + lane, first, last, d, o + d, &doubt);
        for (; d < n->v; d += VLANES)
            weigh_columns(1, v, f->p + lane, first, last, d, o + d, &doubt);
    }
    if (vany(doubt != doubt))
        f->poison |= 1u << lane;
}

static void finish_row(const struct job *job, const struct row_forward *f, int64_t row)
{
    const struct sizes *n = &job->n;
    float *lse = job->call->out[LSE]->data;
    vf inverse = vpick(vlanes((uint16_t)f->poison), vset(NAN), vset(1) / f->weight);
    vf sums = vfma(f->top, vset(LN2), vlog(f->weight));
    for (int64_t l = 0; l < f->heads; l++) {
        struct head o = head_of(job->call->out[O], row, f->h + l, n->heads);
        lse[row * n->heads + f->h + l] = sums[l];
        for (int64_t d = 0; d < o.width; d += VLANES)
            store_part(o, o.at, d, vfma(vload_f32(f->o + l * pad_tiles(n->v) + d, VLANES), vset(inverse[l]), vset(0)));
    }
}

/* Computes a row of a sequence for the heads h to h + heads - 1. */
static void row_unit(const struct job *job, struct row_forward *f, int64_t row)
{
    const struct sizes *n = &job->n;
    int64_t seq = ints(job->call, SEQ)[row], i = ints(job->call, POS)[row], vd = pad_tiles(n->v);
    start_row(job, f, row);
    for (int64_t j = 0; j <= i; j += EDGE) {
        int64_t at = key_row(job->call, seq, j), keys = weft_min(EDGE, i + 1 - j);
        multiply_heads(job, f, at, keys);
        if (j + EDGE > i) {
            set_row_logits(job, f, at, keys);
            row_softmax(job, f, vset(1), false, at, vd);
        } else if (job->call->in[KEY_BIAS]) {
            row_softmax(job, f, f->factor, true, at, vd);
        } else {
            row_softmax(job, f, f->factor, false, at, vd);
        }
        for (int64_t l = 0; l < f->heads; l++) {
            count_tile(n, i, 1, j, n->k + n->v, n->own);
            weigh_values(job, f, l, at, keys);
        }
    }
    finish_row(job, f, row);
}

#endif
