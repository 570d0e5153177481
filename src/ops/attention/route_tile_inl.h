/* SPDX-License-Identifier: MIT
 *
 * route_tile_inl.h - shared by forward and backward routing: a tile of R.
 *
 * The scores, which are most of the work, are computed on tiles in bf16 (struct weft_dnn_tiles) and on vectors in f32.
 * Both guarantee that a row computed alone equals the row computed with others.
 */
#ifndef WEFT_ROUTE_TILE_H
#define WEFT_ROUTE_TILE_H

#include "ops/attention/logits_tile_inl.h"
#include "ops/attention/route_reference_inl.h"
#include "ops/power_inl.h"

/* Replaces products by probabilities and updates R, the sum or the maximum over the heads so far. */
static void add_head(const struct job *job, const struct tile *t, float *p, float *R)
{
    const float *lse = (const float *)job->call->in[LSE]->data + t->row * job->n.heads + t->h;
    for (int64_t r = 0; r < t->rows; r++, lse += job->n.heads)
        for (int64_t c = 0, at = r * WEFT_KEY_TILE; c < WEFT_KEY_TILE; c += VLANES, at += VLANES) {
            vf x = vexp(logits(t, r, c, vload_f32(p + at, VLANES)) - vset(*lse)), so_far = vload_f32(R + at, VLANES);
            vstore_f32(p + at, VLANES, x);
            vstore_f32(R + at, VLANES, job->attr->head_max ? vmax(x, so_far) : x + so_far);
        }
}

/* Like add_head, but for bf16 scores without biases, and with powers of two. */
static void add_plain_head(const struct job *job, const struct tile *t, float *p, float *R)
{
    const float *lse = (const float *)job->call->in[LSE]->data + t->row * job->n.heads + t->h;
    vi lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    bool whole = t->i >= t->j + WEFT_KEY_TILE - 1;
    for (int64_t r = 0; r < t->rows; r++, lse += job->n.heads)
        for (int64_t c = 0, at = r * WEFT_KEY_TILE; c < WEFT_KEY_TILE; c += VLANES, at += VLANES) {
            vf x = power(vfma(vload_f32(p + at, VLANES), vset(t->scale * LOG2E), vset(-*lse * LOG2E)));
            vf so_far = vload_f32(R + at, VLANES);
            if (!whole)
                x = vpick(lane <= vseti((int32_t)(t->i + r - t->j - c)), x, vset(0));
            vstore_f32(p + at, VLANES, x);
            vstore_f32(R + at, VLANES, job->attr->head_max ? vmax(x, so_far) : x + so_far);
        }
}

/* The operands of scores, f32 on vectors and bf16 on tiles. The choice depends only on the dtype. */
struct operands {
    const struct weft_dnn_tiles *tiles;
    void *q;        /* queries of all heads, [heads][ROW_TILE] rows */
    void *k;        /* keys of one head, transposed */
    uint16_t *rows; /* on tiles: the keys before they are transposed */
    struct reciprocal ra;
};

static struct operands lay_operands(const struct sizes *n, struct space *s)
{
    return (struct operands){
        .tiles = weft_dnn_tiles(),
        .q = take_floats(s, n->heads * ROW_TILE, n->k_padded),
        .k = take_floats(s, n->k_padded, WEFT_KEY_TILE),
        .rows = take_bf16(s, WEFT_KEY_TILE, n->k_tiles),
        .ra = lay_reciprocal(n, n->own_heads, s),
    };
}

static bool on_tiles(const struct job *job) { return job->n.k_tiles > 0; }

static void set_queries(const struct job *job, const struct tile *t, const struct operands *o)
{
    const struct sizes *n = &job->n;
    start_reciprocal(job, t, &o->ra, 0, n->heads);
    for (int64_t h = 0; h < n->heads; h++) {
        struct head q = head_of(job->call->in[Q], t->row, h, n->heads);
        if (on_tiles(job))
            stage((uint16_t *)o->q + h * ROW_TILE * n->k_tiles, q, t->rows, ROW_TILE);
        else
            widen((float *)o->q + h * ROW_TILE * n->k_padded, n->k_padded, q, t->rows);
    }
}

/* Computes p = <q, k> for the tile and head h. Keys are packed for the first head that reads them. */
static void set_products(const struct job *job, const struct tile *t, const struct operands *o, int64_t h, float *p)
{
    const struct sizes *n = &job->n;
    struct head k = head_of(job->call->in[K], t->key_row, h / n->group, n->kv_heads);
    bool first = h % n->group == 0;
    if (on_tiles(job)) {
        if (first) {
            stage(o->rows, k, t->keys, WEFT_KEY_TILE);
            o->tiles->pack_transposed(n->k_tiles, WEFT_KEY_TILE, o->rows, o->k);
        }
        o->tiles->product(weft_round_up(t->rows, VLANES), WEFT_KEY_TILE, n->k_tiles,
                          (const uint16_t *)o->q + h * ROW_TILE * n->k_tiles, o->k, p, false);
        return;
    }
    if (first)
        widen_transposed(o->k, k, t->keys);
    scores(t, (const float *)o->q + h * ROW_TILE * n->k_padded, n->k, n->k_padded, o->k, p);
}

static bool is_plain(const struct job *job)
{
    return on_tiles(job) && !job->call->in[KEY_BIAS] && !job->call->in[POS_BIAS] && !job->n.window;
}

/* Computes R [rows][64] of a tile, and leaves the probabilities of head h at p + h * p_stride. */
static void set_routes(const struct job *job, struct tile *t, const struct operands *o, float *p, int64_t p_stride,
                       float *R)
{
    const struct sizes *n = &job->n;
    memset(R, 0, (size_t)(t->rows * WEFT_KEY_TILE) * sizeof *R);
    if (on_tiles(job))
        o->tiles->begin();
    for (int64_t h = 0; h < n->heads; h++) {
        set_head(job, t, h);
        set_pos_bias(job, t);
        load_reciprocal(job, t, &o->ra, h);
        set_products(job, t, o, h, p + h * p_stride);
        (is_plain(job) ? add_plain_head : add_head)(job, t, p + h * p_stride, R);
    }
    if (on_tiles(job))
        o->tiles->end();
    for (int64_t x = 0; !job->attr->head_max && x < t->rows * WEFT_KEY_TILE; x += VLANES)
        vstore_f32(R + x, VLANES, vload_f32(R + x, VLANES) * vset(1 / (float)n->heads));
}

#endif
