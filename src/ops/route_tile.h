/* SPDX-License-Identifier: MIT
 *
 * route_tile.h - what forward and backward routing share: the list of work, and a tile of R.
 *
 * On a machine with AMX bf16 scores, the bulk of the work, take its products instead of the vector ones; these keep the
 * same promise: a row computed alone equals the row computed among others.
 */
#ifndef WEFT_ROUTE_TILE_H
#define WEFT_ROUTE_TILE_H

#include "ops/route_spec.h"
#include "ops/tiles.h"

/* ---- the list of work */

/* Query rows that share a pass over the keys: consecutive rows of one sequence at consecutive positions. Cut at
 * multiples of WEFT_KEY_TILE they end in the same key tile; in training they are also the rows of one key tile. */
enum { ROW_TILE = WEFT_KEY_TILE, KEY_VECS = WEFT_KEY_TILE / VLANES, TILE = ROW_TILE * WEFT_KEY_TILE };

struct job {
    const struct weft_call *call;
    const struct attr *attr;
    struct sizes n;
    struct span *spans;
    int64_t span_count;
};

/* ---- a tile of R */

/* `rows` queries from position i on (row `row` of the call), against the `keys` keys of the tile that begins at
 * position j (row `key_row` of the store). The rest belongs to head h. */
struct tile {
    int64_t seq, row, i, rows, j, keys, key_row, h;
    float scale;
    float key_bias[WEFT_KEY_TILE];
    float pos_bias[ROW_TILE + WEFT_KEY_TILE]; /* by diagonal: row r, key c take [rows - 1 - r + c] */
};

static void set_rows(const struct job *job, struct tile *t, struct span span)
{
    t->seq = ints(job->call, SEQ)[span.row];
    t->i = ints(job->call, POS)[span.row];
    t->row = span.row;
    t->rows = span.rows;
}

/* The keys that the rows may see of the tile at j. */
static void set_keys(const struct job *job, struct tile *t, int64_t j)
{
    t->j = j;
    t->keys = weft_min(WEFT_KEY_TILE, t->i + t->rows - j);
    t->key_row = key_row(job->call, t->seq, j);
}

static float scale_of(const struct job *job, int64_t h)
{
    const struct weft_tensor *scale = job->call->in[SCALE];
    return scale ? ((const float *)scale->data)[h] : (float)(1 / sqrt((double)job->n.k));
}

/* Which pos_bias belongs to a diagonal. Diagonals above the main one are masked and take any. */
static int64_t diagonal_offset(const struct job *job, const struct tile *t, int64_t diagonal)
{
    int64_t offset = t->i - t->j + t->rows - 1 - diagonal;
    return t->h * job->n.offsets + weft_max(0, weft_min(offset, job->n.offsets - 1));
}

static void set_head(const struct job *job, struct tile *t, int64_t h)
{
    const struct weft_tensor *key_bias = job->call->in[KEY_BIAS], *pos_bias = job->call->in[POS_BIAS];
    t->h = h;
    t->scale = scale_of(job, h);
    for (int64_t c = 0; key_bias && c < t->keys; c++)
        t->key_bias[c] = ((const float *)key_bias->data)[(t->key_row + c) * job->n.heads + h];
    for (int64_t d = 0; pos_bias && d < t->rows - 1 + WEFT_KEY_TILE; d++)
        t->pos_bias[d] = ((const float *)pos_bias->data)[diagonal_offset(job, t, d)];
}

/* s[rows][64] = products of the tile's rows (queries, or output gradients) with its transposed keys (or u). */
static void scores(const struct tile *t, const float *rows, int64_t width, int64_t padded, const float *transposed,
                   float *s)
{
    memset(s, 0, (size_t)(t->rows * WEFT_KEY_TILE) * sizeof *s);
    product(t->rows, weft_round_up(t->keys, VLANES), width, (struct left){rows, padded, 1}, transposed, WEFT_KEY_TILE,
            s, WEFT_KEY_TILE);
}

/* Logits of row r and keys c .. c+15 from their products; -inf where the row may not look. */
VINLINE vf logits(const struct tile *t, int64_t r, int64_t c, vf products)
{
    vi lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vf bias = vload_f32(t->key_bias + c, VLANES) + vload_f32(t->pos_bias + t->rows - 1 - r + c, VLANES);
    vf x = vfma(vset(t->scale), products, bias);
    return vpick(lane <= vseti((int32_t)(t->i + r - t->j - c)), x, vset(-INFINITY));
}

