/* SPDX-License-Identifier: MIT
 *
 * eval_items.h - items scored by `weft eval`: their noise, their file, and the difference from the items of a second
 * model.
 */
#ifndef WEFT_EVAL_ITEMS_H
#define WEFT_EVAL_ITEMS_H

#include "base/json.h"
#include "train/score/items.h"

/* A figure to print from items: NAME_error and, with a file to compare with, diff_NAME and the ends of its interval. */
struct weft_item_figure {
    const char *name; /* NULL: no more */
    double scale;     /* factor from a mean cost to the figure */
    bool norm;        /* use the second cost */
    bool quiet;       /* print only the difference, not NAME_error */
};
/* Checks before scoring that the file to compare with can be used. */
enum weft_status weft_eval_check(const char *against);
/* `save` and `against` are paths or NULL. */
enum weft_status weft_eval_items(const struct weft_items *items, const char *save, const char *against,
                                 const struct weft_item_figure *figures, struct weft_result *r);

#endif
