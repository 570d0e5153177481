/* SPDX-License-Identifier: MIT
 *
 * ffn/gelu - y = residual + gelu(x fc) proj, gelu in its tanh form. Parameters: 2 C F.
 */
#include "nn/nn.h"

static void params(struct weft_params *p, const struct weft_spec *spec)
{
    int64_t f = spec->ffn_width;
    weft_params_linear(p, spec, "fc", f, spec->width);
    weft_params_project(p, spec, "proj", spec->width, f);
}

static struct weft_value *build(struct weft_build *b, struct weft_value *x)
{
    return weft_build_project(b, weft_gelu(b->g, weft_build_linear(b, x, "fc")), "proj");
}

const struct weft_variant weft_ffn_gelu = {
    .name = "gelu",
    .summary = "gelu(x fc) proj",
    .owner = {.name = "ffn=gelu"},
    .params = params,
    .build = build,
};
