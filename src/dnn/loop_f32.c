/* SPDX-License-Identifier: MIT
 *
 * loop_f32.c - f32 products in a plain vector loop, compiled once per instruction-set level; also emulated bf16.
 *
 * The inner kernel keeps ROWS x COLUMNS sums in registers and adds one outer product per step of the depth: a vector of
 * B times a number of A, one fused multiply-add per sum where the level has it. B is packed in panels,
 * [depth][COLUMNS]. A is read where it lies, along or across; what lies too short (the last rows) or is bf16 goes
 * through a copy.
 *
 * The depth is walked in order with one sum per element, in chunks that keep a panel in the first-level cache; between
 * chunks sums wait in scratch, unrounded. So the bits depend on the numbers alone (and on the level: with or without
 * fused multiply-add).
 *
 * bf16 operands are widened when packed or copied (f32 weights are rounded to bf16 first), so products are exact and
 * sums f32, as in a true bf16 engine.
 */
#include "dnn/store_inl.h"

/* Registers decide: 24 of 32 sums with AVX-512, 12 of 16 elsewhere. A piece is one register. */
#if defined(__AVX512F__)
#define ROWS 12
#define COLUMNS 32
#define PIECE 16
#elif defined(__FMA__)
#define ROWS 6
#define COLUMNS 16
#define PIECE 8
#else
#define ROWS 3
#define COLUMNS 16
#define PIECE 4
#endif
#define PIECES (COLUMNS / PIECE)
#define BLOCKS 16
#define PANELS (512 / COLUMNS)
#define CHUNK 256

typedef float piece __attribute__((vector_size(PIECE * 4)));
typedef float piece_unaligned __attribute__((vector_size(PIECE * 4), aligned(4), may_alias));

