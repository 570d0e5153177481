/* SPDX-License-Identifier: MIT
 *
 * gaussian - heads of diagonal Gaussians from means and raw spreads, with the squared norms that distances need:
 *
 *     y[m,h] = [mean[m,h] ; ln(1 + e^raw[m,h]) + offset]      norm[m,h] = |y[m,h]|^2
 *
 * mean [M, H Wm], raw [M, H Ws] of one type; y [M, H (Wm+Ws)] of that type; output 1: norm, f32 [M, H], of y as stored.
 * The op fuses softplus, join_heads and square_sum.
 *
 * Backward, with g = dy + 2 y dnorm: dmean = g's first part, draw = g's second part sigmoid(raw). Reads raw and y.
 */
#include "ops/ops.h"
#include "ops/softplus_inl.h"

enum { ROWS = 16 }; /* rows per tile */
enum { MEAN, RAW };
enum { Y, NORM };

struct attr {
    int64_t heads;
    double offset;
};

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *a = node->attr;
    const struct weft_value *mean = node->in[MEAN], *raw = node->in[RAW];
    struct weft_shape s = mean->shape, like = raw->shape;
    long long m = weft_shape_width(&s), w = weft_shape_width(&like);
    like.dim[like.ndim - 1] = s.dim[s.ndim - 1];
    if (!weft_dtype_is_float(mean->dtype) || mean->dtype != raw->dtype || !weft_shape_same(&s, &like))
        return weft_node_fail(node, "means and spreads must have the same number of rows and the same float type");
    if (a->heads < 1 || m % a->heads || w % a->heads)
        return weft_node_fail(node, "the widths %lld and %lld must be multiples of the %lld heads", m, w,
                              (long long)a->heads);
    s.dim[s.ndim - 1] = weft_fixed(m + w);
    TRY(weft_node_output(node, Y, mean->dtype, s));
    s.dim[s.ndim - 1] = weft_fixed(a->heads);
    return weft_node_output(node, NORM, WEFT_F32, s);
}

struct widths {
    int64_t heads, mean, raw, all;
};

static struct widths widths_of(const struct weft_call *call, const struct weft_tensor *raw, const struct weft_tensor *y)
{
    int64_t heads = ((const struct attr *)call->attr)->heads, w = weft_tensor_width(raw) / heads;
    int64_t all = weft_tensor_width(y) / heads;
    return (struct widths){heads, all - w, w, all};
}

static void ref(const struct weft_call *call)
{
    double offset = ((const struct attr *)call->attr)->offset;
    struct widths n = widths_of(call, call->in[RAW], call->out[Y]);
    const double *mean = call->in[MEAN]->data, *raw = call->in[RAW]->data;
    double *y = call->out[Y]->data, *norm = call->out[NORM]->data;
    for (int64_t h = 0; h < weft_tensor_rows(call->out[Y]) * n.heads; h++) {
        norm[h] = 0;
        for (int64_t i = 0; i < n.all; i++) {
            double x = i < n.mean ? mean[h * n.mean + i] : raw[h * n.raw + i - n.mean];
            y[h * n.all + i] = i < n.mean ? x : fmax(x, 0) + log1p(exp(-fabs(x))) + offset;
            norm[h] += y[h * n.all + i] * y[h * n.all + i];
        }
    }
}

static void bwd_ref(const struct weft_call *call)
{
    struct widths n = widths_of(call, call->in[RAW], call->out[Y]);
    const double *raw = call->in[RAW]->data, *y = call->out[Y]->data;
    const double *dy = call->gout[Y] ? call->gout[Y]->data : NULL;
    const double *dnorm = call->gout[NORM] ? call->gout[NORM]->data : NULL;
    for (int64_t h = 0; h < weft_tensor_rows(call->out[Y]) * n.heads; h++)
        for (int64_t i = 0; i < n.all; i++) {
            double g = (dy ? dy[h * n.all + i] : 0) + (dnorm ? 2 * y[h * n.all + i] * dnorm[h] : 0);
            if (i < n.mean && call->gin[MEAN])
                ((double *)call->gin[MEAN]->data)[h * n.mean + i] = g;
            if (i >= n.mean && call->gin[RAW])
                ((double *)call->gin[RAW]->data)[h * n.raw + i - n.mean] = g / (1 + exp(-raw[h * n.raw + i - n.mean]));
        }
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *a = node->attr;
    struct weft_atom *mean = weft_heads_of(f, weft_form_in(f, MEAN), a->heads);
    struct weft_atom *raw = weft_heads_of(f, weft_form_in(f, RAW), a->heads);
    struct weft_atom *y = weft_concat_of(f, mean, weft_plus_of(f, weft_softplus_of(f, raw), a->offset), -1);
    weft_form_out(f, Y, weft_flat_of(f, y));
    weft_form_out(f, NORM, weft_flat_of(f, weft_sum_of(f, weft_mul_of(f, y, y), -1)));
}

