/* SPDX-License-Identifier: MIT
 *
 * power_inl.h - 2^x on AVX-512, at a third of the cost of vexp: for probabilities computed from bf16 scores.
 */
#ifndef WEFT_POWER_H
#define WEFT_POWER_H

#include "base/vmath_inl.h"

#include <immintrin.h>

#define LOG2E 1.44269504088896341f

/* 2^x; 0 for -inf, NaN for NaN. A polynomial of the fractional part (own fit, relative error 3e-6, exactly 1 at 0),
 * scaled by the integer part through the exponent. */
VINLINE vf power(vf x)
{
    vf f = (vf)_mm512_reduce_ps((__m512)x, 0x09); /* x - floor(x); 0 for -inf */
    vf p = vset(1.342668943e-2f);
    p = vfma(p, f, vset(5.224246532e-2f));
    p = vfma(p, f, vset(2.412802130e-1f));
    p = vfma(p, f, vset(6.930448413e-1f));
    p = vfma(p, f, vset(1.0f));
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)x);
}

#endif
