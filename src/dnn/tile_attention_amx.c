/* SPDX-License-Identifier: MIT
 *
 * tile_attention_amx.c - AMX products of small blocks, for an op that works between two of them.
 *
 * Nothing is planned, cut or booked here: operands are blocks in the caller's cache, padded by the caller to whole
 * tiles, so there are no edges. The kernel is 2 x 2 tiles of sums, as in tile_amx.c; what is left over of rows or
 * columns goes one tile wide. Each element is one chain over the depth in steps of 32, so its bits know neither the
 * blocking nor its neighbours.
 *
 * The packers move 32-bit pairs: a right operand holds the pairs (2p, 2p+1) along the depth, so packing rows that lie
 * across the depth is a transposition of pairs, and packing rows that lie along it interleaves two rows.
 */
#include "base/vmath_inl.h"
#include "dnn/dnn.h"

#include <immintrin.h>

enum { TILE = 16, STEP = 32, TILE_BYTES = 1024 };

void weft_dnn_tiles_begin(void)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } __attribute__((aligned(64))) config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.bytes[t] = 64;
        config.rows[t] = 16;
    }
    /* The intrinsics tell the compiler less than they read. */
    __asm__ volatile("" ::"r"(&config) : "memory");
    _tile_loadconfig(&config);
}

void weft_dnn_tiles_end(void) { _tile_release(); }

/* ---- products */

struct operands {
    int64_t steps;
    const char *a, *b;
    int64_t a_stride, panel; /* bytes from row to row of a, and from panel to panel of b */
    float *c;
    int64_t c_stride;
    bool add;
};

/* Tiles 0 1 / 2 3 are sums, 4 and 5 are a, 6 and 7 are b. */
static inline __attribute__((always_inline)) void block(const struct operands *o, int64_t row, int64_t column, bool low,
                                                        bool right)
{
    const char *a = o->a + row * o->a_stride, *b = o->b + column / TILE * o->panel;
    int64_t a_tile = TILE * o->a_stride, c_stride = o->c_stride * 4, c_tile = TILE * o->c_stride;
    float *c = o->c + row * o->c_stride + column;
    if (o->add) {
        _tile_loadd(0, c, c_stride);
        if (right)
            _tile_loadd(1, c + TILE, c_stride);
        if (low)
            _tile_loadd(2, c + c_tile, c_stride);
        if (low && right)
            _tile_loadd(3, c + c_tile + TILE, c_stride);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t s = 0; s < o->steps; s++, a += 2 * STEP, b += TILE_BYTES) {
        _tile_loadd(6, b, 64);
        _tile_loadd(4, a, o->a_stride);
        _tile_dpbf16ps(0, 4, 6);
        if (right) {
            _tile_loadd(7, b + o->panel, 64);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (low) {
            _tile_loadd(5, a + a_tile, o->a_stride);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (low && right)
            _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, c_stride);
    if (right)
        _tile_stored(1, c + TILE, c_stride);
    if (low)
        _tile_stored(2, c + c_tile, c_stride);
    if (low && right)
        _tile_stored(3, c + c_tile + TILE, c_stride);
}

/* Depth 64 and 32 columns, as nearly always: the four tiles of b stay, two rows of tiles of a pass by. */
static inline __attribute__((always_inline)) void strip(const struct operands *o, int64_t rows, int64_t column)
{
    const char *a = o->a, *b = o->b + column / TILE * o->panel;
    int64_t c_stride = o->c_stride * 4;
    float *c = o->c + column;
    _tile_loadd(4, b, 64);
    _tile_loadd(5, b + TILE_BYTES, 64);
    _tile_loadd(6, b + o->panel, 64);
    _tile_loadd(7, b + o->panel + TILE_BYTES, 64);
    for (int64_t row = 0; row < rows; row += TILE, a += TILE * o->a_stride, c += TILE * o->c_stride) {
        if (o->add) {
            _tile_loadd(0, c, c_stride);
            _tile_loadd(1, c + TILE, c_stride);
        } else {
            _tile_zero(0);
            _tile_zero(1);
        }
        _tile_loadd(2, a, o->a_stride);
        _tile_loadd(3, a + 2 * STEP, o->a_stride);
        _tile_dpbf16ps(0, 2, 4);
        _tile_dpbf16ps(1, 2, 6);
        _tile_dpbf16ps(0, 3, 5);
        _tile_dpbf16ps(1, 3, 7);
        _tile_stored(0, c, c_stride);
        _tile_stored(1, c + TILE, c_stride);
    }
}

void weft_dnn_tiles_product(int64_t rows, int64_t columns, int64_t depth, const uint16_t *a, const uint16_t *b,
                            float *c, bool add)
{
    struct operands o = {depth / STEP, (const char *)a, (const char *)b, depth * 2, depth * 32, c, columns, add};
    int64_t row = 0, column;
    __asm__ volatile("" ::: "memory");
    if (o.steps == 2 && columns % (2 * TILE) == 0) {
        for (column = 0; column < columns; column += 2 * TILE)
            strip(&o, rows, column);
        __asm__ volatile("" ::: "memory");
        return;
    }
    for (; row + 2 * TILE <= rows; row += 2 * TILE) {
        for (column = 0; column + 2 * TILE <= columns; column += 2 * TILE)
            block(&o, row, column, true, true);
        if (column < columns)
            block(&o, row, column, true, false);
    }
    for (column = 0; row < rows && column + 2 * TILE <= columns; column += 2 * TILE)
        block(&o, row, column, false, true);
    if (row < rows && column < columns)
        block(&o, row, column, false, false);
    __asm__ volatile("" ::: "memory");
}

/* ---- packing */

/* Transposes 16 x 16 pairs in four rounds: at distance D, bit D of the row's number changes places with bit D of the
 * lane's. */
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

/* A square of 16 x 16 pairs; strides in bytes. */
static inline void transpose(char *to, int64_t to_stride, const char *from, int64_t from_stride)
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

/* Pairs of two rows at 32 columns, as sixteen and sixteen. */
static inline void interleave(char *low, char *high, const uint16_t *x, int64_t stride)
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

void weft_dnn_tiles_pack(int64_t depth, int64_t width, const uint16_t *x, uint16_t *b)
{
    char *to = (char *)b;
    for (int64_t column = 0; column < width; column += STEP, to += depth * 64)
        for (int64_t d = 0; d < depth; d += 2)
            interleave(to + d * 32, to + (depth + d) * 32, x + d * width + column, width);
}

void weft_dnn_tiles_pack_transposed(int64_t depth, int64_t width, const uint16_t *x, uint16_t *b)
{
    char *to = (char *)b;
    for (int64_t panel = 0; panel < width; panel += TILE)
        for (int64_t d = 0; d < depth; d += STEP, to += TILE_BYTES)
            transpose(to, 64, (const char *)(x + panel * depth + d), depth * 2);
}

void weft_dnn_tiles_transpose(int64_t rows, int64_t width, const uint16_t *x, uint16_t *a)
{
    char pairs[2][TILE_BYTES];
    for (int64_t column = 0; column < width; column += STEP)
        for (int64_t r = 0; r < rows; r += STEP) {
            for (int64_t p = 0; p < TILE; p++)
                interleave(pairs[0] + p * 64, pairs[1] + p * 64, x + (r + 2 * p) * width + column, width);
            for (int64_t half = 0; half < 2; half++)
                transpose((char *)(a + (column + half * TILE) * rows + r), rows * 2, pairs[half], 64);
        }
}
