/* SPDX-License-Identifier: MIT
 *
 * reference.h - shared by reference.c and reference_file.c.
 */
#ifndef WEFT_REFERENCE_H
#define WEFT_REFERENCE_H

#include "check/probe/gate.h"

/* The values that the reference's author computed, as f64. */
struct weft_reference {
    struct weft_arena arena;
    struct weft_tensor logits, loss, *grad; /* grad: indexed by weight */
};

/* Returns the size of the inputs in sequences and tokens. */
struct weft_net_size weft_reference_size(const struct weft_nn *model);
/* Writes weights, tokens and targets of a training probe. */
enum weft_status weft_reference_write(const struct weft_probe *p, const char *path);
/* Reads the file. Missing or unknown tensors, wrong shapes and non-finite values are errors. Release the arena even
 * after a failure. */
enum weft_status weft_reference_read(struct weft_reference *r, const struct weft_nn *model, const char *path);

#endif
