/* SPDX-License-Identifier: MIT
 *
 * eval_items.c - prints and saves the items scored by `weft eval`: standard errors, and the difference from a second
 * model, paired by item.
 */
#include "cmd/kit/eval_items.h"
#include "stats/stats.h"

#include <math.h>
#include <string.h>

static void add(struct weft_result *r, const char *before, const char *name, const char *after, double value)
{
    char key[80];
    snprintf(key, sizeof key, "%s%s%s", before, name, after);
    weft_result_real(r, key, value + 0.0); /* no -0 */
}

static void add_difference(struct weft_result *r, const struct weft_item_figure *f, const struct weft_item_noise *n)
{
    double ends[] = {f->scale * n->interval.low, f->scale * n->interval.high};
    add(r, "diff_", f->name, "", f->scale * n->mean);
    add(r, "diff_", f->name, "_low", f->scale < 0 ? ends[1] : ends[0]);
    add(r, "diff_", f->name, "_high", f->scale < 0 ? ends[0] : ends[1]);
}

static enum weft_status compare(const struct weft_items *items, const char *against,
                                const struct weft_item_figure *figures, struct weft_result *r)
{
    struct weft_items other;
    struct weft_item_noise noise;
    enum weft_status status = weft_items_load(&other, against);
    for (const struct weft_item_figure *f = figures; f->name && status == WEFT_OK; f++) {
        status = weft_items_noise(items, &other, f->norm, &noise);
        if (status == WEFT_OK)
            add_difference(r, f, &noise);
    }
    if (status == WEFT_INVALID)
        status = FAIL(WEFT_INVALID,
                      "%s has the items of a different test (%lld %s instead of %lld %s): score both models on the "
                      "same data and, if it is text, with the same tokens",
                      against, (long long)other.count, other.kind, (long long)items->count, items->kind);
    weft_items_release(&other);
    return status;
}

enum weft_status weft_eval_check(const char *against)
{
    struct weft_items items = {0};
    enum weft_status status = against ? weft_items_load(&items, against) : WEFT_OK;
    weft_items_release(&items);
    return status;
}

enum weft_status weft_eval_items(const struct weft_items *items, const char *save, const char *against,
                                 const struct weft_item_figure *figures, struct weft_result *r)
{
    struct weft_item_noise noise;
    for (const struct weft_item_figure *f = figures; f->name; f++)
        if (!f->quiet) {
            TRY(weft_items_noise(items, NULL, f->norm, &noise));
            add(r, "", f->name, "_error", fabs(f->scale) * noise.error);
        }
    if (against)
        TRY(compare(items, against, figures, r));
    if (save)
        TRY(weft_items_save(items, save));
    return WEFT_OK;
}
