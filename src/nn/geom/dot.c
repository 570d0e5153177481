/* SPDX-License-Identifier: MIT
 *
 * geom/dot - score = <q, k> / sqrt(width of k).
 */
#include "nn/nn.h"

#include <math.h>

static enum weft_status resolve(struct weft_spec *spec, void *options)
{
    (void)options;
    spec->mean = spec->vector = spec->head;
    return WEFT_OK;
}

static struct weft_points points(struct weft_build *b, const struct weft_rays *r, bool norms)
{
    (void)norms;
    struct weft_value *x = r->turned ? weft_join_heads(b->g, r->mean, r->heads, r->turned, r->turned_heads, r->heads)
                                     : weft_build_turn(b, r->mean, r->heads, r->side);
    return (struct weft_points){x, NULL};
}

static struct weft_value *scale(struct weft_build *b)
{
    return weft_fill(b->g, 1 / sqrt((double)b->spec->scale_width), WEFT_SHAPE(weft_fixed(b->spec->heads)));
}

const struct weft_variant weft_geom_dot = {
    .name = "dot",
    .summary = "score = <q, k> / sqrt(width)",
    .owner = {.name = "geom=dot"},
    .resolve = resolve,
    .points = points,
    .scale = scale,
    .linear = true,
};
