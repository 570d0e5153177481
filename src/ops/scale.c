/* SPDX-License-Identifier: MIT
 *
 * scale - y = factor * x, elementwise, with a constant factor. May run in place. The gradient is also a scale.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { TILE = 16384 }; /* elements per tile */

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_value *x = node->in[0];
    TRY(weft_node_float(node, 0, "x"));
    return weft_node_output(node, 0, x->dtype, x->shape);
}

static void ref(const struct weft_call *call)
{
    const double *factor = call->attr, *x = call->in[0]->data;
    double *y = call->out[0]->data;
    int64_t n = weft_tensor_count(call->out[0]);
    for (int64_t i = 0; i < n; i++)
        y[i] = *factor * x[i];
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const double *factor = node->attr;
    weft_form_out(f, 0, weft_times_of(f, weft_form_in(f, 0), *factor));
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t n)
{
    const struct weft_tensor *x = call->in[0], *y = call->out[0];
    vf factor = vset((float)*(const double *)call->attr);
    for (int64_t i = first; i < n; i += VLANES)
        vstore(y->data, y->dtype, i, n, factor * vload(x->data, x->dtype, i, n));
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_count(call->out[0]), TILE, run_tile); }

static void grad(struct weft_graph *g, struct weft_node *node, struct weft_grads *grads)
{
    const double *factor = node->attr;
    struct weft_value *scaled = weft_scale(g, weft_grad_out(grads, 0), *factor);
    weft_grad_add(grads, 0, weft_cast(g, scaled, weft_grad_dtype(grads, 0)));
}

/* Entries of n: rows, width; of x: factor */
static const struct weft_case cases[] = {
    {"one", {1, 1}, {2}},       {"one row", {1, 37}, {0.125}},    {"odd", {7, 5}, {-3}},
    {"lanes", {1, 16}, {0.1}},  {"lanes+1", {1, 17}, {0.1}},      {"tile-1", {1, TILE - 1}, {-1}},
    {"tile", {TILE, 1}, {0.3}}, {"tile+1", {1, TILE + 1}, {0.3}}, {"tiles", {331, 100}, {1}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *x = weft_case_input(g, "x", weft_graph_compute(g), c->n[0], c->n[1]);
    weft_graph_output(g, weft_scale(g, x, c->x[0]));
}

const struct weft_op WEFT_OP(scale) = {
    .name = "scale",
    .summary = "y = factor * x",
    .attr_bytes = sizeof(double),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .grad = grad,
    .differentiable = 1,
    .inplace = 1,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_scale(struct weft_graph *g, struct weft_value *x, double factor)
{
    return weft_emit(g, WEFT_SELF(scale), &factor, 1, &x);
}
