/* SPDX-License-Identifier: MIT
 *
 * safetensors_format.h - tensors in a file as Hugging Face's format has them, for the files that read and write them:
 * the length of a header in 8 bytes, the header in JSON, and the values, little-endian and without gaps.
 *
 *     {"__metadata__": {"name": "text", ...}, "wte": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *
 * The format has no checksums; they are put into the metadata, where other programs leave them alone:
 * "weft.checksum.wte" of the tensor's name, type, shape and values, so that a damaged header shows too, and
 * "weft.checksum" of all the metadata, in any order, for some programs do not keep it.
 */
#ifndef WEFT_CKPT_SAFETENSORS_FORMAT_H
#define WEFT_CKPT_SAFETENSORS_FORMAT_H

#include "ckpt/ckpt.h"

#include <jansson.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values and checksums are read and written as they lie");

#define WEFT_SAFETENSORS_METADATA "__metadata__"
#define WEFT_SAFETENSORS_SUM "weft.checksum"
enum {
    WEFT_SAFETENSORS_LONGEST_HEADER = 1 << 24 /* some eighty thousand tensors */,
    WEFT_SAFETENSORS_LONGEST_NAME = 512
};

/* Whether it may end up on a terminal: short, and without control characters. */
bool weft_safetensors_is_name(const char *name);

/* The name of an entry's type; and its type and the bytes of an element by that name: false if there is none such. */
const char *weft_safetensors_type(const struct weft_entry *e);
bool weft_safetensors_set_type(struct weft_entry *e, const char *name, size_t *bytes);

/* ---- checksums, as they are written, and what the metadata call a tensor's */

struct weft_safetensors_sum {
    char text[17];
};
struct weft_safetensors_sum weft_safetensors_sum(const struct weft_entry *e, size_t bytes);
struct weft_safetensors_sum weft_safetensors_sum_metadata(json_t *metadata);

struct weft_safetensors_sum_name {
    char text[sizeof WEFT_SAFETENSORS_SUM + 1 + WEFT_SAFETENSORS_LONGEST_NAME];
};
struct weft_safetensors_sum_name weft_safetensors_sum_name(const struct weft_entry *e);

#endif
