/* SPDX-License-Identifier: MIT
 *
 * attention_tile.h - what forward and backward attention share: one product, tiles brought into f32, the random bits,
 * the list of work, and a tile of logits.
 *
 * All products of attention (scores, values, and in backward dP, dv, dk, dq) are the same loop,
 *     c[r][x] += sum over t of a(r,t) * b[t][x],
 * and an element of c is one chain of multiply-adds in the order of t. How rows and columns are blocked into registers
 * therefore cannot be seen in the bits, and a row computed alone equals the row computed among others.
 *
 * Tiles in local memory are f32 with rows padded to whole vectors; the padding is never stored back.
 */
#ifndef WEFT_ATTENTION_TILE_H
#define WEFT_ATTENTION_TILE_H

#include "ops/attention_spec.h"

/* ---- the product */

/* A register's worth of floats, and how many sums to keep in registers. An element's chain is the same at any width. */
#if defined(__AVX512F__)
typedef vf vpart;
enum { PART = 16, BLOCK_ROWS = 4, BLOCK_PARTS = 4 };
VINLINE vpart part_fma(vpart a, vpart b, vpart c) { return vfma(a, b, c); }
#elif defined(__FMA__)
typedef float vpart __attribute__((vector_size(32)));
enum { PART = 8, BLOCK_ROWS = 4, BLOCK_PARTS = 2 };
VINLINE vpart part_fma(vpart a, vpart b, vpart c) { return (vpart)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
#else
typedef float vpart __attribute__((vector_size(16)));
enum { PART = 4, BLOCK_ROWS = 2, BLOCK_PARTS = 4 };
VINLINE vpart part_fma(vpart a, vpart b, vpart c) { return a * b + c; }
#endif

VINLINE vpart part_set(float x) { return x - (vpart){0}; }

VINLINE vpart part_load(const float *p)
{
    vpart x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* The left operand: element (r,t) is at[r * row + t * step], so its transpose costs nothing. */
struct left {
    const float *at;
    int64_t row, step;
};

VINLINE void block(int rows, int parts, int64_t depth, struct left a, const float *b, int64_t b_row, float *c,
                   int64_t c_row)
{
    vpart sum[BLOCK_ROWS][BLOCK_PARTS], right[BLOCK_PARTS];
    for (int r = 0; r < rows; r++)
        for (int x = 0; x < parts; x++)
            sum[r][x] = part_load(c + r * c_row + x * PART);
    for (int64_t t = 0; t < depth; t++) {
        for (int x = 0; x < parts; x++)
            right[x] = part_load(b + t * b_row + x * PART);
        for (int r = 0; r < rows; r++)
            for (int x = 0; x < parts; x++)
                sum[r][x] = part_fma(part_set(a.at[r * a.row + t * a.step]), right[x], sum[r][x]);
    }
    for (int r = 0; r < rows; r++)
        for (int x = 0; x < parts; x++)
            memcpy(c + r * c_row + x * PART, &sum[r][x], sizeof(vpart));
}

VINLINE void block_rows(int rows, int64_t columns, int64_t depth, struct left a, const float *b, int64_t b_row,
                        float *c, int64_t c_row)
{
    int64_t x = 0;
    for (; x + BLOCK_PARTS * PART <= columns; x += BLOCK_PARTS * PART)
        block(rows, BLOCK_PARTS, depth, a, b + x, b_row, c + x, c_row);
    for (; x < columns; x += VLANES)
        block(rows, VLANES / PART, depth, a, b + x, b_row, c + x, c_row);
}

/* c[rows][columns] += a[rows][depth] b[depth][columns]; columns is a multiple of VLANES. */
static void product(int64_t rows, int64_t columns, int64_t depth, struct left a, const float *b, int64_t b_row,
                    float *c, int64_t c_row)
{
    int64_t r = 0;
    for (; r + BLOCK_ROWS <= rows; r += BLOCK_ROWS, a.at += BLOCK_ROWS * a.row)
        block_rows(BLOCK_ROWS, columns, depth, a, b, b_row, c + r * c_row, c_row);
    for (; r < rows; r++, a.at += a.row)
        block_rows(1, columns, depth, a, b, b_row, c + r * c_row, c_row);
}

/* ---- between tensors and tiles */

/* One head's part of a [rows, heads * width] tensor, from one row on. */
struct head {
    void *data;
    enum weft_dtype dtype;
    int64_t at, stride, width; /* elements: where the first row begins, from row to row, used in each row */
};

static struct head head_of(const struct weft_tensor *t, int64_t row, int64_t h, int64_t heads)
{
    int64_t stride = weft_tensor_width(t), width = stride / heads;
    return (struct head){t->data, t->dtype, row * stride + h * width, stride, width};
}

/* Columns d .. d+15 of the part that begins at element `at`. A whole vector is a case of its own because only then the
 * compiler knows its length; a tail goes through memory. */
VINLINE vf load_part(struct head from, int64_t at, int64_t d)
{
    return d + VLANES <= from.width ? vload(from.data, from.dtype, at + d, at + d + VLANES)
                                    : vload(from.data, from.dtype, at + d, at + from.width);
}

VINLINE void store_part(struct head to, int64_t at, int64_t d, vf x)
{
    if (d + VLANES <= to.width)
        vstore(to.data, to.dtype, at + d, at + d + VLANES, x);
    else
        vstore(to.data, to.dtype, at + d, at + to.width, x);
}

/* to[rows][padded] = the rows; the padding is 0. */
static void widen(float *to, int64_t padded, struct head from, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++, from.at += from.stride)
        for (int64_t d = 0; d < padded; d += VLANES)
            vstore_f32(to + r * padded + d, VLANES, load_part(from, from.at, d));
}

/* The way back. */
static void narrow(struct head to, const float *from, int64_t padded, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++, to.at += to.stride)
        for (int64_t d = 0; d < to.width; d += VLANES)
            store_part(to, to.at, d, vload_f32(from + r * padded + d, VLANES));
}

