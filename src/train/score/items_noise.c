/* SPDX-License-Identifier: MIT
 *
 * items_noise.c - computes the noise of a test set from the costs of its items for one or two models.
 */
#include "stats/stats.h"
#include "train/score/items.h"

#include <stdlib.h>
#include <string.h>

bool weft_items_same(const struct weft_items *a, const struct weft_items *b)
{
    return a->count == b->count && strcmp(a->items_sha256, b->items_sha256) == 0 &&
           memcmp(a->tokens, b->tokens, (size_t)a->count * sizeof *a->tokens) == 0;
}

enum weft_status weft_items_noise(const struct weft_items *t, const struct weft_items *base, bool norm,
                                  struct weft_item_noise *noise)
{
    if (base && !weft_items_same(t, base))
        return FAIL(WEFT_INVALID, "they were not scored on the same items");
    if (norm && (!t->norm || (base && !base->norm)))
        return FAIL(WEFT_INVALID, "they have no costs per byte");
    double *cost = malloc(2 * (size_t)weft_max(1, t->count) * sizeof *cost), *weight = cost + t->count;
    if (!cost)
        return FAIL(WEFT_NOMEM, "not enough memory for %lld items", (long long)t->count);
    for (int64_t i = 0; i < t->count; i++) {
        cost[i] = (norm ? t->norm : t->nll)[i] - (base ? (norm ? base->norm : base->nll)[i] : 0);
        weight[i] = t->tokens[i];
    }
    *noise = weft_item_noise(cost, weight, t->count);
    free(cost);
    return WEFT_OK;
}
