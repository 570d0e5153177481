/* SPDX-License-Identifier: MIT
 *
 * bf16_reciprocal_inl.h - the reciprocal term on tiles, forward and backward (see bf16_inl.h for the layout).
 *
 * Q' are the stored queries of a square's 64 keys, K' the own keys of its n queries, and wd is their width rounded up
 * to a multiple of 32. E is scale alpha dS inside the window and 0 outside, rounded to bf16:
 *     R^t    = Q' K'^t       left Q' [64][wd]      right K'^t [wd, n]
 *     dQ'   += E^t K'        left E^t [64][n]      right K' [n, wd]
 *     dK'^t += Q'^t E^t      left Q'^t [wd][64]    right E^t [64, n]
 */
#ifndef WEFT_ATTENTION_BF16_RECIPROCAL_H
#define WEFT_ATTENTION_BF16_RECIPROCAL_H

#include "ops/attention/bf16_inl.h"

/* Returns whether the window of any query of the square contains one of its keys. i is the start of the square's block
 * of 32 or 64 queries, not its first computed row, because a row must not depend on the rows computed with it. */
static bool has_reciprocal(const struct job *job, int64_t i, int64_t j)
{
    return job->n.window && i - (j + EDGE - 1) <= job->n.window;
}

/* Sets the reciprocal term of a square with `rows` queries and `keys` keys from its products. */
static void set_square_reciprocal(const struct job *job, struct square *t, int64_t seq, int64_t rows, int64_t keys,
                                  const float *products)
{
    const struct weft_tensor *q_bias = job->call->in[Q_BIAS], *key_bias = job->call->in[KEY_BIAS];
    int64_t heads = job->n.heads, stored = query_row(job->call, seq, t->j), own = key_row(job->call, seq, t->i);
    t->reciprocal = products;
    t->alpha = (float)job->attr->logits.ra_alpha;
    t->window = (int32_t)weft_min(job->n.window, INT32_MAX);
    for (int64_t c = 0; c < EDGE; c++)
        t->q_bias[c] = q_bias && c < keys ? ((const float *)q_bias->data)[(stored + c) * heads + t->h] * LOG2E : 0;
    for (int64_t r = 0; r < EDGE; r++)
        t->own_bias[r] = key_bias && r < rows ? ((const float *)key_bias->data)[(own + r) * heads + t->h] * LOG2E : 0;
}

/* ---- forward */

struct reciprocal_forward {
    uint16_t *own, *stored; /* right operand [wd, 32]; left operand [64][wd] */
    float *products;        /* [64][32] */
};

static struct reciprocal_forward lay_reciprocal_forward(const struct sizes *n, struct space *s)
{
    if (!n->window)
        return (struct reciprocal_forward){0};
    return (struct reciprocal_forward){
        .own = take_bf16(s, SPAN, pad_tiles(n->own)),
        .stored = take_bf16(s, EDGE, pad_tiles(n->own)),
        .products = take_floats(s, EDGE, SPAN),
    };
}

/* Packs the own keys of a span that starts at position i, for head h. */
static void pack_own(const struct job *job, const struct weft_dnn_tiles *tiles, const struct reciprocal_forward *ra,
                     struct span span, int64_t i, int64_t h)
{
    if (!job->n.window)
        return;
    stage(ra->stored, own_head(job, ints(job->call, SEQ)[span.row], span.row, i, h), span.rows, SPAN);
    tiles->pack_transposed(pad_tiles(job->n.own), SPAN, ra->stored, ra->own);
}

/* Sets the square's term, if it has one. */
static void multiply_reciprocal(const struct job *job, const struct weft_dnn_tiles *tiles,
                                const struct reciprocal_forward *ra, struct square *t, int64_t seq, int64_t rows)
{
    int64_t keys = weft_min(EDGE, t->i + rows - t->j);
    t->reciprocal = NULL;
    if (!has_reciprocal(job, t->i / SPAN * SPAN, t->j))
        return;
    stage(ra->stored, stored_head(job, seq, t->j, t->h), keys, EDGE);
    tiles->product(EDGE, SPAN, pad_tiles(job->n.own), ra->stored, ra->own, ra->products, false);
    set_square_reciprocal(job, t, seq, rows, keys, ra->products);
}