/* Transposes 16 x 16 in four rounds: at distance h, lanes l + h of row i change places with lanes l of row i + h. */
#define LANE_LOW(h, l) ((l) & (h) ? VLANES + (l) - (h) : (l))
#define LANE_HIGH(h, l) ((l) & (h) ? VLANES + (l) : (l) + (h))
#define LANES(f, h)                                                                                                    \
    f(h, 0), f(h, 1), f(h, 2), f(h, 3), f(h, 4), f(h, 5), f(h, 6), f(h, 7), f(h, 8), f(h, 9), f(h, 10), f(h, 11),      \
        f(h, 12), f(h, 13), f(h, 14), f(h, 15)
#define ROUND(h)                                                                                                       \
    for (int i = 0; i < VLANES; i++)                                                                                   \
        if (!(i & (h))) {                                                                                              \
            vf low = row[i], high = row[i + (h)];                                                                      \
            row[i] = __builtin_shufflevector(low, high, LANES(LANE_LOW, h));                                           \
            row[i + (h)] = __builtin_shufflevector(low, high, LANES(LANE_HIGH, h));                                    \
        }

VINLINE void transpose(vf row[VLANES])
{
    ROUND(1)
    ROUND(2)
    ROUND(4)
    ROUND(8)
}

/* to[width rounded up][WEFT_KEY_TILE] = the rows, transposed; lanes of missing rows in the last vector are 0. */
static void widen_transposed(float *to, struct head from, int64_t rows)
{
    for (int64_t j = 0; j < rows; j += VLANES)
        for (int64_t d = 0; d < from.width; d += VLANES) {
            vf row[VLANES];
            for (int r = 0; r < VLANES; r++)
                row[r] = j + r < rows ? load_part(from, from.at + (j + r) * from.stride, d) : vset(0);
            transpose(row);
            for (int r = 0; r < VLANES; r++)
                vstore_f32(to + (d + r) * WEFT_KEY_TILE + j, VLANES, row[r]);
        }
}

