/* SPDX-License-Identifier: MIT
 *
 * own_parts.h - checks whether a model can be exported to Hugging Face or GGUF: those exporters implement only Weft's
 * own parts.
 */
#ifndef WEFT_OWN_PARTS_H
#define WEFT_OWN_PARTS_H

#include "nn/spec.h"

/* Returns an error for a model that has a registered part, which `format` does not implement, or that cannot decode
 * with a cache. */
enum weft_status weft_own_parts_check(const struct weft_spec *spec, const char *format);

#endif
