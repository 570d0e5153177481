/* SPDX-License-Identifier: MIT
 *
 * geom/dot - score = <q, k> / sqrt(width of k). Specs and attention do this by default, so only the hook qk is
 * needed.
 */
#include "nn/build.h"
#include "ops/ops.h"

static struct weft_qk qk(struct weft_build *b, const void *opts, const struct weft_qk_raw *r, bool norms)
{
    struct weft_value *x = r->rotated ? weft_join_heads(b->g, r->mean, r->heads, r->rotated, r->rotated_heads, r->heads)
                                      : weft_build_rotate(b, r->mean, r->heads, r->side);
    return (struct weft_qk){x, NULL};
}

const struct weft_geom weft_geom_dot = {
    .part = {.kind = WEFT_GEOM,
             .name = "dot",
             .summary = "score = <q, k> / sqrt(width)",
             .owner = {.name = "geom=dot"}},
    .qk = qk,
    .linear = true,
};
