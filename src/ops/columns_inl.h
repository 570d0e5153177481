/* SPDX-License-Identifier: MIT
 *
 * columns_inl.h - shared by slice and split: copies ranges of columns, row by row, between a wide matrix x and narrow
 * ones.
 */
#ifndef WEFT_COLUMNS_H
#define WEFT_COLUMNS_H

#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { ROWS = 16 }; /* rows per tile */

/* Copies n elements; writes zeros if `from` is NULL. */
static void copy(const struct weft_tensor *to, int64_t to_at, const struct weft_tensor *from, int64_t from_at,
                 int64_t n)
{
    for (int64_t i = 0; i < n; i += VLANES) {
        vf x = from ? vload(from->data, from->dtype, from_at + i, from_at + n) : vset(0);
        vstore(to->data, to->dtype, to_at + i, to_at + n, x);
    }
}

/* Defined by the op's file: compute row r of y, and of dx. */
static void run_row(const struct weft_call *call, int64_t r), bwd_row(const struct weft_call *call, int64_t r);

static void run_tile(const struct weft_call *call, int64_t first, int64_t end)
{
    for (int64_t r = first; r < end; r++)
        run_row(call, r);
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->in[0]), ROWS, run_tile); }

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t end)
{
    for (int64_t r = first; r < end; r++)
        bwd_row(call, r);
}

static void bwd(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->gin[0]), ROWS, bwd_tile); }

#define COLUMNS_FIELDS                                                                                                 \
    .attr_bytes = sizeof(struct attr), .shape = shape, .fwd = {.run = run, .ref = ref},                                \
    .bwd = {.run = bwd, .ref = bwd_ref}, .differentiable = 1, .lower = lower, WEFT_CASES(cases, build)

#endif
