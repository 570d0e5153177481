/* SPDX-License-Identifier: MIT
 *
 * eval_items.h - the items that `weft eval` scored: their noise, their file, and the difference from those of another
 * model.
 */
#ifndef WEFT_EVAL_ITEMS_H
#define WEFT_EVAL_ITEMS_H

#include "base/json.h"
#include "train/score/items.h"

/* What is printed of items: NAME_error, and with a file to compare with diff_NAME and the ends of its interval. */
struct weft_item_figure {
    const char *name; /* NULL: no more */
    double scale;     /* from a mean cost to the figure */
    bool norm;        /* by the second cost */
    bool quiet;       /* no error, only the difference */
};
/* Whether there is anything to compare with, before time is spent on scoring. */
enum weft_status weft_eval_check(const char *against);
/* `save` and `against` are paths or NULL. */
enum weft_status weft_eval_items(const struct weft_items *items, const char *save, const char *against,
                                 const struct weft_item_figure *figures, struct weft_result *r);

#endif
