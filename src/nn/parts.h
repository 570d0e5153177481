/* SPDX-License-Identifier: MIT
 *
 * parts.h - the descriptors of the parts of parts.def, for the few files that name a part. All other files find parts
 * by name and need not be recompiled when a part is added.
 */
#ifndef WEFT_PARTS_H
#define WEFT_PARTS_H

#include "nn/part.h"

#define GEOM(name) extern const struct weft_geom weft_geom_##name;
#define ATTN(name) extern const struct weft_attn weft_attn_##name;
#define POS(name) extern const struct weft_pos weft_pos_##name;
#define FFN(name) extern const struct weft_ffn weft_ffn_##name;
#define NORM(name) extern const struct weft_norm weft_norm_##name;
#define RECIP(name) extern const struct weft_mechanism weft_recip_##name;
#include "nn/parts.def"

#endif