/* From products to probabilities, in place, and into R: the sum or the maximum over the heads so far. */
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

/* What scores are made of, in f32 for vectors or in bf16 for AMX. Which of them depends on machine and dtype alone. */
struct operands {
    void *q;        /* queries of all heads: [heads][ROW_TILE] rows */
    void *k;        /* keys of one head, transposed */
    uint16_t *rows; /* AMX: the same before */
};

/* A constant, named at each call, so that other levels and machines are left with no call to code they do not have. */
#if defined(__AVX512F__)
enum { MAY_HAVE_AMX = 1 };
#else
enum { MAY_HAVE_AMX = 0 };
#endif

static struct operands lay_operands(const struct sizes *n, struct space *s)
{
    return (struct operands){
        .q = take_floats(s, n->heads * ROW_TILE, n->k_padded),
        .k = take_floats(s, n->k_padded, WEFT_KEY_TILE),
        .rows = take(s, WEFT_KEY_TILE, n->k_deep, sizeof(uint16_t)),
    };
}

static bool on_amx(const struct job *job)
{
    return MAY_HAVE_AMX && weft_isa() >= WEFT_ISA_AMX && job->call->in[K]->dtype == WEFT_BF16;
}

/* to[64][padded] = the rows, zeros around them. */
static void stage(uint16_t *to, int64_t padded, struct head from, int64_t rows)
{
    memset(to, 0, (size_t)(ROW_TILE * padded) * sizeof *to);
    for (int64_t r = 0; r < rows; r++, to += padded, from.at += from.stride)
        memcpy(to, (const uint16_t *)from.data + from.at, (size_t)from.width * sizeof *to);
}

static void set_queries(const struct job *job, const struct tile *t, const struct operands *o)
{
    const struct sizes *n = &job->n;
    for (int64_t h = 0; h < n->heads; h++) {
        struct head q = head_of(job->call->in[Q], t->row, h, n->heads);
        if (on_amx(job))
            stage((uint16_t *)o->q + h * ROW_TILE * n->k_deep, n->k_deep, q, t->rows);
        else
            widen((float *)o->q + h * ROW_TILE * n->k_padded, n->k_padded, q, t->rows);
    }
}

/* p = <q, k> of the tile and head h, whose keys are made ready with the first head that reads them. */
static void set_products(const struct job *job, const struct tile *t, const struct operands *o, int64_t h, float *p)
{
    const struct sizes *n = &job->n;
    struct head k = head_of(job->call->in[K], t->key_row, h / n->group, n->kv_heads);
    bool first = h % n->group == 0;
    if (MAY_HAVE_AMX && on_amx(job)) {
        if (first) {
            stage(o->rows, n->k_deep, k, t->keys);
            weft_dnn_tiles_pack_transposed(n->k_deep, WEFT_KEY_TILE, o->rows, o->k);
        }
        weft_dnn_tiles_product(weft_round_up(t->rows, VLANES), WEFT_KEY_TILE, n->k_deep,
                               (const uint16_t *)o->q + h * ROW_TILE * n->k_deep, o->k, p, false);
        return;
    }
    if (first)
        widen_transposed(o->k, k, t->keys);
    scores(t, (const float *)o->q + h * ROW_TILE * n->k_padded, n->k, n->k_padded, o->k, p);
}

/* R[rows][64] of a tile. The probabilities of head h are left at p + h * p_stride. */
static void set_routes(const struct job *job, struct tile *t, const struct operands *o, float *p, int64_t p_stride,
                       float *R)
{
    const struct sizes *n = &job->n;
    memset(R, 0, (size_t)(t->rows * WEFT_KEY_TILE) * sizeof *R);
    if (MAY_HAVE_AMX && on_amx(job))
        weft_dnn_tiles_begin();
    for (int64_t h = 0; h < n->heads; h++) {
        set_head(job, t, h);
        set_products(job, t, o, h, p + h * p_stride);
        add_head(job, t, p + h * p_stride, R);
    }
    if (MAY_HAVE_AMX && on_amx(job))
        weft_dnn_tiles_end();
    for (int64_t x = 0; !job->attr->head_max && x < t->rows * WEFT_KEY_TILE; x += VLANES)
        vstore_f32(R + x, VLANES, vload_f32(R + x, VLANES) * vset(1 / (float)n->heads));
}

#endif
