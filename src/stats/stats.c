/* SPDX-License-Identifier: MIT
 *
 * stats.c - compares arms of a study with a base, paired by seed.
 *
 * Runs with the same seed share initial weights and the order of data, so part of the noise cancels in the differences;
 * the t test is applied to the differences. Because the noise is estimated from few values, the t distribution is used
 * instead of the normal distribution.
 */
#include "stats/stats.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static const struct weft_interval unknown = {NAN, NAN};

enum { RESAMPLES = 9999 };

/* ---- one comparison */

static enum weft_status check(const struct weft_comparison *c)
{
    if (c->seeds < 1)
        return FAIL(WEFT_INVALID, "cannot compare %lld seeds: expected at least one", (long long)c->seeds);
    for (int64_t i = 0; i < c->seeds; i++)
        if (!isfinite(c->arm[i]) || !isfinite(c->base[i]))
            return FAIL(WEFT_INVALID,
                        "seed number %lld has loss %g in the arm and %g in the base: a diverged run cannot be "
                        "averaged. Compare without that seed, and report that it diverged",
                        (long long)i + 1, c->arm[i], c->base[i]);
    return WEFT_OK;
}

/* Computes the mean of x - less (of x if `less` is NULL) and returns the sum of squared deviations from the mean. */
static double squares(const double *x, const double *less, int64_t n, double *mean)
{
    double sum = 0;
    *mean = 0;
    for (int64_t i = 0; i < n; i++)
        *mean += (x[i] - (less ? less[i] : 0)) / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double d = x[i] - (less ? less[i] : 0) - *mean;
        sum += d * d;
    }
    return sum;
}

/* Differences that are equal up to the rounding of the losses have a standard deviation of 0. */
static void estimate(struct weft_comparison *c)
{
    double freedom = (double)(c->seeds - 1), arm, base;
    double within = squares(c->arm, c->base, c->seeds, &c->mean);
    double between = squares(c->arm, NULL, c->seeds, &arm) + squares(c->base, NULL, c->seeds, &base);
    c->sd = sqrt(within / freedom);
    if (c->sd < 4 * DBL_EPSILON * (fabs(arm) + fabs(base)))
        c->sd = 0;
    c->over_noise = between > 0 ? c->mean / sqrt(between / (2 * freedom)) : NAN;
}

static bool noise_is_known(const struct weft_comparison *c) { return c->sd > 0 || (c->sd == 0 && c->mean == 0); }

static struct weft_interval t_interval(const struct weft_comparison *c, double alpha)
{
    if (!noise_is_known(c))
        return unknown;
    double n = (double)c->seeds, half = -weft_t_quantile(alpha / 2, n - 1) * c->sd / sqrt(n);
    return (struct weft_interval){c->mean - half, c->mean + half};
}

static double t_test(const struct weft_comparison *c)
{
    if (!noise_is_known(c))
        return NAN;
    double n = (double)c->seeds;
    return c->mean == 0 ? 1 : weft_t_beyond(c->mean / (c->sd / sqrt(n)), n - 1);
}

/* ---- the family */

/* First multiplies each p by its factor, then takes the maximum over all smaller p. Taking a maximum twice changes
 * nothing, so one array is enough. */
static void holm(struct weft_comparison *family, int64_t count, int64_t planned)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t smaller = 0;
        for (int64_t k = 0; k < count; k++)
            smaller += family[k].p < family[i].p;
        family[i].p_holm = isnan(family[i].p) ? NAN : fmin(1, (double)(planned - smaller) * family[i].p);
    }
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < count; k++)
            if (family[k].p < family[i].p)
                family[i].p_holm = fmax(family[i].p_holm, family[k].p_holm);
}

enum weft_status weft_compare(struct weft_comparison *family, int64_t count, int64_t planned)
{
    bool looks = false;
    for (int64_t i = 0; i < count; i++)
        TRY(check(&family[i]));
    for (int64_t i = 0; i < count; i++) {
        struct weft_comparison *c = &family[i];
        estimate(c);
        c->p = t_test(c);
        looks |= c->alpha > 0;
        if (!(c->alpha > 0))
            c->alpha = WEFT_FAMILY_ALPHA / (double)planned;
        c->alone = t_interval(c, WEFT_FAMILY_ALPHA);
        c->family = t_interval(c, c->alpha);
    }
    holm(family, count, planned);
    for (int64_t i = 0; looks && i < count; i++)
        family[i].p_holm = NAN;
    return WEFT_OK;
}

/* ---- bootstrap */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* With few seeds, percentiles of resampled means give too narrow an interval, because resampled means are nearly
 * normal, and their variance has the divisor n instead of n - 1. Percentiles farther out, chosen to match Student's t,
 * correct this (Hesterberg, What Teachers Should Know About the Bootstrap, The American Statistician 69, 2015). */
struct weft_interval weft_bootstrap(const struct weft_comparison *c)
{
    if (c->seeds < WEFT_BOOTSTRAP_SEEDS || !noise_is_known(c))
        return unknown;
    double means[RESAMPLES], n = (double)c->seeds;
    uint64_t key = weft_key_name(0, "bootstrap"), draw = 0;
    for (int r = 0; r < RESAMPLES; r++) {
        double sum = 0;
        for (int64_t i = 0; i < c->seeds; i++) {
            uint64_t seed = weft_below(key, draw++, (uint64_t)c->seeds);
            sum += c->arm[seed] - c->base[seed];
        }
        means[r] = sum / n;
    }
    qsort(means, RESAMPLES, sizeof *means, by_size);
    double limit = -weft_t_quantile(WEFT_FAMILY_ALPHA / 2, n - 1) * sqrt(n / (n - 1));
    /* number of means outside the interval on each side */
    int out = (int)(erfc(limit / sqrt(2)) / 2 * (RESAMPLES + 1));
    return (struct weft_interval){means[out], means[RESAMPLES - 1 - out]};
}
