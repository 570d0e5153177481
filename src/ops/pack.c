/* SPDX-License-Identifier: MIT
 *
 * pack - converts a weight matrix to the layout of the matmul engine.
 *
 *     p = W      how = WEFT_PACK_Y:  maps rows of K to rows of N
 *     p = W^t    how = WEFT_PACK_DX: maps rows of N to rows of K
 *
 * W [N,K] or [G,N,K] f32; p [N,K] or [K,N] (preceded by G) in the compute dtype. An op that reads p need not know
 * `how`, because p [width, depth] always means rows [*, depth] times p^t; so the matmul for a gradient is the same op
 * as in the forward pass. On the fast path, p is opaque (packed_bytes); in a reference run, it is the plain matrix.
 *
 * The op depends only on parameters, so it runs once per weight change, not once per matmul. It has no derivative;
 * linear and cross_entropy pass the gradient to W itself.
 */
#include "ops/ops.h"

struct attr {
    enum weft_pack how;
};

/* Returns the sizes of p; its layout does not depend on max_rows. */
static struct weft_dnn_shape layout(enum weft_dtype dtype, int ndim, int64_t groups, int64_t width, int64_t depth)
{
    return (struct weft_dnn_shape){
        .dtype = dtype, .depth = depth, .width = width, .groups = ndim == 3 ? groups : 1, .max_rows = 1};
}

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_value *w = node->in[0];
    const struct attr *a = node->attr;
    struct weft_shape s = w->shape;
    if (w->dtype != WEFT_F32 || s.ndim < 2 || s.ndim > 3)
        return weft_node_fail(node, "the matrix must be f32 [N,K] or [G,N,K]");
    for (int i = 0; i < s.ndim; i++)
        if (s.dim[i].symbol || s.dim[i].times < 1)
            return weft_node_fail(node, "dimension %d of the matrix is not a fixed size", i);
    struct weft_dim *rows = &s.dim[s.ndim - 2], *columns = &s.dim[s.ndim - 1];
    if (a->how == WEFT_PACK_DX) {
        struct weft_dim n = *rows;
        *rows = *columns;
        *columns = n;
    }
    enum weft_dtype dtype = weft_graph_compute(node->graph);
    TRY(weft_node_output(node, 0, dtype, s));
    struct weft_dnn_shape l = layout(dtype, s.ndim, s.dim[0].times, rows->times, columns->times);
    return weft_dnn_pack_bytes(&l, &node->out[0]->packed_bytes);
}

static void ref(const struct weft_call *call)
{
    const struct attr *a = call->attr;
    const struct weft_tensor *w = call->in[0];
    int64_t n = w->dim[w->ndim - 2], k = w->dim[w->ndim - 1], groups = w->ndim == 3 ? w->dim[0] : 1;
    for (int64_t g = 0; g < groups; g++) {
        const double *from = (const double *)w->data + g * n * k;
        double *to = (double *)call->out[0]->data + g * n * k;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < k; j++)
                to[a->how == WEFT_PACK_Y ? i * k + j : j * n + i] = from[i * k + j];
    }
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *a = node->attr;
    struct weft_atom *w = weft_form_in(f, 0);
    weft_form_out(f, 0, a->how == WEFT_PACK_Y ? w : weft_swap_of(f, w, -2, -1));
}

static void run(const struct weft_call *call)
{
    const struct attr *a = call->attr;
    const struct weft_tensor *w = call->in[0], *p = call->out[0];
    struct weft_dnn_shape l = layout(p->dtype, p->ndim, p->dim[0], p->dim[p->ndim - 2], p->dim[p->ndim - 1]);
    weft_dnn_pack(&l, a->how, w->data, w->dtype, p->data);
}

/* Entries of n: rows, N, K, groups (0: W has two dimensions). Because the layout is opaque, it is tested through
 * linear: linear's forward pass reads WEFT_PACK_Y, and the gradients in linear's own cases read WEFT_PACK_DX. */
static const struct weft_case cases[] = {
    {.name = "one", .n = {1, 1, 1}},         {.name = "tile", .n = {16, 32, 32}},
    {.name = "odd", .n = {3, 7, 5}},         {.name = "odd depth", .n = {5, 16, 33}},
    {.name = "odd width", .n = {5, 49, 32}}, {.name = "tall", .n = {2, 130, 9}},
    {.name = "wide", .n = {2, 9, 130}},      {.name = "one group", .n = {4, 6, 10, 1}},
    {.name = "groups", .n = {4, 16, 32, 3}}, {.name = "odd groups", .n = {5, 17, 19, 4}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_dim n = weft_fixed(c->n[1]), k = weft_fixed(c->n[2]), groups = weft_fixed(c->n[3]);
    struct weft_value *x = weft_case_input(g, "x", weft_graph_compute(g), c->n[0], c->n[2] * weft_max(c->n[3], 1));
    struct weft_value *w = weft_graph_param(g, "w", c->n[3] ? WEFT_SHAPE(groups, n, k) : WEFT_SHAPE(n, k));
    weft_graph_output(g, weft_linear(g, x, w, NULL, NULL, WEFT_F32));
}

const struct weft_op WEFT_OP(pack) = {
    .name = "pack",
    .summary = "p = W or W^t, in the layout of the matmul engine",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_pack(struct weft_graph *g, struct weft_value *w, enum weft_pack how)
{
    return weft_emit(g, WEFT_SELF(pack), &(struct attr){how}, 1, &w);
}
