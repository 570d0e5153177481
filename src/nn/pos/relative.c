/* SPDX-License-Identifier: MIT
 *
 * pos/relative - one learned bias per head and distance, added to the score; distances beyond the last share its bias.
 * Biases are initially 0 and are not decayed. Parameters: H relative_max in every layer.
 */
#include "nn/build.h"

#include <stddef.h>

struct relative {
    int64_t max;
};

static bool has_all(const void *model, const void *own)
{
    return ((const struct relative *)own)->max >= ((const struct weft_spec *)model)->context;
}

static const struct weft_opt options[] = {
    {"relative_max", WEFT_OPT_INT, offsetof(struct relative, max), "0", 0, 1 << 24, .idle = has_all,
     .help = "number of distances with a learned bias; 0: every distance in the context"},
};

static int64_t offsets(const struct weft_spec *spec, const struct relative *o)
{
    return o->max ? weft_min(o->max, spec->context) : spec->context;
}

static void shrink(const struct weft_spec *spec, void *opts)
{
    struct relative *o = opts;
    o->max = o->max ? 5 : 0;
}

static void bias_params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    weft_params_add(p, (struct weft_param){.name = "relative",
                                           .ndim = 2,
                                           .dim = {spec->heads, offsets(spec, opts)},
                                           .init = WEFT_INIT_CONSTANT,
                                           .extend = WEFT_EXTEND_COLUMNS,
                                           .role = WEFT_TABLE,
                                           .group = WEFT_TRAINED_VECTOR});
}

static struct weft_value *bias(struct weft_build *b, const void *opts) { return weft_build_weight(b, "relative"); }

const struct weft_pos weft_pos_relative = {
    .part = {.kind = WEFT_POS,
             .name = "relative",
             .summary = "score + learned bias of the distance, per head",
             .owner = WEFT_OWNER("pos=relative", options),
             .options_bytes = sizeof(struct relative),
             .shrink = shrink},
    .bias = bias,
    .bias_params = bias_params,
};
