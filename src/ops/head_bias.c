/* SPDX-License-Identifier: MIT
 *
 * head_bias - the bias that a key of squared norm n adds to its logits, from f32 n [M, K] and scale [H], as f32 [M, H]:
 *
 *     y[m,h] = -scale[h] n[m, h / (H/K)] / 2
 *
 * so that scale <q, k> + y is -scale |q - k|^2 / 2, except for the query's own norm, which cancels in the softmax.
 *
 * Backward: dn[m,k] is the sum over the heads of its group, in order; dscale += sum over rows of -n dy / 2. Each block
 * of ROWS rows writes its sums to scratch; these are then added in order.
 */
#include "ops/ops.h"

enum { ROWS = 32 }; /* rows per tile; determines the order of the sum of dscale */
enum { N, SCALE };

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_value *n = node->in[N], *scale = node->in[SCALE];
    if (n->dtype != WEFT_F32 || scale->dtype != WEFT_F32 || scale->shape.ndim != 1)
        return weft_node_fail(node, "n must be f32, and scale f32 with one element per head");
    int64_t norms = weft_shape_width(&n->shape), heads = weft_shape_width(&scale->shape);
    if (heads % norms)
        return weft_node_fail(node, "%lld heads cannot share %lld norms: heads must be a multiple of norms",
                              (long long)heads, (long long)norms);
    struct weft_shape s = n->shape;
    s.dim[s.ndim - 1] = weft_fixed(heads);
    return weft_node_output(node, 0, WEFT_F32, s);
}

static void ref(const struct weft_call *call)
{
    const double *n = call->in[N]->data, *scale = call->in[SCALE]->data;
    double *y = call->out[0]->data;
    int64_t norms = weft_tensor_width(call->in[N]), heads = weft_tensor_count(call->in[SCALE]);
    for (int64_t r = 0; r < weft_tensor_rows(call->in[N]); r++)
        for (int64_t h = 0; h < heads; h++)
            y[r * heads + h] = -0.5 * scale[h] * n[r * norms + h / (heads / norms)];
}

static void bwd_ref(const struct weft_call *call)
{
    const double *n = call->in[N]->data, *scale = call->in[SCALE]->data, *dy = call->gout[0]->data;
    double *dn = call->gin[N] ? call->gin[N]->data : NULL, *dscale = call->gin[SCALE] ? call->gin[SCALE]->data : NULL;
    int64_t norms = weft_tensor_width(call->in[N]), heads = weft_tensor_count(call->in[SCALE]);
    for (int64_t i = 0; dn && i < weft_tensor_count(call->in[N]); i++)
        dn[i] = 0;
    for (int64_t r = 0; r < weft_tensor_rows(call->in[N]); r++)
        for (int64_t h = 0; h < heads; h++) {
            int64_t k = r * norms + h / (heads / norms);
            if (dn)
                dn[k] += -0.5 * scale[h] * dy[r * heads + h];
            if (dscale)
                dscale[h] += -0.5 * n[k] * dy[r * heads + h];
        }
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    int64_t norms = weft_shape_width(&node->in[N]->shape), heads = weft_shape_width(&node->in[SCALE]->shape);
    struct weft_atom *n = weft_unit_of(f, weft_form_in(f, N), -1);
    n = weft_flat_of(f, weft_repeat_of(f, n, -1, heads / norms)); /* [.., H] */
    weft_form_out(f, 0, weft_mul_of(f, weft_times_of(f, weft_form_in(f, SCALE), -0.5), n));
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const float *scale = call->in[SCALE]->data;
    int64_t norms = weft_tensor_width(call->in[N]), heads = weft_tensor_count(call->in[SCALE]), group = heads / norms;
    for (int64_t r = first; r < rows; r++) {
        const float *n = (const float *)call->in[N]->data + r * norms;
        float *y = (float *)call->out[0]->data + r * heads;
        for (int64_t k = 0; k < norms; k++)
            for (int64_t h = k * group; h < (k + 1) * group; h++)
                y[h] = -0.5f * scale[h] * n[k];
    }
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->in[N]), ROWS, run_tile); }

