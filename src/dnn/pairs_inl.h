/* SPDX-License-Identifier: MIT
 *
 * pairs_inl.h - computes a step of a bf16 matmul on vectors, with the same sums as the AMX instruction TDPBF16PS.
 *
 * The sum over the depth runs in steps of 32. Within a step, the even and the odd elements are summed separately, each
 * from +0 and in order by fused multiply-add; then c = c + (even + odd). Operands are bf16 values widened to f32; they
 * are 0 or at least WEFT_BF16_FLOOR in magnitude, so no sum is denormal. A short step needs no padding, because adding
 * 0 to a sum that began at +0 does not change it.
 */
#ifndef WEFT_DNN_PAIRS_H
#define WEFT_DNN_PAIRS_H

#include "base/vmath_inl.h"

/* The depth of a step, and the maximum number of rows and of parts in a block. */
enum { STEP = 32, ROWS_MAX = 12, PARTS_MAX = 4 };

/* Element (i, d) of A is a[i * row + d * step]; row d of B is at b + d * b_row. */
struct widened {
    const float *a, *b;
    int64_t row, step, b_row;
    int64_t depth; /* at most STEP */
};

/* Products of widened values are exact. So without fused multiply-add, a multiplication and an addition give the same
 * result, unless a product overflows. */
#if defined(__FMA__) || defined(__aarch64__)
enum { PLAIN_SUMS = 0 };
#else
enum { PLAIN_SUMS = 1 };
#endif

/* Computes the sums over d = first, first + 2, ... */
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

/* Sets c [rows][parts] to even + odd if `fresh`, else adds even + odd to c. If a plain sum is not finite, returns false
 * and leaves c unchanged. */
VINLINE bool add_sums(int rows, int parts, const struct widened *w, bool plain, bool fresh, float *c, int64_t c_row)
{
    vpart even[ROWS_MAX][PARTS_MAX], odd[ROWS_MAX][PARTS_MAX], doubt = {0};
    add_chain(rows, parts, w, 0, plain, even);
    add_chain(rows, parts, w, 1, plain, odd);
    for (int i = 0; plain && i < rows; i++)
        for (int j = 0; j < parts; j++)
            doubt += (even[i][j] - even[i][j]) + (odd[i][j] - odd[i][j]); /* 0 if all sums are finite, else NaN */
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

/* Computes c [rows][parts] = or += A B over one step; `rows` and `parts` are constants. */
VINLINE void add_step(int rows, int parts, const struct widened *w, bool fresh, float *c, int64_t c_row)
{
    if (!PLAIN_SUMS || !add_sums(rows, parts, w, true, fresh, c, c_row))
        add_sums(rows, parts, w, false, fresh, c, c_row);
}

#endif
