/* SPDX-License-Identifier: MIT
 *
 * whiten - divides each head of mu [M, H W] by the root of its variances sigma [M, Hs W]; head h reads s = h / (H/Hs):
 *
 *     y[m,h] = mu[m,h] / sqrt(sigma[m,s])       log_det[m,h] = sum_d ln sigma[m,s,d]
 *
 * Hs divides H; sigma > 0. y has mu's type; log_det, f32 [M, H], is output 1. May run in place on mu.
 *
 * Backward reads mu and sigma: dmu = dy / sqrt(sigma), and over the heads that read s, in order,
 * dsigma = (sum dlog_det - sum dy mu / (2 sqrt(sigma))) / sigma.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { ROWS = 16 }; /* rows per tile */
enum { MU, SIGMA };
enum { Y, LOG_DET };

struct attr {
    int64_t heads, sigma_heads;
};

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *attr = node->attr;
    const struct weft_value *mu = node->in[MU], *sigma = node->in[SIGMA];
    struct weft_dim rows = weft_shape_rows(&mu->shape);
    long long width = weft_shape_width(&mu->shape), own = weft_shape_width(&sigma->shape);
    if (!weft_dtype_is_float(mu->dtype) || !weft_dtype_is_float(sigma->dtype))
        return weft_node_fail(node, "mu and sigma must have float types");
    if (attr->heads < 1 || attr->sigma_heads < 1 || attr->heads % attr->sigma_heads || width % attr->heads ||
        width / attr->heads * attr->sigma_heads != own)
        return weft_node_fail(node,
                              "mu with %lld columns in %lld heads does not match sigma with %lld columns in %lld heads",
                              width, (long long)attr->heads, own, (long long)attr->sigma_heads);
    if (!weft_dim_same(rows, weft_shape_rows(&sigma->shape)))
        return weft_node_fail(node, "mu and sigma must have the same number of rows");
    TRY(weft_node_output(node, Y, mu->dtype, mu->shape));
    return weft_node_output(node, LOG_DET, WEFT_F32, WEFT_SHAPE(rows, weft_fixed(attr->heads)));
}

struct layout {
    int64_t readers, width; /* heads of mu that read each head of sigma; width of a head */
    int64_t sigmas;         /* heads of sigma in the first `rows` rows */
};

static struct layout layout_of(const struct weft_call *call, int64_t rows)
{
    const struct attr *attr = call->attr;
    int64_t width = weft_tensor_width(call->in[MU]) / attr->heads;
    return (struct layout){attr->heads / attr->sigma_heads, width, rows * attr->sigma_heads};
}

static void ref(const struct weft_call *call)
{
    const double *mu = call->in[MU]->data, *sigma = call->in[SIGMA]->data;
    double *y = call->out[Y]->data, *log_det = call->out[LOG_DET]->data;
    struct layout l = layout_of(call, weft_tensor_rows(call->in[MU]));
    for (int64_t h = 0; h < l.sigmas * l.readers; h++) { /* over the heads of all rows */
        log_det[h] = 0;
        for (int64_t i = 0; i < l.width; i++) {
            double s = sigma[h / l.readers * l.width + i];
            y[h * l.width + i] = mu[h * l.width + i] / sqrt(s);
            log_det[h] += log(s);
        }
    }
}