/* ---- backward; own keys are rows of k, so wd is kd */

struct reciprocal_backward {
    const struct weft_dnn_tiles *tiles;
    /* for the whole sequence, in tiles of 64 queries */
    uint16_t *own, *own_t; /* right operands K' and K'^t */
    float *down;           /* dK'^t [kd][64] */
    float *down_bias;      /* [64] */
    /* for one tile of keys */
    uint16_t *stored, *stored_t; /* left operands Q' and Q'^t */
    float *dstored, *dbias;      /* [64][kd], [64][16] */
    /* for a batch of squares */
    uint16_t *e, *e_right; /* E^t as left and as right operand */
    /* for one square */
    float *products;
};

static struct reciprocal_backward lay_reciprocal_backward(const struct sizes *n, int64_t batch, struct space *s)
{
    int64_t kd = pad_tiles(n->k), rows = weft_round_up(n->longest, EDGE);
    if (!n->window)
        return (struct reciprocal_backward){0};
    return (struct reciprocal_backward){
        .tiles = weft_dnn_tiles(),
        .own = take_bf16(s, rows, kd),
        .own_t = take_bf16(s, rows, kd),
        .down = take_floats(s, rows, kd),
        .down_bias = take_floats(s, rows, 1),
        .stored = take_bf16(s, EDGE, kd),
        .stored_t = take_bf16(s, EDGE, kd),
        .dstored = take_floats(s, EDGE, kd),
        .dbias = take_floats(s, EDGE, VLANES),
        .e = take_bf16(s, batch * EDGE, EDGE),
        .e_right = take_bf16(s, batch * EDGE, EDGE),
        .products = take_floats(s, EDGE, EDGE),
    };
}

/* Packs the own keys of a sequence for one key head. */
static void start_own(const struct job *job, const struct reciprocal_backward *ra, struct span span, int64_t kv)
{
    const struct weft_call *call = job->call;
    int64_t kd = pad_tiles(job->n.k);
    for (int64_t r = 0; job->n.window && r < span.rows; r += EDGE) {
        int64_t row = key_row(call, ints(call, SEQ)[span.row], r);
        stage(ra->stored, head_of(call->in[K], row, kv, job->n.kv_heads), weft_min(EDGE, span.rows - r), EDGE);
        ra->tiles->pack(EDGE, kd, ra->stored, ra->own + r * kd);
        ra->tiles->pack_transposed(kd, EDGE, ra->stored, ra->own_t + r * kd);
        memset(ra->down + r * kd, 0, (size_t)(EDGE * kd) * sizeof(float));
    }
}

/* Loads the stored queries of a tile of keys for one head. */
static void start_stored_tile(const struct job *job, const struct reciprocal_backward *ra, const struct square *t,
                              int64_t seq, int64_t keys)
{
    int64_t kd = pad_tiles(job->n.k);
    if (!job->n.window)
        return;
    stage(ra->stored, stored_head(job, seq, t->j, t->h), keys, EDGE);
    ra->tiles->transpose(EDGE, kd, ra->stored, ra->stored_t);
    memset(ra->dbias, 0, (size_t)(EDGE * VLANES) * sizeof(float));
}

/* Sets the square's term, if it has one. */
static void recompute_reciprocal(const struct job *job, const struct reciprocal_backward *ra, struct square *t,
                                 struct span span)
{
    int64_t kd = pad_tiles(job->n.k);
    t->reciprocal = NULL;
    if (!has_reciprocal(job, t->i, t->j))
        return;
    ra->tiles->product(EDGE, EDGE, kd, ra->stored, ra->own_t + t->i * kd, ra->products, false);
    set_square_reciprocal(job, t, ints(job->call, SEQ)[span.row], weft_min(EDGE, span.rows - t->i),
                          weft_min(EDGE, span.rows - t->j), ra->products);
}

/* Computes E and adds to its sums from dS^t [64][64] of a square, the x-th of its batch. Returns the sum of alpha dS
 * R. */
