/* SPDX-License-Identifier: MIT
 *
 * pos/learned - one learned vector per position, added to the embedding. Parameters: T C.
 */
#include "nn/build.h"
#include "ops/ops.h"

static void params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    weft_params_add(p, (struct weft_param){.name = "wpe",
                                           .ndim = 2,
                                           .dim = {spec->context, spec->width},
                                           .role = WEFT_TABLE,
                                           .init_value = WEFT_DEVIATION,
                                           .extend = WEFT_EXTEND_ROWS});
}

static struct weft_value *embed(struct weft_build *b, const void *opts, struct weft_value *x)
{
    return weft_add(b->g, x, weft_embed(b->g, weft_build_weight(b, "wpe"), b->position));
}

const struct weft_pos weft_pos_learned = {
    .part = {.kind = WEFT_POS,
             .name = "learned",
             .summary = "x + wpe[position]",
             .owner = {.name = "pos=learned"},
             .params = params},
    .embed = embed,
};
