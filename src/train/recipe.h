/* SPDX-License-Identifier: MIT
 *
 * recipe.h - the training recipe: the chosen steps, batches, rates, task and optimiser (recipe.c).
 *
 * Invariant: a step is M micro-batches of the model's batch size. The recipe alone determines the order in which its
 * gradient is summed.
 */
#ifndef WEFT_RECIPE_H
#define WEFT_RECIPE_H

#include "nn/units.h"
#include "train/tasks.h"

/* Pruning during training (prune.h). */
struct weft_pruning {
    double target;            /* final fraction of each selected matrix; 0: no single weights are pruned */
    struct weft_shares units; /* final fractions of the units that are pruned as a whole */
    double begin, end;        /* fractions of the steps */
    int64_t every;            /* interval in steps */
    bool attention, ffn, mechanisms, embedding;
};
static inline bool weft_pruning_any(const struct weft_pruning *p)
{
    return p->target > 0 || weft_shares_any(&p->units);
}

struct weft_recipe {
    int64_t steps, warmup, eval_samples;
    int64_t log_every, eval_every, checkpoint_every; /* intervals in steps; 0: only at the end */
    int64_t diagnose_every;                          /* interval in steps; 0: never */
    int64_t keep;                                    /* number of checkpoints to keep */
    int64_t micro_batches;                           /* M, number of micro-batches per step */
    int64_t grad_groups;                             /* number of groups as set, see weft_recipe_groups */
    double lr, clip;
    const char *init; /* source of initial weights, see weft_nn_adopt; "": all are randomly initialised */
    bool init_leave;
    struct weft_pruning prune;
    const struct weft_task *task;
    const struct weft_optim *optim;
    void *task_options, *optim_options;
    struct weft_recipe_choice {
        int task, optim, schedule;
    } choice;
    bool open; /* the task's data is open */
    struct weft_arena arena;
};

/* Reads the recipe's settings, after the spec has read its own, and rejects unknown ones. The recipe is for models of
 * this spec, whose vocabulary size is set to that of the task's data unless a setting gives it. */
enum weft_status weft_recipe_init(struct weft_recipe *r, struct weft_spec *spec, struct weft_settings *settings);
/* Creates the default recipe, with recall samples that fit into this model. */
enum weft_status weft_recipe_plain(struct weft_recipe *r, struct weft_spec *spec);
/* Opens the data that samples are read from. Call it before creating a trainer; a recipe alone needs no files. Data
 * that is already open stays open. */
enum weft_status weft_recipe_open(struct weft_recipe *r, const struct weft_spec *spec);
void weft_recipe_release(struct weft_recipe *r);
/* Sets the initial weights for training: randomly initialised, or read from `init`. */
enum weft_status weft_recipe_weights(const struct weft_recipe *r, struct weft_nn *model, weft_fit_fn *fn,
                                     void *context);
/* Computes the training FLOPs per token, given `all`, the FLOPs if every token is scored, as in text. The scored tokens
 * are counted in the task's first sample, so its data must be open. */
enum weft_status weft_recipe_flops(const struct weft_recipe *r, const struct weft_spec *spec, double all,
                                   double *flops);
/* Returns how many of the `wanted` samples from `first` (WEFT_HELD_OUT or WEFT_TEST) exist. */
int64_t weft_recipe_held_out(const struct weft_recipe *r, uint64_t first, int64_t wanted);
/* Writes `count` samples starting at `index` into the inputs of a graph; returns the number of scored tokens. */
int64_t weft_recipe_fill(const struct weft_recipe *r, const struct weft_spec *spec, const struct weft_net *net,
                         struct weft_exec *exec, uint64_t index, int64_t count);
/* Returns the learning rate of a step, counted from 1: linear warm-up, then the schedule. */
double weft_recipe_lr(const struct weft_recipe *r, int64_t step);
/* Returns the number of groups of micro-batches whose gradients are summed separately: as set, but at most M. */
int64_t weft_recipe_groups(const struct weft_recipe *r);
/* Returns the largest number of micro-batches of any rank: ranks take groups in order, and groups take micro-batches in
 * order. */
int64_t weft_recipe_most(const struct weft_recipe *r, int64_t ranks);
/* Returns an error if there are more ranks than groups. */
enum weft_status weft_recipe_ranks(const struct weft_recipe *r, int ranks);
/* Returns the number of simultaneously open sums of gradients: one for each level of the tree over the groups. */
int weft_recipe_sums(const struct weft_recipe *r);
/* Returns the bytes per weight in training: the weight, its moments, and one gradient per sum. */
enum { WEFT_STATE_BYTES = 4 * sizeof(float) }; /* bytes per weight with one sum */
int64_t weft_recipe_state_bytes(const struct weft_recipe *r);
const struct weft_owner *weft_train_owner_at(int i); /* NULL past the last */
/* Turns off pruning of units that were already cut from the model. */
enum weft_status weft_recipe_forget(const struct weft_recipe *r, const struct weft_shares *cut,
                                    struct weft_settings *settings);

#endif
