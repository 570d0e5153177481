/* SPDX-License-Identifier: MIT
 *
 * loop.c - products of f32 and bf16 in a plain vector loop, compiled once per instruction-set level.
 *
 * The inner kernel keeps ROWS x COLUMNS sums in registers and adds one outer product per step of the depth: a vector of
 * B times a number of A, one fused multiply-add per sum. B is packed in panels, [depth][COLUMNS]. A is read where it
 * lies, along or across; what lies too short (the last rows) or is bf16 goes through a copy. bf16 operands are widened
 * when packed or copied (f32 weights are rounded to bf16 first).
 *
 * The depth is walked in order, in chunks that keep a panel in the first-level cache; between chunks sums wait in
 * scratch, unrounded. f32 has one sum per element. The sums of bf16 are those of the AMX instruction (pairs_inl.h). So
 * the bits depend on the numbers alone.
 */
#include "dnn/pairs_inl.h"
#include "dnn/store_inl.h"

/* Registers decide: 24 of 32 sums, 12 of 16 where there are fewer. */
#if defined(__AVX512F__)
enum { ROWS = 12, COLUMNS = 32 };
#elif defined(__FMA__) || defined(__aarch64__)
enum { ROWS = 6, COLUMNS = 16 };
#else
enum { ROWS = 3, COLUMNS = 16 };
#endif
enum { PARTS = COLUMNS / PART, BLOCKS = 16, PANELS = 512 / COLUMNS, CHUNK = 256 };

/* sum [ROWS, COLUMNS] (+)= A [ROWS, depth] B [depth, COLUMNS]; element (i, d) of A is a[i * row + d * step]. */
static void multiply(const float *restrict a, int64_t row, int64_t step, const float *restrict b, int64_t depth,
                     bool fresh, float *restrict sum)
{
    vpart s[ROWS][PARTS];
#pragma GCC unroll 12
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < PARTS; j++)
            s[i][j] = fresh ? (vpart){0} : part_load(sum + i * COLUMNS + j * PART);
    for (int64_t d = 0; d < depth; d++, a += step, b += COLUMNS) {
        vpart x[PARTS];
#pragma GCC unroll 4
        for (int j = 0; j < PARTS; j++)
            x[j] = part_load(b + j * PART);
#pragma GCC unroll 12
        for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
            for (int j = 0; j < PARTS; j++)
                s[i][j] = part_fma(part_set(a[i * row]), x[j], s[i][j]);
    }
#pragma GCC unroll 12
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < PARTS; j++)
            memcpy(sum + i * COLUMNS + j * PART, &s[i][j], sizeof(vpart));
}

/* The same for bf16 operands, which have been widened. */
static void multiply_pairs(const float *restrict a, int64_t row, int64_t step, const float *restrict b, int64_t depth,
                           bool fresh, float *restrict sum)
{
    for (int64_t d = 0; d < depth; d += STEP) {
        struct widened w = {a + d * step, b + d * COLUMNS, row, step, COLUMNS, weft_min(STEP, depth - d)};
        add_step(ROWS, PARTS, &w, fresh && d == 0, sum, COLUMNS);
    }
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

/* A of one row block over a chunk: where it lies when it is whole f32 rows, else a copy. Rows that are not there are 0.
 */
static struct strip strip(const struct weft_dnn_job *job, int64_t row, int64_t rows, int64_t depth0, int64_t depth,
                          float *to)
{
    struct weft_dnn_matrix a = job->a;
    if (a.dtype == WEFT_F32 && rows == ROWS && !a.across)
        return (struct strip){(const float *)a.data + row * a.stride + depth0, a.stride, 1};
    if (!a.across) {
        copy(&a, job->plan->dtype, row, rows, depth0, depth, CHUNK, to);
        memset(to + rows * CHUNK, 0, (size_t)((ROWS - rows) * CHUNK) * sizeof *to);
        return (struct strip){to, CHUNK, 1};
    }
    a.across = false; /* as [depth, rows] */
    copy(&a, job->plan->dtype, depth0, depth, row, rows, ROWS, to);
    return (struct strip){to, 1, ROWS};
}

static enum weft_status tile(const struct weft_dnn_job *job, int64_t row0, int64_t row1, int64_t panel0, int64_t panel1,
                             void *local)
{
    void (*add)(const float *, int64_t, int64_t, const float *, int64_t, bool, float *) =
        job->plan->dtype == WEFT_BF16 ? multiply_pairs : multiply;
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
                add(strips[i].a, strips[i].row, strips[i].step, b, depth, d == 0, sum);
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

const struct weft_dnn_engine WEFT_DNN_LEVEL(weft_dnn_loop) = {
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
