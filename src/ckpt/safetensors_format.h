/* SPDX-License-Identifier: MIT
 *
 * safetensors_format.h - Hugging Face's safetensors format: the length of the header in 8 bytes, the header in JSON,
 * and the values, little-endian and without gaps.
 *
 *     {"__metadata__": {"name": "text", ...}, "wte": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *
 * The format has no checksums, so Weft stores them in the metadata, which other programs ignore. "weft.checksum.wte"
 * covers the tensor's name, type, shape and values, so it also detects a damaged header. "weft.checksum" covers all
 * metadata, regardless of its order, which some programs change.
 */
#ifndef WEFT_CKPT_SAFETENSORS_FORMAT_H
#define WEFT_CKPT_SAFETENSORS_FORMAT_H

#include "ckpt/ckpt.h"

#include <jansson.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values and checksums are read and written in memory order");

#define WEFT_SAFETENSORS_METADATA "__metadata__"
#define WEFT_SAFETENSORS_SUM "weft.checksum"
enum { WEFT_SAFETENSORS_MAX_HEADER = 1 << 24 /* enough for about 80,000 tensors */, WEFT_SAFETENSORS_MAX_NAME = 512 };

/* Returns whether the name is short and has no control characters, so that it can be printed. */
bool weft_safetensors_is_name(const char *name);

/* weft_safetensors_type returns the name of an entry's type. weft_safetensors_set_type sets the type by name and stores
 * the size of an element in *bytes; it returns false if the name is unknown. */
const char *weft_safetensors_type(const struct weft_entry *e);
bool weft_safetensors_set_type(struct weft_entry *e, const char *name, size_t *bytes);

/* ---- checksums as text, and their keys in the metadata */

struct weft_safetensors_sum {
    char text[17];
};
struct weft_safetensors_sum weft_safetensors_sum(const struct weft_entry *e, size_t bytes);
struct weft_safetensors_sum weft_safetensors_sum_metadata(json_t *metadata);

struct weft_safetensors_sum_name {
    char text[sizeof WEFT_SAFETENSORS_SUM + 1 + WEFT_SAFETENSORS_MAX_NAME];
};
struct weft_safetensors_sum_name weft_safetensors_sum_name(const struct weft_entry *e);

#endif
