/* SPDX-License-Identifier: MIT
 *
 * diff.h - finds where two runs diverge: trains both again, side by side, from the last checkpoint they have in common,
 * and finds the first step, op, tensor and element that differ.
 */
#ifndef WEFT_DIFF_H
#define WEFT_DIFF_H

#include "train/recipe.h"

struct weft_diff {
    /* ---- set by the caller: two runs of models with the same weights */
    struct weft_diff_side {
        const struct weft_spec *spec;
        struct weft_recipe *recipe; /* the comparison opens its data */
        const char *folder;
    } side[2];
    void *context;
    void (*on_step)(void *context, int64_t step, int64_t last); /* may be NULL */

    /* ---- results */
    int64_t record;     /* step of the first differing records; -1: all records common to both logs agree */
    char text[2][4096]; /* the first differing records */
    int64_t common;     /* step of the checkpoint from which training was repeated; 0: the initial weights */
    int64_t step;       /* first differing step; -1: none */
    const char
        *what; /* "samples", "loss", "gradient", "weights", "moments", or a checkpoint compared with retraining */
    char tensor[256]; /* "": none */
    int64_t element;
    double value[2]; /* values in A and B, or in a checkpoint and in retraining */
    /* If a loss or gradient differs: a description of the first op of the step whose result differs, and its values in
     * A and B (NaN: the graphs have different ops). "": none. */
    char op[512];
    double op_value[2];
};

enum weft_status weft_diff_run(struct weft_diff *d);

#endif
