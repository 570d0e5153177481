/* SPDX-License-Identifier: MIT
 *
 * sigmoid - y = 1 / (1 + e^-x), elementwise. Backward reads x: dx = dy y (1 - y).
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

static double exact(double x) { return 1 / (1 + exp(-x)); }

static double exact_slope(double x) { return exact(x) * exact(-x); }

VINLINE vf value(vf x) { return vsigmoid(x); }

/* Returns y (1 - y), with 1 - y computed as sigmoid(-x), which is accurate when 1 - y is small. */
VINLINE vf slope(vf x)
{
    vf u = vexp(-vabs(x)), s = vset(1) / (vset(1) + u);
    return s * (u * s);
}

static struct weft_atom *form(struct weft_form *f, struct weft_atom *x) { return weft_sigmoid_of(f, x); }

#define NAME sigmoid
#define SUMMARY "y = 1 / (1 + e^-x)"
#include "ops/unary_inl.h"
