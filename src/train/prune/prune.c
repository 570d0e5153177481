/* SPDX-License-Identifier: MIT
 *
 * prune.c - gradual magnitude pruning (M. Zhu and S. Gupta, arXiv:1710.01878). After step n, from step b to step e, the
 * fraction
 *
 *     s(n) = prune (1 - (1 - (n - b) / (e - b))^3)
 *
 * of each selected matrix is 0: the floor(s count) elements with the smallest magnitude; ties go to the lower index.
 * The masks mark these elements. They are recomputed every prune_every steps from b to e, and only grow. A pruned
 * weight has no gradient and zero moments, and is not included in any norm.
 *
 * Heads, channels and ranks (prune_units.c) are masked first. Their elements are then 0 and therefore among the
 * smallest.
 *
 * A mask is a function of the weights and the previous mask, so it does not depend on the number of threads or ranks:
 * every rank has all weights and computes all masks.
 */
#include "train/prune/prune.h"

#include <string.h>

/* ---- selection and schedule */

static bool is_chosen(const struct weft_pruning *p, const struct weft_param *w)
{
    if (w->layer < 0)
        return p->embedding;
    if (w->half == WEFT_HALF_ATTN)
        return p->attention;
    return w->half == WEFT_HALF_FFN ? p->ffn : p->mechanisms;
}

bool weft_prunes(const struct weft_recipe *r, const struct weft_param *w)
{
    return r->prune.target > 0 && w->decay && is_chosen(&r->prune, w);
}

static int64_t step_at(const struct weft_recipe *r, double share) { return (int64_t)(share * (double)r->steps); }

double weft_recipe_sparsity(const struct weft_recipe *r, double target, int64_t step)
{
    int64_t begin = step_at(r, r->prune.begin), end = step_at(r, r->prune.end);
    if (step >= end)
        return target;
    if (step <= begin)
        return 0;
    double left = (double)(end - step) / (double)(end - begin);
    return target * (1 - left * left * left);
}

static bool is_due(const struct weft_recipe *r, int64_t step)
{
    int64_t begin = step_at(r, r->prune.begin);
    return step >= step_at(r, r->prune.end) || (step > begin && (step - begin) % r->prune.every == 0);
}

int64_t weft_prune_count(const struct weft_recipe *r, const struct weft_param *w, int64_t step)
{
    return weft_prunes(r, w) ? (int64_t)(weft_recipe_sparsity(r, r->prune.target, step) * (double)w->count) : 0;
}

static enum weft_status check_chosen(const struct weft_recipe *r, const struct weft_nn *model)
{
    bool any = r->prune.target == 0;
    for (int i = 0; i < model->params.count; i++)
        any |= weft_prunes(r, &model->params.list[i]);
    return any ? WEFT_OK
               : FAIL(WEFT_INVALID,
                      "prune=%g selects no weight of this model: see prune_attention, prune_ffn, prune_mechanisms and "
                      "prune_embedding",
                      r->prune.target);
}

enum weft_status weft_pruning_check(const struct weft_recipe *r, const struct weft_nn *model)
{
    struct weft_smaller units[WEFT_UNITS];
    TRY(check_chosen(r, model));
    enum weft_status status = weft_units_init(units, model, &r->prune.units);
    weft_units_release(units);
    return status;
}

/* ---- masks */

enum weft_status weft_masks_create(struct weft_learner *t)
{
    if (!weft_pruning_any(&t->recipe->prune))
        return WEFT_OK;
    TRY(check_chosen(t->recipe, t->model));
    TRY(weft_masks_alloc(t));
    t->units = weft_arena_alloc(&t->arena, WEFT_UNITS * sizeof *t->units);
    if (!t->units)
        return FAIL(WEFT_NOMEM, "not enough memory for the units to prune");
    return weft_units_init(t->units, t->model, &t->recipe->prune.units);
}

