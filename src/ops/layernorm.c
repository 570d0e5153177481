/* SPDX-License-Identifier: MIT
 *
 * layernorm - over the C columns of each row of x [M, C]:
 *
 *     y = gain xhat + b      xhat = (x - mean) rstd      rstd = 1 / sqrt(variance + eps), variance over C, not C-1
 *
 * y is f32 or the compute dtype (`out`); mean and rstd, f32 [M], are outputs 1 and 2, saved for backward. The variance
 * is summed in a second pass over the row, which is in cache by then; this avoids cancellation.
 *
 * Backward, with t = gain dy:  dx = rstd (t - mean(t) - xhat mean(t xhat)),  dgain += sum dy xhat,  db += sum dy.
 * See norm_inl.h for tiles and sums.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { X, GAIN, B };
enum { Y, MEAN, RSTD };

enum { WEIGHTS = 2 };
#include "ops/norm_inl.h"

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_norm_attr *attr = node->attr;
    const struct weft_value *x = node->in[X];
    struct weft_shape rows = shape_of_parts(node);
    TRY(check_inputs(node));
    TRY(weft_node_output(node, Y, attr->out, x->shape));
    TRY(weft_node_output(node, MEAN, WEFT_F32, rows));
    return weft_node_output(node, RSTD, WEFT_F32, rows);
}

static void ref(const struct weft_call *call)
{
    const struct weft_norm_attr *attr = call->attr;
    const double *gain = call->in[GAIN]->data, *b = call->in[B]->data;
    double *means = call->out[MEAN]->data, *rstds = call->out[RSTD]->data;
    int64_t rows = parts_of(call), width = width_of(call);
    for (int64_t r = 0; r < rows; r++) {
        const double *x = (const double *)call->in[X]->data + r * width;
        double *y = (double *)call->out[Y]->data + r * width, mean = 0, variance = 0;
        for (int64_t i = 0; i < width; i++)
            mean += x[i] / (double)width;
        for (int64_t i = 0; i < width; i++)
            variance += (x[i] - mean) * (x[i] - mean) / (double)width;
        means[r] = mean;
        rstds[r] = 1 / sqrt(variance + attr->eps);
        for (int64_t i = 0; i < width; i++)
            y[i] = gain[i] * (x[i] - mean) * rstds[r] + b[i];
    }
}

static void bwd_ref(const struct weft_call *call)
{
    const double *gain = call->in[GAIN]->data, *means = call->out[MEAN]->data, *rstds = call->out[RSTD]->data;
    double *dgain = call->gin[GAIN] ? call->gin[GAIN]->data : NULL, *db = call->gin[B] ? call->gin[B]->data : NULL;
    int64_t rows = parts_of(call), width = width_of(call);
    for (int64_t r = 0; r < rows; r++) {
        const double *x = (const double *)call->in[X]->data + r * width;
        const double *dy = (const double *)call->gout[Y]->data + r * width;
        double sum = 0, dot = 0;
        for (int64_t i = 0; i < width; i++) {
            double xhat = (x[i] - means[r]) * rstds[r];
            sum += gain[i] * dy[i];
            dot += gain[i] * dy[i] * xhat;
            if (dgain)
                dgain[i] += dy[i] * xhat;
            if (db)
                db[i] += dy[i];
        }
        double *dx = call->gin[X] ? (double *)call->gin[X]->data + r * width : NULL;
        for (int64_t i = 0; dx && i < width; i++) {
            double xhat = (x[i] - means[r]) * rstds[r];
            dx[i] = rstds[r] * (gain[i] * dy[i] - sum / (double)width - xhat * dot / (double)width);
        }
    }
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct weft_norm_attr *attr = node->attr;
    struct weft_atom *x = parts_form(f, node), *mean = weft_mean_of(f, x, -1), *centred_x = weft_sub_of(f, x, mean);
    struct weft_atom *variance = weft_mean_of(f, weft_mul_of(f, centred_x, centred_x), -1);
    struct weft_atom *root = weft_sqrt_of(f, weft_plus_of(f, variance, attr->eps));
    struct weft_atom *y = weft_mul_of(f, weft_div_of(f, centred_x, root), weft_form_in(f, GAIN));
    weft_form_out(f, Y, weft_add_of(f, y, weft_form_in(f, B)));
    weft_form_out(f, MEAN, mean);
    weft_form_out(f, RSTD, weft_div_of(f, weft_real_of(f, 1), root));
}

/* Returns x - mean, and 0 in the lanes past the end of the row, where x reads as 0. */
VINLINE vf centred(const struct weft_tensor *x, int64_t at, int64_t end, float mean)
{
    static const vi lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vi inside = lane < vseti((int32_t)weft_min(end - at, VLANES));
    return (vf)(inside & (vi)(vload(x->data, x->dtype, at, end) - vset(mean)));
}

