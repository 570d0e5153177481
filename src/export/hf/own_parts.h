/* SPDX-License-Identifier: MIT
 *
 * own_parts.h - selects the models that can be exported: models of Weft's own parts, for which the formats have code.
 */
#ifndef WEFT_OWN_PARTS_H
#define WEFT_OWN_PARTS_H

#include "nn/spec.h"

/* Returns an error for a model with a registered part, for which `format` has no code, and for one that cannot decode
 * with a cache. */
enum weft_status weft_own_parts_check(const struct weft_spec *spec, const char *format);

#endif
