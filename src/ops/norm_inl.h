/* SPDX-License-Identifier: MIT
 *
 * norm_inl.h - shared by layernorm and rmsnorm: tiles of rows, and sums for the gradients of their weights.
 *
 * Input 0 is x [M, C], inputs 1 to WEIGHTS are f32 [W]. A row of x is normalised W columns at a time: the whole row if
 * W = C, else head by head. The op's file defines WEIGHTS before including this, and run_row and bwd_row after.
 * Backward: each block of ROWS rows writes its column sums to scratch while it computes dx; then the blocks are added
 * in order, column by column. So x and dy are read once and the order of the sums is fixed.
 */
#ifndef WEFT_NORM_H
#define WEFT_NORM_H

enum { ROWS = 32, COLUMNS = 64 }; /* rows per block, columns per tile when blocks are added */

static enum weft_status check_inputs(const struct weft_node *node)
{
    const struct weft_value *x = node->in[0];
    TRY(weft_node_float(node, 0, "x"));
    int64_t columns = weft_shape_width(&x->shape), width = weft_shape_width(&node->in[1]->shape);
    struct weft_shape one = WEFT_SHAPE(weft_fixed(width));
    for (int i = 1; i <= WEIGHTS; i++)
        if (node->in[i]->dtype != WEFT_F32 || !weft_shape_same(&node->in[i]->shape, &one) || columns % width)
            return weft_node_fail(node, "the weights must be f32, as wide as x (%lld) or as each of its heads",
                                  (long long)columns);
    return WEFT_OK;
}

/* Returns the shape of a tensor with one value for each group of W columns. */
static struct weft_shape shape_of_parts(const struct weft_node *node)
{
    struct weft_dim rows = weft_shape_rows(&node->in[0]->shape);
    int64_t parts = weft_shape_width(&node->in[0]->shape) / weft_shape_width(&node->in[1]->shape);
    return parts == 1 ? WEFT_SHAPE(rows) : WEFT_SHAPE(rows, weft_fixed(parts));
}

/* Returns x with W columns: [.., W], or by heads [.., heads, W]. */
static struct weft_atom *parts_form(struct weft_form *f, const struct weft_node *node)
{
    int64_t width = weft_shape_width(&node->in[1]->shape), parts = weft_shape_width(&node->in[0]->shape) / width;
    return parts == 1 ? weft_form_in(f, 0) : weft_heads_of(f, weft_form_in(f, 0), parts);
}

/* Return W, and the total number of groups of W columns. */
static int64_t width_of(const struct weft_call *call) { return weft_tensor_width(call->in[1]); }
static int64_t parts_of(const struct weft_call *call)
{
    return weft_tensor_rows(call->in[0]) * (weft_tensor_width(call->in[0]) / width_of(call));
}

/* Defined by the op's file: process the r-th group of W columns. bwd_row adds the group's gradients to the sums of its
 * block, W per weight, and then computes dx. */
static void run_row(const struct weft_call *call, int64_t r);
static void bwd_row(const struct weft_call *call, int64_t r, float *sums);

static void run_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    for (int64_t r = first; r < rows; r++)
        run_row(call, r);
}

static void run(const struct weft_call *call) { weft_tiles_run(call, parts_of(call), ROWS, run_tile); }

static enum weft_status bwd_plan(const struct weft_call *max, struct weft_booking *booking)
{
    size_t rows = WEIGHTS * (size_t)weft_div_up(parts_of(max), ROWS);
    return weft_size_mul(rows, (size_t)width_of(max) * sizeof(float), &booking->scratch);
}

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    int64_t width = width_of(call);
    float *sums = (float *)call->scratch + first / ROWS * WEIGHTS * width;
    memset(sums, 0, WEIGHTS * (size_t)width * sizeof *sums);
    for (int64_t r = first; r < rows; r++)
        bwd_row(call, r, sums);
}

static void merge_tile(const struct weft_call *call, int64_t first, int64_t last)
{
    int64_t width = width_of(call), blocks = weft_div_up(parts_of(call), ROWS);
    for (int k = 0; k < WEIGHTS; k++) {
        float *total = call->gin[1 + k] ? call->gin[1 + k]->data : NULL;
        for (int64_t i = first; total && i < last; i += VLANES) {
            vf sum = vload_f32(total + i, last - i);
            for (int64_t block = 0; block < blocks; block++)
                sum += vload_f32((const float *)call->scratch + (block * WEIGHTS + k) * width + i, last - i);
            vstore_f32(total + i, last - i, sum);
        }
    }
}

static void bwd(const struct weft_call *call)
{
    weft_tiles_run(call, parts_of(call), ROWS, bwd_tile);
    weft_tiles_run(call, width_of(call), COLUMNS, merge_tile);
}

#endif
