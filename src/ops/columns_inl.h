/* SPDX-License-Identifier: MIT
 *
 * columns_inl.h - shared by slice and split: copies ranges of columns, row by row, between a wide matrix x and narrow
 * ones.
 */
#ifndef WEFT_COLUMNS_H
#define WEFT_COLUMNS_H

#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { ROWS = 16 }; /* per tile */

/* Copies n elements; writes zeros if `from` is NULL. */
static void copy(const struct weft_tensor *to, int64_t to_at, const struct weft_tensor *from, int64_t from_at,
                 int64_t n)
{
    for (int64_t i = 0; i < n; i += VLANES) {
        vf x = from ? vload(from->data, from->dtype, from_at + i, from_at + n) : vset(0);
        vstore(to->data, to->dtype, to_at + i, to_at + n, x);
    }
}

/* The op's file defines these: row r of y, and of dx. */
static void run_row(const struct weft_call *call, int64_t r), bwd_row(const struct weft_call *call, int64_t r);

static void run_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    int64_t end = weft_min(weft_tensor_rows(call->in[0]), (tile + 1) * ROWS);
    for (int64_t r = tile * ROWS; r < end; r++)
        run_row(call, r);
}

static void run(const struct weft_call *call)
{
    weft_parallel(weft_div_up(weft_tensor_rows(call->in[0]), ROWS), run_tile, (void *)call);
}

static void bwd_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    int64_t end = weft_min(weft_tensor_rows(call->gin[0]), (tile + 1) * ROWS);
    for (int64_t r = tile * ROWS; r < end; r++)
        bwd_row(call, r);
}

static void bwd(const struct weft_call *call)
{
    weft_parallel(weft_div_up(weft_tensor_rows(call->gin[0]), ROWS), bwd_tile, (void *)call);
}

#endif
