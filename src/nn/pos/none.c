/* SPDX-License-Identifier: MIT
 *
 * pos/none - no positions: only the causal mask distinguishes tokens.
 */
#include "nn/build.h"

const struct weft_pos weft_pos_none = {
    .part = {.kind = WEFT_POS, .name = "none", .summary = "no positions", .owner = {.name = "pos=none"}},
};
