/* SPDX-License-Identifier: MIT
 *
 * eval_items.h - items scored by `weft eval`: their file, standard errors, and the difference from a second model.
 */
#ifndef WEFT_EVAL_ITEMS_H
#define WEFT_EVAL_ITEMS_H

#include "base/json.h"
#include "train/score/items.h"

/* A figure computed from items. It is printed as NAME_error and, if there is a file to compare with, as diff_NAME with
 * the ends of its interval. */
struct weft_item_figure {
    const char *name; /* NULL: no more */
    double scale;     /* factor from a mean cost to the figure */
    bool norm;        /* use the second cost */
    bool quiet;       /* print only the difference, not NAME_error */
};
/* Checks before scoring that the file to compare with can be used. */
enum weft_status weft_eval_check(const char *against);
/* Saves the items to `save` and compares them with the file `against`; each path may be NULL. */
enum weft_status weft_eval_items(const struct weft_items *items, const char *save, const char *against,
                                 const struct weft_item_figure *figures, struct weft_result *r);

#endif
