/* SPDX-License-Identifier: MIT
 *
 * square_sum - n[m,h] = sum_d x[m,h,d]^2: the squared norm of every head of x [M, H D], as f32 [M, H].
 *
 * Backward reads x: dx = 2 x dn.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { ROWS = 16 }; /* rows per tile */

struct attr {
    int64_t heads;
};

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *attr = node->attr;
    const struct weft_value *x = node->in[0];
    TRY(weft_node_heads(node, 0, "x", attr->heads));
    struct weft_shape s = x->shape;
    s.dim[s.ndim - 1] = weft_fixed(attr->heads);
    return weft_node_output(node, 0, WEFT_F32, s);
}

/* Returns the total number of heads in all rows, and their width in *width. */
static int64_t head_count(const struct weft_call *call, int64_t *width)
{
    const struct attr *attr = call->attr;
    *width = weft_tensor_width(call->in[0]) / attr->heads;
    return weft_tensor_rows(call->in[0]) * attr->heads;
}

static void ref(const struct weft_call *call)
{
    const double *x = call->in[0]->data;
    double *n = call->out[0]->data;
    int64_t width, heads = head_count(call, &width);
    for (int64_t h = 0; h < heads; h++) {
        n[h] = 0;
        for (int64_t d = 0; d < width; d++)
            n[h] += x[h * width + d] * x[h * width + d];
    }
}

static void bwd_ref(const struct weft_call *call)
{
    const double *x = call->in[0]->data, *dn = call->gout[0]->data;
    double *dx = call->gin[0]->data;
    int64_t width, heads = head_count(call, &width);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t d = 0; d < width; d++)
            dx[h * width + d] = 2 * x[h * width + d] * dn[h];
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *attr = node->attr;
    struct weft_atom *x = weft_heads_of(f, weft_form_in(f, 0), attr->heads);
    weft_form_out(f, 0, weft_flat_of(f, weft_sum_of(f, weft_mul_of(f, x, x), -1)));
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const struct attr *attr = call->attr;
    const struct weft_tensor *x = call->in[0];
    float *n = call->out[0]->data;
    int64_t width = weft_tensor_width(x) / attr->heads;
    for (int64_t h = first * attr->heads; h < rows * attr->heads; h++) {
        vf squares = vset(0);
        for (int64_t i = h * width; i < (h + 1) * width; i += VLANES) {
            vf v = vload(x->data, x->dtype, i, (h + 1) * width);
            squares = vfma(v, v, squares);
        }
        n[h] = vsum(squares);
    }
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->in[0]), ROWS, run_tile); }

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const struct attr *attr = call->attr;
    const struct weft_tensor *x = call->in[0], *dx = call->gin[0];
    const float *dn = call->gout[0]->data;
    int64_t width = weft_tensor_width(x) / attr->heads;
    for (int64_t h = first * attr->heads; h < rows * attr->heads; h++)
        for (int64_t i = h * width, end = i + width; i < end; i += VLANES)
            vstore(dx->data, dx->dtype, i, end, vset(2 * dn[h]) * vload(x->data, x->dtype, i, end));
}

static void bwd(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->in[0]), ROWS, bwd_tile); }

/* Entries of n: rows, heads, width of a head, inside */
static const struct weft_case cases[] = {
    {"one", {1, 1, 1}, {0}},           {"one row", {1, 3, 7}, {0}},     {"one head", {5, 1, 37}, {0}},
    {"odd", {7, 5, 3}, {0}},           {"lanes", {4, 2, 16}, {0}},      {"lanes+1", {3, 2, 17}, {0}},
    {"tile-1", {ROWS - 1, 3, 8}, {0}}, {"tile", {ROWS, 3, 8}, {0}},     {"tile+1", {ROWS + 1, 3, 8}, {0}},
    {"tiles", {100, 4, 64}, {0}},      {"inside", {20, 5, 10, 1}, {0}}, {"square", {5, 4, 4}, {0}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *x = weft_case_input(g, "x", weft_graph_compute(g), c->n[0], c->n[1] * c->n[2]);
    weft_graph_output(g, weft_square_sum(g, c->n[3] ? weft_scale(g, x, 2) : x, c->n[1]));
}

const struct weft_op WEFT_OP(square_sum) = {
    .name = "square_sum",
    .summary = "n = sum of x^2 over each head",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.run = bwd, .ref = bwd_ref},
    .bwd_reads_in = 1,
    .differentiable = 1,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_square_sum(struct weft_graph *g, struct weft_value *x, int64_t heads)
{
    return weft_emit(g, WEFT_SELF(square_sum), &(struct attr){heads}, 1, &x);
}
