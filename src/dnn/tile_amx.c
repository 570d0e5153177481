/* SPDX-License-Identifier: MIT
 *
 * tile_amx.c - bf16 matmuls on AMX tiles.
 *
 * The inner kernel is 2 x 2 tiles: 32 x 32 sums from two tiles of A (16 rows, 32 deep) and two of B (32 deep, 16
 * columns). A is read in place. B is packed in panels of 32 columns; a step of 32 along the depth is two tiles of 16
 * rows, each row the pairs (2p, 2p+1) of 16 columns, as TDPBF16PS requires. The depth is padded with zeros to whole
 * steps: in B when it is packed, and in A by copying the last step only.
 *
 * The depth is traversed in order, one step at a time, with one f32 sum per element. Long depths are split into chunks,
 * so that the working set of a tile of work stays in the second-level cache; between chunks the sums are kept in
 * scratch, unrounded. So the rounding depends only on the depth. With fewer than 32 rows the tiles have fewer rows: a
 * row's sums do not depend on neighbouring rows.
 *
 * The outer product needs its A transposed: each tile of work packs the columns of dY it needs, a chunk at a time,
 * unless they have been packed ahead for several tiles.
 */
#include "dnn/amx.h"
#include "dnn/store_inl.h"

#define STEP 32  /* depth of a tile */
#define BLOCK 32 /* rows of a row block, and columns of a panel */
#define BLOCKS 8
#define PANELS 12
#define STEP_BYTES 2048 /* size of one step of a panel */
#define TILE_BYTES 1024

/* Depth that is traversed between two visits to the sums in scratch. 256 rows of A or 384 columns of B of this depth
 * take less than 1 MB. */
#define CHUNK 1024

/* ---- packing: sixteen vectors of sixteen bf16 pairs */

typedef vu pairs[16];

VINLINE vh load_bf16(const void *data, enum weft_dtype dtype, int64_t index, int64_t n)
{
    return dtype == WEFT_F32 ? vnarrow(vload_f32((const float *)data + index, n))
                             : vload_half((const uint16_t *)data + index, n);
}

/* Loads the pairs of lines (2p, 2p+1) at sixteen positions into vector p; for matrices with one line per element of the
 * depth. */
VINLINE void load_pairs_as(vu *v, enum weft_dtype dtype, const struct weft_dnn_matrix *m, int64_t line, int64_t lines,
                           int64_t at, int64_t n)
{
    int64_t index = line * m->stride + at;
#pragma GCC unroll 16
    for (int p = 0; p < 16; p++) {
        vh upper = {0}, lower = {0};
        if (2 * p < lines)
            lower = load_bf16(m->data, dtype, index + 2 * p * m->stride, n);
        if (2 * p + 1 < lines)
            upper = load_bf16(m->data, dtype, index + (2 * p + 1) * m->stride, n);
        v[p] = __builtin_convertvector(lower, vu) | (vu)vwiden(upper);
    }
}

/* Loads line i's sixteen pairs into vector i; for matrices whose lines run along the depth. */
VINLINE void load_lines_as(vu *v, enum weft_dtype dtype, const struct weft_dnn_matrix *m, int64_t line, int64_t lines,
                           int64_t at, int64_t n)
{
    int64_t index = line * m->stride + at;
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        vh half[2] = {{0}, {0}};
        if (i < lines)
            half[0] = load_bf16(m->data, dtype, index + i * m->stride, n);
        if (i < lines && n > VLANES)
            half[1] = load_bf16(m->data, dtype, index + i * m->stride + VLANES, n - VLANES);
        memcpy(&v[i], half, sizeof half);
    }
}

/* Loads the vectors of a tile. For a whole tile, the usual case, this is straight-line code in registers. */
#define LOAD(what, v, m, line, lines, line_max, at, n, n_max)                                                          \
    do {                                                                                                               \
        if ((lines) < (line_max) || (n) < (n_max))                                                                     \
            what(v, (m)->dtype, m, line, lines, at, n);                                                                \
        else if ((m)->dtype == WEFT_F32)                                                                               \
            what(v, WEFT_F32, m, line, line_max, at, n_max);                                                           \
        else                                                                                                           \
            what(v, WEFT_BF16, m, line, line_max, at, n_max);                                                          \
    } while (0)

VINLINE void load_pairs(vu *v, const struct weft_dnn_matrix *m, int64_t line, int64_t lines, int64_t at, int64_t n)
{
    LOAD(load_pairs_as, v, m, line, lines, STEP, at, n, VLANES);
}

