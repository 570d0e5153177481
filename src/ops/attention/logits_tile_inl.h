/* SPDX-License-Identifier: MIT
 *
 * logits_tile_inl.h - shared by the fast paths of the ops that compute attention's logits: the work list, and a tile of
 * logits (see logits_reference_inl.h for the formulas).
 */
#ifndef WEFT_LOGITS_TILE_H
#define WEFT_LOGITS_TILE_H

#include "ops/attention/logits_reference_inl.h"

/* ---- the work list */

struct job {
    const struct weft_call *call;
    const struct attr *attr;
    struct sizes n;
    struct span *spans;
    int64_t span_count;
    /* For backward: gradients that all rows share are summed in parts, [parts][heads] and [parts][heads][offsets]. */
    double *scale_parts;
    float *pos_parts;
    int64_t part_count;
};

/* Adds the parts of one head to the gradients, in order. */
SHARED void sum_parts(void *context, int64_t h, int thread)
{
    (void)thread;
    const struct job *job = context;
    const struct sizes *n = &job->n;
    struct weft_tensor *const *gin = job->call->gin;
    double scale = 0;
    for (int64_t s = 0; s < job->part_count; s++)
        scale += job->scale_parts[s * n->heads + h];
    if (gin[SCALE])
        ((float *)gin[SCALE]->data)[h] += (float)scale;
    for (int64_t x = h * n->offsets; gin[POS_BIAS] && x < (h + 1) * n->offsets; x++) {
        float sum = 0;
        for (int64_t s = 0; s < job->part_count; s++)
            sum += job->pos_parts[s * n->heads * n->offsets + x];
        ((float *)gin[POS_BIAS]->data)[x] += sum;
    }
}

/* ---- a tile of logits */

/* Query rows that share a pass over the keys: consecutive rows of one sequence at consecutive positions. They are split
 * at multiples of WEFT_KEY_TILE, so they all end in the same key tile; in training, they are the rows of one key
 * tile. */
enum { ROW_TILE = WEFT_KEY_TILE, KEY_VECS = WEFT_KEY_TILE / VLANES, TILE = ROW_TILE * WEFT_KEY_TILE };

/* `rows` queries starting at position i (row `row` of the call), and the `keys` keys of the tile that starts at
 * position j (row `key_row` of the store). The other fields are for head h. */
struct tile {
    int64_t seq, row, i, rows, j, keys, key_row, h;
    float scale;
    float key_bias[WEFT_KEY_TILE];
    float pos_bias[ROW_TILE + WEFT_KEY_TILE]; /* indexed by diagonal: row r and key c use [rows - 1 - r + c] */
    uint64_t mask_key;                        /* key of the masks of attention's dropout */
    /* The reciprocal term: the products of the rows' own keys with the queries of the tile's positions (NULL if the
     * tile does not overlap the window), and the biases of both. */
    const float *reciprocal;
    float ra_alpha, q_bias[WEFT_KEY_TILE], own_bias[ROW_TILE];
    int64_t window;
};

static void set_rows(const struct job *job, struct tile *t, struct span span)
{
    t->seq = ints(job->call, SEQ)[span.row];
    t->i = ints(job->call, POS)[span.row];
    t->row = span.row;
    t->rows = span.rows;
}

/* Sets the key tile at position j, with the keys that are visible to the rows. */
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

static void set_head(const struct job *job, struct tile *t, int64_t h)
{
    const struct weft_tensor *bias = job->call->in[KEY_BIAS];
    t->h = h;
    t->scale = scale_of(job, h);
    for (int64_t c = 0; bias && c < t->keys; c++)
        t->key_bias[c] = ((const float *)bias->data)[(t->key_row + c) * job->n.heads + h];
}

/* Returns the index of a diagonal's pos_bias. Diagonals above the main one are masked and can use any index. */
static int64_t diagonal_offset(const struct job *job, const struct tile *t, int64_t diagonal)
{
    int64_t offset = t->i - t->j + t->rows - 1 - diagonal;
    return t->h * job->n.offsets + weft_max(0, weft_min(offset, job->n.offsets - 1));
}

SHARED void set_pos_bias(const struct job *job, struct tile *t)
{
    const struct weft_tensor *bias = job->call->in[POS_BIAS];
    for (int64_t d = 0; bias && d < t->rows - 1 + WEFT_KEY_TILE; d++)
        t->pos_bias[d] = ((const float *)bias->data)[diagonal_offset(job, t, d)];
}

/* Computes the products s [rows][64] of the tile's rows (queries or output gradients) with transposed keys (or values,
 * or u). */
static void scores(const struct tile *t, const float *rows, int64_t width, int64_t padded, const float *transposed,
                   float *s)
{
    memset(s, 0, (size_t)(t->rows * WEFT_KEY_TILE) * sizeof *s);
    product(t->rows, weft_round_up(t->keys, VLANES), width, (struct left){rows, padded, 1}, transposed, WEFT_KEY_TILE,
            s, WEFT_KEY_TILE);
}

/* ---- the reciprocal term */

/* Return, for head h of a sequence, the own keys of the rows that start at row `row` of the call, which is at position
 * i; and the stored queries that start at position j. */
static struct head own_head(const struct job *job, int64_t seq, int64_t row, int64_t i, int64_t h)
{
    const struct weft_tensor *own = job->call->in[K_OWN], *k = job->call->in[K];
    return head_of(own ? own : k, own ? row : key_row(job->call, seq, i), h / job->n.own_group, job->n.own_heads);
}

