/* SPDX-License-Identifier: MIT
 *
 * transpose - y [C,R] = x [R,C] with its dimensions swapped; for x [G,R,C], each of the G matrices. y has x's dtype.
 *
 * The op is meant for weights that are used in both orientations, so dimensions are fixed; for a parameter, it runs in
 * prepare. The gradient is transposed back. Nothing is saved.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_value *x = node->in[0];
    struct weft_shape s = x->shape;
    TRY(weft_node_float(node, 0, "x"));
    if (s.ndim < 2 || s.ndim > 3)
        return weft_node_fail(node, "x has %d dimensions; it must be [R,C] or [G,R,C]", s.ndim);
    for (int i = 0; i < s.ndim; i++)
        if (s.dim[i].symbol)
            return weft_node_fail(node, "dimension %d of the matrix is not a fixed size", i);
    struct weft_dim rows = s.dim[s.ndim - 2];
    s.dim[s.ndim - 2] = s.dim[s.ndim - 1];
    s.dim[s.ndim - 1] = rows;
    return weft_node_output(node, 0, x->dtype, s);
}

static void ref(const struct weft_call *call)
{
    const struct weft_tensor *x = call->in[0];
    int64_t rows = x->dim[x->ndim - 2], columns = x->dim[x->ndim - 1];
    const double *from = x->data;
    double *to = call->out[0]->data;
    for (int64_t i = 0; i < weft_tensor_count(x); i++) {
        int64_t g = i / (rows * columns), r = i / columns % rows, c = i % columns;
        to[(g * columns + c) * rows + r] = from[i];
    }
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    (void)node;
    weft_form_out(f, 0, weft_swap_of(f, weft_form_in(f, 0), -2, -1));
}

/* Computes VLANES rows of one matrix of y, in squares so that reads and writes are whole vectors. */
static void run_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    const struct weft_tensor *x = call->in[0], *y = call->out[0];
    int64_t rows = x->dim[x->ndim - 2], columns = x->dim[x->ndim - 1], across = weft_div_up(columns, VLANES);
    int64_t start = tile / across * rows * columns, c = tile % across * VLANES;
    for (int64_t r = 0; r < rows; r += VLANES) {
        float square[VLANES][VLANES];
        for (int64_t i = 0; i < weft_min(VLANES, rows - r); i++) {
            int64_t at = start + (r + i) * columns;
            vf from = vload(x->data, x->dtype, at + c, at + columns);
            for (int lane = 0; lane < VLANES; lane++)
                square[lane][i] = from[lane];
        }
        for (int64_t i = 0; i < weft_min(VLANES, columns - c); i++) {
            int64_t at = start + (c + i) * rows;
            vstore(y->data, y->dtype, at + r, at + rows, vload_f32(square[i], rows - r));
        }
    }
}

static void run(const struct weft_call *call)
{
    const struct weft_tensor *x = call->in[0];
    int64_t matrices = x->ndim == 3 ? x->dim[0] : 1;
    weft_parallel(matrices * weft_div_up(weft_tensor_width(x), VLANES), run_tile, (void *)call);
}

static void grad(struct weft_graph *g, struct weft_node *node, struct weft_grads *grads)
{
    (void)node;
    weft_grad_add(grads, 0, weft_cast(g, weft_transpose(g, weft_grad_out(grads, 0)), weft_grad_dtype(grads, 0)));
}

/* Entries of n: groups (0: two dimensions), R, C, rows. If rows is 0, an input is transposed. Otherwise, a parameter
 * is, and rows are multiplied with the parameter and then with its transpose, as with tied weights. */
static const struct weft_case cases[] = {
    {.name = "one", .n = {0, 1, 1}},
    {.name = "row", .n = {0, 1, 37}},
    {.name = "column", .n = {0, 37, 1}},
    {.name = "odd", .n = {0, 7, 5}},
    {.name = "lanes", .n = {0, 16, 16}},
    {.name = "lanes+1", .n = {0, 17, 33}},
    {.name = "lanes-1", .n = {0, 31, 15}},
    {.name = "large", .n = {0, 130, 70}},
    {.name = "groups", .n = {3, 18, 20}},
    {.name = "one group", .n = {1, 5, 40}},
    {.name = "tied", .n = {0, 24, 40, 9}},
    {.name = "tied odd", .n = {0, 19, 7, 5}},
    {.name = "tied groups", .n = {3, 16, 9, 6}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    int64_t groups = weft_max(c->n[0], 1), rows = c->n[3];
    struct weft_dim R = weft_fixed(c->n[1]), C = weft_fixed(c->n[2]);
    struct weft_shape s = c->n[0] ? WEFT_SHAPE(weft_fixed(groups), R, C) : WEFT_SHAPE(R, C);
    struct weft_value *x = rows ? weft_graph_param(g, "x", s) : weft_graph_input(g, "x", weft_graph_compute(g), s);
    if (x)
        x->wants_grad = true;
    struct weft_value *y = weft_transpose(g, x);
    weft_graph_output(g, y);
    if (!rows)
        return;
    struct weft_value *in = weft_case_input(g, "in", weft_graph_compute(g), rows, groups * c->n[2]);
    struct weft_value *up = weft_linear(g, in, x, NULL, NULL, weft_graph_compute(g));
    weft_graph_output(g, weft_linear(g, up, y, NULL, NULL, WEFT_F32));
}

const struct weft_op WEFT_OP(transpose) = {
    .name = "transpose",
    .summary = "y = x with its last two dimensions swapped",
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .grad = grad,
    .differentiable = 1,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_transpose(struct weft_graph *g, struct weft_value *x)
{
    return weft_emit(g, WEFT_SELF(transpose), NULL, 1, &x);
}