VINLINE void load_lines(vu *v, const struct weft_dnn_matrix *m, int64_t line, int64_t lines, int64_t at, int64_t n)
{
    LOAD(load_lines_as, v, m, line, lines, VLANES, at, n, STEP);
}

/* Exchanges bit S of the vector index with bit S of the lane index. */
#define EXCHANGE(S, ...)                                                                                               \
    _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++) if (!(i & S))                                                \
    {                                                                                                                  \
        vu a = v[i], b = v[i + S];                                                                                     \
        v[i] = __builtin_shufflevector(a, b, __VA_ARGS__);                                                             \
        v[i + S] = __builtin_shufflevector(b, a, SWAPPED_##S);                                                         \
    }
#define SWAPPED_1 17, 1, 19, 3, 21, 5, 23, 7, 25, 9, 27, 11, 29, 13, 31, 15
#define SWAPPED_2 18, 19, 2, 3, 22, 23, 6, 7, 26, 27, 10, 11, 30, 31, 14, 15
#define SWAPPED_4 20, 21, 22, 23, 4, 5, 6, 7, 28, 29, 30, 31, 12, 13, 14, 15
#define SWAPPED_8 24, 25, 26, 27, 28, 29, 30, 31, 8, 9, 10, 11, 12, 13, 14, 15
VINLINE void transpose(vu *v)
{
    EXCHANGE(1, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30)
    EXCHANGE(2, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
    EXCHANGE(4, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)
    EXCHANGE(8, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
}

static enum weft_status pack(const struct weft_dnn_plan *plan, const struct weft_dnn_matrix *w, int64_t depth0,
                             int64_t depth1, int64_t column, int64_t columns, void *panel)
{
    (void)plan;
    for (int64_t d = depth0; d < depth1; d += STEP)
        for (int64_t j = 0; j < BLOCK; j += 16) {
            pairs v = {{0}};
            if (j < columns && w->across) {
                load_lines(v, w, column + j, columns - j, d, depth1 - d);
                transpose(v);
            } else if (j < columns) {
                load_pairs(v, w, d, depth1 - d, column + j, columns - j);
            }
            memcpy((char *)panel + d / STEP * STEP_BYTES + j / 16 * TILE_BYTES, v, sizeof v);
        }
    return WEFT_OK;
}

/* Packs one step of sixteen rows of A as a tile. */
static void pack_rows(const struct weft_dnn_matrix *a, int64_t row, int64_t rows, int64_t depth0, int64_t depth1,
                      char *to)
{
    pairs v;
    if (a->across) {
        load_pairs(v, a, depth0, depth1 - depth0, row, rows);
        transpose(v);
    } else {
        load_lines(v, a, row, rows, depth0, depth1 - depth0);
    }
    memcpy(to, v, sizeof v);
}

/* A strip holds the upper and then the lower sixteen rows of a block, each for all steps of the depth. */
static int64_t half_strip(const struct weft_dnn_plan *plan) { return weft_div_up(plan->depth, STEP) * TILE_BYTES; }

static enum weft_status pack_strips(const struct weft_dnn_plan *plan, const struct weft_dnn_matrix *a, int64_t depth0,
                                    int64_t depth1, int64_t row0, int64_t row1, char *strips)
{
    for (int64_t d = depth0; d < depth1; d += STEP)
        for (int64_t r = row0; r < row1; r += 16)
            pack_rows(a, r, row1 - r, d, depth1, strips + r / 16 * half_strip(plan) + d / STEP * TILE_BYTES);
    return WEFT_OK;
}

/* ---- tiles */

struct config {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} __attribute__((aligned(64)));

/* Tiles 0 1 / 2 3 hold sums, 4 and 5 hold A, 6 and 7 hold B. */
static void configure(int64_t rows)
{
    uint8_t upper = (uint8_t)weft_min(rows, 16), lower = (uint8_t)(rows - upper);
    uint16_t wide = lower ? 64 : 0;
    struct config c = {.palette = 1,
                       .bytes = {64, 64, wide, wide, 64, wide, 64, 64},
                       .rows = {upper, upper, lower, lower, upper, lower, 16, 16}};
    /* The intrinsic does not declare all the memory it reads. */
    __asm__ volatile("" ::"r"(&c) : "memory");
    _tile_loadconfig(&c);
}

/* Two tiles of A over some steps. */
struct strip {
    const char *upper, *lower;
    int64_t stride, step; /* strides in bytes between rows and between steps */
    int64_t steps;
};

/* A finished block that is being stored. It is stored row by row between the steps of the next block, so that the tile
 * unit and the vector units work at the same time. */
struct leaving {
    const float *sum;
    int64_t row, rows, column, columns;
    int64_t pace; /* rows stored between two steps */
};

static inline __attribute__((always_inline)) void leave(const struct weft_dnn_job *job, struct leaving *l, int64_t rows)
{
    rows = weft_min(rows, l->rows);
    store_block(job, l->row, rows, l->column, l->columns, l->sum, BLOCK);
    l->sum += rows * BLOCK;
    l->row += rows;
    l->rows -= rows;
}

static inline __attribute__((always_inline)) void multiply(const struct strip *a, const char *b, bool lower,
                                                           const struct weft_dnn_job *job, struct leaving *l)
{
    const char *a0 = a->upper, *a1 = a->lower;
    for (int64_t s = 0; s < a->steps; s++) {
        _tile_loadd(6, b, 64);
        _tile_loadd(4, a0, a->stride);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + TILE_BYTES, 64);
        _tile_dpbf16ps(1, 4, 7);
        if (lower) {
            _tile_loadd(5, a1, a->stride);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        if (l->rows)
            leave(job, l, l->pace);
        a0 += a->step;
        a1 += a->step;
        b += STEP_BYTES;
    }
}

/* Computes sum [32 x 32] = or += body B + tail B for one row block and one panel. */
static inline __attribute__((always_inline)) void block(const struct strip *body, const struct strip *tail,
                                                        const char *b, bool fresh, bool lower, float *sum,
                                                        const struct weft_dnn_job *job, struct leaving *l)
{
    __asm__ volatile("" ::: "memory");
    if (fresh) {
        _tile_zero(0);
        _tile_zero(1);
        if (lower) {
            _tile_zero(2);
            _tile_zero(3);
        }
    } else {
        _tile_loadd(0, sum, 128);
        _tile_loadd(1, sum + 16, 128);
        if (lower) {
            _tile_loadd(2, sum + 512, 128);
            _tile_loadd(3, sum + 528, 128);
        }
    }
    multiply(body, b, lower, job, l);
    multiply(tail, b + body->steps * STEP_BYTES, lower, job, l);
    _tile_stored(0, sum, 128);
    _tile_stored(1, sum + 16, 128);
    if (lower) {
        _tile_stored(2, sum + 512, 128);
        _tile_stored(3, sum + 528, 128);
    }
    __asm__ volatile("" ::: "memory");
}

/* ---- a tile of work */

struct work {
    const struct weft_dnn_job *job;
    int64_t row0, row1, panel0, panel1;
    int64_t depth0, depth1; /* the chunk of the depth */
    float *sums;            /* 32 x 32 sums of each block, in order; of a single block if there is only one chunk */
    char *a;                /* packed rows: the whole chunk (outer product), or a partial last step */
};

/* Copies those parts of A that cannot be read in place, step by step, so that memory is read in order. */
static void pack_a(const struct work *w)
{
    const struct weft_dnn_matrix *a = &w->job->a;
    int64_t from = a->across ? w->depth0 : w->depth1 / STEP * STEP, steps = weft_div_up(w->depth1 - from, STEP);
    if (w->job->strips)
        return;
    for (int64_t s = 0; s < steps; s++)
        for (int64_t r = w->row0; r < w->row1; r += 16)
            pack_rows(a, r, w->row1 - r, from + s * STEP, w->depth1,
                      w->a + ((r - w->row0) / 16 * steps + s) * TILE_BYTES);
}

static void strips(const struct work *w, int64_t row, struct strip *body, struct strip *tail)
{
    const struct weft_dnn_matrix *a = &w->job->a;
    int64_t depth = w->depth1 - w->depth0, packed = weft_div_up(a->across ? depth : depth % STEP, STEP);
    const char *copy = w->a + (row - w->row0) / 16 * packed * TILE_BYTES;
    int64_t lower = packed * TILE_BYTES;
    if (w->job->strips) {
        copy = w->job->strips + (size_t)(row / BLOCK) * w->job->plan->strip_bytes + w->depth0 / STEP * TILE_BYTES;
        lower = half_strip(w->job->plan);
    }
    *tail = (struct strip){copy, copy + lower, 64, TILE_BYTES, packed};
    const char *rows = (const char *)a->data + 2 * (row * a->stride + w->depth0);
    *body = (struct strip){rows, rows + 32 * a->stride, 2 * a->stride, 64, a->across ? 0 : depth / STEP};
}

/* Prefetches an output block, because a store that misses the cache would stall everything after it. */
static inline void prefetch_out(const struct weft_dnn_job *job, int64_t row, int64_t rows, int64_t column)
{
    int64_t size = job->out_dtype == WEFT_BF16 ? 2 : 4;
    for (int64_t i = 0; i < rows; i++) {
        const char *line = (const char *)job->out + ((row + i) * job->out_stride + column) * size;
        __builtin_prefetch(line, 1, 3);
        if (size == 4)
            __builtin_prefetch(line + 64, 1, 3);
    }
}

static inline __attribute__((always_inline)) void walk(const struct work *w, int64_t row0, int64_t row1, bool lower)
{
    const struct weft_dnn_job *job = w->job;
    bool fresh = w->depth0 == 0, last = w->depth1 == job->depth;
    int64_t panels = w->panel1 - w->panel0, nth = (row0 - w->row0) / BLOCK * panels;
    struct leaving l = {0};
    for (int64_t r = row0; r < row1; r += BLOCK) {
        int64_t rows = weft_min(BLOCK, row1 - r);
        struct strip body, tail;
        strips(w, r, &body, &tail);
        for (int64_t p = w->panel0; p < w->panel1; p++, nth++) {
            const char *b = job->b + (size_t)p * job->plan->panel_bytes + w->depth0 / STEP * STEP_BYTES;
            float *sum = w->sums + (fresh && last ? nth % 2 : nth) * BLOCK * BLOCK;
            if (last)
                prefetch_out(job, r, rows, p * BLOCK);
            block(&body, &tail, b, fresh, lower, sum, job, &l);
            if (last) {
                leave(job, &l, BLOCK);
                l = (struct leaving){sum,
                                     r,
                                     rows,
                                     p * BLOCK,
                                     weft_min(BLOCK, job->width - p * BLOCK),
                                     weft_div_up(BLOCK, body.steps + tail.steps)};
            }
        }
    }
    leave(job, &l, BLOCK);
}

static size_t sums_bytes(const struct weft_dnn_plan *plan)
{
    return (size_t)(plan->depth > CHUNK ? BLOCKS * PANELS : 2) * BLOCK * BLOCK * sizeof(float);
}

static enum weft_status tile(const struct weft_dnn_job *job, int64_t row0, int64_t row1, int64_t panel0, int64_t panel1,
                             void *local)
{
    struct work w = {.job = job, .row0 = row0, .row1 = row1, .panel0 = panel0, .panel1 = panel1, .sums = local};
    w.a = (char *)local + sums_bytes(job->plan);
    int64_t whole = row1 - (row1 - row0) % BLOCK;
    for (w.depth0 = 0; w.depth0 < job->depth; w.depth0 = w.depth1) {
        w.depth1 = weft_min(w.depth0 + CHUNK, job->depth);
        pack_a(&w);
        if (whole > row0) {
            configure(BLOCK);
            walk(&w, row0, whole, true);
        }
        if (row1 > whole) {
            configure(row1 - whole);
            if (row1 - whole > 16)
                walk(&w, whole, row1, true);
            else
                walk(&w, whole, row1, false);
        }
    }
    _tile_release();
    return WEFT_OK;
}

static enum weft_status plan(struct weft_dnn_plan *p)
{
    size_t steps = (size_t)weft_div_up(p->depth, STEP), a_steps = p->outer ? CHUNK / STEP : 1;
    TRY(weft_size_mul(steps, STEP_BYTES, &p->panel_bytes));
    p->strip_bytes = p->panel_bytes;
    p->local_bytes = sums_bytes(p) + BLOCKS * BLOCK / 16 * a_steps * TILE_BYTES;
    return WEFT_OK;
}

const struct weft_dnn_engine weft_dnn_amx = {
    .name = "amx tile loop",
    .block = BLOCK,
    .blocks = BLOCKS,
    .panel = BLOCK,
    .panels = PANELS,
    .tiles_outer = 2, /* each tile packs its part of dY and streams X, so a few large tiles are best */
    .edge = 64,       /* cost of reading a row or column from the third-level cache */
    .grain = 1 << 20, /* about two microseconds, because every tile sets up the tile registers, and its last stores
                         overlap with no other work */
    .pack_depth = STEP,
    .plan = plan,
    .pack = pack,
    .pack_rows = pack_strips,
    .pack_ahead = 3,
    .tile = tile,
};
