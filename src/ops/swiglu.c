/* SPDX-License-Identifier: MIT
 *
 * swiglu - y = silu(gate) up, elementwise; fuses silu and mul, so that silu's output is not stored.
 *
 * Backward reads gate and up, with s = sigmoid(gate): dup = dy gate s, dgate = dy up s (1 + gate (1-s)).
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { TILE = 16384 }; /* elements per tile */

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_value *gate = node->in[0], *up = node->in[1];
    if (!weft_dtype_is_float(gate->dtype) || gate->dtype != up->dtype || !weft_shape_same(&gate->shape, &up->shape))
        return weft_node_fail(node, "gate and up must have the same shape and float type");
    return weft_node_output(node, 0, gate->dtype, gate->shape);
}

static void ref(const struct weft_call *call)
{
    const double *gate = call->in[0]->data, *up = call->in[1]->data;
    double *y = call->out[0]->data;
    int64_t n = weft_tensor_count(call->out[0]);
    for (int64_t i = 0; i < n; i++)
        y[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
}

static void bwd_ref(const struct weft_call *call)
{
    const double *gate = call->in[0]->data, *up = call->in[1]->data, *dy = call->gout[0]->data;
    double *dgate = call->gin[0] ? call->gin[0]->data : NULL, *dup = call->gin[1] ? call->gin[1]->data : NULL;
    int64_t n = weft_tensor_count(call->gout[0]);
    for (int64_t i = 0; i < n; i++) {
        double s = 1 / (1 + exp(-gate[i]));
        if (dup)
            dup[i] = dy[i] * gate[i] * s;
        if (dgate)
            dgate[i] = dy[i] * up[i] * s * (1 + gate[i] * (1 - s));
    }
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    (void)node;
    struct weft_atom *gate = weft_form_in(f, 0);
    weft_form_out(f, 0, weft_mul_of(f, weft_mul_of(f, gate, weft_sigmoid_of(f, gate)), weft_form_in(f, 1)));
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t n)
{
    const struct weft_tensor *gate = call->in[0], *up = call->in[1], *y = call->out[0];
    for (int64_t i = first; i < n; i += VLANES) {
        vf v = vload(gate->data, gate->dtype, i, n);
        vstore(y->data, y->dtype, i, n, v * vsigmoid(v) * vload(up->data, up->dtype, i, n));
    }
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_count(call->out[0]), TILE, run_tile); }

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t n)
{
    const struct weft_tensor *gate = call->in[0], *up = call->in[1], *dy = call->gout[0];
    const struct weft_tensor *dgate = call->gin[0], *dup = call->gin[1];
    for (int64_t i = first; i < n; i += VLANES) {
        vf v = vload(gate->data, gate->dtype, i, n), s = vsigmoid(v), d = vload(dy->data, dy->dtype, i, n);
        if (dup)
            vstore(dup->data, dup->dtype, i, n, d * (v * s));
        if (dgate)
            vstore(dgate->data, dgate->dtype, i, n,
                   d * vload(up->data, up->dtype, i, n) * (s * vfma(v, vset(1) - s, vset(1))));
    }
}

static void bwd(const struct weft_call *call)
{
    weft_tiles_run(call, weft_tensor_count(call->gout[0]), TILE, bwd_tile);
}

/* Entries of n: rows, width, compare with the unfused ops, inside; of x: factor of gate, to test large arguments */
static const struct weft_case cases[] = {
    {"one", {1, 1, 0}, {1}},
    {"one row", {1, 37, 0}, {1}},
    {"odd", {7, 5, 0}, {3}},
    {"lanes+1", {1, 17, 0}, {1}},
    {"tile-1", {1, TILE - 1, 0}, {1}},
    {"tile", {TILE, 1, 0}, {1}},
    {"tile+1", {1, TILE + 1, 0}, {1}},
    {"tiles", {331, 100, 0}, {1}},
    {"tails", {20, 50, 0}, {8}},
    {"inside", {20, 50, 0, 1}, {1}},
    {"inside, tiles", {331, 100, 0, 1}, {1}},
    {"unfused, one row", {1, 33, 1}, {1}},
    {"unfused", {20, 50, 1}, {2}},
};

/* In the unfused cases the output is [y, (y - silu(gate) up) / 8]: the second half must be 0. The first half, y, sets
 * the scale that errors are relative to, and the division allows for bf16 rounding of large elements. */
static void build(struct weft_graph *g, const struct weft_case *c)
{
    enum weft_dtype compute = weft_graph_compute(g);
    struct weft_value *gate = weft_scale(g, weft_case_input(g, "gate", compute, c->n[0], c->n[1]), c->x[0]);
    struct weft_value *up = weft_case_input(g, "up", compute, c->n[0], c->n[1]);
    struct weft_value *y = weft_swiglu(g, gate, up);
    if (c->n[2]) {
        struct weft_value *unfused = weft_mul(g, weft_silu(g, gate), up);
        struct weft_value *difference = weft_add(g, y, weft_scale(g, unfused, -1));
        y = weft_concat(g, y, weft_scale(g, difference, 0.125));
    }
    weft_graph_output(g, c->n[3] ? weft_scale(g, y, 2) : y);
}

const struct weft_op WEFT_OP(swiglu) = {
    .name = "swiglu",
    .summary = "y = gate sigmoid(gate) up",
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.run = bwd, .ref = bwd_ref},
    .bwd_reads_in = 3,
    .differentiable = 3,
    .inplace = 1,
    .inplace_grad = 1,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_swiglu(struct weft_graph *g, struct weft_value *gate, struct weft_value *up)
{
    return weft_emit(g, WEFT_SELF(swiglu), NULL, 2, (struct weft_value *[]){gate, up});
}
