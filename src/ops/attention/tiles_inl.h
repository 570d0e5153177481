/* SPDX-License-Identifier: MIT
 *
 * tiles_inl.h - shared by ops that visit keys in tiles: a matmul, the conversion of tiles to f32 and back, and
 * requested memory.
 *
 * All matmuls of such an op are the same loop,
 *     c[r][x] += sum over t of a(r,t) * b[t][x],
 * where an element of c is one chain of multiply-adds in the order of t. So register blocking of rows and columns does
 * not affect results, and a row computed alone equals the row computed with others.
 *
 * Tiles in local memory are f32 with rows padded to whole vectors; the padding is never stored back.
 */
#ifndef WEFT_TILES_H
#define WEFT_TILES_H

#include "base/vmath_inl.h"
#include "ops/ops.h"

#define SHARED static __attribute__((unused)) /* because not every op uses all functions */

/* ---- the product */

/* The number of sums kept in registers, which does not affect the chain of an element. */
#if defined(__AVX512F__)
enum { BLOCK_ROWS = 4, BLOCK_PARTS = 4 };
#elif defined(__FMA__)
enum { BLOCK_ROWS = 4, BLOCK_PARTS = 2 };
#else
enum { BLOCK_ROWS = 2, BLOCK_PARTS = 4 };
#endif

/* The left operand: element (r,t) is at[r * row + t * step], so that transposing it costs nothing. */
struct left {
    const float *at;
    int64_t row, step;
};

VINLINE void block(int rows, int parts, int64_t depth, struct left a, const float *b, int64_t b_row, float *c,
                   int64_t c_row)
{
    vpart sum[BLOCK_ROWS][BLOCK_PARTS], right[BLOCK_PARTS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int x = 0; x < parts; x++)
            sum[r][x] = part_load(c + r * c_row + x * PART);
    for (int64_t t = 0; t < depth; t++) {
#pragma GCC unroll 4
        for (int x = 0; x < parts; x++)
            right[x] = part_load(b + t * b_row + x * PART);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int x = 0; x < parts; x++)
                sum[r][x] = part_fma(part_set(a.at[r * a.row + t * a.step]), right[x], sum[r][x]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
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

/* Computes c [rows][columns] += a [rows][depth] b [depth][columns]; `columns` is a multiple of VLANES. */
SHARED void product(int64_t rows, int64_t columns, int64_t depth, struct left a, const float *b, int64_t b_row,
                    float *c, int64_t c_row)
{
    int64_t r = 0;
    for (; r + BLOCK_ROWS <= rows; r += BLOCK_ROWS, a.at += BLOCK_ROWS * a.row)
        block_rows(BLOCK_ROWS, columns, depth, a, b, b_row, c + r * c_row, c_row);
    for (; r < rows; r++, a.at += a.row)
        block_rows(1, columns, depth, a, b, b_row, c + r * c_row, c_row);
}

/* ---- between tensors and tiles */

/* One head's part of a [rows, heads * width] tensor, starting at some row. */
struct head {
    void *data;
    enum weft_dtype dtype;
    int64_t at, stride, width; /* in elements: offset of the first row, stride between rows, width of the head */
};

SHARED struct head head_of(const struct weft_tensor *t, int64_t row, int64_t h, int64_t heads)
{
    int64_t stride = weft_tensor_width(t), width = stride / heads;
    return (struct head){t->data, t->dtype, row * stride + h * width, stride, width};
}

/* Loads or stores columns d to d+15 of the part that starts at element `at`. A full vector is a separate case, so that
 * the compiler knows its length; a tail is copied through memory. */
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

/* Converts the rows to f32 in `to` [rows][padded], padded with zeros. */
SHARED void widen(float *to, int64_t padded, struct head from, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++, from.at += from.stride)
        for (int64_t d = 0; d < padded; d += VLANES)
            vstore_f32(to + r * padded + d, VLANES, load_part(from, from.at, d));
}

/* Converts rows of f32 back and stores them: the inverse of widen. */
SHARED void narrow(struct head to, const float *from, int64_t padded, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++, to.at += to.stride)
        for (int64_t d = 0; d < to.width; d += VLANES)
            store_part(to, to.at, d, vload_f32(from + r * padded + d, VLANES));
}

