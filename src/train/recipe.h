/* SPDX-License-Identifier: MIT
 *
 * recipe.h - how a model is trained: the steps, batches, rates, task and optimiser that were chosen (recipe.c).
 *
 * Invariant: a step is M micro-batches of the model's batch. Its gradient is summed in an order that the recipe alone
 * decides.
 */
#ifndef WEFT_RECIPE_H
#define WEFT_RECIPE_H

#include "nn/units.h"
#include "train/tasks.h"

/* What is pruned in training (prune.h). */
struct weft_pruning {
    double target;            /* share of each chosen matrix; 0: no single weights are pruned */
    struct weft_shares units; /* that are pruned whole */
    double begin, end;        /* shares of the steps */
    int64_t every;            /* steps */
    bool attention, ffn, mechanisms, embedding;
};
static inline bool weft_pruning_any(const struct weft_pruning *p)
{
    return p->target > 0 || weft_shares_any(&p->units);
}

struct weft_recipe {
    int64_t steps, warmup, eval_samples;
    int64_t log_every, eval_every, checkpoint_every; /* steps; 0: only at the end */
    int64_t diagnose_every;                          /* steps; 0: never */
    int64_t keep;                                    /* checkpoints */
    int64_t micro_batches;                           /* M, of a step */
    int64_t grad_groups;                             /* as asked for: see weft_recipe_groups */
    double lr, clip;
    const char *init; /* where initial weights come from, see weft_nn_adopt; "": all are drawn */
    bool init_leave;
    struct weft_pruning prune;
    const struct weft_task *task;
    const struct weft_optim *optim;
    void *task_options, *optim_options;
    struct weft_recipe_choice {
        int task, optim, schedule;
    } choice;
    bool open; /* the task's data are */
    struct weft_arena arena;
};

/* Takes its part of the settings, after the spec took its own; finishes them. The recipe is for models of this spec,
 * whose vocabulary becomes that of the task's data if nobody set it. */
enum weft_status weft_recipe_init(struct weft_recipe *r, struct weft_spec *spec, struct weft_settings *settings);
/* The recipe of all defaults, with samples of recall that this model has room for. */
enum weft_status weft_recipe_plain(struct weft_recipe *r, struct weft_spec *spec);
/* Opens the data that samples are read from, before a trainer is made: recipes alone need no files. Data that are open
 * stay so. */
enum weft_status weft_recipe_open(struct weft_recipe *r, const struct weft_spec *spec);
void weft_recipe_release(struct weft_recipe *r);
/* The weights that training begins with: drawn, and those of `init` in their place. */
enum weft_status weft_recipe_weights(const struct weft_recipe *r, struct weft_nn *model, weft_fit_fn *fn,
                                     void *context);
/* FLOPs of a token in training, when they are `all` where every token is scored, as in text: how many of
 * the others there are is counted in the task's first sample, so its data must be open. */
enum weft_status weft_recipe_flops(const struct weft_recipe *r, const struct weft_spec *spec, double all,
                                   double *flops);
/* Of the samples one wants from WEFT_HELD_OUT or WEFT_TEST on, how many there are. */
int64_t weft_recipe_held_out(const struct weft_recipe *r, uint64_t first, int64_t wanted);
/* Writes `count` samples from `index` on into the inputs of a graph; returns how many tokens are scored. */
int64_t weft_recipe_fill(const struct weft_recipe *r, const struct weft_spec *spec, const struct weft_net *net,
                         struct weft_exec *exec, uint64_t index, int64_t count);
/* Linear warm-up, then as the schedule says; steps count from 1. */
double weft_recipe_lr(const struct weft_recipe *r, int64_t step);
/* Groups of micro-batches whose gradients are summed apart: as many as asked for, at most M. */
int64_t weft_recipe_groups(const struct weft_recipe *r);
/* Micro-batches of the rank that has the most: ranks take groups in order, and groups micro-batches. */
int64_t weft_recipe_most(const struct weft_recipe *r, int64_t ranks);
/* Refuses more ranks than groups. */
enum weft_status weft_recipe_ranks(const struct weft_recipe *r, int ranks);
/* Sums of gradients that are open at once: one for each level of the tree over the groups. */
int weft_recipe_sums(const struct weft_recipe *r);
/* Bytes per weight that training holds: the weight, its moments, and its gradient once per sum. */
enum { WEFT_STATE_BYTES = 4 * sizeof(float) }; /* with one sum */
int64_t weft_recipe_state_bytes(const struct weft_recipe *r);
const struct weft_owner *weft_train_owner_at(int i); /* NULL past the last */
/* For a model of which units were cut: its training does not prune these again. */
enum weft_status weft_recipe_forget(const struct weft_recipe *r, const struct weft_shares *cut,
                                    struct weft_settings *settings);

#endif
