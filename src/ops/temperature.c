/* SPDX-License-Identifier: MIT
 *
 * temperature - y[h] = factor / (tau + eps), tau = e^theta[h]: the scale of the scores of each head, f32 [H].
 *
 * Backward reads theta: dtheta += -dy y tau / (tau + eps). There are few elements, so it runs on one thread.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

struct attr {
    double factor, eps;
};

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *attr = node->attr;
    const struct weft_value *theta = node->in[0];
    if (theta->dtype != WEFT_F32)
        return weft_node_fail(node, "theta is %s, but must be f32", weft_dtype_name(theta->dtype));
    if (!(attr->eps >= 0))
        return weft_node_fail(node, "eps = %g; it must not be negative", attr->eps);
    return weft_node_output(node, 0, WEFT_F32, theta->shape);
}

static void ref(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    const double *theta = call->in[0]->data;
    double *y = call->out[0]->data;
    for (int64_t h = 0; h < weft_tensor_count(call->in[0]); h++)
        y[h] = attr->factor / (exp(theta[h]) + attr->eps);
}

static void bwd_ref(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    const double *theta = call->in[0]->data, *dy = call->gout[0]->data;
    double *dtheta = call->gin[0]->data;
    for (int64_t h = 0; h < weft_tensor_count(call->in[0]); h++) {
        double tau = exp(theta[h]);
        dtheta[h] -= dy[h] * attr->factor * tau / ((tau + attr->eps) * (tau + attr->eps));
    }
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *attr = node->attr;
    struct weft_atom *tau = weft_exp_of(f, weft_form_in(f, 0));
    weft_form_out(f, 0, weft_div_of(f, weft_real_of(f, attr->factor), weft_plus_of(f, tau, attr->eps)));
}

static void run(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    const float *theta = call->in[0]->data;
    float *y = call->out[0]->data;
    int64_t n = weft_tensor_count(call->in[0]);
    for (int64_t h = 0; h < n; h += VLANES) {
        vf tau = vexp(vload_f32(theta + h, n - h));
        vstore_f32(y + h, n - h, vset((float)attr->factor) / (tau + vset((float)attr->eps)));
    }
}

static void bwd(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    const float *theta = call->in[0]->data, *dy = call->gout[0]->data;
    float *dtheta = call->gin[0]->data;
    int64_t n = weft_tensor_count(call->in[0]);
    for (int64_t h = 0; h < n; h += VLANES) {
        vf tau = vexp(vload_f32(theta + h, n - h)), sum = tau + vset((float)attr->eps);
        vf slope = vset((float)attr->factor) / sum * (tau / sum);
        vstore_f32(dtheta + h, n - h, vload_f32(dtheta + h, n - h) - vload_f32(dy + h, n - h) * slope);
    }
}

/* Entries of n: heads, inside; of x: factor, eps */
static const struct weft_case cases[] = {
    {"one", {1}, {2, 1e-6}},      {"few", {5}, {2, 1e-6}},        {"heads", {12}, {1, 0}},
    {"lanes-1", {15}, {2, 1e-6}}, {"lanes", {16}, {2, 1e-6}},     {"lanes+1", {17}, {2, 1e-6}},
    {"many", {100}, {0.5, 1e-6}}, {"large eps", {33}, {-3, 0.5}}, {"inside", {12, 1}, {2, 1e-6}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *theta = weft_graph_param(g, "theta", WEFT_SHAPE(weft_fixed(c->n[0])));
    struct weft_value *y = weft_temperature(g, theta, c->x[0], c->x[1]);
    weft_graph_output(g, c->n[1] ? weft_scale(g, y, 2) : y);
}

const struct weft_op WEFT_OP(temperature) = {
    .name = "temperature",
    .summary = "y = factor / (e^theta + eps)",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.run = bwd, .ref = bwd_ref},
    .bwd_reads_in = 1,
    .differentiable = 1,
    .accumulates = 1,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_temperature(struct weft_graph *g, struct weft_value *theta, double factor, double eps)
{
    struct attr attr = {factor, eps};
    return weft_emit(g, WEFT_SELF(temperature), &attr, 1, &theta);
}
