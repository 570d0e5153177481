/* SPDX-License-Identifier: MIT
 *
 * mask.h - dropout masks of forms, by their definition.
 */
#ifndef WEFT_MASK_H
#define WEFT_MASK_H

#include "graph/form.h"

/* Returns whether a mask drops a column of the row at this position, for scores also of this head. `sample` is the
 * index of the row's sample. */
bool weft_mask_drops(const struct weft_drop *d, const int32_t step_key[4], int32_t sample, int32_t pos, int64_t head,
                     int64_t column);

#endif