static void bwd_ref(const struct weft_call *call)
{
    const double *mu = call->in[MU]->data, *sigma = call->in[SIGMA]->data;
    const double *dy = call->gout[Y] ? call->gout[Y]->data : NULL;
    const double *dlog = call->gout[LOG_DET] ? call->gout[LOG_DET]->data : NULL;
    double *dmu = call->gin[MU] ? call->gin[MU]->data : NULL;
    double *dsigma = call->gin[SIGMA] ? call->gin[SIGMA]->data : NULL;
    struct layout l = layout_of(call, weft_tensor_rows(call->in[MU]));
    for (int64_t i = 0; dsigma && i < weft_tensor_count(call->in[SIGMA]); i++)
        dsigma[i] = 0;
    for (int64_t h = 0; h < l.sigmas * l.readers; h++)
        for (int64_t i = 0; i < l.width; i++) {
            int64_t at = h * l.width + i, own = h / l.readers * l.width + i;
            double d = dy ? dy[at] : 0, s = sigma[own];
            if (dsigma)
                dsigma[own] += (dlog ? dlog[h] : 0) / s - d * mu[at] / (2 * s * sqrt(s));
            if (dmu)
                dmu[at] = d / sqrt(s);
        }
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *attr = node->attr;
    struct weft_atom *mu = weft_heads_of(f, weft_form_in(f, MU), attr->heads);
    struct weft_atom *sigma = weft_heads_of(f, weft_form_in(f, SIGMA), attr->sigma_heads);
    sigma = weft_repeat_of(f, weft_unit_of(f, sigma, -2), -2, attr->heads / attr->sigma_heads);
    sigma = weft_merge_of(f, sigma, -3); /* [.., H, W] */
    weft_form_out(f, Y, weft_flat_of(f, weft_div_of(f, mu, weft_sqrt_of(f, sigma))));
    weft_form_out(f, LOG_DET, weft_flat_of(f, weft_sum_of(f, weft_log_of(f, sigma), -1)));
}

/* Loads sigma. Lanes past the end are 1, so that their logarithm is 0. */
VINLINE vf load_sigma(const struct weft_tensor *sigma, int64_t i, int64_t end)
{
    static const vi lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vf s = vload(sigma->data, sigma->dtype, i, end);
    return end - i >= VLANES ? s : vpick(lane < vseti((int32_t)(end - i)), s, vset(1));
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const struct attr *attr = call->attr;
    const struct weft_tensor *mu = call->in[MU], *sigma = call->in[SIGMA], *y = call->out[Y];
    struct layout l = layout_of(call, rows);
    for (int64_t s = first * attr->sigma_heads; s < l.sigmas; s++) {
        float *log_det = (float *)call->out[LOG_DET]->data + s * l.readers;
        vf logs = vset(0);
        for (int64_t i = 0; i < l.width; i += VLANES) {
            vf v = load_sigma(sigma, s * l.width + i, (s + 1) * l.width), root = vsqrt(v);
            logs += vlog(v);
            for (int64_t reader = 0, at = s * l.readers * l.width; reader < l.readers; reader++, at += l.width)
                vstore(y->data, y->dtype, at + i, at + l.width,
                       vload(mu->data, mu->dtype, at + i, at + l.width) / root);
        }
        float sum = vsum(logs);
        for (int64_t reader = 0; reader < l.readers; reader++)
            log_det[reader] = sum;
    }
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->in[MU]), ROWS, run_tile); }

/* Computes the gradients of elements i to i+15 of a head of sigma and of the heads of mu that read it. */
static void bwd_part(const struct weft_call *call, const struct layout *l, int64_t s, int64_t i, vf dlog)
{
    const struct weft_tensor *mu = call->in[MU], *dy = call->gout[Y], *dmu = call->gin[MU], *dsigma = call->gin[SIGMA];
    int64_t own = s * l->width, own_end = own + l->width;
    vf v = load_sigma(call->in[SIGMA], own + i, own_end), root = vsqrt(v), dot = vset(0);
    for (int64_t reader = 0; reader < l->readers; reader++) {
        int64_t at = (s * l->readers + reader) * l->width, end = at + l->width;
        vf d = dy ? vload(dy->data, dy->dtype, at + i, end) : vset(0);
        dot = vfma(d, vload(mu->data, mu->dtype, at + i, end), dot);
        if (dmu)
            vstore(dmu->data, dmu->dtype, at + i, end, d / root);
    }
    if (dsigma)
        vstore(dsigma->data, dsigma->dtype, own + i, own_end, (dlog - vset(0.5f) * dot / root) / v);
}

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const struct attr *attr = call->attr;
    const float *dlog = call->gout[LOG_DET] ? call->gout[LOG_DET]->data : NULL;
    struct layout l = layout_of(call, rows);
    for (int64_t s = first * attr->sigma_heads; s < l.sigmas; s++) {
        float sum = 0;
        for (int64_t reader = 0; dlog && reader < l.readers; reader++)
            sum += dlog[s * l.readers + reader];
        for (int64_t i = 0; i < l.width; i += VLANES)
            bwd_part(call, &l, s, i, vset(sum));
    }
}

