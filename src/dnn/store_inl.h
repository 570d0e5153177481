/* SPDX-License-Identifier: MIT
 *
 * store_inl.h - the epilogue of every matmul: out = (sum + bias) + addend, from f32 sums in scratch to f32 or bf16
 * rows.
 *
 * Compiled into each engine at its own instruction-set level.
 */
#ifndef WEFT_DNN_STORE_H
#define WEFT_DNN_STORE_H

#include "base/vmath_inl.h"
#include "dnn/engine.h"

/* Stores sixteen columns of a row, or the n columns that remain. */
VINLINE void store_vector(const struct weft_dnn_job *job, enum weft_dtype out_dtype, const void *addend,
                          enum weft_dtype addend_dtype, int64_t row, int64_t column, int64_t n, const float *sum)
{
    int64_t at = row * job->out_stride + column;
    vf x = vload_f32(sum, VLANES);
    if (job->bias)
        x += vload_f32(job->bias + column, n);
    if (addend)
        x += vload(addend, addend_dtype, at, at + n);
    vstore(job->out, out_dtype, at, at + n, x);
}

/* Stores row by row, so that each cache line of the output is written in one go. Callers pass constant dtypes, so each
 * kind of output is compiled to its own loop. */
VINLINE void store_as(const struct weft_dnn_job *job, enum weft_dtype out_dtype, const void *addend,
                      enum weft_dtype addend_dtype, int64_t row, int64_t rows, int64_t column, int64_t columns,
                      const float *sum, int64_t sum_stride)
{
    for (int64_t i = 0; i < rows; i++, sum += sum_stride) {
        int64_t j = 0;
        for (; j + VLANES <= columns; j += VLANES)
            store_vector(job, out_dtype, addend, addend_dtype, row + i, column + j, VLANES, sum + j);
        if (j < columns)
            store_vector(job, out_dtype, addend, addend_dtype, row + i, column + j, columns - j, sum + j);
    }
}

/* Writes a block of sums whose first element belongs to (row, column). Reads up to a vector past the last row of
 * sums. */
VINLINE void store_block(const struct weft_dnn_job *job, int64_t row, int64_t rows, int64_t column, int64_t columns,
                         const float *sum, int64_t sum_stride)
{
    bool add_bf16 = job->addend && job->addend_dtype == WEFT_BF16, add_f32 = job->addend && !add_bf16;
#define STORE(out, addend, dtype) store_as(job, out, addend, dtype, row, rows, column, columns, sum, sum_stride)
    if (job->out_dtype == WEFT_BF16) {
        if (add_f32)
            STORE(WEFT_BF16, job->addend, WEFT_F32);
        else if (add_bf16)
            STORE(WEFT_BF16, job->addend, WEFT_BF16);
        else
            STORE(WEFT_BF16, NULL, WEFT_F32);
    } else {
        if (add_f32)
            STORE(WEFT_F32, job->addend, WEFT_F32);
        else if (add_bf16)
            STORE(WEFT_F32, job->addend, WEFT_BF16);
        else
            STORE(WEFT_F32, NULL, WEFT_F32);
    }
#undef STORE
}

#endif
