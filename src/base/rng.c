/* SPDX-License-Identifier: MIT
 *
 * rng.c - computes counter-based random numbers: Philox 4x32-10 from Random123. Uniform and normal numbers are derived
 * from it without libm, so that initial weights have the same bits on every machine.
 */
#include "base/base.h"

#include <Random123/philox.h>
#include <math.h>
#include <string.h>

struct weft_rand4 weft_rand(uint64_t key, uint64_t high, uint64_t low)
{
    philox4x32_ctr_t c = {{(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)}};
    philox4x32_key_t k = {{(uint32_t)key, (uint32_t)(key >> 32)}};
    philox4x32_ctr_t r = philox4x32(c, k);
    return (struct weft_rand4){{r.v[0], r.v[1], r.v[2], r.v[3]}};
}

uint64_t weft_key(uint64_t key, uint64_t word)
{
    struct weft_rand4 r = weft_rand(key, 0x77656674, word);
    return (uint64_t)r.u[1] << 32 | r.u[0];
}

uint64_t weft_key_name(uint64_t key, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        for (size_t j = i; j < n && j < i + 8; j++)
            word |= (uint64_t)(unsigned char)name[j] << (8 * (j - i));
        key = weft_key(key, word);
    }
    return weft_key(key, n);
}

double weft_uniform(uint64_t key, uint64_t element)
{
    struct weft_rand4 r = weft_rand(key, 0, element);
    uint64_t u = (uint64_t)r.u[1] << 32 | r.u[0];
    return ((double)(u >> 12) + 0.5) * 0x1p-52;
}

uint64_t weft_below(uint64_t key, uint64_t element, uint64_t n)
{
    struct weft_rand4 r = weft_rand(key, 0, element);
    uint64_t u = (uint64_t)r.u[1] << 32 | r.u[0];
    return (uint64_t)(((unsigned __int128)u * n) >> 64);
}

static double ratio(const double *p, const double *q, double r)
{
    double a = 0, b = 0;
    for (int i = 7; i >= 0; i--) {
        a = a * r + p[i];
        b = b * r + q[i];
    }
    return a / b;
}

/* Normal quantile, accurate to 1 part in 10^16: M. J. Wichura, Algorithm AS 241 (PPND16), Applied Statistics 37,
 * 1988. */
static double normal_quantile(double p)
{
    static const double a[] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                               1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                               3.3430575583588128105e4, 2.5090809287301226727e3};
    static const double b[] = {1.0,
                               4.2313330701600911252e1,
                               6.8718700749205790830e2,
                               5.3941960214247511077e3,
                               2.1213794301586595867e4,
                               3.9307895800092710610e4,
                               2.8729085735721942674e4,
                               5.2264952788528545610e3};
    static const double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                               3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                               2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[] = {1.0,
                               2.05319162663775882187e0,
                               1.67638483018380384940e0,
                               6.89767334985100004550e-1,
                               1.48103976427480074590e-1,
                               1.51986665636164571966e-2,
                               5.47593808499534494600e-4,
                               1.05075007164441684324e-9};
    static const double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                               2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                               2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double f[] = {1.0,
                               5.99832206555887937690e-1,
                               1.36929880922735805310e-1,
                               1.48753612908506148525e-2,
                               7.86869131145613259100e-4,
                               1.84631831751005468180e-5,
                               1.42151175831644588870e-7,
                               2.04426310338993978564e-15};
    double q = p - 0.5;
    if (q >= -0.425 && q <= 0.425)
        return q * ratio(a, b, 0.180625 - q * q);
    double r = sqrt(-weft_log(q < 0 ? p : 1 - p));
    double x = r <= 5 ? ratio(c, d, r - 1.6) : ratio(e, f, r - 5);
    return q < 0 ? -x : x;
}

double weft_normal(uint64_t key, uint64_t element) { return normal_quantile(weft_uniform(key, element)); }
