/* SPDX-License-Identifier: MIT
 *
 * norm/rmsnorm - x / sqrt(mean of x^2 + norm_eps) * gain, over the width.
 */
#include "nn/build.h"
#include "ops/ops.h"

static void params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    weft_params_vector(p, "gain", spec->width, 1);
}

static struct weft_value *build(struct weft_build *b, const void *opts, struct weft_value *x)
{
    return weft_rmsnorm(b->g, x, weft_build_weight(b, "gain"), weft_spec_norm_eps(b->spec, 1e-6),
                        weft_build_norm_dtype(b));
}

const struct weft_norm weft_norm_rmsnorm = {
    .part = {.kind = WEFT_NORM,
             .name = "rmsnorm",
             .summary = "x / sqrt(mean of x^2 + norm_eps) * gain",
             .owner = {.name = "norm=rmsnorm"},
             .params = params},
    .build = build,
};