/* As vfma, of one register. */
static inline __attribute__((always_inline)) piece fma_piece(float a, piece b, piece c)
{
#if defined(__AVX512F__)
    return (piece)_mm512_fmadd_ps(_mm512_set1_ps(a), (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (piece)_mm256_fmadd_ps(_mm256_set1_ps(a), (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/* sum [ROWS, COLUMNS] (+)= A [ROWS, depth] B [depth, COLUMNS]; element (i, d) of A is a[i * row + d * step]. */
static void multiply(const float *restrict a, int64_t row, int64_t step, const float *restrict b, int64_t depth,
                     bool fresh, float *restrict sum)
{
    piece s[ROWS][PIECES];
#pragma GCC unroll 12
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < PIECES; j++)
            s[i][j] = fresh ? (piece){0} : (piece) * (const piece_unaligned *)(sum + i * COLUMNS + j * PIECE);
    for (int64_t d = 0; d < depth; d++, a += step, b += COLUMNS) {
        piece x[PIECES];
#pragma GCC unroll 4
        for (int j = 0; j < PIECES; j++)
            x[j] = *(const piece_unaligned *)(b + j * PIECE);
#pragma GCC unroll 12
        for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
            for (int j = 0; j < PIECES; j++)
                s[i][j] = fma_piece(a[i * row], x[j], s[i][j]);
    }
#pragma GCC unroll 12
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < PIECES; j++)
            *(piece_unaligned *)(sum + i * COLUMNS + j * PIECE) = s[i][j];
}

/* ---- packing */

/* n <= 16 numbers of a line, rounded to the product's dtype. */
static inline vf line(const struct weft_dnn_matrix *m, enum weft_dtype dtype, int64_t index, int64_t n)
{
    vf x = vload(m->data, m->dtype, index, index + n);
    return dtype == WEFT_BF16 && m->dtype == WEFT_F32 ? vwiden(vnarrow(x)) : x;
}

/* to[i * width + j] = element (i, j) of [lines, count] at (i0, j0) for i < lines, j < count, and 0 for the rest of j.
 * Lines across are turned by storing a vector's lanes apart. */
static void copy(const struct weft_dnn_matrix *m, enum weft_dtype dtype, int64_t i0, int64_t lines, int64_t j0,
                 int64_t count, int64_t width, float *to)
{
    if (m->across) {
        for (int64_t j = 0; j < width; j++)
            for (int64_t i = 0; i < lines; i += VLANES) {
                int64_t n = weft_min(VLANES, lines - i);
                vf x = j < count ? line(m, dtype, (j0 + j) * m->stride + i0 + i, n) : vset(0);
                for (int64_t l = 0; l < n; l++)
                    to[(i + l) * width + j] = x[l];
            }
        return;
    }
    for (int64_t i = 0; i < lines; i++)
        for (int64_t j = 0; j < width; j += VLANES) {
            int64_t n = weft_max(0, weft_min(VLANES, count - j));
            vstore_f32(to + i * width + j, width - j, line(m, dtype, (i0 + i) * m->stride + j0 + j, n));
        }
}

static enum weft_status pack(const struct weft_dnn_plan *plan, const struct weft_dnn_matrix *w, int64_t depth0,
                             int64_t depth1, int64_t column, int64_t columns, void *panel)
{
    copy(w, plan->dtype, depth0, depth1 - depth0, column, columns, COLUMNS, (float *)panel + depth0 * COLUMNS);
    return WEFT_OK;
}

/* ---- a tile of work */

struct strip {
    const float *a;
    int64_t row, step;
};

/* A of one row block over a chunk: where it lies when it is whole f32 rows, else a copy, [depth][ROWS]. */
static struct strip strip(const struct weft_dnn_job *job, int64_t row, int64_t rows, int64_t depth0, int64_t depth,
                          float *to)
{
    struct weft_dnn_matrix a = job->a;
    if (a.dtype == WEFT_F32 && rows == ROWS && !a.across)
        return (struct strip){(const float *)a.data + row * a.stride + depth0, a.stride, 1};
    a.across = !a.across; /* as [depth, rows] */
    copy(&a, job->plan->dtype, depth0, depth, row, rows, ROWS, to);
    return (struct strip){to, 1, ROWS};
}

static enum weft_status tile(const struct weft_dnn_job *job, int64_t row0, int64_t row1, int64_t panel0, int64_t panel1,
                             void *local)
{
    int64_t panels = panel1 - panel0;
    float *sums = local, *copied = sums + BLOCKS * PANELS * ROWS * COLUMNS;
    for (int64_t d = 0; d < job->depth; d += CHUNK) {
        int64_t depth = weft_min(CHUNK, job->depth - d);
        struct strip strips[BLOCKS];
        for (int64_t r = row0, i = 0; r < row1; r += ROWS, i++)
            strips[i] = strip(job, r, weft_min(ROWS, row1 - r), d, depth, copied + i * ROWS * CHUNK);
        for (int64_t p = 0; p < panels; p++) {
            const float *b = (const float *)(job->b + (size_t)(panel0 + p) * job->plan->panel_bytes) + d * COLUMNS;
            int64_t column = (panel0 + p) * COLUMNS;
            for (int64_t r = row0, i = 0; r < row1; r += ROWS, i++) {
                float *sum = sums + (p * BLOCKS + i) * ROWS * COLUMNS;
                multiply(strips[i].a, strips[i].row, strips[i].step, b, depth, d == 0, sum);
                if (d + depth == job->depth)
                    store_block(job, r, weft_min(ROWS, row1 - r), column, weft_min(COLUMNS, job->width - column), sum,
                                COLUMNS);
            }
        }
    }
    return WEFT_OK;
}

static enum weft_status plan(struct weft_dnn_plan *p)
{
    TRY(weft_size_mul((size_t)p->depth, COLUMNS * sizeof(float), &p->panel_bytes));
    p->local_bytes = BLOCKS * ROWS * (PANELS * COLUMNS + CHUNK) * sizeof(float);
    return WEFT_OK;
}

#ifdef WEFT_LEVEL
#define PASTE_(name, level) name##_##level
#define PASTE(name, level) PASTE_(name, level)
#define LEVEL(name) PASTE(name, WEFT_LEVEL)
#else
#define LEVEL(name) name
#endif

const struct weft_dnn_engine LEVEL(weft_dnn_loop) = {
#if defined(__AVX512F__)
    .name = "avx512 loop",
#elif defined(__FMA__)
    .name = "avx2 loop",
#else
    .name = "plain loop",
#endif
    .block = ROWS,
    .blocks = BLOCKS,
    .panel = COLUMNS,
    .panels = PANELS,
    .tiles_outer = 8,
    .pack_depth = 128,
    .plan = plan,
    .pack = pack,
    .tile = tile,
};
