/* SPDX-License-Identifier: MIT
 *
 * pos/none - no positions: only the causal mask tells tokens apart.
 */
#include "nn/nn.h"

const struct weft_variant weft_pos_none = {
    .name = "none",
    .summary = "no positions",
    .owner = {.name = "pos=none"},
};
