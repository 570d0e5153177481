/* SPDX-License-Identifier: MIT
 *
 * loop_tiles.c - small-block matmuls in a vector loop, for an op that does other work between two of them; compiled
 * once per instruction-set level. tile_attention_amx.c is the AMX version; its results are bit-identical.
 *
 * The operands of a step are widened to f32 on the stack: B once for all rows, A once for every block of columns.
 */
#include "dnn/engine.h"
#include "dnn/pairs_inl.h"
#include "dnn/tiles_pack_inl.h"

#if defined(__AVX512F__)
enum { ROWS = 8, COLUMNS = 32 };
#elif defined(__FMA__) || defined(__aarch64__)
enum { ROWS = 4, COLUMNS = 16 };
#else
enum { ROWS = 2, COLUMNS = 16 };
#endif

static void nothing(void) {}

/* Widens one step of the panels of 16 columns that begin at b, `stride` bytes apart, to `to` [STEP][COLUMNS]. */
static void widen_right(const char *b, int64_t stride, int64_t columns, float *to)
{
    for (int64_t panel = 0; panel < columns; panel += TILE, b += stride, to += TILE)
        for (int64_t p = 0; p < STEP / 2; p++) {
            vu pair;
            memcpy(&pair, b + 64 * p, sizeof pair);
            vstore_f32(to + 2 * p * COLUMNS, VLANES, (vf)(pair << 16));
            vstore_f32(to + (2 * p + 1) * COLUMNS, VLANES, (vf)(pair & 0xffff0000));
        }
}

/* Widens one step of the rows that begin at a to `to` [ROWS][STEP]. */
static void widen_left(const uint16_t *a, int64_t stride, float *to)
{
    for (int i = 0; i < ROWS; i++, a += stride)
        for (int d = 0; d < STEP; d += VLANES)
            vstore_f32(to + i * STEP + d, VLANES, vload_bf16(a + d, VLANES));
}

static void product(int64_t rows, int64_t columns, int64_t depth, const uint16_t *a, const uint16_t *b, float *c,
                    bool add)
{
    float left[ROWS * STEP], right[STEP * COLUMNS];
    struct widened w = {left, right, STEP, 1, COLUMNS, STEP};
    for (int64_t d = 0; d < depth; d += STEP)
        for (int64_t column = 0; column < columns; column += COLUMNS) {
            int64_t wide = weft_min(COLUMNS, columns - column);
            widen_right((const char *)b + column * depth * 2 + d * 32, depth * 32, wide, right);
            for (int64_t r = 0; r < rows; r += ROWS) {
                float *to = c + r * columns + column;
                widen_left(a + r * depth + d, depth, left);
                if (wide == COLUMNS)
                    add_step(ROWS, COLUMNS / PART, &w, !add && d == 0, to, columns);
                else
                    add_step(ROWS, TILE / PART, &w, !add && d == 0, to, columns);
            }
        }
}

const struct weft_dnn_tiles WEFT_DNN_LEVEL(weft_dnn_tiles_loop) = {
    .begin = nothing,
    .end = nothing,
    .product = product,
    .pack = tiles_pack,
    .pack_transposed = tiles_pack_transposed,
    .transpose = tiles_transpose,
};
