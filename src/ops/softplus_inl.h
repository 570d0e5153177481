/* SPDX-License-Identifier: MIT
 *
 * softplus_inl.h - vectorised ln(1 + e^x), for softplus and for ops that fuse it.
 *
 * Computed as max(x, 0) + ln(1 + u), u = e^-|x| in (0, 1], which neither overflows nor loses precision for very
 * negative x. ln(1 + u) = 2 atanh(s), s = u / (2 + u) at most 1/3: the series of atanh converges fast for such s and is
 * accurate for small u, unlike the logarithm of a rounded 1 + u.
 */
#ifndef WEFT_SOFTPLUS_H
#define WEFT_SOFTPLUS_H

#include "base/vmath_inl.h"

/* The first omitted term, s^16 / 17, is below 2e-9. */
VINLINE vf vsoftplus(vf x)
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

#endif
