/* SPDX-License-Identifier: MIT
 *
 * norm/layernorm - (x - mean) / sqrt(variance + norm_eps) * gain + bias, over the width.
 */
#include "nn/build.h"
#include "ops/ops.h"

static void params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    weft_params_vector(p, "gain", spec->width, 1);
    weft_params_vector(p, "bias", spec->width, 0);
}

static struct weft_value *build(struct weft_build *b, const void *opts, struct weft_value *x)
{
    return weft_layernorm(b->g, x, weft_build_weight(b, "gain"), weft_build_weight(b, "bias"),
                          weft_spec_norm_eps(b->spec, 1e-5), weft_build_norm_dtype(b));
}

const struct weft_norm weft_norm_layernorm = {
    .part = {.kind = WEFT_NORM,
             .name = "layernorm",
             .summary = "(x - mean) / sqrt(variance + norm_eps) * gain + bias",
             .owner = {.name = "norm=layernorm"},
             .params = params},
    .build = build,
};