/* ---- random bits */

typedef uint64_t vl __attribute__((vector_size(64)));

VINLINE void multiply_wide(vu x, uint32_t by, vu *high, vu *low)
{
    vl even = ((vl)x & 0xffffffff) * by, odd = ((vl)x >> 32) * by;
    *low = (vu)((even & 0xffffffff) | odd << 32);
    *high = (vu)(even >> 32 | (odd & 0xffffffff00000000));
}

/* Sixteen counters of weft_rand at once (Philox 4x32-10, Salmon et al., SC 2011): lane l of word[x] is
 * weft_rand(key, high, low + l).u[x]. */
VINLINE void random_words(uint64_t key, uint64_t high, uint32_t low, vu word[4])
{
    vu lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vu zero = {0}, a = lane + low, b = zero, c = zero + (uint32_t)high, d = zero + (uint32_t)(high >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9e3779b9, k1 += 0xbb67ae85) {
        vu high0, low0, high1, low1;
        multiply_wide(a, 0xd2511f53, &high0, &low0);
        multiply_wide(c, 0xcd9e8d57, &high1, &low1);
        a = high1 ^ b ^ k0;
        b = low1;
        c = high0 ^ d ^ k1;
        d = low0;
    }
    word[0] = a, word[1] = b, word[2] = c, word[3] = d;
}

/* ---- memory and the list of work */

/* Hands out parts of booked memory, or with base NULL only counts, for plan. */
struct space {
    char *base;
    size_t used;
    enum weft_status status;
};

static void *take(struct space *s, int64_t rows, int64_t width, size_t element)
{
    size_t at = s->used, bytes = 0;
    if (s->status == WEFT_OK)
        s->status = weft_size_mul((size_t)rows, (size_t)width, &bytes);
    if (s->status == WEFT_OK)
        s->status = weft_size_mul(bytes, element, &bytes);
    if (s->status == WEFT_OK)
        s->status = weft_size_add(at, bytes, &s->used);
    if (s->status == WEFT_OK)
        s->status = weft_size_add(s->used, -s->used % 64, &s->used);
    return s->base ? s->base + at : NULL;
}

static float *take_floats(struct space *s, int64_t rows, int64_t width) { return take(s, rows, width, sizeof(float)); }

static enum weft_status book(struct weft_booking *booking, const struct space *scratch, const struct space *local)
{
    booking->scratch = scratch->used;
    booking->local = local->used;
    TRY(scratch->status);
    TRY(local->status);
    return WEFT_OK;
}

struct span { /* consecutive rows of one sequence at consecutive positions */
    int64_t row, rows;
};

/* Cuts the call's rows into spans, anew at every position that is a multiple of `unit`. */
static int64_t cut_spans(const struct weft_call *call, int64_t unit, struct span *spans)
{
    const int32_t *seq = ints(call, SEQ), *pos = ints(call, POS);
    int64_t count = 0;
    for (int64_t r = 0; r < call->in[SEQ]->dim[0]; r++) {
        if (r > 0 && seq[r] == seq[r - 1] && pos[r] == pos[r - 1] + 1 && pos[r] % unit)
            spans[count - 1].rows++;
        else
            spans[count++] = (struct span){r, 1};
    }
    return count;
}

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
    vu bits[KEY_VECS] = {0};
    if (dropout > 0)
        random_words(t->mask_key, (uint64_t)t->h << 32 | (uint64_t)(t->i + r), (uint32_t)(t->j / 4), bits);
    for (int c = 0; c < KEY_VECS; c++)
        keep[c] = vpick((vi)(bits[c] < mask_threshold(dropout)), vset(0), vset((float)(1 / (1 - dropout))));
}

#endif
