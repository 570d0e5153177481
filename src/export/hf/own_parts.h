/* SPDX-License-Identifier: MIT
 *
 * own_parts.h - which models can be exported: those made of Weft's own parts, whose code the formats have.
 */
#ifndef WEFT_OWN_PARTS_H
#define WEFT_OWN_PARTS_H

#include "nn/spec.h"

/* Refuses a model with a part from outside, which `format` has no code for, and one that no cache can decode. */
enum weft_status weft_own_parts_check(const struct weft_spec *spec, const char *format);

#endif
