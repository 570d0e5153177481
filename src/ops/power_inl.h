/* SPDX-License-Identifier: MIT
 *
 * power_inl.h - computes 2^x, with AVX-512 at a third of the cost of vexp; used for probabilities computed from bf16
 * scores.
 */
#ifndef WEFT_POWER_H
#define WEFT_POWER_H

#include "base/vmath_inl.h"

#define LOG2E 1.44269504088896341f

/* fraction returns x - floor(x), rounded down; times_power returns 2^floor(x) times y. AVX-512 has instructions for
 * both; without them, values that are out of range are clamped to values whose power is 0 or infinite. */
#if defined(VMASKS)
VINLINE vf fraction(vf x) { return (vf)_mm512_reduce_ps((__m512)x, 0x09); } /* 0 for infinities */
VINLINE vf times_power(vf y, vf x) { return (vf)_mm512_scalef_ps((__m512)y, (__m512)x); }
#else
VINLINE vf bring_in(vf x) { return vmin(vmax(x, vset(-300)), vset(300)); } /* -300 for NaN */

VINLINE vi whole(vf x)
{
    vi k = __builtin_convertvector(x, vi);
    return k + (__builtin_convertvector(k, vf) > x); /* a true lane is -1 */
}

VINLINE vf fraction(vf x)
{
    x = bring_in(x);
    vf k = __builtin_convertvector(whole(x), vf), f = x - k;
    return (vf)((vi)f + (f + k > x)); /* the next smaller float if f was rounded up */
}

/* Scales in two steps, the first of which is exact. */
VINLINE vf times_power(vf y, vf x)
{
    vi k = whole(bring_in(x));
    k = (vi)vpick(k < vseti(-252), (vf)vseti(-252), (vf)k);
    k = (vi)vpick(k > vseti(254), (vf)vseti(254), (vf)k);
    vi half = k >> 1;
    y = y * (vf)((half + 127) << 23) * (vf)((k - half + 127) << 23);
    return vpick(x != x, x, y);
}
#endif

/* Returns 2^x; 0 for -inf, NaN for NaN. Computes a polynomial of the fractional part (our own fit, relative error 3e-6,
 * exactly 1 at 0), which the integer part scales through the exponent. */
VINLINE vf power(vf x)
{
    vf f = fraction(x);
    vf p = vset(1.342668943e-2f);
    p = vfma(p, f, vset(5.224246532e-2f));
    p = vfma(p, f, vset(2.412802130e-1f));
    p = vfma(p, f, vset(6.930448413e-1f));
    p = vfma(p, f, vset(1.0f));
    return times_power(p, x);
}

#endif
