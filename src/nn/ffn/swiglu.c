/* SPDX-License-Identifier: MIT
 *
 * ffn/swiglu - y = residual + (silu(x w3) * (x w1)) w2. Parameters: 3 C F.
 */
#include "nn/nn.h"

static void params(struct weft_params *p, const struct weft_spec *spec)
{
    int64_t f = spec->ffn_width;
    weft_params_linear(p, spec, "w1", f, spec->width);
    weft_params_linear(p, spec, "w3", f, spec->width);
    weft_params_project(p, spec, "w2", spec->width, f);
}

static struct weft_value *build(struct weft_build *b, struct weft_value *x)
{
    struct weft_value *up = weft_build_linear(b, x, "w1"), *gate = weft_build_linear(b, x, "w3");
    return weft_build_project(b, weft_swiglu(b->g, gate, up), "w2");
}

const struct weft_variant weft_ffn_swiglu = {
    .name = "swiglu",
    .summary = "(silu(x w3) * (x w1)) w2",
    .owner = {.name = "ffn=swiglu"},
    .gated = true,
    .params = params,
    .build = build,
};
