/* SPDX-License-Identifier: MIT
 *
 * unary_inl.h - shared by the elementwise functions of one input: everything but the function.
 *
 * Before including this, the op's file defines:
 *     static double exact(double x), exact_slope(double x)       the specification: y and dy/dx
 *     VINLINE vf value(vf x), slope(vf x)                        the same for sixteen floats
 *     #define BUILDER weft_name                                  the builder, for the cases
 *     #define EXACT(call, x), VALUE(call, x)                     only if y depends on attributes: replace exact, value
 * It gets shape, kernels and cases, listed in UNARY_FIELDS for its descriptor. Backward reads x and may alias dy.
 */
#ifndef WEFT_UNARY_H
#define WEFT_UNARY_H

#ifndef VALUE
#define EXACT(call, x) exact(x)
#define VALUE(call, x) value(x)
#endif

enum { TILE = 16384 }; /* elements */

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_value *x = node->in[0];
    if (!weft_dtype_is_float(x->dtype))
        return weft_node_fail(node, "x is %s, not a float type", weft_dtype_name(x->dtype));
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

static void run_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    const struct weft_tensor *x = call->in[0], *y = call->out[0];
    int64_t n = weft_min(weft_tensor_count(y), (tile + 1) * TILE);
    for (int64_t i = tile * TILE; i < n; i += VLANES)
        vstore(y->data, y->dtype, i, n, VALUE(call, vload(x->data, x->dtype, i, n)));
}

static void run(const struct weft_call *call)
{
    weft_parallel(weft_div_up(weft_tensor_count(call->out[0]), TILE), run_tile, (void *)call);
}

static void bwd_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    const struct weft_tensor *x = call->in[0], *dy = call->gout[0], *dx = call->gin[0];
    int64_t n = weft_min(weft_tensor_count(dx), (tile + 1) * TILE);
    for (int64_t i = tile * TILE; i < n; i += VLANES) {
        vf s = slope(vload(x->data, x->dtype, i, n));
        vstore(dx->data, dx->dtype, i, n, vload(dy->data, dy->dtype, i, n) * s);
    }
}

static void bwd(const struct weft_call *call)
{
    weft_parallel(weft_div_up(weft_tensor_count(call->gin[0]), TILE), bwd_tile, (void *)call);
}

/* n: rows, width, inside. x: factor of the input, to test large arguments */
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
    .differentiable = 1, .inplace = 1, .inplace_grad = 1, .cases = cases, .case_count = sizeof cases / sizeof *cases,  \
    .build = build

#endif
