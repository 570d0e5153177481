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
    int64_t tokens;        /* scored */
};
struct weft_scores {
    struct weft_score val, test; /* choices are made on validation; the test is scored once, at the end */
};
/* Of the recipe's held-out samples from WEFT_HELD_OUT or WEFT_TEST on, without dropout. `batch` of them run side by
 * side, on each of the ranks of `comm` (NULL: alone); the score depends on neither. */
enum weft_status weft_evaluate(const struct weft_nn *model, const struct weft_recipe *recipe, struct weft_comm *comm,
                               int64_t batch, uint64_t first, struct weft_score *score);
/* The same of the test, and what each of its items costs (items.h); release these, also after a failure. */
struct weft_items;
enum weft_status weft_evaluate_test(const struct weft_nn *model, const struct weft_recipe *recipe,
                                    struct weft_comm *comm, int64_t batch, struct weft_score *score,
                                    struct weft_items *items);

#endif
