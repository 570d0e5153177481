/* SPDX-License-Identifier: MIT
 *
 * verdict.c - describes a comparison in words: better, worse, not resolved or not enough seeds, with its numbers.
 */
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum weft_verdict weft_verdict(const struct weft_comparison *c)
{
    if (isnan(c->family.low) || c->seeds < WEFT_LEAST_SEEDS)
        return WEFT_TOO_FEW_SEEDS;
    return c->family.high < 0 ? WEFT_BETTER : c->family.low > 0 ? WEFT_WORSE : WEFT_NOT_RESOLVED;
}

/* Returns the number of decimals for two significant digits. */
static int decimals(double x) { return x > 0 ? (int)fmin(fmax(1 - floor(log10(x)), 0), 12) : 3; }

/* Returns a number of decimals with which neither end of the interval is printed as 0. */
static int interval_decimals(struct weft_interval i)
{
    double near = fmin(fabs(i.low), fabs(i.high));
    int needed = decimals((i.high - i.low) / 2);
    return near > 0 ? (int)fmax(needed, decimals(near) - 1) : needed;
}

static void print_too_few(const struct weft_comparison *c, const char *unit, char text[WEFT_VERDICT_TEXT])
{
    int digits = decimals(fabs(c->mean));
    if (c->seeds < WEFT_LEAST_SEEDS)
        snprintf(text, WEFT_VERDICT_TEXT, "not enough seeds: %+.*f %s in %lld seed%s; a verdict needs %d or more",
                 digits, c->mean, unit, (long long)c->seeds, c->seeds == 1 ? "" : "s", WEFT_LEAST_SEEDS);
    else
        snprintf(text, WEFT_VERDICT_TEXT,
                 "not enough seeds: exactly %+.*f %s in each of %lld seeds, so the noise is unknown", digits, c->mean,
                 unit, (long long)c->seeds);
}

static void print_resolved(const struct weft_comparison *c, const char *unit, char text[WEFT_VERDICT_TEXT])
{
    bool better = c->mean < 0;
    struct weft_interval by = better ? (struct weft_interval){-c->family.high, -c->family.low} : c->family;
    int digits = interval_decimals(by);
    snprintf(text, WEFT_VERDICT_TEXT, "%s by %.*f %s [%.*f, %.*f], %lld seeds", better ? "better" : "worse", digits,
             fabs(c->mean), unit, digits, by.low, digits, by.high, (long long)c->seeds);
}

struct seeds {
    char text[48];
};
static struct seeds seeds_for(const struct weft_comparison *c, double difference)
{
    struct seeds s;
    int64_t needed = weft_seeds_needed(difference / c->sd, c->alpha);
    snprintf(s.text, sizeof s.text, "%s%lld", needed ? "" : "more than ",
             (long long)(needed ? needed : WEFT_MOST_SEEDS));
    return s;
}

/* The true difference may be anywhere in the interval, so the number of seeds for its far end is a lower bound. */
static void print_not_resolved(const struct weft_comparison *c, const char *unit, char text[WEFT_VERDICT_TEXT])
{
    if (c->sd == 0) {
        snprintf(text, WEFT_VERDICT_TEXT, "not resolved: no difference in any of %lld seeds", (long long)c->seeds);
        return;
    }
    int digits = interval_decimals(c->family);
    int seen =
        fabs(c->mean) * pow(10, digits) < 0.5 ? decimals(fabs(c->mean)) : digits; /* so that it is not printed as 0 */
    double far = -c->family.low > c->family.high ? c->family.low : c->family.high;
    double least = weft_effect_resolved(c->seeds, c->alpha) * c->sd;
    snprintf(text, WEFT_VERDICT_TEXT,
             "not resolved: %+.*f %s [%.*f, %.*f], %lld seeds. If the true difference is %+.*f, %s seeds would resolve "
             "it; %s seeds if it is %+.*f, and no number of seeds if it is 0. These %lld seeds could resolve a "
             "difference of %.*f or more",
             seen, c->mean, unit, digits, c->family.low, digits, c->family.high, (long long)c->seeds, seen, c->mean,
             seeds_for(c, c->mean).text, seeds_for(c, far).text, digits, far, (long long)c->seeds, decimals(least),
             least);
}

static bool excludes_zero(struct weft_interval i) { return i.low > 0 || i.high < 0; }

/* Adds a remark if the bootstrap, which assumes less, disagrees with the t test. */
static void print_doubt(const struct weft_comparison *c, char text[WEFT_VERDICT_TEXT])
{
    struct weft_interval boot = weft_bootstrap(c);
    if (isnan(boot.low) || excludes_zero(boot) == excludes_zero(c->alone))
        return;
    int digits = (int)fmax(interval_decimals(boot), interval_decimals(c->alone));
    size_t used = strlen(text);
    snprintf(text + used, WEFT_VERDICT_TEXT - used,
             " (for this arm alone, the t interval is [%.*f, %.*f] but the bootstrap interval is [%.*f, %.*f]: check "
             "the individual seeds)",
             digits, c->alone.low, digits, c->alone.high, digits, boot.low, digits, boot.high);
}

void weft_verdict_text(const struct weft_comparison *c, const char *unit, char text[WEFT_VERDICT_TEXT])
{
    switch (weft_verdict(c)) {
    case WEFT_TOO_FEW_SEEDS:
        print_too_few(c, unit, text);
        return;
    case WEFT_BETTER:
    case WEFT_WORSE:
        print_resolved(c, unit, text);
        break;
    case WEFT_NOT_RESOLVED:
        print_not_resolved(c, unit, text);
        break;
    }
    print_doubt(c, text);
}
