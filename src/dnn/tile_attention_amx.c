/* SPDX-License-Identifier: MIT
 *
 * tile_attention_amx.c - small-block matmuls on AMX, for an op that does other work between two of them.
 *
 * These matmuls need no plan, cut or scratch: operands are blocks in cache that the caller has padded to whole tiles,
 * so there are no edges. The kernel is 2 x 2 tiles of sums, as in tile_amx.c; remaining rows or columns form blocks
 * that are one tile wide. Each element is summed along the depth in steps of 32, so its value depends neither on the
 * blocking nor on neighbouring elements.
 */
#include "dnn/amx.h"
#include "dnn/engine.h"
#include "dnn/tiles_pack_inl.h"

static void begin(void)
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
    /* The intrinsic does not declare all the memory it reads. */
    __asm__ volatile("" ::"r"(&config) : "memory");
    _tile_loadconfig(&config);
}

static void end(void) { _tile_release(); }

/* ---- matmuls */

struct operands {
    int64_t steps;
    const char *a, *b;
    int64_t a_stride, panel; /* strides in bytes between rows of a and between panels of b */
    float *c;
    int64_t c_stride;
    bool add;
};

/* Tiles 0 1 / 2 3 hold sums, 4 and 5 hold a, 6 and 7 hold b. */
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
    for (int64_t s = 0; s < o->steps; s++, a += 2 * TILE_STEP, b += TILE_BYTES) {
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

/* Handles the usual case, depth 64 and 32 columns: four tiles of b stay loaded while two rows of tiles of a are
 * streamed. */
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
        _tile_loadd(3, a + 2 * TILE_STEP, o->a_stride);
        _tile_dpbf16ps(0, 2, 4);
        _tile_dpbf16ps(1, 2, 6);
        _tile_dpbf16ps(0, 3, 5);
        _tile_dpbf16ps(1, 3, 7);
        _tile_stored(0, c, c_stride);
        _tile_stored(1, c + TILE, c_stride);
    }
}

static void product(int64_t rows, int64_t columns, int64_t depth, const uint16_t *a, const uint16_t *b, float *c,
                    bool add)
{
    struct operands o = {depth / TILE_STEP, (const char *)a, (const char *)b, depth * 2, depth * 32, c, columns, add};
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

const struct weft_dnn_tiles weft_dnn_tiles_amx = {
    .amx = true,
    .begin = begin,
    .end = end,
    .product = product,
    .pack = tiles_pack,
    .pack_transposed = tiles_pack_transposed,
    .transpose = tiles_transpose,
};
