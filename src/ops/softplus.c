/* SPDX-License-Identifier: MIT
 *
 * softplus - y = ln(1 + e^x) + offset, elementwise. Backward reads x: dx = dy sigmoid(x).
 */
#include "ops/ops.h"
#include "ops/softplus_inl.h"

struct attr {
    double offset;
};

static double offset_of(const void *attr) { return ((const struct attr *)attr)->offset; }

static double exact(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }

static double exact_slope(double x) { return 1 / (1 + exp(-x)); }

VINLINE vf slope(vf x) { return vsigmoid(x); }

#define EXACT(call, x) (exact(x) + offset_of((call)->attr))
#define VALUE(call, x) (vsoftplus(x) + vset((float)offset_of((call)->attr)))
#define FORM(f, node, x) weft_plus_of(f, weft_softplus_of(f, x), offset_of((node)->attr))
/* Only the "inside" cases have an offset, because it would hide errors of small values in the others. */
#define BUILDER(g, x) weft_softplus(g, x, c->n[2] ? 0.25 : 0)
#include "ops/unary_inl.h"

const struct weft_op WEFT_OP(softplus) = {
    .name = "softplus",
    .summary = "y = ln(1 + e^x) + offset",
    .attr_bytes = sizeof(struct attr),
    UNARY_FIELDS,
};

struct weft_value *weft_softplus(struct weft_graph *g, struct weft_value *x, double offset)
{
    return weft_emit(g, WEFT_SELF(softplus), &(struct attr){offset}, 1, &x);
}