void weft_masks_free(struct weft_learner *t)
{
    if (t->units)
        weft_units_release(t->units);
}

bool weft_mask_exists(const struct weft_learner *t, int i)
{
    bool exists = weft_prunes(t->recipe, &t->model->params.list[i]);
    for (int what = 0; what < WEFT_UNITS; what++)
        exists |= t->units[what].model && t->units[what].layer[i] >= 0;
    return exists;
}

/* ---- growing masks */

/* Returns the bits of a magnitude, which are ordered like magnitudes. */
static uint32_t magnitude(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7FFFFFFF;
}

static int64_t count_up_to(const float *values, int64_t count, uint32_t most)
{
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++)
        n += magnitude(values[i]) <= most;
    return n;
}

/* Returns the smallest magnitude that at least `wanted` values do not exceed. */
static uint32_t find_limit(const float *values, int64_t count, int64_t wanted)
{
    uint32_t least = 0, most = 0x7FFFFFFF;
    while (least < most) {
        uint32_t middle = least + (most - least) / 2;
        if (count_up_to(values, count, middle) >= wanted)
            most = middle;
        else
            least = middle + 1;
    }
    return least;
}

/* Extends a mask to the `wanted` smallest elements. Elements that are already pruned are 0 and therefore among the
 * smallest.
 */
static void grow(uint32_t *mask, float *values, int64_t count, int64_t wanted)
{
    uint32_t limit = find_limit(values, count, wanted);
    for (int64_t i = 0; i < count; i++)
        if (magnitude(values[i]) < limit)
            weft_mask_set(mask, i);
    int64_t left = wanted - weft_mask_bits(mask, weft_div_up(count, WEFT_MASK_WORD));
    for (int64_t i = 0; left > 0 && i < count; i++)
        if (magnitude(values[i]) == limit && !weft_mask_has(mask, i)) {
            weft_mask_set(mask, i);
            left--;
        }
}

static void grow_mask(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_learner *t = context;
    const struct weft_param *w = &t->model->params.list[tile];
    int64_t wanted = weft_prune_count(t->recipe, w, t->step);
    uint32_t *mask = weft_mask_of(t, w);
    if (wanted > weft_mask_bits(mask, weft_mask_words(w)))
        grow(mask, t->model->params.weights + w->offset, w->count, wanted);
}

static void grow_units(struct weft_learner *t)
{
    const struct weft_recipe *r = t->recipe;
    for (int i = 0; i < WEFT_UNITS; i++) {
        struct weft_smaller *s = &t->units[i];
        double share = weft_shares_of(&r->prune.units, t->model, (enum weft_units)i);
        if (s->model)
            weft_units_mask(t, s, weft_units_at(s->units, weft_recipe_sparsity(r, share, t->step)));
    }
}

static void clear_weights(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_learner *t = context;
    weft_mask_apply(t, tile, t->model->params.weights + t->spans[tile].first);
}

static void clear_moments(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_learner *t = context;
    const struct weft_own *own = &t->own[tile];
    for (int i = 0; i < 2; i++)
        weft_mask_apply(t, own->span, t->moments[i] + own->moment);
}

void weft_masks_grow(struct weft_learner *t)
{
    int64_t before = t->pruned;
    if (!t->mask || !is_due(t->recipe, t->step))
        return;
    grow_units(t);
    weft_parallel(t->model->params.count, grow_mask, t);
    weft_masks_count(t);
    if (t->pruned == before)
        return;
    weft_parallel(t->span_count, clear_weights, t);
    weft_parallel(t->own_count, clear_moments, t);
}

/* ---- options */

enum weft_status weft_pruning_resolve(const struct weft_recipe *r)
{
    if (r->prune.begin > r->prune.end)
        return FAIL(WEFT_INVALID, "prune_begin=%g is after prune_end=%g: make prune_begin smaller", r->prune.begin,
                    r->prune.end);
    return WEFT_OK;
}
