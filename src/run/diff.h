/* SPDX-License-Identifier: MIT
 *
 * diff.h - where two runs part: trains both again, side by side, from the last checkpoint that they have in common, and
 * finds the first step, tensor and element that differ, and the op within the step.
 */
#ifndef WEFT_DIFF_H
#define WEFT_DIFF_H

#include "train/recipe.h"

struct weft_diff {
    /* ---- what is wanted: two runs, of models with the same weights */
    struct weft_diff_side {
        const struct weft_spec *spec;
        struct weft_recipe *recipe; /* its data are opened here */
        const char *folder;
    } side[2];
    void *context;
    void (*on_step)(void *context, int64_t step, int64_t last); /* may be NULL */

    /* ---- what came of it */
    int64_t record;     /* step of the first records that differ; -1: all that both logs have are the same */
    char text[2][4096]; /* those records */
    int64_t common;     /* the checkpoint it began from; 0: the initial weights */
    int64_t step;       /* the first that differs; -1: none */
    const char *what; /* "samples", "loss", "gradient", "weights", "moments", or a checkpoint against training again */
    char tensor[256]; /* "": there is none */
    int64_t element;
    double value[2]; /* of A and B, or of a checkpoint and of training again */
    /* Of a loss or gradient: the first op of the step whose result differs, in words, and there the numbers of A and B
     * (NaN: the graphs have other ops). "": there is none. */
    char op[512];
    double op_value[2];
};

enum weft_status weft_diff_run(struct weft_diff *d);

#endif
