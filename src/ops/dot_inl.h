/* SPDX-License-Identifier: MIT
 *
 * dot_inl.h - the inner product for reference kernels, as eight independent sums that a compiler can vectorise. Gates
 * run references on models with hundreds of millions of parameters.
 */
#ifndef WEFT_DOT_H
#define WEFT_DOT_H

#include <stdint.h>

static inline double dot_f64(const double *a, const double *b, int64_t n)
{
    enum { SUMS = 8 };
    double sum[SUMS] = {0}, rest = 0;
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int s = 0; s < SUMS; s++)
            sum[s] += a[i + s] * b[i + s];
    for (; i < n; i++)
        rest += a[i] * b[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7])) + rest;
}

#endif
