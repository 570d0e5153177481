/* SPDX-License-Identifier: MIT
 *
 * stepped.h - the parts of the gate `stepped`, and of `exact` and `cached`, that use a trainer.
 */
#ifndef WEFT_STEPPED_H
#define WEFT_STEPPED_H

#include "check/trainer/definitions.h"
#include "check/trainer/rehearsal.h"

/* A trainer that refuses to step, as with a gradient that is not finite, or cannot read what it wrote, is a failed
 * check; others are failures. */
enum weft_status weft_trial_refused(const struct weft_trial *t, enum weft_status status, const char *what);
/* The learning rates of a recipe; and of all schedules, of a recipe that is otherwise like this one (rates.c). */
void weft_check_schedule(const struct weft_trial *t, const struct weft_recipe *r);
void weft_check_schedules(const struct weft_trial *t, const struct weft_recipe *like);
enum weft_status weft_check_scores(const struct weft_trial *t, const struct weft_rehearsal *s);
enum weft_status weft_check_targets(const struct weft_trial *t);
/* Three steps on the twin, divided like this (stepped.c). */
enum weft_status weft_check_steps(const struct weft_trial *t, int64_t micro_batches, int64_t groups, double dropout);
/* One step on the twin with the recipe's own micro-batches and groups (divided.c). */
enum weft_status weft_check_division(const struct weft_trial *t);
/* First weights: of the model itself; and of the twin's size with other seeds and keys (first_weights.c). */
enum weft_status weft_check_first_weights(const struct weft_trial *t);
enum weft_status weft_check_seeds(const struct weft_trial *t);
/* What the trainer wrote into its graph for the gradient that it has just computed; overwrites keys (inputs.c). */
enum weft_status weft_check_inputs(const struct weft_trial *t, const struct weft_learner *trainer);
/* The definition of what is pruned of units, so large a share of them (pruned_units.c): sets the elements of `mask`,
 * and to 0 those of `weights`, by which they are chosen. And shares that prune at least one unit of this model and
 * leave at least one. */
enum weft_status weft_plain_units(const struct weft_learner *trainer, const struct weft_shares *shares, float *weights,
                                  bool *mask);
struct weft_shares weft_plain_shares(const struct weft_shares *s, const struct weft_nn *model);
/* Masks of a recipe that prunes, on a twin and on the model itself, whose first weights are drawn again (pruned.c). */
enum weft_status weft_check_pruned(const struct weft_trial *t);
/* The loop with its log, scores and checkpoints, on a twin of the model itself (whole_run.c). */
enum weft_status weft_check_rehearsed(const struct weft_trial *t);
/* Checks that a checkpoint restores what it saves (restored.c). */
enum weft_status weft_check_restored(const struct weft_trial *t);
/* Opens the weights of a trainer's checkpoint in every way that users have (opened.c). */
enum weft_status weft_check_opened(const struct weft_trial *t, const struct weft_rehearsal *s, const char *run,
                                   const char *checkpoint);

#endif
