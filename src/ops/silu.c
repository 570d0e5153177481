/* SPDX-License-Identifier: MIT
 *
 * silu - y = x s, s = sigmoid(x), elementwise. Backward reads x and recomputes s: dx = dy s (1 + x (1-s)).
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

static double exact(double x) { return x / (1 + exp(-x)); }

static double exact_slope(double x)
{
    double s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
}

VINLINE vf value(vf x) { return x * vsigmoid(x); }

VINLINE vf slope(vf x)
{
    vf s = vsigmoid(x);
    return s * vfma(x, vset(1) - s, vset(1));
}

static struct weft_atom *form(struct weft_form *f, struct weft_atom *x)
{
    return weft_mul_of(f, x, weft_sigmoid_of(f, x));
}

#define NAME silu
#define SUMMARY "y = x / (1 + e^-x)"
#include "ops/unary_inl.h"
