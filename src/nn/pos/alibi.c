/* SPDX-License-Identifier: MIT
 *
 * pos/alibi - scores fall with distance, head by head with its own slope: p = -slope_h (i - j). No parameters.
 * (Press, Smith and Lewis, Train Short, Test Long, 2022.)
 */
#include "nn/build.h"
#include "ops/ops.h"

static struct weft_value *bias(struct weft_build *b, const void *opts)
{
    return weft_alibi(b->g, b->spec->heads, b->spec->context);
}

const struct weft_pos weft_pos_alibi = {
    .part = {.kind = WEFT_POS,
             .name = "alibi",
             .summary = "score - slope_h * distance",
             .owner = {.name = "pos=alibi"}},
    .bias = bias,
};
