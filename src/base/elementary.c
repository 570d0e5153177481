/* SPDX-License-Identifier: MIT
 *
 * elementary.c - exp, log, pow and cos in double from additions, multiplications and divisions alone.
 *
 * libm is not used, because its results differ in the last bit between versions, compilers and processors, and values
 * that training derives from them (schedules, frequencies, slopes, Adam's corrections, initial weights) must have the
 * same bits on every machine. These functions compute single numbers, accurate to a few units in the last place;
 * vectors of floats have their own functions in vmath_inl.h. tests/unit/elementary.c measures the errors.
 */
#include "base/base.h"

#include <math.h>
#include <string.h>

/* ln 2 in two parts: the upper one has 32 bits, so that its product with an exponent is exact. */
static const double LN2_HIGH = 0x1.62e42feep-1, LN2_LOW = 0x1.a39ef35793c76p-33;

/* 2^k for -1022 <= k <= 1023. */
static double power_of_two(int k)
{
    uint64_t bits = (uint64_t)(k + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Uses the exponent and the series of atanh. */
double weft_log(double x)
{
    if (x != x || x < 0)
        return NAN;
    if (x == 0 || x == INFINITY)
        return x == 0 ? -INFINITY : x;
    int e = 0;
    if (x < 0x1p-1022) { /* denormal */
        x *= 0x1p54;
        e = -54;
    }
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    e += (int)(bits >> 52) - 1022;
    bits = (bits & 0xfffffffffffffULL) | 0x3fe0000000000000ULL;
    memcpy(&x, &bits, sizeof x); /* in [0.5, 1) */
    if (x < 0.70710678118654752) {
        x *= 2;
        e--;
    }
    double s = (x - 1) / (x + 1), z = s * s, p = 0;
    for (int i = 25; i >= 1; i -= 2)
        p = p * z + 1.0 / i;
    return e * LN2_HIGH + (2 * s * p + e * LN2_LOW);
}

/* Returns e^r - 1 for |r| <= 0.36, by its series. */
static double small_expm1(double r)
{
    double p = 0;
    for (int i = 15; i >= 2; i--)
        p = (p + 1) * r / i;
    return r + r * p;
}

double weft_exp(double x)
{
    if (x != x)
        return x;
    if (x > 709.79 || x < -745.2)
        return x > 0 ? INFINITY : 0;
    int k = (int)floor(x * 1.44269504088896340736 + 0.5), half = k / 2;
    double r = (x - k * LN2_HIGH) - k * LN2_LOW;
    return (1 + small_expm1(r)) * power_of_two(half) * power_of_two(k - half);
}

double weft_expm1(double x) { return x > -0.34 && x < 0.34 ? small_expm1(x) : weft_exp(x) - 1; }

double weft_exp2(double x)
{
    if (!(x > -1000 && x < 1000))
        return weft_exp(x * 0.69314718055994530942);
    int k = (int)floor(x + 0.5);
    return (1 + small_expm1((x - k) * 0.69314718055994530942)) * power_of_two(k);
}

/* Integer exponents use squaring, which is exact for powers of two and accurate for other bases. */
double weft_pow(double x, double y)
{
    double n = fabs(y), result = 1;
    if (n != floor(n) || n >= 0x1p53)
        return weft_exp(y * weft_log(x));
    for (uint64_t left = (uint64_t)n; left; left >>= 1, x *= x)
        if (left & 1)
            result *= x;
    return y < 0 ? 1 / result : result;
}

/* Folds x into [0, 1/2], then uses the series of the sine or the cosine on [0, pi/4]. */
double weft_cos_pi(double x)
{
    double sign = 1, series = 0;
    x = fabs(x);
    x -= 2 * floor(x / 2);
    if (x > 1)
        x = 2 - x;
    if (x > 0.5) {
        x = 1 - x;
        sign = -1;
    }
    bool sine = x > 0.25;
    double r = (sine ? 0.5 - x : x) * 3.14159265358979323846, z = r * r;
    for (int i = sine ? 21 : 20; i >= 2; i -= 2)
        series = (1 + series) * -z / (i * (i - 1));
    return sign * (sine ? r * (1 + series) : 1 + series);
}
