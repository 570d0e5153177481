/* SPDX-License-Identifier: MIT
 *
 * tiles_pack_inl.h - packs the operands of small-block matmuls (struct weft_dnn_tiles).
 *
 * Packers move 32-bit pairs: a right operand holds the pairs (2p, 2p+1) along the depth, so packing x [width][depth] is
 * a transposition of pairs, and packing x [depth][width] interleaves two rows.
 */
#ifndef WEFT_DNN_TILES_PACK_H
#define WEFT_DNN_TILES_PACK_H

#include "base/vmath_inl.h"
#include "dnn/dnn.h"

enum { TILE = 16, TILE_STEP = 32, TILE_BYTES = 1024 };

#if defined(__AVX512F__)
/* Transposes 16 x 16 pairs in four rounds: the round for D = 1, 2, 4 or 8 exchanges bit D of the row index with bit D
 * of the lane index. */
#define LANE(D, l) ((l) & (D) ? 16 + (l) - (D) : (l))
#define LANES(D, x)                                                                                                    \
    LANE(D, 0) + x, LANE(D, 1) + x, LANE(D, 2) + x, LANE(D, 3) + x, LANE(D, 4) + x, LANE(D, 5) + x, LANE(D, 6) + x,    \
        LANE(D, 7) + x, LANE(D, 8) + x, LANE(D, 9) + x, LANE(D, 10) + x, LANE(D, 11) + x, LANE(D, 12) + x,             \
        LANE(D, 13) + x, LANE(D, 14) + x, LANE(D, 15) + x
#define ROUND(D)                                                                                                       \
    for (int i = 0; i < 16; i++)                                                                                       \
        if (!(i & (D))) {                                                                                              \
            vu low = v[i], high = v[i + (D)];                                                                          \
            v[i] = __builtin_shufflevector(low, high, LANES(D, 0));                                                    \
            v[i + (D)] = __builtin_shufflevector(low, high, LANES(D, (D)));                                            \
        }

/* Transposes a square of 16 x 16 pairs; strides are in bytes. */
static inline void transpose_pairs(char *to, int64_t to_stride, const char *from, int64_t from_stride)
{
    vu v[16];
    for (int i = 0; i < 16; i++)
        memcpy(&v[i], from + i * from_stride, sizeof *v);
    ROUND(1)
    ROUND(2)
    ROUND(4)
    ROUND(8)
    for (int i = 0; i < 16; i++)
        memcpy(to + i * to_stride, &v[i], sizeof *v);
}
#undef LANE
#undef LANES
#undef ROUND

/* Interleaves 32 columns of two rows into two vectors of sixteen pairs. */
static inline void interleave_rows(char *low, char *high, const uint16_t *x, int64_t stride)
{
    typedef uint16_t vw __attribute__((vector_size(64)));
    vw first, second;
    memcpy(&first, x, sizeof first);
    memcpy(&second, x + stride, sizeof second);
    vw a = __builtin_shufflevector(first, second, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9, 41,
                                   10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
    vw b = __builtin_shufflevector(first, second, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55, 24,
                                   56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
    memcpy(low, &a, sizeof a);
    memcpy(high, &b, sizeof b);
}
#else
/* The same two functions, in pieces that fit into one register. */
static inline void transpose_pairs(char *to, int64_t to_stride, const char *from, int64_t from_stride)
{
    typedef uint32_t v4 __attribute__((vector_size(16)));
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 16; j += 4) {
            v4 v[4];
            for (int k = 0; k < 4; k++)
                memcpy(&v[k], from + (i + k) * from_stride + 4 * j, sizeof *v);
            v4 a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5), b = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5);
            v4 c = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7), d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
            v[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
            v[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
            v[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
            v[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
            for (int k = 0; k < 4; k++)
                memcpy(to + (j + k) * to_stride + 4 * i, &v[k], sizeof *v);
        }
}

static inline void interleave_rows(char *low, char *high, const uint16_t *x, int64_t stride)
{
    typedef uint16_t v8 __attribute__((vector_size(16)));
    for (int column = 0; column < 32; column += 8) {
        char *to = column < 16 ? low + 4 * column : high + 4 * (column - 16);
        v8 first, second;
        memcpy(&first, x + column, sizeof first);
        memcpy(&second, x + stride + column, sizeof second);
        v8 a = __builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11);
        v8 b = __builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15);
        memcpy(to, &a, sizeof a);
        memcpy(to + sizeof a, &b, sizeof b);
    }
}
#endif

static void tiles_pack(int64_t depth, int64_t width, const uint16_t *x, uint16_t *b)
{
    char *to = (char *)b;
    for (int64_t column = 0; column < width; column += TILE_STEP, to += depth * 64)
        for (int64_t d = 0; d < depth; d += 2)
            interleave_rows(to + d * 32, to + (depth + d) * 32, x + d * width + column, width);
}

static void tiles_pack_transposed(int64_t depth, int64_t width, const uint16_t *x, uint16_t *b)
{
    char *to = (char *)b;
    for (int64_t panel = 0; panel < width; panel += TILE)
        for (int64_t d = 0; d < depth; d += TILE_STEP, to += TILE_BYTES)
            transpose_pairs(to, 64, (const char *)(x + panel * depth + d), depth * 2);
}

static void tiles_transpose(int64_t rows, int64_t width, const uint16_t *x, uint16_t *a)
{
    char pairs[2][TILE_BYTES];
    for (int64_t column = 0; column < width; column += TILE_STEP)
        for (int64_t r = 0; r < rows; r += TILE_STEP) {
            for (int64_t p = 0; p < TILE; p++)
                interleave_rows(pairs[0] + p * 64, pairs[1] + p * 64, x + (r + 2 * p) * width + column, width);
            for (int64_t half = 0; half < 2; half++)
                transpose_pairs((char *)(a + (column + half * TILE) * rows + r), rows * 2, pairs[half], 64);
        }
}

#endif
