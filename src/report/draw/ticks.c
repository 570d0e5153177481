/* SPDX-License-Identifier: MIT
 *
 * ticks.c - computes the scale of an axis: round numbers, few enough to be read on a phone.
 */
#include "report/read/results.h"

#include <math.h>

static void add(struct weft_ticks *t, double value, double low, double high)
{
    double room = 1e-9 * (high - low); /* tolerance for ends that are round numbers up to rounding errors */
    if (t->count < WEFT_MAX_TICKS && value >= low - room && value <= high + room)
        t->value[t->count++] = value;
}

/* Returns multiples of 1, 2 or 5 times a power of ten. */
static struct weft_ticks even(double low, double high, int most)
{
    struct weft_ticks t = {0};
    double power = pow(10, floor(log10((high - low) / most))), step = power;
    static const double factors[] = {1, 2, 5, 10};
    for (int i = 0; i < 4 && (high - low) / step > most; i++)
        step = power * factors[i];
    double first = ceil(low / step - 1e-9);
    for (int i = 0; i <= most; i++)
        add(&t, step * (first + i) + 0.0, low, high); /* + 0.0: no minus zero */
    t.decimals = (int)fmin(fmax(-floor(log10(step) + 1e-9), 0), 9);
    return t;
}

/* Returns 1, 2 and 5 in every decade; if these are too many, 1 and 3, or powers of ten, or every second or third power,
 * and so on. */
static struct weft_ticks of_decades(double low, double high, int most)
{
    struct weft_ticks t = {.decimals = -1};
    int first = (int)floor(log10(low)), last = (int)ceil(log10(high));
    double decades = log10(high / low);
    int every = (int)fmax(1, ceil(decades / most));
    for (int k = first; k <= last; k++) {
        if (every == 1 || k % every == 0)
            add(&t, pow(10, k), low, high);
        if (3 * decades <= most)
            add(&t, 2 * pow(10, k), low, high);
        if (2 * decades <= most)
            add(&t, (3 * decades <= most ? 5 : 3) * pow(10, k), low, high);
    }
    return t;
}

bool weft_spans_decade(double low, double high) { return low > 0 && high >= 10 * low; }

struct weft_ticks weft_ticks(double low, double high, int most, bool logarithmic)
{
    if (!(high > low) || !isfinite(high - low))
        return (struct weft_ticks){.count = isfinite(low), .decimals = -1, .value = {low}};
    return logarithmic && weft_spans_decade(low, high) ? of_decades(low, high, most) : even(low, high, most);
}

struct weft_text weft_tick_text(const struct weft_ticks *t, int i)
{
    struct weft_text text;
    if (t->decimals < 0 || t->decimals > 4)
        snprintf(text.text, sizeof text.text, "%.4g", t->value[i]);
    else
        snprintf(text.text, sizeof text.text, "%.*f", t->decimals, t->value[i]);
    return text;
}
