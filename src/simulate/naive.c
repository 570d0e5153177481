/* SPDX-License-Identifier: MIT
 *
 * naive.c - Student's t distribution and the levels of looks, computed in the simplest way: by Simpson's rule,
 * bisection and simulation. Reports use the functions of room `stats`, which share no code with these.
 *
 * With t = sqrt(f) tan(x), the density of t with f degrees of freedom is proportional to cos(x)^(f - 1).
 */
#include "simulate/studies.h"

#include <math.h>
#include <stdlib.h>

/* ---- Student's t */

/* Returns the integral of cos(x)^power from 0 to `to`. */
static double integrate(double to, int64_t power)
{
    enum { PIECES = 200 };
    double sum = 0, h = to / PIECES;
    for (int i = 0; i <= PIECES; i++) {
        double y = 1, x = cos(i * h);
        for (int64_t k = 0; k < power; k++)
            y *= x;
        sum += y * (i == 0 || i == PIECES ? 1 : i % 2 ? 4 : 2);
    }
    return sum * h / 3;
}

double weft_naive_beyond(double t, int64_t freedom)
{
    double right = acos(-1) / 2;
    return 1 - integrate(atan(fabs(t) / sqrt((double)freedom)), freedom - 1) / integrate(right, freedom - 1);
}

double weft_naive_limit(double alpha, int64_t freedom)
{
    double low = 0, high = 1;
    while (weft_naive_beyond(high, freedom) > alpha)
        high *= 2;
    for (int i = 0; i < 50; i++) {
        double middle = (low + high) / 2;
        *(weft_naive_beyond(middle, freedom) > alpha ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

/* ---- looks: each look ends the same fraction of all simulated studies, whose arms are equal */

enum { STUDIES = 1 << 17 };

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Returns |t| of a study's first `n` differences. */
static double t_of(uint64_t study, int64_t n)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = weft_sim_normal(77, study, (uint64_t)i);
        sum += x;
        squares += x * x;
    }
    return fabs(sum) / (double)n / sqrt((squares - sum * sum / (double)n) / (double)(n - 1) / (double)n);
}

enum weft_status weft_naive_levels(const int64_t *seeds, int looks, double alpha, double *level)
{
    double *large = calloc(STUDIES, sizeof *large);
    bool *ended = calloc(STUDIES, sizeof *ended);
    if (!large || !ended) {
        free(large);
        free(ended);
        return FAIL(WEFT_NOMEM, "not enough memory to simulate looks");
    }
    for (int k = 0; k < looks; k++) {
        int64_t spend = (int64_t)round(STUDIES * alpha / looks), n = 0;
        double least = weft_naive_limit(alpha, seeds[k] - 1) * 0.9, limit;
        for (uint64_t i = 0; i < STUDIES; i++) {
            double t = ended[i] ? 0 : t_of(i, seeds[k]);
            if (t > least)
                large[n++] = t;
        }
        qsort(large, (size_t)n, sizeof *large, descending);
        limit = large[weft_min(spend, n - 1)];
        level[k] = weft_naive_beyond(limit, seeds[k] - 1);
        for (uint64_t i = 0; i < STUDIES; i++)
            ended[i] = ended[i] || t_of(i, seeds[k]) > limit;
    }
    free(large);
    free(ended);
    return WEFT_OK;
}
