/* SPDX-License-Identifier: MIT
 *
 * attention_tile.h - what forward and backward attention share: the list of work, and a tile of logits.
 */
#ifndef WEFT_ATTENTION_TILE_H
#define WEFT_ATTENTION_TILE_H

#include "ops/attention_spec.h"
#include "ops/tiles.h"

/* ---- the list of work */

struct job {
    const struct weft_call *call;
    struct sizes n;
    struct span *spans;
    int64_t span_count;
    double *scale_parts; /* backward: [spans, heads] and [spans, heads, offsets] */
    float *pos_parts;
};

/* ---- a tile of logits */

/* Query rows that share a pass over the keys. It divides WEFT_KEY_TILE, so that rows cut at its multiples end in the
 * same key tile. */
enum { ROW_TILE = 64, KEY_VECS = WEFT_KEY_TILE / VLANES };

/* `rows` queries from position i on, against the `keys` keys of the tile that begins at position j. */
struct tile {
    int64_t seq, h, i, rows, j, keys, key_row;
    float scale;
    uint64_t mask_key;
    float key_bias[WEFT_KEY_TILE];
    float pos_bias[ROW_TILE + WEFT_KEY_TILE]; /* by diagonal: row r, key c take [rows - 1 - r + c] */
    /* The reciprocal term, where the tile reaches into its window: products of the rows' own keys with the queries of
     * the tile's positions, and the biases of both. NULL elsewhere. */
    const float *reciprocal;
    float ra_alpha, q_bias[WEFT_KEY_TILE], own_bias[ROW_TILE];
    int64_t window;
};

static void set_head(const struct job *job, struct tile *t, int64_t h)
{
    const struct weft_tensor *scale = job->call->in[SCALE], *bias = job->call->in[KEY_BIAS];
    t->h = h;
    t->scale = scale ? ((const float *)scale->data)[h] : (float)(1 / sqrt((double)job->n.k));
    for (int64_t c = 0; bias && c < t->keys; c++)
        t->key_bias[c] = ((const float *)bias->data)[(t->key_row + c) * job->n.heads + h];
}

/* Which pos_bias belongs to a diagonal. Diagonals above the main one are masked and take any. */
static int64_t diagonal_offset(const struct job *job, const struct tile *t, int64_t diagonal)
{
    int64_t offset = t->i - t->j + t->rows - 1 - diagonal;
    return t->h * job->n.offsets + weft_max(0, weft_min(offset, job->n.offsets - 1));
}

/* s[rows][64] = products of the tile's rows (queries, or output gradients) with its transposed keys (or values). */
static void scores(const struct tile *t, const float *rows, int64_t width, int64_t padded, const float *transposed,
                   float *s)
{
    memset(s, 0, (size_t)(t->rows * WEFT_KEY_TILE) * sizeof *s);
    product(t->rows, weft_round_up(t->keys, VLANES), width, (struct left){rows, padded, 1}, transposed, WEFT_KEY_TILE,
            s, WEFT_KEY_TILE);
}

static void set_pos_bias(const struct job *job, struct tile *t)
{
    const struct weft_tensor *bias = job->call->in[POS_BIAS];
    for (int64_t d = 0; bias && d < t->rows - 1 + WEFT_KEY_TILE; d++)
        t->pos_bias[d] = ((const float *)bias->data)[diagonal_offset(job, t, d)];
}

/* Whether some row of the tile has some key of it in its window. */
static bool reaches_window(const struct job *job, const struct tile *t)
{
    return job->n.window && t->i - (t->j + t->keys - 1) <= job->n.window;
}

/* The reciprocal part of a tile of logits: `own` are the rows' own keys, `stored` the tile's queries transposed. */
static void set_reciprocal(const struct job *job, struct tile *t, const float *own, const float *stored, float *to)
{
    const struct attr *a = job->call->attr;
    const struct weft_tensor *q_bias = job->call->in[Q_BIAS], *key_bias = job->call->in[KEY_BIAS];
    int64_t heads = job->n.heads, own_row = key_row(job->call, t->seq, t->i);
    scores(t, own, job->n.k, job->n.k_padded, stored, to);
    t->reciprocal = to;
    t->ra_alpha = (float)a->ra_alpha;
    t->window = a->ra_window;
    for (int64_t c = 0; c < WEFT_KEY_TILE; c++)
        t->q_bias[c] = q_bias && c < t->keys ? ((const float *)q_bias->data)[(t->key_row + c) * heads + t->h] : 0;
    for (int64_t r = 0; r < t->rows; r++)
        t->own_bias[r] = key_bias ? ((const float *)key_bias->data)[(own_row + r) * heads + t->h] : 0;
}

/* Lanes of row r and keys c .. c+15 that are in the row's window. */
VINLINE vi in_window(const struct tile *t, int64_t r, int64_t c)
{
    vi lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vi distance = vseti((int32_t)(t->i + r - t->j - c)) - lane;
    return (distance > vseti(0)) & (distance <= vseti((int32_t)t->window));
}

VINLINE vf add_reciprocal(const struct tile *t, int64_t r, int64_t c, vf x)
{
    vf bias = vload_f32(t->q_bias + c, VLANES) + vset(t->own_bias[r]);
    vf y = vfma(vset(t->scale), vload_f32(t->reciprocal + r * WEFT_KEY_TILE + c, VLANES), bias);
    return vpick(in_window(t, r, c), vfma(vset(t->ra_alpha), y, x), x);
}

/* Logits of row r and keys c .. c+15 from their products; -inf where the row may not look. */
VINLINE vf logits(const struct tile *t, int64_t r, int64_t c, vf products)
{
    vi lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vf bias = vload_f32(t->key_bias + c, VLANES) + vload_f32(t->pos_bias + t->rows - 1 - r + c, VLANES);
    vf x = vfma(vset(t->scale), products, bias);
    if (t->reciprocal)
        x = add_reciprocal(t, r, c, x);
    return vpick(lane <= vseti((int32_t)(t->i + r - t->j - c)), x, vset(-INFINITY));
}

/* What dropout multiplies row r's probabilities with: 0 or 1/(1-p). */
VINLINE void keeps(const struct job *job, const struct tile *t, int64_t r, vf keep[KEY_VECS])
{
    double dropout = ((const struct attr *)job->call->attr)->dropout;
    vu bits[KEY_VECS] = {{0}};
    if (dropout > 0)
        vrand(t->mask_key, (uint64_t)t->h << 32 | (uint64_t)(t->i + r), (uint32_t)(t->j / 4), bits);
    for (int c = 0; c < KEY_VECS; c++)
        keep[c] = vpick((vi)(bits[c] < mask_threshold(dropout)), vset(0), vset((float)(1 / (1 - dropout))));
}

#endif