/* ---- backward; scratch holds the sums of dscale for each block of rows */

static enum weft_status bwd_plan(const struct weft_call *max, struct weft_booking *booking)
{
    size_t blocks = (size_t)weft_div_up(weft_tensor_rows(max->in[N]), ROWS);
    return weft_size_mul(blocks, (size_t)weft_tensor_count(max->in[SCALE]) * sizeof(float), &booking->scratch);
}

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const float *scale = call->in[SCALE]->data;
    int64_t norms = weft_tensor_width(call->in[N]), heads = weft_tensor_count(call->in[SCALE]), group = heads / norms;
    float *sums = (float *)call->scratch + first / ROWS * heads, *dn = call->gin[N] ? call->gin[N]->data : NULL;
    for (int64_t h = 0; h < heads; h++)
        sums[h] = 0;
    for (int64_t r = first; r < rows; r++) {
        const float *n = (const float *)call->in[N]->data + r * norms;
        const float *dy = (const float *)call->gout[0]->data + r * heads;
        for (int64_t k = 0; k < norms; k++) {
            float sum = 0;
            for (int64_t h = k * group; h < (k + 1) * group; h++) {
                sum += scale[h] * dy[h];
                sums[h] += n[k] * dy[h];
            }
            if (dn)
                dn[r * norms + k] = -0.5f * sum;
        }
    }
}

static void bwd(const struct weft_call *call)
{
    int64_t blocks = weft_div_up(weft_tensor_rows(call->in[N]), ROWS), heads = weft_tensor_count(call->in[SCALE]);
    weft_tiles_run(call, weft_tensor_rows(call->in[N]), ROWS, bwd_tile);
    float *dscale = call->gin[SCALE] ? call->gin[SCALE]->data : NULL;
    for (int64_t block = 0; dscale && block < blocks; block++)
        for (int64_t h = 0; h < heads; h++)
            dscale[h] += -0.5f * ((const float *)call->scratch)[block * heads + h];
}

/* Entries of n: rows, heads, norms, inside */
static const struct weft_case cases[] = {
    {"one", {1, 1, 1}, {0}},           {"one row", {1, 12, 12}, {0}},   {"odd", {7, 5, 5}, {0}},
    {"groups", {9, 6, 2}, {0}},        {"one norm", {5, 7, 1}, {0}},    {"lanes+1", {3, 17, 17}, {0}},
    {"tile-1", {ROWS - 1, 4, 2}, {0}}, {"tile", {ROWS, 4, 2}, {0}},     {"tile+1", {ROWS + 1, 4, 2}, {0}},
    {"tiles", {300, 12, 4}, {0}},      {"inside", {100, 6, 3, 1}, {0}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *n = weft_case_input(g, "n", WEFT_F32, c->n[0], c->n[2]);
    struct weft_value *scale = weft_graph_param(g, "scale", WEFT_SHAPE(weft_fixed(c->n[1])));
    struct weft_value *y = weft_head_bias(g, c->n[3] ? weft_scale(g, n, 2) : n, scale);
    weft_graph_output(g, c->n[3] ? weft_scale(g, y, 2) : y);
}

const struct weft_op WEFT_OP(head_bias) = {
    .name = "head_bias",
    .summary = "y = -scale n / 2; heads of a group share an n",
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.plan = bwd_plan, .run = bwd, .ref = bwd_ref},
    .bwd_reads_in = 1 << N | 1 << SCALE,
    .differentiable = 1 << N | 1 << SCALE,
    .accumulates = 1 << SCALE,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_head_bias(struct weft_graph *g, struct weft_value *n, struct weft_value *scale)
{
    struct weft_value *in[] = {n, scale};
    return weft_emit(g, WEFT_SELF(head_bias), NULL, 2, in);
}
