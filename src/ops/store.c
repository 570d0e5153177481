/* SPDX-License-Identifier: MIT
 *
 * store - writes rows into a state, state[index[r]] = x[r], and returns the updated state.
 *
 * state [N, W], x [M, W] of the same dtype, index i32 [M]. The host must make sure that indices are distinct, so that
 * no two tiles write the same row. Rows with an index outside 0 to N-1 are not written. The result is a new value in
 * the state's memory; nodes that read this value run after the write. The op has no derivative.
 */
#include "ops/ops.h"

#include <string.h>

enum { ROWS = 16 }; /* rows of x per tile */

enum { STATE, X, INDEX };

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_value *state = node->in[STATE], *x = node->in[X], *index = node->in[INDEX];
    if (state->shape.ndim != 2 || x->shape.ndim != 2 || x->dtype != state->dtype ||
        weft_shape_width(&x->shape) != weft_shape_width(&state->shape))
        return weft_node_fail(node, "x is %s with %lld columns, but the state is %s with %lld columns",
                              weft_dtype_name(x->dtype), (long long)weft_shape_width(&x->shape),
                              weft_dtype_name(state->dtype), (long long)weft_shape_width(&state->shape));
    if (index->dtype != WEFT_I32 || !weft_shape_same(&index->shape, &WEFT_SHAPE(x->shape.dim[0])))
        return weft_node_fail(node, "the index must be i32, one element per row of x");
    return weft_node_output(node, 0, state->dtype, state->shape);
}

static void ref(const struct weft_call *call)
{
    const double *x = call->in[X]->data;
    const int32_t *index = call->in[INDEX]->data;
    double *state = call->out[0]->data;
    int64_t rows = weft_tensor_rows(call->in[X]), width = weft_tensor_width(call->in[X]);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width && index[r] >= 0 && index[r] < call->out[0]->dim[0]; i++)
            state[index[r] * width + i] = x[r * width + i];
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    weft_form_out(f, 0, weft_store_of(f, weft_form_in(f, STATE), weft_form_in(f, X), node->in[INDEX]->name));
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const struct weft_tensor *x = call->in[X];
    const int32_t *index = call->in[INDEX]->data;
    char *state = call->out[0]->data;
    int64_t bytes = weft_tensor_width(x) * (int64_t)weft_dtype_bytes(x->dtype);
    for (int64_t r = first; r < rows; r++)
        if (index[r] >= 0 && index[r] < call->out[0]->dim[0])
            memcpy(state + index[r] * bytes, (const char *)x->data + r * bytes, (size_t)bytes);
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->in[X]), ROWS, run_tile); }

/* Entries of n: rows, width, rows of the state, mask of rows that are not written (bit i: those with r mod 4 = i) */
static const struct weft_case cases[] = {
    {"one", {1, 1, 1}, {0}},          {"one row", {1, 37, 50}, {0}},       {"none", {9, 17, 20, 15}, {0}},
    {"odd", {7, 5, 11, 2}, {0}},      {"all", {40, 17, 40}, {0}},          {"tile-1", {ROWS - 1, 33, 31, 1}, {0}},
    {"tile", {ROWS, 33, 31, 8}, {0}}, {"tile+1", {ROWS + 1, 33, 31}, {0}}, {"tiles", {100, 96, 300, 5}, {0}},
};

/* Builds a graph that reads the state before and after the write. */
static void build(struct weft_graph *g, const struct weft_case *c)
{
    enum weft_dtype dtype = weft_graph_compute(g);
    struct weft_value *x = weft_case_input(g, "x", dtype, c->n[0], c->n[1]);
    struct weft_value *index = weft_case_input(g, "index", WEFT_I32, c->n[0], 0);
    struct weft_dim rows = weft_times(weft_graph_symbol(g, "store", c->n[2]), 1);
    struct weft_value *state = weft_graph_state(g, "state", dtype, WEFT_SHAPE(rows, weft_fixed(c->n[1])));
    weft_graph_output(g, weft_scale(g, state, 2));
    state = weft_store(g, state, x, index);
    weft_graph_output(g, state);
    weft_graph_output(g, weft_scale(g, state, 2));
}

/* Fills in distinct indices, descending from the last row. */
static bool fill(const struct weft_case *c, const char *input, struct weft_tensor *t)
{
    (void)input;
    int32_t *index = t->data;
    if (t->dtype != WEFT_I32)
        return false;
    for (int64_t r = 0; r < weft_tensor_count(t); r++)
        index[r] = c->n[3] >> r % 4 & 1 ? -1 : (int32_t)(c->n[2] - 1 - r);
    return true;
}

const struct weft_op WEFT_OP(store) = {
    .name = "store",
    .summary = "state[index[r]] = x[r]",
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .updates = true,
    .no_grad_out = 1,
    .lower = lower,
    WEFT_CASES(cases, build),
    .fill = fill,
    .tolerance = 1e-15, /* a copy is exact */
    .tolerance_bf16 = 1e-15,
};

struct weft_value *weft_store(struct weft_graph *g, struct weft_value *state, struct weft_value *x,
                              struct weft_value *index)
{
    return weft_emit(g, WEFT_SELF(store), NULL, 3, (struct weft_value *[]){state, x, index});
}
