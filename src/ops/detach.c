/* SPDX-License-Identifier: MIT
 *
 * detach - y = x, in x's memory and without a gradient, so that x is treated as a constant.
 */
#include "ops/ops.h"

static enum weft_status shape(struct weft_node *node)
{
    return weft_node_output(node, 0, node->in[0]->dtype, node->in[0]->shape);
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    (void)node;
    weft_form_out(f, 0, weft_stop_of(f, weft_form_in(f, 0)));
}

/* Entries of n: rows, width */
static const struct weft_case cases[] = {
    {"one", {1, 1}, {0}},    {"one row", {1, 37}, {0}}, {"odd", {7, 5}, {0}},    {"column", {19, 1}, {0}},
    {"lanes", {3, 16}, {0}}, {"lanes+1", {3, 17}, {0}}, {"wide", {2, 300}, {0}}, {"large", {331, 96}, {0}},
};

/* Reads x also directly, so that an in-place write to either x or y would be visible in the other. */
static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *x = weft_scale(g, weft_case_input(g, "x", weft_graph_compute(g), c->n[0], c->n[1]), 2);
    struct weft_value *y = weft_scale(g, weft_detach(g, x), 0.5);
    weft_graph_output(g, weft_add(g, x, y));
}

const struct weft_op WEFT_OP(detach) = {
    .name = "detach",
    .summary = "y = x, without a gradient",
    .shape = shape,
    .is_view = true,
    .no_grad_out = 1,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_detach(struct weft_graph *g, struct weft_value *x)
{
    return weft_emit(g, WEFT_SELF(detach), NULL, 1, &x);
}
