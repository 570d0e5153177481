/* SPDX-License-Identifier: MIT
 *
 * view - the same memory with a different shape of the same number of elements. Nothing runs; the gradient is also a
 * view.
 */
#include "ops/ops.h"

/* Computes the constant factor of a shape's element count, and how often each symbol occurs, in four bits per
 * symbol. */
static enum weft_status measure(const struct weft_shape *s, size_t *factor, uint64_t *symbols)
{
    *factor = 1;
    *symbols = 0;
    for (int i = 0; i < s->ndim; i++) {
        TRY(weft_size_mul(*factor, (size_t)s->dim[i].times, factor));
        *symbols += s->dim[i].symbol ? UINT64_C(1) << 4 * s->dim[i].symbol : 0;
    }
    return WEFT_OK;
}

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_shape *to = node->attr;
    size_t factor[2];
    uint64_t symbols[2];
    TRY(measure(&node->in[0]->shape, &factor[0], &symbols[0]));
    TRY(measure(to, &factor[1], &symbols[1]));
    if (factor[0] != factor[1] || symbols[0] != symbols[1])
        return weft_node_fail(node,
                              "the shapes have %zu and %zu elements (times their symbols); the numbers must be equal",
                              factor[0], factor[1]);
    return weft_node_output(node, 0, node->in[0]->dtype, *to);
}

static void lower(struct weft_form *f, const struct weft_node *node) { weft_form_out(f, 0, weft_form_in(f, 0)); }

static void grad(struct weft_graph *g, struct weft_node *node, struct weft_grads *grads)
{
    struct weft_value *back = weft_view(g, weft_grad_out(grads, 0), node->in[0]->shape);
    weft_grad_add(grads, 0, weft_cast(g, back, weft_grad_dtype(grads, 0)));
}

/* Entries of n: rows, width, number of parts the width is split into, x is a parameter, a single view */
static const struct weft_case cases[] = {
    {"one", {1, 1, 1}, {0}},         {"one row", {1, 36, 4}, {0}}, {"odd", {7, 15, 5}, {0}},
    {"columns", {5, 24, 24}, {0}},   {"lanes", {3, 32, 2}, {0}},   {"same", {17, 16, 1}, {0}},
    {"heads", {9, 64, 8}, {0}},      {"large", {331, 96, 3}, {0}}, {"param", {6, 20, 5, 1}, {0}},
    {"once", {6, 12, 3, 0, 1}, {0}},
};

/* Views x in three dimensions, then usually in one. An input is scaled before and after, so that the views are between
 * other nodes; a parameter is viewed directly, so that the views are of bound memory. */
static void build(struct weft_graph *g, const struct weft_case *c)
{
    bool of_param = c->n[3];
    struct weft_dim rows = of_param ? weft_fixed(c->n[0]) : weft_times(weft_graph_symbol(g, "rows", c->n[0]), 1);
    struct weft_value *y = of_param
                               ? weft_graph_param(g, "w", WEFT_SHAPE(rows, weft_fixed(c->n[1])))
                               : weft_scale(g, weft_case_input(g, "x", weft_graph_compute(g), c->n[0], c->n[1]), 2);
    y = weft_view(g, y, WEFT_SHAPE(rows, weft_fixed(c->n[2]), weft_fixed(c->n[1] / c->n[2])));
    if (!c->n[4])
        y = weft_view(g, y, WEFT_SHAPE((struct weft_dim){rows.symbol, rows.times * c->n[1]}));
    weft_graph_output(g, weft_scale(g, y, 0.5));
}

const struct weft_op WEFT_OP(view) = {
    .name = "view",
    .summary = "y = x with a different shape",
    .attr_bytes = sizeof(struct weft_shape),
    .shape = shape,
    .grad = grad,
    .differentiable = 1,
    .is_view = true,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_view(struct weft_graph *g, struct weft_value *x, struct weft_shape s)
{
    return weft_emit(g, WEFT_SELF(view), &s, 1, &x);
}