static void run_row(const struct weft_call *call, int64_t r)
{
    const struct weft_norm_attr *attr = call->attr;
    const struct weft_tensor *x = call->in[X], *y = call->out[Y];
    const float *gain = call->in[GAIN]->data, *b = call->in[B]->data;
    int64_t width = width_of(call), at = r * width, end = at + width;
    vf sum = vset(0), squares = vset(0);
    for (int64_t i = 0; i < width; i += VLANES)
        sum += vload(x->data, x->dtype, at + i, end);
    float mean = vsum(sum) / (float)width;
    for (int64_t i = 0; i < width; i += VLANES) {
        vf d = centred(x, at + i, end, mean);
        squares = vfma(d, d, squares);
    }
    float rstd = 1 / sqrtf(vsum(squares) / (float)width + (float)attr->eps);
    for (int64_t i = 0; i < width; i += VLANES) {
        vf xhat = (vload(x->data, x->dtype, at + i, end) - vset(mean)) * vset(rstd);
        vstore(y->data, y->dtype, at + i, end, vfma(xhat, vload_f32(gain + i, width - i), vload_f32(b + i, width - i)));
    }
    ((float *)call->out[MEAN]->data)[r] = mean;
    ((float *)call->out[RSTD]->data)[r] = rstd;
}

static void bwd_row(const struct weft_call *call, int64_t r, float *sums)
{
    const struct weft_tensor *x = call->in[X], *dy = call->gout[Y], *dx = call->gin[X];
    const float *gain = call->in[GAIN]->data;
    int64_t width = width_of(call), at = r * width, end = at + width;
    float *block_gain = sums, *block_b = sums + width;
    vf mean = vset(((const float *)call->out[MEAN]->data)[r]), rstd = vset(((const float *)call->out[RSTD]->data)[r]);
    vf sum = vset(0), dot = vset(0);
    for (int64_t i = 0; i < width; i += VLANES) {
        vf d = vload(dy->data, dy->dtype, at + i, end), t = d * vload_f32(gain + i, width - i);
        vf xhat = (vload(x->data, x->dtype, at + i, end) - mean) * rstd;
        sum += t;
        dot = vfma(t, xhat, dot);
        vstore_f32(block_gain + i, width - i, vfma(d, xhat, vload_f32(block_gain + i, width - i)));
        vstore_f32(block_b + i, width - i, vload_f32(block_b + i, width - i) + d);
    }
    vf mean_t = vset(vsum(sum) / (float)width), mean_dot = vset(vsum(dot) / (float)width);
    for (int64_t i = 0; dx && i < width; i += VLANES) {
        vf t = vload(dy->data, dy->dtype, at + i, end) * vload_f32(gain + i, width - i);
        vf xhat = (vload(x->data, x->dtype, at + i, end) - mean) * rstd;
        vstore(dx->data, dx->dtype, at + i, end, rstd * (t - mean_t - xhat * mean_dot));
    }
}

/* Entries of n: rows, width, inside, y is f32; of x: eps */
static const struct weft_case cases[] = {
    {"one row", {1, 37}, {1e-5}},      {"odd", {7, 5}, {1e-5}},
    {"few columns", {9, 4}, {1e-5}},   {"lanes", {3, 16}, {1e-5}},
    {"lanes+1", {3, 17}, {1e-5}},      {"tile-1", {ROWS - 1, COLUMNS - 1}, {1e-5}},
    {"tile", {ROWS, COLUMNS}, {1e-5}}, {"tile+1", {ROWS + 1, COLUMNS + 1}, {1e-5}},
    {"tiles", {100, 192}, {1e-5}},     {"large eps", {5, 100}, {0.5}},
    {"inside", {40, 100, 1}, {1e-5}},  {"f32 inside", {40, 100, 1, 1}, {1e-5}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *x = weft_case_input(g, "x", WEFT_F32, c->n[0], c->n[1]);
    struct weft_value *gain = weft_graph_param(g, "gain", WEFT_SHAPE(weft_fixed(c->n[1])));
    struct weft_value *b = weft_graph_param(g, "b", WEFT_SHAPE(weft_fixed(c->n[1])));
    enum weft_dtype out = c->n[3] ? WEFT_F32 : weft_graph_compute(g);
    struct weft_value *y = weft_layernorm(g, c->n[2] ? weft_scale(g, x, 2) : x, gain, b, c->x[0], out);
    weft_graph_output(g, c->n[2] ? weft_scale(g, y, 2) : y);
    weft_graph_output(g, weft_sibling(y, MEAN));
    weft_graph_output(g, weft_sibling(y, RSTD));
}

const struct weft_op WEFT_OP(layernorm) = {
    .name = "layernorm",
    .summary = "y = gain (x - mean) / sqrt(variance + eps) + b, over each row",
    .attr_bytes = sizeof(struct weft_norm_attr),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.plan = bwd_plan, .run = bwd, .ref = bwd_ref},
    .bwd_reads_in = 1 << X | 1 << GAIN,
    .bwd_reads_out = 1 << MEAN | 1 << RSTD,
    .differentiable = 1 << X | 1 << GAIN | 1 << B,
    .accumulates = 1 << GAIN | 1 << B,
    .no_grad_out = 1 << MEAN | 1 << RSTD,
    .inplace = 1 + X,
    .inplace_grad = 1 + Y,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_layernorm(struct weft_graph *g, struct weft_value *x, struct weft_value *gain,
                                  struct weft_value *b, double eps, enum weft_dtype out)
{
    struct weft_norm_attr attr = {eps, out};
    struct weft_value *in[] = {x, gain, b};
    return weft_emit(g, WEFT_SELF(layernorm), &attr, 3, in);
}
