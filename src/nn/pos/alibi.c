/* SPDX-License-Identifier: MIT
 *
 * pos/alibi - scores fall with distance, head by head with its own slope: p = -slope_h (i - j). No parameters.
 * (Press, Smith and Lewis, Train Short, Test Long, 2022.)
 */
#include "nn/nn.h"

static struct weft_value *bias(struct weft_build *b) { return weft_alibi(b->g, b->spec->heads, b->spec->context); }

const struct weft_variant weft_pos_alibi = {
    .name = "alibi",
    .summary = "score - slope_h * distance",
    .owner = {.name = "pos=alibi"},
    .bias = bias,
};
