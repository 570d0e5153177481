/* SPDX-License-Identifier: MIT
 *
 * pairs_inl.h - a step of a bf16 product on vectors, with the sums of the AMX instruction TDPBF16PS.
 *
 * The sum over the depth runs in steps of 32. Within a step, the even and the odd elements are summed apart, each from
 * +0 and in order by fused multiply-add; then c = c + (even + odd). Operands are bf16 numbers widened to f32, none but
 * 0 below WEFT_BF16_FLOOR: so no sum is denormal, and what a short step lacks need not be added, since adding 0 to a
 * sum that began at +0 changes nothing.
 */
#ifndef WEFT_DNN_PAIRS_H
#define WEFT_DNN_PAIRS_H

#include "base/vmath_inl.h"

/* The depth of a step, and the most rows and parts of a block. */
enum { STEP = 32, ROWS_MAX = 12, PARTS_MAX = 4 };

/* Element (i, d) of A is a[i * row + d * step]; row d of B is at b + d * b_row. */
struct widened {
    const float *a, *b;
    int64_t row, step, b_row;
    int64_t depth; /* at most STEP */
};

/* Products of widened numbers are exact. So without the instruction a sum of two roundings is the same, unless a
 * product overflows. */
#if defined(__FMA__) || defined(__aarch64__)
enum { PLAIN_SUMS = 0 };
#else
enum { PLAIN_SUMS = 1 };
#endif

/* The sums over d = first, first + 2, ... */
VINLINE void add_chain(int rows, int parts, const struct widened *w, int first, bool plain, vpart s[][PARTS_MAX])
{
    const float *a = w->a + first * w->step, *b = w->b + first * w->b_row;
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < parts; j++)
            s[i][j] = (vpart){0};
    for (int64_t d = first; d < w->depth; d += 2, a += 2 * w->step, b += 2 * w->b_row) {
        vpart x[PARTS_MAX];
#pragma GCC unroll 4
        for (int j = 0; j < parts; j++)
            x[j] = part_load(b + j * PART);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int j = 0; j < parts; j++)
                s[i][j] =
                    plain ? part_set(a[i * w->row]) * x[j] + s[i][j] : part_fma(part_set(a[i * w->row]), x[j], s[i][j]);
    }
}

/* c [rows][parts] = even + odd, or is added to. Plain sums that are not finite are not taken: it returns false. */
VINLINE bool add_sums(int rows, int parts, const struct widened *w, bool plain, bool fresh, float *c, int64_t c_row)
{
    vpart even[ROWS_MAX][PARTS_MAX], odd[ROWS_MAX][PARTS_MAX], doubt = {0};
    add_chain(rows, parts, w, 0, plain, even);
    add_chain(rows, parts, w, 1, plain, odd);
    for (int i = 0; plain && i < rows; i++)
        for (int j = 0; j < parts; j++)
            doubt += (even[i][j] - even[i][j]) + (odd[i][j] - odd[i][j]); /* 0, or NaN */
    for (int i = 0; plain && i < PART; i++)
        if (doubt[i] != 0)
            return false;
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < parts; j++) {
            float *at = c + i * c_row + j * PART;
            vpart x = even[i][j] + odd[i][j];
            if (!fresh)
                x += part_load(at);
            memcpy(at, &x, sizeof x);
        }
    return true;
}

/* c [rows][parts] (+)= A B over one step; `rows` and `parts` are constants. */
VINLINE void add_step(int rows, int parts, const struct widened *w, bool fresh, float *c, int64_t c_row)
{
    if (!PLAIN_SUMS || !add_sums(rows, parts, w, true, fresh, c, c_row))
        add_sums(rows, parts, w, false, fresh, c, c_row);
}

#endif
