/* SPDX-License-Identifier: MIT
 *
 * binary_inl.h - shared by add and mul: elementwise ops of two inputs, f32 or bf16 each; y is f32 if either is.
 *
 * Before including this, the op's file defines:
 *     static double exact(double a, double b)     the specification
 *     VINLINE vf value(vf a, vf b)                the same for sixteen floats
 *     static struct weft_atom *form(f, a, b)      the same as atoms
 *     #define BUILDER weft_name                   the builder, for the cases
 * This file provides shape, the forward kernels, the form and the cases, which BINARY_FIELDS puts into the descriptor.
 */
#ifndef WEFT_BINARY_H
#define WEFT_BINARY_H

enum { TILE = 16384 }; /* elements per tile */

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_value *a = node->in[0], *b = node->in[1];
    if (!weft_dtype_is_float(a->dtype) || !weft_dtype_is_float(b->dtype))
        return weft_node_fail(node, "%s and %s: both must be float types", weft_dtype_name(a->dtype),
                              weft_dtype_name(b->dtype));
    if (!weft_shape_same(&a->shape, &b->shape))
        return weft_node_fail(node, "a and b have different shapes");
    return weft_node_output(node, 0, a->dtype == b->dtype ? a->dtype : WEFT_F32, a->shape);
}

static void ref(const struct weft_call *call)
{
    const double *a = call->in[0]->data, *b = call->in[1]->data;
    double *y = call->out[0]->data;
    int64_t n = weft_tensor_count(call->out[0]);
    for (int64_t i = 0; i < n; i++)
        y[i] = exact(a[i], b[i]);
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    (void)node;
    weft_form_out(f, 0, form(f, weft_form_in(f, 0), weft_form_in(f, 1)));
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t n)
{
    const struct weft_tensor *a = call->in[0], *b = call->in[1], *y = call->out[0];
    for (int64_t i = first; i < n; i += VLANES)
        vstore(y->data, y->dtype, i, n, value(vload(a->data, a->dtype, i, n), vload(b->data, b->dtype, i, n)));
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_count(call->out[0]), TILE, run_tile); }

/* Entries of n: rows, width, and a mask: a is always f32 (1), b is always f32 (2), a and b are the same parameter
 * (4) */
static const struct weft_case cases[] = {
    {"one", {1, 1, 0}, {0}},          {"one row", {1, 37, 1}, {0}},      {"odd", {7, 5, 2}, {0}},
    {"lanes", {1, 16, 3}, {0}},       {"lanes+1", {1, 17, 0}, {0}},      {"tile-1", {1, TILE - 1, 1}, {0}},
    {"tile", {TILE, 1, 0}, {0}},      {"tile+1", {1, TILE + 1, 2}, {0}}, {"tiles", {331, 100, 1}, {0}},
    {"param", {1, TILE + 1, 4}, {0}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    enum weft_dtype compute = weft_graph_compute(g);
    if (c->n[2] == 4) {
        struct weft_value *w = weft_graph_param(g, "w", WEFT_SHAPE(weft_fixed(c->n[0]), weft_fixed(c->n[1])));
        weft_graph_output(g, BUILDER(g, w, w));
        return;
    }
    struct weft_value *a = weft_case_input(g, "a", c->n[2] & 1 ? WEFT_F32 : compute, c->n[0], c->n[1]);
    struct weft_value *b = weft_case_input(g, "b", c->n[2] & 2 ? WEFT_F32 : compute, c->n[0], c->n[1]);
    weft_graph_output(g, BUILDER(g, a, b));
}

#define BINARY_FIELDS                                                                                                  \
    .shape = shape, .fwd = {.run = run, .ref = ref}, .differentiable = 3, .inplace = 1, .lower = lower,                \
    .cases = cases, .case_count = sizeof cases / sizeof *cases, .build = build

#endif
