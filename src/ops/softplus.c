/* SPDX-License-Identifier: MIT
 *
 * softplus - y = ln(1 + e^x) + offset, elementwise. Backward reads x: dx = dy sigmoid(x).
 *
 * Computed as max(x, 0) + ln(1 + u), u = e^-|x| in (0, 1], which neither overflows nor loses the small values of a very
 * negative x. ln(1 + u) = 2 atanh(s), s = u / (2 + u) at most 1/3: the series of atanh is short there, and accurate
 * relative to a small u, where the logarithm of a rounded 1 + u is not.
 */
#include "base/vmath.h"
#include "ops/ops.h"

struct attr {
    double offset;
};

static double added(const struct weft_call *call) { return ((const struct attr *)call->attr)->offset; }

static double exact(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }

static double exact_slope(double x) { return 1 / (1 + exp(-x)); }

/* The first term left out, s^16 / 17, is below 2e-9. */
VINLINE vf value(vf x)
{
    vf u = vexp(-vabs(x)), s = u / (u + vset(2)), square = s * s, twice = s + s;
    vf p = vset(1.0f / 15);
    p = vfma(p, square, vset(1.0f / 13));
    p = vfma(p, square, vset(1.0f / 11));
    p = vfma(p, square, vset(1.0f / 9));
    p = vfma(p, square, vset(1.0f / 7));
    p = vfma(p, square, vset(1.0f / 5));
    p = vfma(p, square, vset(1.0f / 3));
    return vmax(x, vset(0)) + vfma(twice * square, p, twice);
}

VINLINE vf slope(vf x) { return vsigmoid(x); }

#define EXACT(call, x) (exact(x) + added(call))
#define VALUE(call, x) (value(x) + vset((float)added(call)))
/* Only cases with an op behind have an offset: it would hide the small values of the others. */
#define BUILDER(g, x) weft_softplus(g, x, c->n[2] ? 0.25 : 0)
#include "ops/unary.h"

const struct weft_op WEFT_OP(softplus) = {
    .name = "softplus",
    .summary = "y = ln(1 + e^x) + offset",
    .attr_bytes = sizeof(struct attr),
    UNARY_FIELDS,
};

struct weft_value *weft_softplus(struct weft_graph *g, struct weft_value *x, double offset)
{
    struct weft_node *node = weft_graph_emit(g, weft_op(WEFT_OP_softplus), &(struct attr){offset}, 1, &x);
    return node ? node->out[0] : NULL;
}
