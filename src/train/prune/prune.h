/* SPDX-License-Identifier: MIT
 *
 * prune.h - pruning during training: masks of pruned weights (prune.c).
 *
 * Invariants: after every step, a weight whose bit is set is 0, and so are its moments. Bits are never cleared.
 */
#ifndef WEFT_PRUNE_H
#define WEFT_PRUNE_H

#include "train/prune/mask.h"

/* Return an error for contradictory options, and for options that prune nothing in this model or something that it
 * needs. */
enum weft_status weft_pruning_resolve(const struct weft_recipe *r);
enum weft_status weft_pruning_check(const struct weft_recipe *r, const struct weft_nn *model);
/* Return whether the recipe prunes single elements of this weight, and the minimum number of them pruned after a step.
 */
bool weft_prunes(const struct weft_recipe *r, const struct weft_param *w);
int64_t weft_prune_count(const struct weft_recipe *r, const struct weft_param *w, int64_t step);
/* Returns the fraction pruned after a step if the final fraction is `target`. */
double weft_recipe_sparsity(const struct weft_recipe *r, double target, int64_t step);

/* Creates an empty t->mask and t->units, but neither if the recipe does not prune. */
enum weft_status weft_masks_create(struct weft_learner *t);
void weft_masks_free(struct weft_learner *t);
/* Returns whether the recipe prunes anything in weight i. */
bool weft_mask_exists(const struct weft_learner *t, int i);
/* Extends the masks as scheduled after a step, and sets the pruned weights to 0. */
void weft_masks_grow(struct weft_learner *t);

/* ---- units (prune_units.c) */

/* Initialises the entries of `units` for the kinds that are pruned; the other entries have no model. Release them even
 * after a failure. */
enum weft_status weft_units_init(struct weft_smaller units[WEFT_UNITS], const struct weft_nn *model,
                                 const struct weft_shares *shares);
void weft_units_release(struct weft_smaller units[WEFT_UNITS]);
/* Masks and clears `count` units of each layer. */
void weft_units_mask(struct weft_learner *t, struct weft_smaller *units, int64_t count);

/* ---- on disk (prune_file.c): masks.safetensors of a checkpoint */

enum weft_status weft_masks_save(const struct weft_learner *t, const char *path, const char *const *metadata);
enum weft_status weft_masks_load(struct weft_learner *t, const char *path);

#endif
