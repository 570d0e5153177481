/* SPDX-License-Identifier: MIT
 *
 * ffn/gelu - h = gelu(x fc), with gelu in its tanh form; y = h proj. Parameters: 2 C F.
 */
#include "nn/build.h"
#include "ops/ops.h"

static void params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    weft_params_linear(p, spec, "fc", spec->ffn_width, spec->width);
    weft_params_units(p, "fc", "ffn_width", NULL);
}

static struct weft_value *build(struct weft_build *b, const void *opts, struct weft_value *x)
{
    return weft_gelu(b->g, weft_build_linear(b, x, "fc"));
}

const struct weft_ffn weft_ffn_gelu = {
    .part = {.kind = WEFT_FFN,
             .name = "gelu",
             .summary = "gelu(x fc) proj",
             .owner = {.name = "ffn=gelu"},
             .params = params},
    .build = build,
    .output = "proj",
};
