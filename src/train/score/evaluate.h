/* SPDX-License-Identifier: MIT
 *
 * evaluate.h - scores on validation and test samples (eval.c).
 */
#ifndef WEFT_EVALUATE_H
#define WEFT_EVALUATE_H

#include "comm/comm.h"
#include "train/recipe.h"

struct weft_score {
    double loss, accuracy; /* means over scored tokens; the loss is cross-entropy alone */
    int64_t tokens;        /* number of scored tokens */
};
struct weft_scores {
    struct weft_score val, test; /* choices are made on validation; the test is scored once, at the end */
};
/* Scores the recipe's held-out samples starting at WEFT_HELD_OUT or WEFT_TEST, without dropout. `batch` samples run in
 * parallel on each of the ranks of `comm` (NULL: no other ranks); the score depends on neither. */
enum weft_status weft_evaluate(const struct weft_nn *model, const struct weft_recipe *recipe, struct weft_comm *comm,
                               int64_t batch, uint64_t first, struct weft_score *score);
/* Does the same for the test, and computes the cost of each item (items.h); release the items even after a failure. */
struct weft_items;
enum weft_status weft_evaluate_test(const struct weft_nn *model, const struct weft_recipe *recipe,
                                    struct weft_comm *comm, int64_t batch, struct weft_score *score,
                                    struct weft_items *items);

#endif
