/* SPDX-License-Identifier: MIT
 *
 * fill - y = value in every element, f32, of any shape. The op also zeroes the accumulators of gradients.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { TILE = 16384 }; /* elements per tile */

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_fill *attr = node->attr;
    return weft_node_output(node, 0, WEFT_F32, attr->shape);
}

static void ref(const struct weft_call *call)
{
    const struct weft_fill *attr = call->attr;
    double *y = call->out[0]->data;
    int64_t n = weft_tensor_count(call->out[0]);
    for (int64_t i = 0; i < n; i++)
        y[i] = attr->value;
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct weft_fill *attr = node->attr;
    weft_form_out(f, 0, weft_constant_of(f, attr->value, weft_type_of(f, node->out[0])));
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t n)
{
    const struct weft_fill *attr = call->attr;
    vf value = vset((float)attr->value);
    for (int64_t i = first; i < n; i += VLANES)
        vstore(call->out[0]->data, WEFT_F32, i, n, value);
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_count(call->out[0]), TILE, run_tile); }

/* Entries of n: rows, width; of x: value */
static const struct weft_case cases[] = {
    {"one", {1, 1}, {0}},      {"one row", {1, 37}, {1}},      {"odd", {7, 5}, {-2.5}},
    {"lanes", {1, 16}, {0.1}}, {"lanes+1", {1, 17}, {0.1}},    {"tile-1", {1, TILE - 1}, {3}},
    {"tile", {TILE, 1}, {3}},  {"tile+1", {1, TILE + 1}, {3}}, {"tiles", {331, 100}, {1e-20}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    int rows = weft_graph_symbol(g, "rows", c->n[0]);
    weft_graph_output(g, weft_fill(g, c->x[0], WEFT_SHAPE(weft_times(rows, 1), weft_fixed(c->n[1]))));
}

const struct weft_op WEFT_OP(fill) = {
    .name = "fill",
    .summary = "y = value",
    .attr_bytes = sizeof(struct weft_fill),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_fill(struct weft_graph *g, double value, struct weft_shape s)
{
    struct weft_fill attr = {value, s};
    return weft_emit(g, WEFT_SELF(fill), &attr, 0, NULL);
}
