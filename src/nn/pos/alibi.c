/* SPDX-License-Identifier: MIT
 *
 * pos/alibi - scores decrease with distance, with a slope per head: p = -slope_h (i - j). No parameters. (Press, Smith
 * and Lewis, Train Short, Test Long, 2022.)
 */
#include "nn/build.h"
#include "ops/ops.h"

#include <string.h>

static struct weft_value *bias(struct weft_build *b, const void *opts)
{
    return weft_alibi(b->g, b->spec->heads, b->spec->context);
}

static const char *keeps_all(const struct weft_spec *spec, const void *opts, const char *unit)
{
    return strcmp(unit, "heads") == 0
               ? "pos=alibi gives every head a slope that depends on its index: no head can be removed"
               : NULL;
}

const struct weft_pos weft_pos_alibi = {
    .part = {.kind = WEFT_POS,
             .name = "alibi",
             .summary = "score - slope_h * distance",
             .owner = {.name = "pos=alibi"},
             .keeps_all = keeps_all},
    .bias = bias,
};
