/* SPDX-License-Identifier: MIT
 *
 * stepped.h - the checks of `stepped`, `exact` and `cached` that use a trainer.
 */
#ifndef WEFT_STEPPED_H
#define WEFT_STEPPED_H

#include "check/trainer/definitions.h"
#include "check/trainer/rehearsal.h"

/* Turns an error into a failed check if it means that the trainer cannot take a step, for example because of a
 * non-finite gradient, or cannot read its own files; returns all other errors. */
enum weft_status weft_trial_refused(const struct weft_trial *t, enum weft_status status, const char *what);
/* Check the learning rates of a recipe, and of all schedules in an otherwise identical recipe (rates.c). */
void weft_check_schedule(const struct weft_trial *t, const struct weft_recipe *r);
void weft_check_schedules(const struct weft_trial *t, const struct weft_recipe *like);
enum weft_status weft_check_scores(const struct weft_trial *t, const struct weft_rehearsal *s);
enum weft_status weft_check_targets(const struct weft_trial *t);
/* Checks the first three steps on the twin and some later ones, with this number of micro-batches and groups
 * (stepped.c). */
enum weft_status weft_check_steps(const struct weft_trial *t, int64_t micro_batches, int64_t groups, double dropout);
/* Checks one step on the twin with the recipe's own micro-batches and groups (divided.c). */
enum weft_status weft_check_division(const struct weft_trial *t);
/* Check the initial weights of the model itself, and at the size of the twin with different seeds and keys
 * (first_weights.c). */
enum weft_status weft_check_first_weights(const struct weft_trial *t);
enum weft_status weft_check_seeds(const struct weft_trial *t);
/* Checks the inputs that the trainer wrote into its graph for the gradient it has just computed; overwrites keys
 * (inputs.c). */
enum weft_status weft_check_inputs(const struct weft_trial *t, const struct weft_learner *trainer);
/* Prunes the given fractions of units by definition (pruned_units.c): chooses them by `weights`, sets their elements
 * there to 0 and marks them in `mask`. weft_plain_shares returns fractions that prune at least one unit of this model
 * and leave at least one. */
enum weft_status weft_plain_units(const struct weft_learner *trainer, const struct weft_shares *shares, float *weights,
                                  bool *mask);
struct weft_shares weft_plain_shares(const struct weft_shares *s, const struct weft_nn *model);
/* Checks the masks of a recipe that prunes, on a twin and on the model itself, whose weights are initialised again
 * (pruned.c). */
enum weft_status weft_check_pruned(const struct weft_trial *t);
/* Checks the training loop with its log, scores and checkpoints, on a twin of the model itself (whole_run.c). */
enum weft_status weft_check_rehearsed(const struct weft_trial *t);
/* Checks that a checkpoint restores what it saves (restored.c). */
enum weft_status weft_check_restored(const struct weft_trial *t);
/* Checks the weights of a trainer's checkpoint, opened in every way that users can open it (opened.c). */
enum weft_status weft_check_opened(const struct weft_trial *t, const struct weft_rehearsal *s, const char *run,
                                   const char *checkpoint);

#endif