static struct head stored_head(const struct job *job, int64_t seq, int64_t j, int64_t h)
{
    return head_of(job->call->in[Q_STORE], query_row(job->call, seq, j), h, job->n.heads);
}

/* Returns whether the window of any row of the tile contains a key of the tile. */
static bool reaches_window(const struct job *job, const struct tile *t)
{
    return job->n.window && t->i - (t->j + t->keys - 1) <= job->n.window;
}

/* Sets the reciprocal term of a tile from the products of the rows' own keys with the tile's queries. */
static void set_reciprocal(const struct job *job, struct tile *t, const float *products)
{
    const struct geometry *a = job->call->attr;
    const struct weft_tensor *q_bias = job->call->in[Q_BIAS], *key_bias = job->call->in[KEY_BIAS];
    int64_t heads = job->n.heads, own_row = key_row(job->call, t->seq, t->i);
    int64_t stored_row = query_row(job->call, t->seq, t->j);
    t->reciprocal = products;
    t->ra_alpha = (float)a->ra_alpha;
    t->window = a->ra_window;
    for (int64_t c = 0; c < WEFT_KEY_TILE; c++)
        t->q_bias[c] = q_bias && c < t->keys ? ((const float *)q_bias->data)[(stored_row + c) * heads + t->h] : 0;
    for (int64_t r = 0; r < t->rows; r++)
        t->own_bias[r] = key_bias ? ((const float *)key_bias->data)[(own_row + r) * heads + t->h] : 0;
}

/* Memory of the reciprocal term for loops that visit tiles with fixed rows. Operands are f32 on vectors and bf16 on
 * tiles. */
struct reciprocal {
    const struct weft_dnn_tiles *tiles; /* NULL: computed on vectors */
    void *own;                          /* own keys, [own heads][ROW_TILE] rows */
    void *stored;                       /* the tile's queries of one head, transposed */
    uint16_t *rows;                     /* on tiles: the queries before they are transposed */
    float *products;                    /* dot products of own keys and queries */
};

static struct reciprocal lay_reciprocal(const struct sizes *n, int64_t own_heads, struct space *s)
{
    if (!n->window)
        return (struct reciprocal){0};
    return (struct reciprocal){
        .tiles = n->own_tiles ? weft_dnn_tiles() : NULL,
        .own = take_floats(s, own_heads * ROW_TILE, n->own_padded),
        .stored = take_floats(s, n->own_padded, WEFT_KEY_TILE),
        .rows = take_bf16(s, WEFT_KEY_TILE, n->own_tiles),
        .products = take_floats(s, ROW_TILE, WEFT_KEY_TILE),
    };
}

/* Returns the own keys of head first + x (see start_reciprocal). */
static void *own_keys(const struct job *job, const struct reciprocal *ra, int64_t x)
{
    int64_t row = x / job->n.own_group * ROW_TILE;
    return ra->tiles ? (void *)((uint16_t *)ra->own + row * job->n.own_tiles)
                     : (void *)((float *)ra->own + row * job->n.own_padded);
}

/* Loads the own keys of the tile's rows for `heads` query heads starting at `first`. */
static void start_reciprocal(const struct job *job, const struct tile *t, const struct reciprocal *ra, int64_t first,
                             int64_t heads)
{
    const struct sizes *n = &job->n;
    for (int64_t x = 0; n->window && x < heads; x += n->own_group) {
        struct head own = own_head(job, t->seq, t->row, t->i, first + x);
        if (ra->tiles)
            stage(own_keys(job, ra, x), own, t->rows, ROW_TILE);
        else
            widen(own_keys(job, ra, x), n->own_padded, own, t->rows);
    }
}

/* Computes the reciprocal term of the tile for its head, first + x; sets t->reciprocal to NULL if the tile is outside
 * the window. */
static void load_reciprocal(const struct job *job, struct tile *t, const struct reciprocal *ra, int64_t x)
{
    const struct sizes *n = &job->n;
    t->reciprocal = NULL;
    if (!reaches_window(job, t))
        return;
    struct head stored = stored_head(job, t->seq, t->j, t->h);
    if (ra->tiles) {
        stage(ra->rows, stored, t->keys, WEFT_KEY_TILE);
        ra->tiles->pack_transposed(n->own_tiles, WEFT_KEY_TILE, ra->rows, ra->stored);
        ra->tiles->product(weft_round_up(t->rows, VLANES), WEFT_KEY_TILE, n->own_tiles, own_keys(job, ra, x),
                           ra->stored, ra->products, false);
    } else {
        widen_transposed(ra->stored, stored, t->keys);
        scores(t, own_keys(job, ra, x), n->own, n->own_padded, ra->stored, ra->products);
    }
    set_reciprocal(job, t, ra->products);
}

/* Returns a mask of the keys c to c+15 that are in the window of row r. */
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

/* Returns the logits of row r and keys c to c+15, given their products; -inf if masked. */
VINLINE vf logits(const struct tile *t, int64_t r, int64_t c, vf products)
{
    vi lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vf bias = vload_f32(t->key_bias + c, VLANES) + vload_f32(t->pos_bias + t->rows - 1 - r + c, VLANES);
    vf x = vfma(vset(t->scale), products, bias);
    if (t->reciprocal)
        x = add_reciprocal(t, r, c, x);
    return vpick(lane <= vseti((int32_t)(t->i + r - t->j - c)), x, vset(-INFINITY));
}

#endif