/* Stores a part of a head in y and returns the squares of the stored, rounded values. */
VINLINE vf put(const struct weft_tensor *y, int64_t at, int64_t end, vf x)
{
    vstore(y->data, y->dtype, at, end, x);
    x = vload(y->data, y->dtype, at, end);
    return x * x;
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const struct weft_tensor *mean = call->in[MEAN], *raw = call->in[RAW], *y = call->out[Y];
    struct widths n = widths_of(call, raw, y);
    vf offset = vset((float)((const struct attr *)call->attr)->offset);
    for (int64_t h = first * n.heads; h < rows * n.heads; h++) {
        int64_t at = h * n.all, split = at + n.mean, stop = at + n.all;
        vf sum = vset(0);
        for (int64_t i = 0; i < n.mean; i += VLANES)
            sum += put(y, at + i, split, vload(mean->data, mean->dtype, h * n.mean + i, (h + 1) * n.mean));
        for (int64_t i = 0; i < n.raw; i += VLANES) {
            vf x = vload(raw->data, raw->dtype, h * n.raw + i, (h + 1) * n.raw);
            sum += put(y, split + i, stop, vsoftplus(x) + offset);
        }
        ((float *)call->out[NORM]->data)[h] = vsum(sum);
    }
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->out[Y]), ROWS, run_tile); }

/* Returns the gradient of y starting at element i, including the gradient through the norm. */
VINLINE vf gradient(const struct weft_call *call, int64_t i, int64_t end, float twice)
{
    const struct weft_tensor *dy = call->gout[Y], *y = call->out[Y];
    vf g = dy ? vload(dy->data, dy->dtype, i, end) : vset(0);
    return twice == 0 ? g : vfma(vload(y->data, y->dtype, i, end), vset(twice), g);
}

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const struct weft_tensor *raw = call->in[RAW], *dmean = call->gin[MEAN], *draw = call->gin[RAW];
    const float *dnorm = call->gout[NORM] ? call->gout[NORM]->data : NULL;
    struct widths n = widths_of(call, raw, call->out[Y]);
    for (int64_t h = first * n.heads; h < rows * n.heads; h++) {
        int64_t at = h * n.all, split = at + n.mean, stop = at + n.all;
        float twice = dnorm ? 2 * dnorm[h] : 0;
        for (int64_t i = 0; dmean && i < n.mean; i += VLANES)
            vstore(dmean->data, dmean->dtype, h * n.mean + i, (h + 1) * n.mean, gradient(call, at + i, split, twice));
        for (int64_t i = 0; draw && i < n.raw; i += VLANES) {
            vf x = vload(raw->data, raw->dtype, h * n.raw + i, (h + 1) * n.raw);
            vf g = gradient(call, split + i, stop, twice) * vsigmoid(x);
            vstore(draw->data, draw->dtype, h * n.raw + i, (h + 1) * n.raw, g);
        }
    }
}

static void bwd(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->out[Y]), ROWS, bwd_tile); }

/* Entries of n: rows, heads, widths of mean and spread, outputs used (0: both, 1: y, 2: norm) */
static const struct weft_case cases[] = {
    {.name = "one", .n = {1, 1, 1, 1}},          {.name = "odd", .n = {7, 3, 5, 9}},
    {.name = "lanes", .n = {3, 2, 16, 16}},      {.name = "lanes+1", .n = {3, 2, 17, 15}},
    {.name = "tile", .n = {16, 4, 32, 32}},      {.name = "tile+1", .n = {17, 2, 8, 24}},
    {.name = "only y", .n = {21, 3, 12, 20, 1}}, {.name = "only norms", .n = {9, 2, 33, 16, 2}},
    {.name = "square", .n = {5, 4, 4, 4}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *mean = weft_case_input(g, "mean", weft_graph_compute(g), c->n[0], c->n[1] * c->n[2]);
    struct weft_value *raw = weft_case_input(g, "raw", weft_graph_compute(g), c->n[0], c->n[1] * c->n[3]);
    struct weft_value *y = weft_gaussian(g, mean, raw, c->n[1], 1e-4);
    if (c->n[4] != 2)
        weft_graph_output(g, y);
    if (c->n[4] != 1)
        weft_graph_output(g, y ? weft_sibling(y, NORM) : NULL);
}

const struct weft_op WEFT_OP(gaussian) = {
    .name = "gaussian",
    .summary = "y = [mean; softplus(raw) + offset] per head, and |y|^2",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.run = bwd, .ref = bwd_ref},
    .differentiable = 1 << MEAN | 1 << RAW,
    .bwd_reads_in = 1 << RAW,
    .bwd_reads_out = 1 << Y,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_gaussian(struct weft_graph *g, struct weft_value *mean, struct weft_value *raw, int64_t heads,
                                 double offset)
{
    struct weft_value *in[] = {mean, raw};
    return weft_emit(g, WEFT_SELF(gaussian), &(struct attr){heads, offset}, 2, in);
}
