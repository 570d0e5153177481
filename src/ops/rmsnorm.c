/* SPDX-License-Identifier: MIT
 *
 * rmsnorm - over the C columns of each row of x [M, C], or over the columns of each head:
 *
 *     y = gain xhat      xhat = x rstd      rstd = 1 / sqrt(mean(x^2) + eps)
 *
 * y is f32 or the compute dtype (`out`); rstd, f32 [M] or [M, heads], is output 1, saved for backward.
 *
 * Backward, with t = gain dy:  dx = rstd (t - xhat mean(t xhat)),  dgain += sum dy xhat. See norm_inl.h for tiles and
 * sums.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { X, GAIN };
enum { Y, RSTD };

enum { WEIGHTS = 1 };
#include "ops/norm_inl.h"

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_norm_attr *attr = node->attr;
    const struct weft_value *x = node->in[X];
    TRY(check_inputs(node));
    TRY(weft_node_output(node, Y, attr->out, x->shape));
    return weft_node_output(node, RSTD, WEFT_F32, shape_of_parts(node));
}

static void ref(const struct weft_call *call)
{
    const struct weft_norm_attr *attr = call->attr;
    const double *gain = call->in[GAIN]->data;
    double *rstds = call->out[RSTD]->data;
    int64_t rows = parts_of(call), width = width_of(call);
    for (int64_t r = 0; r < rows; r++) {
        const double *x = (const double *)call->in[X]->data + r * width;
        double *y = (double *)call->out[Y]->data + r * width, mean = 0;
        for (int64_t i = 0; i < width; i++)
            mean += x[i] * x[i] / (double)width;
        rstds[r] = 1 / sqrt(mean + attr->eps);
        for (int64_t i = 0; i < width; i++)
            y[i] = gain[i] * x[i] * rstds[r];
    }
}

static void bwd_ref(const struct weft_call *call)
{
    const double *gain = call->in[GAIN]->data, *rstds = call->out[RSTD]->data;
    double *dgain = call->gin[GAIN] ? call->gin[GAIN]->data : NULL;
    int64_t rows = parts_of(call), width = width_of(call);
    for (int64_t r = 0; r < rows; r++) {
        const double *x = (const double *)call->in[X]->data + r * width;
        const double *dy = (const double *)call->gout[Y]->data + r * width;
        double dot = 0;
        for (int64_t i = 0; i < width; i++) {
            dot += gain[i] * dy[i] * x[i] * rstds[r];
            if (dgain)
                dgain[i] += dy[i] * x[i] * rstds[r];
        }
        double *dx = call->gin[X] ? (double *)call->gin[X]->data + r * width : NULL;
        for (int64_t i = 0; dx && i < width; i++)
            dx[i] = rstds[r] * (gain[i] * dy[i] - x[i] * rstds[r] * dot / (double)width);
    }
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct weft_norm_attr *attr = node->attr;
    struct weft_atom *x = parts_form(f, node), *square = weft_mean_of(f, weft_mul_of(f, x, x), -1);
    struct weft_atom *root = weft_sqrt_of(f, weft_plus_of(f, square, attr->eps));
    weft_form_out(f, Y, weft_mul_of(f, weft_div_of(f, x, root), weft_form_in(f, GAIN)));
    weft_form_out(f, RSTD, weft_div_of(f, weft_real_of(f, 1), root));
}

static void run_row(const struct weft_call *call, int64_t r)
{
    const struct weft_norm_attr *attr = call->attr;
    const struct weft_tensor *x = call->in[X], *y = call->out[Y];
    const float *gain = call->in[GAIN]->data;
    int64_t width = width_of(call), at = r * width, end = at + width;
    vf squares = vset(0);
    for (int64_t i = 0; i < width; i += VLANES) {
        vf v = vload(x->data, x->dtype, at + i, end);
        squares = vfma(v, v, squares);
    }
    float rstd = 1 / sqrtf(vsum(squares) / (float)width + (float)attr->eps);
    for (int64_t i = 0; i < width; i += VLANES) {
        vf xhat = vload(x->data, x->dtype, at + i, end) * vset(rstd);
        vstore(y->data, y->dtype, at + i, end, xhat * vload_f32(gain + i, width - i));
    }
    ((float *)call->out[RSTD]->data)[r] = rstd;
}

static void bwd_row(const struct weft_call *call, int64_t r, float *block_gain)
{
    const struct weft_tensor *x = call->in[X], *dy = call->gout[Y], *dx = call->gin[X];
    const float *gain = call->in[GAIN]->data;
    int64_t width = width_of(call), at = r * width, end = at + width;
    vf rstd = vset(((const float *)call->out[RSTD]->data)[r]), dot = vset(0);
    for (int64_t i = 0; i < width; i += VLANES) {
        vf d = vload(dy->data, dy->dtype, at + i, end);
        vf xhat = vload(x->data, x->dtype, at + i, end) * rstd;
        dot = vfma(d * vload_f32(gain + i, width - i), xhat, dot);
        vstore_f32(block_gain + i, width - i, vfma(d, xhat, vload_f32(block_gain + i, width - i)));
    }
    vf mean_dot = vset(vsum(dot) / (float)width);
    for (int64_t i = 0; dx && i < width; i += VLANES) {
        vf t = vload(dy->data, dy->dtype, at + i, end) * vload_f32(gain + i, width - i);
        vf xhat = vload(x->data, x->dtype, at + i, end) * rstd;
        vstore(dx->data, dx->dtype, at + i, end, rstd * (t - xhat * mean_dot));
    }
}

/* Entries of n: rows, width, inside, y is f32, heads; of x: eps */
static const struct weft_case cases[] = {
    {"one row", {1, 37}, {1e-6}},
    {"odd", {7, 5}, {1e-6}},
    {"few columns", {9, 4}, {1e-6}},
    {"lanes", {3, 16}, {1e-6}},
    {"lanes+1", {3, 17}, {1e-6}},
    {"tile-1", {ROWS - 1, COLUMNS - 1}, {1e-6}},
    {"tile", {ROWS, COLUMNS}, {1e-6}},
    {"tile+1", {ROWS + 1, COLUMNS + 1}, {1e-6}},
    {"tiles", {100, 192}, {1e-6}},
    {"large eps", {5, 100}, {0.5}},
    {"inside", {40, 100, 1}, {1e-6}},
    {"f32 inside", {40, 100, 1, 1}, {1e-6}},
    {"heads", {40, 100, 1, 0, 4}, {1e-6}},
    {"one head", {5, 16, 0, 0, 1}, {1e-6}},
    {"many heads", {33, 96, 0, 0, 12}, {1e-5}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *x = weft_case_input(g, "x", WEFT_F32, c->n[0], c->n[1]);
    struct weft_value *gain = weft_graph_param(g, "gain", WEFT_SHAPE(weft_fixed(c->n[1] / weft_max(1, c->n[4]))));
    enum weft_dtype out = c->n[3] ? WEFT_F32 : weft_graph_compute(g);
    struct weft_value *y = weft_rmsnorm(g, c->n[2] ? weft_scale(g, x, 2) : x, gain, c->x[0], out);
    weft_graph_output(g, c->n[2] ? weft_scale(g, y, 2) : y);
    weft_graph_output(g, weft_sibling(y, RSTD));
}

const struct weft_op WEFT_OP(rmsnorm) = {
    .name = "rmsnorm",
    .summary = "y = gain x / sqrt(mean(x^2) + eps), over each row or head",
    .attr_bytes = sizeof(struct weft_norm_attr),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.plan = bwd_plan, .run = bwd, .ref = bwd_ref},
    .bwd_reads_in = 1 << X | 1 << GAIN,
    .bwd_reads_out = 1 << RSTD,
    .differentiable = 1 << X | 1 << GAIN,
    .accumulates = 1 << GAIN,
    .no_grad_out = 1 << RSTD,
    .inplace = 1 + X,
    .inplace_grad = 1 + Y,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_rmsnorm(struct weft_graph *g, struct weft_value *x, struct weft_value *gain, double eps,
                                enum weft_dtype out)
{
    struct weft_norm_attr attr = {eps, out};
    struct weft_value *in[] = {x, gain};
    return weft_emit(g, WEFT_SELF(rmsnorm), &attr, 2, in);
}
