/* SPDX-License-Identifier: MIT
 *
 * ffn/swiglu - h = silu(x w3) * (x w1); y = h w2. Parameters: 3 C F.
 */
#include "nn/build.h"
#include "ops/ops.h"

static void params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    weft_params_linear(p, spec, "w1", spec->ffn_width, spec->width);
    weft_params_linear(p, spec, "w3", spec->ffn_width, spec->width);
    weft_params_units(p, "w1", "ffn_width", NULL);
    weft_params_units(p, "w3", "ffn_width", NULL);
}

static struct weft_value *build(struct weft_build *b, const void *opts, struct weft_value *x)
{
    struct weft_value *up = weft_build_linear(b, x, "w1"), *gate = weft_build_linear(b, x, "w3");
    return weft_swiglu(b->g, gate, up);
}

const struct weft_ffn weft_ffn_swiglu = {
    .part = {.kind = WEFT_FFN,
             .name = "swiglu",
             .summary = "(silu(x w3) * (x w1)) w2",
             .owner = {.name = "ffn=swiglu"},
             .params = params},
    .build = build,
    .output = "w2",
    .gated = true,
};