/* Adds factor times the first row to `to` [padded]. */
SHARED void add_scaled(float *to, int64_t padded, float factor, struct head from)
{
    for (int64_t d = 0; d < padded; d += VLANES)
        vstore_f32(to + d, VLANES, vfma(vset(factor), load_part(from, from.at, d), vload_f32(to + d, VLANES)));
}

SHARED int64_t pad_tiles(int64_t width) { return weft_round_up(width, 32); }

/* Copies bf16 rows to `to` [padded_rows][pad_tiles(width)], padded with zeros. Copies column by column, because the
 * hardware prefetcher detects a constant stride between loads. */
SHARED void stage(uint16_t *to, struct head from, int64_t rows, int64_t padded_rows)
{
    int64_t padded = pad_tiles(from.width);
    memset(to + rows * padded, 0, (size_t)((padded_rows - rows) * padded) * sizeof *to);
    for (int64_t d = 0; d < padded && from.dtype == WEFT_BF16; d += VLANES) {
        const uint16_t *x = (const uint16_t *)from.data + from.at + d;
        for (int64_t r = 0; r < rows; r++, x += from.stride) {
            vh half = vload_half(x, weft_max(0, from.width - d));
            memcpy(to + r * padded + d, &half, sizeof half);
        }
    }
    for (int64_t d = 0; d < padded && from.dtype != WEFT_BF16; d += VLANES)
        for (int64_t r = 0; r < rows; r++) {
            vf x = d < from.width ? load_part(from, from.at + r * from.stride, d) : vset(0);
            vstore_bf16(to + r * padded + d, VLANES, x);
        }
}

/* Transposes 16 x 16 elements in four rounds; the round for distance h swaps lanes l + h of row i with lanes l of row i
 * + h. */
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

VINLINE void transpose(vf row[VLANES]){ROUND(1) ROUND(2) ROUND(4) ROUND(8)}

/* Transposes the rows into `to` [padded width][WEFT_KEY_TILE]; lanes of missing rows in the last vector are 0. */
SHARED void widen_transposed(float *to, struct head from, int64_t rows)
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

/* ---- memory */

/* Allocates parts of the requested memory. With a NULL base, only counts bytes, for plan(). */
struct space {
    char *base;
    size_t used;
    enum weft_status status;
};

SHARED void *take(struct space *s, int64_t rows, int64_t width, size_t element)
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

SHARED float *take_floats(struct space *s, int64_t rows, int64_t width) { return take(s, rows, width, sizeof(float)); }

SHARED uint16_t *take_bf16(struct space *s, int64_t rows, int64_t width)
{
    return take(s, rows, width, sizeof(uint16_t));
}

SHARED enum weft_status book(struct weft_booking *booking, const struct space *scratch, const struct space *local)
{
    booking->scratch = scratch->used;
    booking->local = local->used;
    TRY(scratch->status);
    TRY(local->status);
    return WEFT_OK;
}

/* ---- the work list */

struct span { /* consecutive rows of one sequence at consecutive positions */
    int64_t row, rows;
};

/* Splits the rows given by seq and pos, i32 [M], into spans. A new span starts at every position that is a multiple of
 * `unit`. Returns the number of spans. */
SHARED int64_t cut_spans(const struct weft_tensor *at_seq, const struct weft_tensor *at_pos, int64_t unit,
                         struct span *spans)
{
    const int32_t *seq = at_seq->data, *pos = at_pos->data;
    int64_t count = 0;
    for (int64_t r = 0; r < at_seq->dim[0]; r++) {
        if (r > 0 && seq[r] == seq[r - 1] && pos[r] == pos[r - 1] + 1 && pos[r] % unit)
            spans[count - 1].rows++;
        else
            spans[count++] = (struct span){r, 1};
    }
    return count;
}

#endif
