/* SPDX-License-Identifier: MIT
 *
 * loop.c - f32 and bf16 matmuls in a plain vector loop, compiled once per instruction-set level.
 *
 * The inner kernel keeps ROWS x COLUMNS sums in registers and adds one outer product per element of the depth: a vector
 * of B times a scalar of A, one fused multiply-add per sum. B is packed in panels, [depth][COLUMNS]. A is read in
 * place, transposed or not; incomplete row blocks and bf16 rows are copied first. bf16 operands are widened: A when it
 * is copied, B when a chunk of a panel is used, once for all rows of a tile.
 *
 * Matmuls with few rows, as in decoding, are bound by reading B: they widen it while reading, and their kernels have
 * exactly as many rows as needed.
 *
 * The depth is traversed in order, in chunks that keep a panel in the first-level cache; between chunks the sums are
 * kept in scratch, unrounded. In f32, each element is one sum; in bf16, it is summed in the order of the AMX
 * instruction (pairs_inl.h). So results depend only on the operands.
 */
#include "dnn/pairs_inl.h"
#include "dnn/store_inl.h"

/* Chosen by the number of vector registers: 24 of 32 hold sums, or 12 of 16. */
#if defined(__AVX512F__)
enum { ROWS = 12, COLUMNS = 32 };
#elif defined(__FMA__) || defined(__aarch64__)
enum { ROWS = 6, COLUMNS = 16 };
#else
enum { ROWS = 3, COLUMNS = 16 };
#endif
enum { PARTS = COLUMNS / PART, BLOCKS = 16, PANELS = 512 / COLUMNS, CHUNK = 256, FEW = 4 };

/* Computes sum [ROWS, COLUMNS] = or += A [ROWS, depth] B [depth, COLUMNS], where element (i, d) of A is a[i * row + d *
 * step]. */
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

/* Like multiply(), but for widened bf16 operands, and for all rows, or for one or two thirds of them. */
VINLINE void multiply_widened(int rows, const float *restrict a, int64_t row, int64_t step, const float *restrict b,
                              int64_t depth, bool fresh, float *restrict sum)
{
    for (int64_t d = 0; d < depth; d += STEP) {
        struct widened w = {a + d * step, b + d * COLUMNS, row, step, COLUMNS, weft_min(STEP, depth - d)};
        add_step(rows, PARTS, &w, fresh && d == 0, sum, COLUMNS);
    }
}

static void multiply_pairs(int64_t rows, const float *a, int64_t row, int64_t step, const float *b, int64_t depth,
                           bool fresh, float *sum)
{
    if (rows <= ROWS / 3)
        multiply_widened(ROWS / 3, a, row, step, b, depth, fresh, sum);
    else if (rows <= 2 * ROWS / 3)
        multiply_widened(2 * ROWS / 3, a, row, step, b, depth, fresh, sum);
    else
        multiply_widened(ROWS, a, row, step, b, depth, fresh, sum);
}

/* ---- bf16 panels: [depth / 2][COLUMNS] pairs of the elements at depths d (in the low half) and d + 1 */

typedef uint32_t vpairs __attribute__((vector_size(sizeof(vpart))));

VINLINE vpairs load_pairs(const uint32_t *at)
{
    vpairs x;
    memcpy(&x, at, sizeof x);
    return x;
}

/* Widens a panel, or a chunk of it, to `to` [depth][COLUMNS]. */
static void widen_panel(const uint32_t *b, int64_t depth, float *to)
{
    for (int64_t d = 0; d < depth; d += 2, b += COLUMNS, to += 2 * COLUMNS)
        for (int j = 0; j < COLUMNS; j += PART) {
            vpairs x = load_pairs(b + j), low = x << 16, high = x & 0xffff0000;
            memcpy(to + j, &low, sizeof low);
            memcpy(to + COLUMNS + j, &high, sizeof high);
        }
}

/* Like multiply_pairs(), but for few rows, reading B as it is packed. A is padded with zeros past its depth. */
VINLINE void multiply_few(int rows, const float *restrict a, int64_t row, const uint32_t *restrict b, int64_t depth,
                          bool fresh, float *restrict sum)
{
    for (int64_t d = 0; d < depth; d += STEP, fresh = false) {
        vpart even[FEW][PARTS] = {{{0}}}, odd[FEW][PARTS] = {{{0}}};
        for (int64_t e = d; e < weft_min(d + STEP, depth); e += 2, b += COLUMNS)
#pragma GCC unroll 4
            for (int j = 0; j < PARTS; j++) {
                vpairs x = load_pairs(b + j * PART);
                vpart low = (vpart)(x << 16), high = (vpart)(x & 0xffff0000);
#pragma GCC unroll 4
                for (int i = 0; i < rows; i++) {
                    even[i][j] = part_fma(part_set(a[i * row + e]), low, even[i][j]);
                    odd[i][j] = part_fma(part_set(a[i * row + e + 1]), high, odd[i][j]);
                }
            }
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < PARTS; j++) {
                float *at = sum + i * COLUMNS + j * PART;
                vpart x = even[i][j] + odd[i][j];
                if (!fresh)
                    x += part_load(at);
                memcpy(at, &x, sizeof x);
            }
    }
}

