/* SPDX-License-Identifier: MIT
 *
 * unary_inl.h - shared by the elementwise ops with one input: everything but the function itself.
 *
 * Before including this, the op's file defines:
 *     static double exact(double x), exact_slope(double x)       the specification: y and dy/dx
 *     VINLINE vf value(vf x), slope(vf x)                        the same for sixteen floats
 *     static struct weft_atom *form(f, x)                        y as atoms
 *     #define NAME name, #define SUMMARY "y = .."
 * This file provides everything else, including the descriptor and the builder. Backward reads x and may alias dy.
 *
 * An op with attributes defines the following instead of NAME and SUMMARY, and ends with its own descriptor, which uses
 * UNARY_FIELDS:
 *     #define EXACT(call, x), VALUE(call, x)                     replace exact(x), value(x)
 *     #define FORM(f, node, x)                                   replaces form(f, x)
 *     #define BUILDER(g, x)                                      calls the builder, for the cases
 */
#ifndef WEFT_UNARY_H
#define WEFT_UNARY_H

#ifdef NAME
#define EXACT(call, x) exact(x)
#define VALUE(call, x) value(x)
#define FORM(f, node, x) form(f, x)
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define BUILDER PASTE(weft_, NAME)
#endif

enum { TILE = 16384 }; /* elements per tile */

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_value *x = node->in[0];
    TRY(weft_node_float(node, 0, "x"));
    return weft_node_output(node, 0, x->dtype, x->shape);
}

static void ref(const struct weft_call *call)
{
    const double *x = call->in[0]->data;
    double *y = call->out[0]->data;
    int64_t n = weft_tensor_count(call->out[0]);
    for (int64_t i = 0; i < n; i++)
        y[i] = EXACT(call, x[i]);
}

static void bwd_ref(const struct weft_call *call)
{
    const double *x = call->in[0]->data, *dy = call->gout[0]->data;
    double *dx = call->gin[0]->data;
    int64_t n = weft_tensor_count(call->gin[0]);
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * exact_slope(x[i]);
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    (void)node; /* FORM may not use it */
    weft_form_out(f, 0, FORM(f, node, weft_form_in(f, 0)));
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t n)
{
    const struct weft_tensor *x = call->in[0], *y = call->out[0];
    for (int64_t i = first; i < n; i += VLANES)
        vstore(y->data, y->dtype, i, n, VALUE(call, vload(x->data, x->dtype, i, n)));
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_count(call->out[0]), TILE, run_tile); }

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t n)
{
    const struct weft_tensor *x = call->in[0], *dy = call->gout[0], *dx = call->gin[0];
    for (int64_t i = first; i < n; i += VLANES) {
        vf s = slope(vload(x->data, x->dtype, i, n));
        vstore(dx->data, dx->dtype, i, n, vload(dy->data, dy->dtype, i, n) * s);
    }
}

static void bwd(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_count(call->gin[0]), TILE, bwd_tile); }

/* Entries of n: rows, width, inside; of x: factor of the input, to test large arguments */
static const struct weft_case cases[] = {
    {"one", {1, 1}, {1}},           {"one row", {1, 37}, {1}},
    {"odd", {7, 5}, {3}},           {"lanes", {1, 16}, {1}},
    {"lanes+1", {1, 17}, {1}},      {"tile-1", {1, TILE - 1}, {1}},
    {"tile", {TILE, 1}, {1}},       {"tile+1", {1, TILE + 1}, {1}},
    {"tiles", {331, 100}, {1}},     {"tails", {20, 50}, {8}},
    {"far tails", {20, 50}, {100}}, {"very negative", {1, 1}, {-20}},
    {"inside", {20, 50, 1}, {1}},   {"inside, tiles", {331, 100, 1}, {1}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *x = weft_case_input(g, "x", weft_graph_compute(g), c->n[0], c->n[1]);
    struct weft_value *y = BUILDER(g, weft_scale(g, x, c->x[0]));
    weft_graph_output(g, c->n[2] ? weft_scale(g, y, 2) : y);
}

#define UNARY_FIELDS                                                                                                   \
    .shape = shape, .fwd = {.run = run, .ref = ref}, .bwd = {.run = bwd, .ref = bwd_ref}, .bwd_reads_in = 1,           \
    .differentiable = 1, .inplace = 1, .inplace_grad = 1, .lower = lower, WEFT_CASES(cases, build)

#ifdef NAME
#define DESCRIPTOR_(op) const struct weft_op WEFT_OP(op) = {.name = #op, .summary = SUMMARY, UNARY_FIELDS}
#define DESCRIPTOR(op) DESCRIPTOR_(op)
DESCRIPTOR(NAME);

#define SELF_(op) WEFT_SELF(op)
#define SELF(op) SELF_(op)
struct weft_value *BUILDER(struct weft_graph *g, struct weft_value *x) { return weft_emit(g, SELF(NAME), NULL, 1, &x); }
#endif

#endif
