/* SPDX-License-Identifier: MIT
 *
 * stored.h - reads numbers in the format of the golden files, see README.md.
 */
#ifndef WEFT_GOLDEN_STORED_H
#define WEFT_GOLDEN_STORED_H

#include <jansson.h>
#include <math.h>
#include <stdint.h>

static inline const char *text(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static inline int64_t stored_count(const json_t *stored)
{
    return (int64_t)json_array_size(json_object_get(stored, "data"));
}

static inline double stored_number(const json_t *stored, int64_t i)
{
    const json_t *unit = json_object_get(stored, "unit");
    double whole = (double)json_integer_value(json_array_get(json_object_get(stored, "data"), (size_t)i));
    return unit ? whole * json_number_value(unit) : whole;
}

/* NaN counts as larger than any number, so that it is never lost. */
static inline double larger(double a, double b) { return isnan(a) || a >= b ? a : b; }

#endif
