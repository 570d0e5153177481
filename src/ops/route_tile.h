/* SPDX-License-Identifier: MIT
 *
 * route_tile.h - what forward and backward routing share: one product, tiles brought into f32, the list of work, and a
 * tile of R.
 *
 * All products (scores, values, and in backward e, du, dk, dq) are the same loop,
 *     c[r][x] += sum over t of a(r,t) * b[t][x],
 * and an element of c is one chain of multiply-adds in the order of t. How rows and columns are blocked into registers
 * therefore cannot be seen in the bits, and a row computed alone equals the row computed among others.
 *
 * Tiles in local memory are f32 with rows padded to whole vectors; the padding is never stored back. On a machine with
 * AMX bf16 scores, the bulk of the work, take its products instead, which keep the same promise.
 */
#ifndef WEFT_ROUTE_TILE_H
#define WEFT_ROUTE_TILE_H

#include "ops/route_spec.h"

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

/* to[padded] += factor times the first row. */
static void add_scaled(float *to, int64_t padded, float factor, struct head from)
{
    for (int64_t d = 0; d < padded; d += VLANES)
        vstore_f32(to + d, VLANES, vfma(vset(factor), load_part(from, from.at, d), vload_f32(to + d, VLANES)));
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

/* Query rows that share a pass over the keys: consecutive rows of one sequence at consecutive positions. Cut at
 * multiples of WEFT_KEY_TILE they end in the same key tile; in training they are also the rows of one key tile. */
enum { ROW_TILE = WEFT_KEY_TILE, KEY_VECS = WEFT_KEY_TILE / VLANES, TILE = ROW_TILE * WEFT_KEY_TILE };

struct span {
    int64_t row, rows;
};

static int64_t cut_spans(const struct weft_call *call, struct span *spans)
{
    const int32_t *seq = ints(call, SEQ), *pos = ints(call, POS);
    int64_t count = 0;
    for (int64_t r = 0; r < call->in[SEQ]->dim[0]; r++) {
        if (r > 0 && seq[r] == seq[r - 1] && pos[r] == pos[r - 1] + 1 && pos[r] % ROW_TILE)
            spans[count - 1].rows++;
        else
            spans[count++] = (struct span){r, 1};
    }
    return count;
}

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