static void multiply_rows(int64_t rows, const float *a, int64_t row, const uint32_t *b, int64_t depth, bool fresh,
                          float *sum)
{
    if (rows == 1)
        multiply_few(1, a, row, b, depth, fresh, sum);
    else if (rows == 2)
        multiply_few(2, a, row, b, depth, fresh, sum);
    else
        multiply_few(FEW, a, row, b, depth, fresh, sum);
}

/* ---- packing */

/* Loads n <= 16 elements of a line, rounded to the matmul's dtype. */
static inline vf line(const struct weft_dnn_matrix *m, enum weft_dtype dtype, int64_t index, int64_t n)
{
    vf x = vload(m->data, m->dtype, index, index + n);
    return dtype == WEFT_BF16 && m->dtype == WEFT_F32 ? vwiden(vnarrow(x)) : x;
}

/* Copies the block [lines, count] of m that begins at (i0, j0) to rows of `width` elements, and pads each row with
 * zeros. Transposed matrices are transposed back by storing the lanes of a vector separately. */
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

/* Packs lines in pairs. If the depth is odd, the missing last line is 0. */
static void pack_pairs(const struct weft_dnn_matrix *w, int64_t depth0, int64_t depth1, int64_t column, int64_t columns,
                       uint32_t *to)
{
    float lines[VLANES * COLUMNS];
    for (int64_t d = depth0; d < depth1; d += VLANES) {
        int64_t n = weft_min(VLANES, depth1 - d);
        copy(w, WEFT_BF16, d, n, column, columns, COLUMNS, lines);
        memset(lines + n * COLUMNS, 0, (size_t)((VLANES - n) * COLUMNS) * sizeof *lines);
        for (int64_t p = 0; p < weft_div_up(n, 2); p++)
            for (int64_t j = 0; j < COLUMNS; j += PART) {
                vpairs low, high;
                memcpy(&low, lines + 2 * p * COLUMNS + j, sizeof low);
                memcpy(&high, lines + (2 * p + 1) * COLUMNS + j, sizeof high);
                low = low >> 16 | (high & 0xffff0000);
                memcpy(to + (d / 2 + p) * COLUMNS + j, &low, sizeof low);
            }
    }
}

static enum weft_status pack(const struct weft_dnn_plan *plan, const struct weft_dnn_matrix *w, int64_t depth0,
                             int64_t depth1, int64_t column, int64_t columns, void *panel)
{
    if (plan->dtype == WEFT_BF16)
        pack_pairs(w, depth0, depth1, column, columns, panel);
    else
        copy(w, plan->dtype, depth0, depth1 - depth0, column, columns, COLUMNS, (float *)panel + depth0 * COLUMNS);
    return WEFT_OK;
}

/* Packs strips, [depth][ROWS] in the matmul's dtype, a few lines of depth at a time, so that memory is read in
 * order. */
static enum weft_status pack_strips(const struct weft_dnn_plan *plan, const struct weft_dnn_matrix *a, int64_t depth0,
                                    int64_t depth1, int64_t row0, int64_t row1, char *strips)
{
    const int64_t lines = 8, size = (int64_t)weft_dtype_bytes(plan->dtype);
    for (int64_t d0 = depth0; d0 < depth1; d0 += lines)
        for (int64_t r = row0; r < row1; r += ROWS) {
            char *to = strips + r / ROWS * (int64_t)plan->strip_bytes;
            const char *from = (const char *)a->data + r * size;
            size_t rest = (size_t)(weft_min(ROWS, row1 - r) * size);
            for (int64_t d = d0; d < weft_min(d0 + lines, depth1); d++) {
                if (row1 - r >= ROWS && size == sizeof(float)) {
                    memcpy(to + d * ROWS * size, from + d * a->stride * size, ROWS * sizeof(float));
                } else if (row1 - r >= ROWS) {
                    memcpy(to + d * ROWS * size, from + d * a->stride * size, ROWS * sizeof(uint16_t));
                } else {
                    memset(to + d * ROWS * size, 0, (size_t)(ROWS * size));
                    memcpy(to + d * ROWS * size, from + d * a->stride * size, rest);
                }
            }
        }
    return WEFT_OK;
}

/* ---- a tile of work */

struct strip {
    const float *a;
    int64_t row, step;
};

/* Returns a strip that was packed ahead; bf16 strips are widened into `to`. */
static struct strip packed_strip(const struct weft_dnn_job *job, int64_t row, int64_t depth0, int64_t depth, float *to)
{
    const char *at = job->strips + row / ROWS * (int64_t)job->plan->strip_bytes;
    if (job->plan->dtype == WEFT_F32)
        return (struct strip){(const float *)at + depth0 * ROWS, 1, ROWS};
    for (int64_t i = 0; i < depth * ROWS; i += VLANES)
        vstore_f32(to + i, VLANES, vload_bf16((const uint16_t *)at + depth0 * ROWS + i, VLANES));
    return (struct strip){to, 1, ROWS};
}

