/* SPDX-License-Identifier: MIT
 *
 * gelu - the tanh form, elementwise: y = x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3).
 *
 * Since (1 + tanh u)/2 = sigmoid(2u), y is computed as x s, s = sigmoid(2u), which takes one exponential and has no
 * cancellation for very negative x. Backward reads x and recomputes s: dx = dy (s + x s (1-s) 2u').
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

#define ROOT 0.79788456080286535588 /* sqrt(2/pi) */
#define CUBE 0.044715

static double exact(double x) { return 0.5 * x * (1 + tanh(ROOT * (x + CUBE * x * x * x))); }

static double exact_slope(double x)
{
    double t = tanh(ROOT * (x + CUBE * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * ROOT * (1 + 3 * CUBE * x * x);
}

VINLINE vf gate(vf x)
{
    vf twice_u = x * vfma(x * x, vset((float)(2 * ROOT * CUBE)), vset((float)(2 * ROOT)));
    return vsigmoid(twice_u);
}

VINLINE vf value(vf x) { return x * gate(x); }

VINLINE vf slope(vf x)
{
    vf s = gate(x), twice_u_slope = vfma(x * x, vset((float)(6 * ROOT * CUBE)), vset((float)(2 * ROOT)));
    return vfma(x * twice_u_slope, s * (vset(1) - s), s);
}

static struct weft_atom *form(struct weft_form *f, struct weft_atom *x)
{
    struct weft_atom *cube = weft_mul_of(f, weft_mul_of(f, x, x), x);
    struct weft_atom *u = weft_times_of(f, weft_add_of(f, x, weft_times_of(f, cube, CUBE)), ROOT);
    return weft_mul_of(f, weft_times_of(f, x, 0.5), weft_plus_of(f, weft_tanh_of(f, u), 1));
}

#define NAME gelu
#define SUMMARY "y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))"
#include "ops/unary_inl.h"
