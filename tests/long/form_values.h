/* SPDX-License-Identifier: MIT
 *
 * form_values.h - the results of forms in f64, and the largest difference between two of them, for tests/long/forms.c.
 */
#ifndef WEFT_TEST_FORM_VALUES_H
#define WEFT_TEST_FORM_VALUES_H

#include "base/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Results one after the other. Each ends at an element of `ends`. */
struct values {
    double *x;
    int64_t n, room;
    int64_t *ends;
    int count, places;
    bool failed; /* the form could not be built or run */
};

static inline void add_values(struct values *v, const double *x, int64_t n)
{
    if (v->n + n > v->room) {
        v->room = 2 * (v->n + n);
        v->x = realloc(v->x, (size_t)v->room * sizeof *v->x);
    }
    if (v->count == v->places) {
        v->places = 2 * v->places + 16;
        v->ends = realloc(v->ends, (size_t)v->places * sizeof *v->ends);
    }
    if (n)
        memcpy(v->x + v->n, x, (size_t)n * sizeof *x);
    v->n += n;
    v->ends[v->count++] = v->n;
}

static inline void free_values(struct values *v)
{
    free(v->x);
    free(v->ends);
    *v = (struct values){0};
}

/* Returns the largest difference, relative to the sound number and the root mean square of its result; BROKEN if the
 * damaged form cannot be built or run. */
#define BROKEN (-1.0)
static inline double effect_of(const struct values *sound, const struct values *damaged)
{
    double most = 0;
    if (damaged->failed)
        return BROKEN;
    if (damaged->count != sound->count ||
        memcmp(sound->ends, damaged->ends, (size_t)sound->count * sizeof *sound->ends) != 0)
        return INFINITY;
    for (int k = 0; k < sound->count; k++) {
        int64_t first = k ? sound->ends[k - 1] : 0, n = sound->ends[k] - first;
        const double *x = sound->x + first, *y = damaged->x + first;
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += isfinite(x[i]) ? x[i] * x[i] : 0;
        for (int64_t i = 0; i < n; i++) {
            double error = x[i] == y[i] || (isnan(x[i]) && isnan(y[i]))
                               ? 0
                               : fabs(x[i] - y[i]) / (fabs(x[i]) + sqrt(sum / (double)n) + 1e-30);
            most = isnan(error) ? INFINITY : fmax(most, error);
        }
    }
    return most;
}

#endif
