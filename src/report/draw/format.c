/* SPDX-License-Identifier: MIT
 *
 * format.c - formats numbers: counts, bytes, losses, learning rates, intervals.
 */
#include "report/read/results.h"

#include <math.h>
#include <stdio.h>

struct weft_text weft_count_text(double n)
{
    static const char units[] = " kMGTPE";
    struct weft_text t;
    int unit = 0;
    for (; n >= 999.5 && units[unit + 1]; unit++)
        n /= 1000;
    if (unit == 0)
        snprintf(t.text, sizeof t.text, "%.4g", n);
    else
        snprintf(t.text, sizeof t.text, "%.*f %c", n < 9.9995 ? 3 : n < 99.995 ? 2 : 1, n, units[unit]);
    return t;
}

struct weft_text weft_short_text(double n)
{
    static const char units[] = " kMGTPE";
    struct weft_text t;
    int unit = 0;
    for (; n >= 995 && units[unit + 1]; unit++)
        n /= 1000;
    snprintf(t.text, sizeof t.text, n < 99.5 ? "%.2g%s%c" : "%.0f%s%c", n, unit ? " " : "", unit ? units[unit] : '\0');
    return t;
}

struct weft_text weft_bytes_text(double n)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct weft_text t;
    int unit = 0;
    for (; n >= 1023.5 && unit < 6; unit++)
        n /= 1024;
    snprintf(t.text, sizeof t.text, "%.*f %s", unit == 0 || n >= 99.95 ? 0 : n >= 9.995 ? 1 : 2, n, units[unit]);
    return t;
}

struct weft_text weft_loss_text(double x)
{
    struct weft_text t = {"-"};
    if (isfinite(x))
        snprintf(t.text, sizeof t.text, fabs(x) < 1e-3 && x != 0 ? "%.2e" : "%.4f", x);
    return t;
}

struct weft_text weft_lr_text(double x)
{
    struct weft_text t = {"-"};
    if (isfinite(x))
        snprintf(t.text, sizeof t.text, "%g", x);
    return t;
}

struct weft_text weft_interval_text(struct weft_interval i)
{
    struct weft_text t = {"-"};
    double half = (i.high - i.low) / 2;
    int digits = half > 0 ? (int)fmin(fmax(1 - floor(log10(half)), 4), 12)
                          : 4; /* two significant digits of a small half-width */
    if (isfinite(i.low))
        snprintf(t.text, sizeof t.text, "[%+.*f, %+.*f]", digits, i.low, digits, i.high);
    return t;
}

/* Runs of one arm do the same work, so a larger difference in speed is due to the machine. */
static const double alike_speeds = 1.2;

struct weft_text weft_speeds_text(const struct weft_finding *f)
{
    struct weft_text t = {""};
    if (f->fastest > alike_speeds * f->slowest)
        snprintf(t.text, sizeof t.text, "%.24s to %.24s", weft_count_text(f->slowest).text,
                 weft_count_text(f->fastest).text);
    return t;
}

double weft_result_percent(const struct weft_results *r, const struct weft_result_arm *arm)
{
    const struct weft_finding *first = &r->arm[0].found;
    bool misleads = first->solved || fabs(first->loss) < WEFT_LEAST_PERCENT_LOSS;
    return misleads ? NAN : 100 * arm->found.against.mean / first->loss;
}
