/* SPDX-License-Identifier: MIT
 *
 * gaussian_inl.h - shared by the geometries of diagonal Gaussians: options for the widths of mean and spread, and a
 * temperature per head.
 */
#ifndef WEFT_GAUSSIAN_H
#define WEFT_GAUSSIAN_H

#include "nn/build.h"
#include "ops/ops.h"

#include <stddef.h>

enum spread { SPREAD_SPLIT, SPREAD_FULL };

struct gaussian {
    int spread;
    bool learn_tau;
};

static const char *const spreads[] = {"split", "full", NULL};

static const struct weft_opt options[] = {
    {"spread", WEFT_OPT_CHOICE, offsetof(struct gaussian, spread), "split", .choices = spreads,
     .help = "width of mean and spread; split: half a head each; full: a whole head each"},
    {"learn_tau", WEFT_OPT_BOOL, offsetof(struct gaussian, learn_tau), "yes",
     .help = "learned temperature per head; no: it keeps its initial value"},
};

/* Sets the widths of mean and spread from the options. */
static enum weft_status resolve_widths(struct weft_spec *spec, const struct gaussian *o)
{
    if (o->spread == SPREAD_SPLIT && spec->head % 4)
        return FAIL(WEFT_INVALID,
                    "spread=split divides a head into two halves of even width, but width/heads = %lld is not a "
                    "multiple of 4: change width or heads, or set spread=full",
                    (long long)spec->head);
    spec->mean = spec->spread = o->spread == SPREAD_SPLIT ? spec->head / 2 : spec->head;
    return WEFT_OK;
}

/* Returns factor / (tau + eps), f32 [H]; `start` is the initial ln(tau). */
static struct weft_value *temperature(struct weft_build *b, const struct gaussian *o, double start, double factor,
                                      double eps)
{
    struct weft_shape heads = WEFT_SHAPE(weft_fixed(b->spec->heads));
    struct weft_value *theta = o->learn_tau ? weft_build_weight(b, "theta") : weft_fill(b->g, start, heads);
    return weft_temperature(b->g, theta, factor, eps);
}

static void temperature_params(struct weft_params *p, const struct weft_spec *spec, const struct gaussian *o,
                               double start)
{
    if (o->learn_tau)
        weft_params_vector(p, "theta", spec->heads, start);
}

#endif
