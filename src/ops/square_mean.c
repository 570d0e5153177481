/* SPDX-License-Identifier: MIT
 *
 * square_mean - a penalty on size: loss = lambda * mean over (row, head) of |z_head|^2, for z [M, heads * w].
 *
 * Only the divisor depends on the heads: loss = lambda / (M heads) * sum of all z^2. Each block of TILE elements writes
 * its sum to scratch; the sums are then added in order. The derivative, dz = dloss 2 lambda / (M heads) z, does not
 * depend on the sum, so the backward node also computes the loss (bwd_writes_out): one kernel serves both, and z is
 * read once. Nothing is saved.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { TILE = 8192 }; /* elements per tile; determines the order of the sum */

struct attr {
    int64_t heads;
    double lambda;
};

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *attr = node->attr;
    TRY(weft_node_heads(node, 0, "z", attr->heads));
    return weft_node_output(node, 0, WEFT_F32, WEFT_SHAPE(weft_fixed(1)));
}

/* Returns the factor of the sum of squares. If there are no rows, the sum is 0 and the factor does not matter. */
static double weight(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    return attr->lambda / (double)(weft_max(1, weft_tensor_rows(call->in[0])) * attr->heads);
}

static void ref(const struct weft_call *call)
{
    const double *z = call->in[0]->data;
    double sum = 0;
    for (int64_t i = 0; i < weft_tensor_count(call->in[0]); i++)
        sum += z[i] * z[i];
    *(double *)call->out[0]->data = weight(call) * sum;
}

static void bwd_ref(const struct weft_call *call)
{
    const double *z = call->in[0]->data, *dloss = call->gout[0]->data;
    double *dz = call->gin[0]->data;
    ref(call);
    for (int64_t i = 0; i < weft_tensor_count(call->in[0]); i++)
        dz[i] = *dloss * 2 * weight(call) * z[i];
}

/* Returns the sum of all elements, [1]. */
static struct weft_atom *total(struct weft_form *f, struct weft_atom *x)
{
    for (int axis = 0; x && axis < x->type.ndim; axis++)
        x = weft_sum_of(f, x, axis);
    return weft_reshape_of(f, x, WEFT_FIXED_TYPE(1));
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *attr = node->attr;
    struct weft_atom *z = weft_form_in(f, 0);
    struct weft_type rows = weft_type_of(f, node->in[0]);
    rows.ndim--;
    struct weft_atom *count = weft_max_of(f, total(f, weft_constant_of(f, 1, rows)), weft_real_of(f, 1));
    struct weft_atom *sum = weft_times_of(f, total(f, weft_mul_of(f, z, z)), attr->lambda / (double)attr->heads);
    weft_form_out(f, 0, weft_div_of(f, sum, count));
}

static enum weft_status plan(const struct weft_call *max, struct weft_booking *booking)
{
    size_t blocks = (size_t)weft_div_up(weft_tensor_count(max->in[0]), TILE);
    return weft_size_mul(blocks, sizeof(float), &booking->scratch);
}

static void tile_squares(const struct weft_call *call, int64_t first, int64_t n)
{
    const struct weft_tensor *z = call->in[0], *dz = call->gin[0];
    vf factor = vset(dz ? *(const float *)call->gout[0]->data * (float)(2 * weight(call)) : 0), squares = vset(0);
    for (int64_t i = first; i < n; i += VLANES) {
        vf v = vload(z->data, z->dtype, i, n);
        squares = vfma(v, v, squares);
        if (dz)
            vstore(dz->data, dz->dtype, i, n, factor * v);
    }
    ((float *)call->scratch)[first / TILE] = vsum(squares);
}

static void run(const struct weft_call *call)
{
    weft_tiles_run(call, weft_tensor_count(call->in[0]), TILE, tile_squares);
    double sum = 0;
    for (int64_t block = 0; block < weft_div_up(weft_tensor_count(call->in[0]), TILE); block++)
        sum += ((const float *)call->scratch)[block];
    *(float *)call->out[0]->data = (float)(weight(call) * sum);
}

/* Entries of n: rows, heads, width of a head, inside; of x: lambda */
static const struct weft_case cases[] = {
    {"one", {1, 1, 1}, {1}},           {"one row", {1, 3, 7}, {0.5}},  {"one head", {5, 1, 9}, {2}},
    {"odd", {7, 5, 3}, {1}},           {"lanes", {4, 2, 8}, {1}},      {"lanes+1", {1, 1, 17}, {1}},
    {"tile-1", {1, 1, TILE - 1}, {1}}, {"tile", {64, 8, 16}, {1}},     {"tile+1", {1, 1, TILE + 1}, {1}},
    {"tiles", {331, 4, 40}, {1}},      {"small", {20, 5, 10}, {1e-5}}, {"inside", {20, 5, 10, 1}, {1}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *z = weft_case_input(g, "z", weft_graph_compute(g), c->n[0], c->n[1] * c->n[2]);
    struct weft_value *loss = weft_square_mean(g, c->n[3] ? weft_silu(g, z) : z, c->n[1], c->x[0]);
    weft_graph_output(g, loss);
}

const struct weft_op WEFT_OP(square_mean) = {
    .name = "square_mean",
    .summary = "loss = lambda * mean over (row, head) of |z_head|^2",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.plan = plan, .run = run, .ref = ref},
    .bwd = {.plan = plan, .run = run, .ref = bwd_ref},
    .bwd_reads_in = 1,
    .differentiable = 1,
    .bwd_writes_out = true,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_square_mean(struct weft_graph *g, struct weft_value *z, int64_t heads, double lambda)
{
    return weft_emit(g, WEFT_SELF(square_mean), &(struct attr){heads, lambda}, 1, &z);
}
