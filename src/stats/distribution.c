/* SPDX-License-Identifier: MIT
 *
 * distribution.c - the beta distribution, and functions based on it: Student's t, intervals of rates, power.
 *
 * All use the regularised incomplete beta function I_x(a, b), a factor times a continued fraction (Abramowitz and
 * Stegun, 26.5.8). Functions take both x and y = 1 - x, because the smaller of the two must not be computed by
 * subtraction.
 */
#include "stats/stats.h"

#include <assert.h>
#include <float.h>
#include <math.h>

static const double pi = 3.14159265358979323846, wanted_power = 0.8;

/* Returns the logarithm of gamma(z) / (sqrt(2 pi / z) (z / e)^z), by Stirling's series for large z, and for smaller z
 * by gamma(z + 1) = z gamma(z). */
static double stirling_rest(double z)
{
    double first = z, product = 1;
    for (; z < 16; z++)
        product *= z;
    double below = first < z ? (z - 0.5) * log(z) - (first - 0.5) * log(first) - log(product) - (z - first) : 0;
    double w = 1 / (z * z);
    return below + (1.0 / 12 - w * (1.0 / 360 - w * (1.0 / 1260 - w * (1.0 / 1680 - w / 1188)))) / z;
}

/* Returns log(q / p), given d = q - p, which is known more accurately than q. */
static double log_quotient(double q, double p, double d) { return fabs(d) < p / 2 ? log1p(d / p) : log(q / p); }

/* Returns x^a y^b / B(a, b) without the logarithms of gamma functions, which are large and would cancel. */
static double beta_weight(double a, double b, double x, double y)
{
    double n = a + b, d = b * x - a * y;
    double log_power = a * log_quotient(n * x, a, d) + b * log_quotient(n * y, b, -d);
    return sqrt(a * b / (2 * pi * n)) * exp(stirling_rest(n) - stirling_rest(a) - stirling_rest(b) + log_power);
}

static double nonzero(double x) { return fabs(x) < 1e-300 ? 1e-300 : x; }

/* Returns I_x(a, b) for x below about the mean, where the continued fraction converges fast (evaluated front to back by
 * Lentz's method). */
static double beta_fraction(double a, double b, double x, double y)
{
    double value = 1, c = 1, d = 0, factor = 0;
    for (int i = 1; i < 100000 && fabs(factor - 1) > 2 * DBL_EPSILON; i++) {
        double m = i / 2, s = a + i;
        double term = (i % 2 ? -(a + m) * (a + b + m) : m * (b - m)) * x / (s * (s - 1));
        d = 1 / nonzero(1 + term * d);
        c = nonzero(1 + term / c);
        factor = c * d;
        value *= factor;
    }
    return beta_weight(a, b, x, y) / (a * value);
}

static double beta_part(double a, double b, double x, double y)
{
    if (x <= 0)
        return 0;
    if (y <= 0)
        return 1;
    return x < (a + 1) / (a + b + 2) ? beta_fraction(a, b, x, y) : 1 - beta_fraction(b, a, y, x);
}

double weft_beta_cdf(double a, double b, double x) { return beta_part(a, b, x, 1 - x); }

/* Bisects until there is no representable number between the bounds. */
double weft_beta_quantile(double a, double b, double p)
{
    double low = 0, high = 1, x = 0.5;
    while (x > low && x < high) {
        if (weft_beta_cdf(a, b, x) < p)
            low = x;
        else
            high = x;
        x = low + (high - low) / 2;
    }
    return high;
}

struct weft_interval weft_rate_interval(int64_t hits, int64_t trials, double alpha)
{
    double k = (double)hits, n = (double)trials;
    assert(hits >= 0 && trials >= hits && trials > 0);
    return (struct weft_interval){hits > 0 ? weft_beta_quantile(k, n - k + 1, alpha / 2) : 0,
                                  hits < trials ? 1 - weft_beta_quantile(n - k, k + 1, alpha / 2) : 1};
}

/* ---- Student's t */

double weft_t_beyond(double t, double freedom)
{
    double sum = freedom + t * t;
    return beta_part(freedom / 2, 0.5, freedom / sum, t * t / sum);
}

double weft_t_cdf(double t, double freedom)
{
    double half = weft_t_beyond(t, freedom) / 2;
    return t < 0 ? half : 1 - half;
}

/* Returns the t > 0 that |T| exceeds with this probability. The probability is convex in t, so Newton steps from the
 * left never overshoot. The starting value follows from the density of any t distribution, which is at most 0.399, the
 * density of the normal distribution at 0. */
static double t_limit(double chance, double freedom)
{
    double t = 1.25 * (1 - chance), step = t;
    while (step > 2 * DBL_EPSILON * t) {
        double sum = freedom + t * t, slope = 2 * beta_weight(freedom / 2, 0.5, freedom / sum, t * t / sum) / t;
        step = (weft_t_beyond(t, freedom) - chance) / slope;
        t += step;
    }
    return t;
}

double weft_t_quantile(double p, double freedom)
{
    assert(p > 0 && p < 1);
    return p < 0.5 ? -t_limit(2 * p, freedom) : t_limit(2 * (1 - p), freedom);
}

/* ---- power */

static double poisson(double j, double mean)
{
    if (j == 0)
        return exp(-mean);
    return exp(j * log_quotient(mean, j, mean - j) - (mean - j) - stirling_rest(j)) / sqrt(2 * pi * j);
}

/* The square of a noncentral t is a noncentral F: a mixture of beta distributions with Poisson weights. If there are
 * many weights, they form a smooth curve, so the sum can be computed from every step-th term. (Beyond 1e15,
 * neighbouring terms are the same number in double precision, and the power is 1.) */
double weft_power(double effect, int64_t seeds, double alpha)
{
    if (seeds < 2)
        return 0;
    double n = (double)seeds, freedom = n - 1, t = -weft_t_quantile(alpha / 2, freedom), sum = freedom + t * t;
    double mean = fmin(n * effect * effect / 2, 1e15), width = sqrt(mean), step = fmax(1, floor(width / 4)), power = 0;
    for (double j = fmax(0, floor(mean - 12 * width)); j <= mean + 12 * width + 40; j += step)
        power += step * poisson(j, mean) * beta_part(freedom / 2, j + 0.5, freedom / sum, t * t / sum);
    return power;
}

int64_t weft_seeds_needed(double effect, double alpha)
{
    int64_t low = 1, high = 2; /* low: too few seeds; high: enough seeds */
    while (weft_power(effect, high, alpha) < wanted_power) {
        if (high == WEFT_MOST_SEEDS)
            return 0;
        low = high;
        high = weft_min(2 * high, WEFT_MOST_SEEDS);
    }
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (weft_power(effect, middle, alpha) < wanted_power)
            low = middle;
        else
            high = middle;
    }
    return high;
}

double weft_effect_resolved(int64_t seeds, double alpha)
{
    if (seeds < 2)
        return NAN;
    double low = 0, high = 1;
    for (; weft_power(high, seeds, alpha) < wanted_power; high *= 2)
        low = high;
    while (high - low > 1e-12 * high) {
        double middle = low + (high - low) / 2;
        if (weft_power(middle, seeds, alpha) < wanted_power)
            low = middle;
        else
            high = middle;
    }
    return high;
}
