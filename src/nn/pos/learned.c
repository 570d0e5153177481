/* SPDX-License-Identifier: MIT
 *
 * pos/learned - one learned vector per position, added to the embedding. Parameters: T C.
 */
#include "nn/nn.h"

static void params(struct weft_params *p, const struct weft_spec *spec)
{
    weft_params_matrix(p, "wpe", spec->context, spec->width, WEFT_DEVIATION);
}

static struct weft_value *build(struct weft_build *b, struct weft_value *x)
{
    return weft_add(b->g, x, weft_embed(b->g, weft_build_weight(b, "wpe"), b->place));
}

const struct weft_variant weft_pos_learned = {
    .name = "learned",
    .summary = "x + wpe[position]",
    .owner = {.name = "pos=learned"},
    .params = params,
    .build = build,
};