/* Returns one row block of A over a chunk of the depth: in place for a full block of f32 rows, else as a copy. Missing
 * rows are 0. */
static struct strip strip(const struct weft_dnn_job *job, int64_t row, int64_t rows, int64_t depth0, int64_t depth,
                          float *to)
{
    struct weft_dnn_matrix a = job->a;
    if (job->strips)
        return packed_strip(job, row, depth0, depth, to);
    if (a.dtype == WEFT_F32 && rows == ROWS && !a.across)
        return (struct strip){(const float *)a.data + row * a.stride + depth0, a.stride, 1};
    if (!a.across) {
        copy(&a, job->plan->dtype, row, rows, depth0, depth, CHUNK, to);
        memset(to + rows * CHUNK, 0, (size_t)((ROWS - rows) * CHUNK) * sizeof *to);
        return (struct strip){to, CHUNK, 1};
    }
    a.across = false; /* read A as the matrix [depth, rows] */
    copy(&a, job->plan->dtype, depth0, depth, row, rows, ROWS, to);
    return (struct strip){to, 1, ROWS};
}

struct memory {
    float *sums, *copied, *panel; /* [PANELS][BLOCKS][ROWS][COLUMNS], [BLOCKS][ROWS][CHUNK], [CHUNK][COLUMNS] */
};

static struct memory lay(void *local)
{
    float *sums = local, *copied = sums + BLOCKS * PANELS * ROWS * COLUMNS;
    return (struct memory){sums, copied, copied + BLOCKS * ROWS * CHUNK};
}

/* Adds the matmul of one chunk to the sums of a panel; with few rows, the panel is read as it is packed. */
static void add_chunk(const struct weft_dnn_job *job, bool few, int64_t rows, const struct strip *a, const char *b,
                      int64_t depth, bool fresh, float *sum)
{
    if (job->plan->dtype != WEFT_BF16)
        multiply(a->a, a->row, a->step, (const float *)b, depth, fresh, sum);
    else if (!few)
        multiply_pairs(rows, a->a, a->row, a->step, (const float *)b, depth, fresh, sum);
    else
        multiply_rows(rows, a->a, a->row, (const uint32_t *)b, depth, fresh, sum);
}

/* Returns whether A consists of a few bf16 rows and is not transposed. Without fused multiply-add instructions, the
 * widened kernel is just as fast. */
static bool is_few(const struct weft_dnn_job *job, int64_t rows)
{
    return !PLAIN_SUMS && job->plan->dtype == WEFT_BF16 && rows <= FEW && !job->a.across;
}

static enum weft_status tile(const struct weft_dnn_job *job, int64_t row0, int64_t row1, int64_t panel0, int64_t panel1,
                             void *local)
{
    struct memory m = lay(local);
    bool few = is_few(job, row1 - row0), pairs = job->plan->dtype == WEFT_BF16;
    size_t line = COLUMNS * (pairs ? sizeof(uint16_t) : sizeof(float));
    for (int64_t d = 0; d < job->depth; d += CHUNK) {
        int64_t depth = weft_min(CHUNK, job->depth - d);
        struct strip strips[BLOCKS];
        for (int64_t r = row0, i = 0; r < row1; r += ROWS, i++)
            strips[i] = strip(job, r, weft_min(ROWS, row1 - r), d, depth, m.copied + i * ROWS * CHUNK);
        for (int64_t p = 0; p < panel1 - panel0; p++) {
            const char *b = job->b + (size_t)(panel0 + p) * job->plan->panel_bytes + (size_t)d * line;
            int64_t column = (panel0 + p) * COLUMNS;
            if (pairs && !few) {
                widen_panel((const uint32_t *)b, depth, m.panel);
                b = (const char *)m.panel;
            }
            for (int64_t r = row0, i = 0; r < row1; r += ROWS, i++) {
                float *sum = m.sums + (p * BLOCKS + i) * ROWS * COLUMNS;
                add_chunk(job, few, weft_min(ROWS, row1 - r), &strips[i], b, depth, d == 0, sum);
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
    size_t depth = (size_t)weft_round_up(p->depth, 2);
    TRY(weft_size_mul(depth, COLUMNS * (p->dtype == WEFT_BF16 ? sizeof(uint16_t) : sizeof(float)), &p->panel_bytes));
    TRY(weft_size_mul(depth, ROWS * weft_dtype_bytes(p->dtype), &p->strip_bytes));
    p->strip_bytes = (p->strip_bytes + 127) / 64 * 64; /* reads extend up to a vector past the end */
    p->local_bytes = (BLOCKS * ROWS * (PANELS * COLUMNS + CHUNK) + CHUNK * COLUMNS) * sizeof(float);
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
    .edge = 4,
    .pack_depth = 128,
    .plan = plan,
    .pack = pack,
    .pack_rows = pack_strips,
    .pack_ahead = 2,
    .tile = tile,
};