static float reciprocal_square(const struct reciprocal_backward *ra, const struct square *t, const float *ds,
                               float scale, int64_t x)
{
    uint16_t *left = ra->e + x * EDGE * EDGE, *right = ra->e_right + x * EDGE * EDGE;
    vf dscale = vset(0);
    for (int64_t r = 0; r < EDGE; r += SPAN)
        for (int64_t c = 0; c < EDGE; c += 2) {
            vw pair[2];
            for (int i = 0; i < 2; i++) {
                vf e[GROUPS];
                for (int g = 0; g < GROUPS; g++) {
                    int64_t first = r + g * VLANES, at = (c + i) * EDGE + first;
                    float *own = ra->down_bias + t->i + first, *stored = ra->dbias + (c + i) * VLANES;
                    e[g] =
                        vpick(in_square_window(t, c + i, first), vset(t->alpha) * vload_f32(ds + at, VLANES), vset(0));
                    dscale = vfma(e[g], vload_f32(t->reciprocal + at, VLANES), dscale);
                    vstore_f32(own, VLANES, vload_f32(own, VLANES) + e[g]);
                    vstore_f32(stored, VLANES, vload_f32(stored, VLANES) + e[g]);
                }
                pair[i] = to_bf16(ra->tiles->amx, e[0] * vset(scale), e[1] * vset(scale));
                memcpy(left + (c + i) * EDGE + r, &pair[i], sizeof pair[i]);
            }
            store_interleaved(right + r * EDGE + c * VLANES, pair[0], pair[1], 0);
            store_interleaved(right + (r + VLANES) * EDGE + c * VLANES, pair[0], pair[1], VLANES);
        }
    return vsum(dscale);
}

/* Computes the matmuls of a batch of squares of key tile j, the first of which is at row `first`. */
static void reciprocal_products(const struct job *job, const struct reciprocal_backward *ra, int64_t j, int64_t first,
                                int64_t count)
{
    int64_t kd = pad_tiles(job->n.k);
    for (int64_t x = 0, at = first; x < count && has_reciprocal(job, at, j); x++, at += EDGE) {
        ra->tiles->product(EDGE, kd, EDGE, ra->e + x * EDGE * EDGE, ra->own + at * kd, ra->dstored, at > j);
        ra->tiles->product(kd, EDGE, EDGE, ra->stored_t, ra->e_right + x * EDGE * EDGE, ra->down + at * kd, true);
    }
}

/* Called after all queries of a head: stores the gradients of the tile's stored queries, and adds the gradients that
 * the biases of its keys get as own keys. No query before the tile attends to it, so these gradients are complete. */
static void finish_stored_tile(const struct job *job, const struct reciprocal_backward *ra, const struct square *t,
                               int64_t row, int64_t keys, float *key_bias)
{
    struct weft_tensor *const *gin = job->call->gin;
    int64_t heads = job->n.heads;
    if (!job->n.window)
        return;
    if (gin[Q_STORE])
        narrow(head_of(gin[Q_STORE], row, t->h, heads), ra->dstored, pad_tiles(job->n.k), keys);
    for (int64_t c = 0; c < keys; c++) {
        if (gin[Q_BIAS])
            ((float *)gin[Q_BIAS]->data)[(row + c) * heads + t->h] = vsum(vload_f32(ra->dbias + c * VLANES, VLANES));
        key_bias[c] += ra->down_bias[t->j + c];
    }
}

/* Adds the gradient that the keys of the tile at j get as own keys, which is complete after the last head, to dk
 * [64][kd]. */
static void add_own_gradient(const struct job *job, const struct reciprocal_backward *ra, int64_t j, float *dk)
{
    int64_t kd = pad_tiles(job->n.k);
    for (int64_t r = 0; job->n.window && r < EDGE; r += VLANES)
        for (int64_t d = 0; d < kd; d += VLANES) {
            vf row[VLANES];
            for (int i = 0; i < VLANES; i++)
                row[i] = vload_f32(ra->down + j * kd + (d + i) * EDGE + r, VLANES);
            transpose(row);
            for (int i = 0; i < VLANES; i++) {
                float *to = dk + (r + i) * kd + d;
                vstore_f32(to, VLANES, vload_f32(to, VLANES) + row[i]);
            }
        }
}

#endif
