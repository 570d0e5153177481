/* SPDX-License-Identifier: MIT
 *
 * bf16_inl.h - attention.c for bf16 on tiles (struct weft_dnn_tiles), forward and backward.
 *
 * Scores are stored transposed, [64 keys][n queries]. So all statistics of a row (its maximum, sum, log-sum-exp, delta)
 * are lanes, no sum runs across lanes, and every product can use the previous product's result without reordering. With
 * kd and vd, the widths of keys and values rounded up to multiples of 32:
 *     S^t  = K Q^t           left K [64][kd]       right Q^t [kd, n]
 *     O^t += V^t P^t         left V^t [vd][64]     right P^t [64, n]
 *     dP^t = V dO^t          left V [64][vd]       right dO^t [vd, n]
 *     dV  += P^t dO          left P^t [64][n]      right dO [n, vd]
 *     dK  += dS^t Q          left dS^t [64][n]     right Q [n, kd]
 *     dQ^t += K^t dS^t       left K^t [kd][64]     right dS^t [64, n]
 * In the forward pass, n is 32, so that the working set of a step fits in the L1 cache. In the backward pass, n is 64,
 * which makes the products deeper. P and dS are rounded to bf16 for the products; sums and statistics are f32.
 *
 * Exponentials are computed as powers of two from logits in units of ln 2, so that scaling, adding the key's bias and
 * subtracting the maximum are one multiply-add. Tiles on the diagonal take an extra pass for the mask, as do all tiles
 * with pos_bias, dropout or the reciprocal term. The passes that a row's tile takes depend on the row's position and
 * the inputs given, never on neighbouring rows.
 *
 * A masked key has P = 0, but 0 times a non-finite value is NaN. So rows of V with non-finite values are packed as
 * zeros, and the outputs of the queries that attend to these rows are set to NaN.
 */
#ifndef WEFT_ATTENTION_BF16_H
#define WEFT_ATTENTION_BF16_H

#include "dnn/awake_inl.h"
#include "ops/attention/tile_inl.h"
#include "ops/power_inl.h"

enum { EDGE = WEFT_KEY_TILE, SPAN = 32, GROUPS = SPAN / VLANES };
#define LN2 0.693147180559945309f

/* ---- operands */

/* Prefetches rows, because one head's part of a row is too short for the hardware prefetcher. */
static void prefetch(struct head h, int64_t rows)
{
    int64_t size = h.dtype == WEFT_BF16 ? 2 : 4;
    for (const char *row = (const char *)h.data + h.at * size; rows > 0; rows--, row += h.stride * size)
        for (int64_t byte = 0; byte < h.width * size; byte += 64)
            __builtin_prefetch(row + byte);
}

/* Stores the transpose of from [pad_tiles(width)][stride], times a factor per column, to `to`. */
static void unstage(struct head to, const float *from, int64_t stride, const float *factor, int64_t rows)
{
    for (int64_t r = 0; r < rows; r += VLANES)
        for (int64_t d = 0; d < to.width; d += VLANES) {
            vf row[VLANES];
            for (int i = 0; i < VLANES; i++) /* adding 0 turns -0 into 0, so that signs of masked zeros do not matter */
                row[i] = vfma(vload_f32(from + (d + i) * stride + r, VLANES), vload_f32(factor + r, VLANES), vset(0));
            transpose(row);
            for (int64_t i = 0; i < weft_min(VLANES, rows - r); i++)
                store_part(to, to.at + (r + i) * to.stride, d, row[i]);
        }
}

/* ---- logits */

/* The queries starting at position i and the 64 keys starting at position j, for one head. */
struct square {
    int64_t i, j, h;
    bool special; /* has pos_bias or dropout, which need the extra pass, as do squares on the diagonal */
    bool key_biased;
    uint64_t mask_key;
    float factor;                             /* converts products to logits in units of ln 2 */
    float key_bias[EDGE], pos_bias[2 * EDGE]; /* in these units; key c and query r use r - c + 63 */
    /* The reciprocal term: the products of the keys' stored queries with the queries' own keys (NULL if the square has
     * no such term), and the biases of both. */
    const float *reciprocal;
    float alpha, q_bias[EDGE], own_bias[EDGE];
    int32_t window;
};

/* Returns the index of a diagonal's pos_bias. Diagonals above the main one are masked and can use any index. */
static int64_t square_offset(const struct job *job, const struct square *t, int64_t diagonal)
{
    int64_t offset = t->i - t->j + diagonal - (EDGE - 1);
    return t->h * job->n.offsets + weft_max(0, weft_min(offset, job->n.offsets - 1));
}

static struct square start_square(const struct job *job, int64_t seq, int64_t h)
{
    const struct weft_tensor *const *in = job->call->in;
    return (struct square){
        .h = h,
        .special = in[POS_BIAS] || job->attr->dropout > 0,
        .key_biased = in[KEY_BIAS],
        .mask_key = mask_key(job->call, seq),
        .factor = scale_of(job, h) * LOG2E,
    };
}

