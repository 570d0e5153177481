/* SPDX-License-Identifier: MIT
 *
 * concat - y [M, A+B]: each row of a [M, A] is followed by the same row of b [M, B]. The gradients are slices of y's.
 */
#include "ops/ops.h"

#include <string.h>

enum { ROWS = 16 }; /* rows per tile */

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_value *a = node->in[0], *b = node->in[1];
    struct weft_shape s = a->shape, like = b->shape;
    like.dim[like.ndim - 1] = s.dim[s.ndim - 1];
    if (a->dtype != b->dtype || !weft_shape_same(&s, &like))
        return weft_node_fail(node, "a and b must have the same number of rows and the same type");
    s.dim[s.ndim - 1].times += weft_shape_width(&b->shape);
    return weft_node_output(node, 0, a->dtype, s);
}

static void ref(const struct weft_call *call)
{
    const double *a = call->in[0]->data, *b = call->in[1]->data;
    double *y = call->out[0]->data;
    int64_t rows = weft_tensor_rows(call->out[0]);
    int64_t left = weft_tensor_width(call->in[0]), right = weft_tensor_width(call->in[1]);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < left + right; i++)
            y[r * (left + right) + i] = i < left ? a[r * left + i] : b[r * right + i - left];
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    (void)node;
    weft_form_out(f, 0, weft_concat_of(f, weft_form_in(f, 0), weft_form_in(f, 1), -1));
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    size_t size = weft_dtype_bytes(call->out[0]->dtype);
    size_t left = (size_t)weft_tensor_width(call->in[0]) * size, right = (size_t)weft_tensor_width(call->in[1]) * size;
    const char *a = call->in[0]->data, *b = call->in[1]->data;
    char *y = call->out[0]->data;
    for (int64_t r = first; r < rows; r++) {
        memcpy(y + (size_t)r * (left + right), a + (size_t)r * left, left);
        memcpy(y + (size_t)r * (left + right) + left, b + (size_t)r * right, right);
    }
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->out[0]), ROWS, run_tile); }

static void grad(struct weft_graph *g, struct weft_node *node, struct weft_grads *grads)
{
    int64_t first = 0;
    for (int i = 0; i < 2; i++) {
        int64_t width = weft_shape_width(&node->in[i]->shape);
        if (weft_grad_wanted(grads, i)) {
            struct weft_value *part = weft_slice(g, weft_grad_out(grads, 0), first, width);
            weft_grad_add(grads, i, weft_cast(g, part, weft_grad_dtype(grads, i)));
        }
        first += width;
    }
}

/* Entries of n: rows, width of a, width of b */
static const struct weft_case cases[] = {
    {"one", {1, 1, 1}, {0}},       {"one row", {1, 37, 20}, {0}},       {"odd", {7, 5, 3}, {0}},
    {"lanes", {5, 16, 32}, {0}},   {"narrow", {9, 48, 1}, {0}},         {"tile-1", {ROWS - 1, 33, 15}, {0}},
    {"tile", {ROWS, 33, 15}, {0}}, {"tile+1", {ROWS + 1, 33, 15}, {0}}, {"tiles", {100, 64, 32}, {0}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *a = weft_case_input(g, "a", weft_graph_compute(g), c->n[0], c->n[1]);
    struct weft_value *b = weft_case_input(g, "b", weft_graph_compute(g), c->n[0], c->n[2]);
    weft_graph_output(g, weft_concat(g, a, b));
}

const struct weft_op WEFT_OP(concat) = {
    .name = "concat",
    .summary = "y = [a, b] along the last dimension",
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .grad = grad,
    .differentiable = 3,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_concat(struct weft_graph *g, struct weft_value *a, struct weft_value *b)
{
    return weft_emit(g, WEFT_SELF(concat), NULL, 2, (struct weft_value *[]){a, b});
}