static void bwd(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->in[MU]), ROWS, bwd_tile); }

/* Entries of n: rows, heads, heads of sigma, width, unused output (1 + its number, 0: none), inside */
static const struct weft_case cases[] = {
    {"one", {1, 1, 1, 1}, {0}},
    {"one row", {1, 3, 3, 37}, {0}},
    {"odd", {7, 3, 3, 5}, {0}},
    {"square", {5, 4, 4, 4}, {0}},
    {"square groups", {5, 4, 2, 2}, {0}},
    {"lanes", {5, 2, 2, 16}, {0}},
    {"lanes+1", {5, 2, 2, 17}, {0}},
    {"shared", {9, 4, 1, 20}, {0}},
    {"groups", {9, 6, 2, 11}, {0}},
    {"tile-1", {ROWS - 1, 2, 2, 8}, {0}},
    {"tile", {ROWS, 2, 2, 8}, {0}},
    {"tile+1", {ROWS + 1, 2, 1, 8}, {0}},
    {"tiles", {100, 3, 3, 32}, {0}},
    {"y alone", {6, 3, 1, 18, 1 + LOG_DET}, {0}},
    {"log_det alone", {6, 3, 1, 18, 1 + Y}, {0}},
    {"inside", {20, 3, 3, 24, 0, 1}, {0}},
    {"shared, inside", {20, 3, 1, 24, 0, 1}, {0}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *mu = weft_case_input(g, "mu", weft_graph_compute(g), c->n[0], c->n[1] * c->n[3]);
    struct weft_value *sigma = weft_case_input(g, "sigma", weft_graph_compute(g), c->n[0], c->n[2] * c->n[3]);
    bool inside = c->n[5];
    struct weft_value *y =
        weft_whiten(g, inside ? weft_scale(g, mu, 2) : mu, inside ? weft_scale(g, sigma, 2) : sigma, c->n[1], c->n[2]);
    if (c->n[4] != 1 + Y)
        weft_graph_output(g, inside ? weft_scale(g, y, 2) : y);
    if (c->n[4] != 1 + LOG_DET)
        weft_graph_output(g, weft_sibling(y, LOG_DET));
}

/* Fills in positive variances, from 1/16 to 2 and exact in bf16. */
static bool fill(const struct weft_case *c, const char *input, struct weft_tensor *t)
{
    (void)c;
    if (strcmp(input, "sigma") != 0)
        return false;
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        weft_tensor_set(t, i, (double)(1 + weft_below(0, (uint64_t)i, 32)) / 16);
    return true;
}

const struct weft_op WEFT_OP(whiten) = {
    .name = "whiten",
    .summary = "y = mu / sqrt(sigma), and sum of ln sigma over each head",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.run = bwd, .ref = bwd_ref},
    .bwd_reads_in = 1 << MU | 1 << SIGMA,
    .differentiable = 1 << MU | 1 << SIGMA,
    .inplace = 1 + MU,
    .inplace_grad = 1 + Y,
    .lower = lower,
    WEFT_CASES(cases, build),
    .fill = fill,
};

struct weft_value *weft_whiten(struct weft_graph *g, struct weft_value *mu, struct weft_value *sigma, int64_t heads,
                               int64_t sigma_heads)
{
    struct attr attr = {heads, sigma_heads};
    return weft_emit(g, WEFT_SELF(whiten), &attr, 2, (struct weft_value *[]){mu, sigma});
}
