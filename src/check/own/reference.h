/* SPDX-License-Identifier: MIT
 *
 * reference.h - shared by reference.c and reference_file.c.
 */
#ifndef WEFT_REFERENCE_H
#define WEFT_REFERENCE_H

#include "check/probe/gate.h"

/* What its author computed, as f64. */
struct weft_reference {
    struct weft_arena arena;
    struct weft_tensor logits, loss, *grad; /* grad: by weight */
};

/* Sequences and tokens of the inputs. */
struct weft_net_size weft_reference_size(const struct weft_nn *model);
/* Writes weights, tokens and targets of a probe for training. */
enum weft_status weft_reference_write(const struct weft_probe *p, const char *path);
/* Reads the file and refuses what is missing, unknown, of another shape or not finite. Release the arena also after a
 * failure. */
enum weft_status weft_reference_read(struct weft_reference *r, const struct weft_nn *model, const char *path);

#endif