static void set_key_bias(const struct job *job, struct square *t, int64_t key_row, int64_t keys)
{
    const struct weft_tensor *bias = job->call->in[KEY_BIAS];
    for (int64_t c = 0; bias && c < keys; c++)
        t->key_bias[c] = ((const float *)bias->data)[(key_row + c) * job->n.heads + t->h] * LOG2E;
}

/* Returns a mask of the queries r to r+15 that have key c in their window. */
VINLINE vi in_square_window(const struct square *t, int64_t c, int64_t r)
{
    vi lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vi distance = lane + vseti((int32_t)(t->i + r - t->j - c));
    return (distance > vseti(0)) & (distance <= vseti(t->window));
}

/* Returns y plus the reciprocal term of key c and queries r to r+15, whose product is s. */
VINLINE vf with_reciprocal(const struct square *t, int64_t c, int64_t r, vf s, vf y)
{
    vf term = vfma(vset(t->factor), s, vset(t->q_bias[c]) + vload_f32(t->own_bias + r, VLANES));
    return vpick(in_square_window(t, c, r), vfma(vset(t->alpha), term, y), y);
}

/* Computes the logits x of the products s [64][columns]; -inf if masked. */
static void set_logits(const struct job *job, struct square *t, const float *s, float *x, int64_t columns)
{
    const struct weft_tensor *bias = job->call->in[POS_BIAS];
    vi lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (int64_t d = 0; bias && d < 2 * EDGE - 1; d++)
        t->pos_bias[d] = ((const float *)bias->data)[square_offset(job, t, d)] * LOG2E;
    for (int64_t c = 0; c < EDGE; c++)
        for (int64_t r = 0; r < columns; r += VLANES) {
            vf b = vset(t->key_bias[c]) + vload_f32(t->pos_bias + r - c + EDGE - 1, VLANES);
            vf y = vfma(vset(t->factor), vload_f32(s + c * columns + r, VLANES), b);
            if (t->reciprocal)
                y = with_reciprocal(t, c, r, vload_f32(t->reciprocal + c * columns + r, VLANES), y);
            vi seen = lane >= vseti((int32_t)(t->j + c - t->i - r));
            vstore_f32(x + c * columns + r, VLANES, vpick(seen, y, vset(-INFINITY)));
        }
}

/* ---- dropout */

/* The elements of a square that dropout keeps. */
struct kept {
    float factor;                          /* factor that kept elements are multiplied by */
    uint16_t queries[EDGE][EDGE / VLANES]; /* for each key, one mask per group of 16 queries */
};

/* Sets the mask of a square. Lanes are queries here but keys in mask_bits and on the vector path; the same counters
 * give the same mask. */
static void set_kept(const struct job *job, const struct square *t, int64_t columns, struct kept *kept)
{
    double dropout = job->attr->dropout;
    vu zero = {0}, lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, word[4];
    kept->factor = (float)(1 / (1 - dropout));
    for (int64_t r = 0; r < columns; r += VLANES)
        for (int64_t c = 0; c < VLANES; c++) {
            vphilox(t->mask_key, zero + (uint32_t)(t->j / 4 + c), zero, lane + (uint32_t)(t->i + r),
                    zero + (uint32_t)t->h, word);
            for (int w = 0; w < 4; w++)
                kept->queries[w * VLANES + c][r / VLANES] = vbits((vi)(word[w] >= mask_threshold(dropout)));
        }
}

VINLINE vf keep(const struct kept *kept, int64_t c, int64_t r, vf x)
{
    return vpick(vlanes(kept->queries[c][r / VLANES]), x * vset(kept->factor), vset(0));
}

/* ---- building operands from sums */

/* Interleaves elements first to first + 15 of a and b. */
VINLINE void store_interleaved(uint16_t *to, vw a, vw b, int first)
{
#if defined(VMASKS)
    vw index = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    vw pairs = (vw)_mm512_permutex2var_epi16((__m512i)a, (__m512i)(index + (uint16_t)first), (__m512i)b);
    memcpy(to, &pairs, sizeof pairs);
#else
    typedef uint16_t v8 __attribute__((vector_size(16)));
    v8 x[4], y[4];
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    for (int i = first / 8; i < first / 8 + 2; i++, to += 16) {
        v8 low = __builtin_shufflevector(x[i], y[i], 0, 8, 1, 9, 2, 10, 3, 11);
        v8 high = __builtin_shufflevector(x[i], y[i], 4, 12, 5, 13, 6, 14, 7, 15);
        memcpy(to, &low, sizeof low);
        memcpy(to + 8, &high, sizeof high);
    }
#endif
}

#endif
