/* SPDX-License-Identifier: MIT
 *
 * cast - y = x in a different float type (f32 or bf16, rounded to nearest even). The gradient is cast back.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { TILE = 16384 }; /* elements per tile */

static enum weft_status shape(struct weft_node *node)
{
    const enum weft_dtype *to = node->attr;
    const struct weft_value *x = node->in[0];
    if (!weft_dtype_is_float(x->dtype) || !weft_dtype_is_float(*to))
        return weft_node_fail(node, "from %s to %s: both must be float types", weft_dtype_name(x->dtype),
                              weft_dtype_name(*to));
    return weft_node_output(node, 0, *to, x->shape);
}

static void ref(const struct weft_call *call)
{
    const double *x = call->in[0]->data;
    double *y = call->out[0]->data;
    int64_t n = weft_tensor_count(call->out[0]);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i];
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    (void)node;
    weft_form_out(f, 0, weft_form_in(f, 0));
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t n)
{
    const struct weft_tensor *x = call->in[0], *y = call->out[0];
    for (int64_t i = first; i < n; i += VLANES)
        vstore(y->data, y->dtype, i, n, vload(x->data, x->dtype, i, n));
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_count(call->out[0]), TILE, run_tile); }

static void grad(struct weft_graph *g, struct weft_node *node, struct weft_grads *grads)
{
    (void)node;
    weft_grad_add(grads, 0, weft_cast(g, weft_grad_out(grads, 0), weft_grad_dtype(grads, 0)));
}

/* Entries of n: rows, width, direction (0: f32 to bf16, 1: bf16 to f32) */
static const struct weft_case cases[] = {
    {"one", {1, 1, 0}, {0}},     {"one row", {1, 37, 0}, {0}},      {"odd", {7, 5, 1}, {0}},
    {"lanes", {1, 16, 1}, {0}},  {"lanes+1", {1, 17, 1}, {0}},      {"tile-1", {1, TILE - 1, 0}, {0}},
    {"tile", {TILE, 1, 1}, {0}}, {"tile+1", {1, TILE + 1, 0}, {0}}, {"tiles", {331, 100, 1}, {0}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    enum weft_dtype from = c->n[2] ? WEFT_BF16 : WEFT_F32, to = c->n[2] ? WEFT_F32 : WEFT_BF16;
    struct weft_value *x = weft_case_input(g, "x", from, c->n[0], c->n[1]);
    weft_graph_output(g, weft_cast(g, x, to));
}

const struct weft_op WEFT_OP(cast) = {
    .name = "cast",
    .summary = "y = x in a different float type",
    .attr_bytes = sizeof(enum weft_dtype),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .grad = grad,
    .differentiable = 1,
    .lower = lower,
    WEFT_CASES(cases, build),
    .tolerance = 0x1p-8, /* the precision of bf16, because cases cast to it even in f32 graphs */
};

/* Returns x itself if x already has the type. */
struct weft_value *weft_cast(struct weft_graph *g, struct weft_value *x, enum weft_dtype to)
{
    if (!x || x->dtype == to)
        return x;
    return weft_emit(g, WEFT_SELF(cast), &to, 1, &x);
}
