/* SPDX-License-Identifier: MIT
 *
 * stepped.h - shared by the files of the gate `stepped`: a trainer on the twin, and the comparison of its steps with
 * plain ones.
 */
#ifndef WEFT_STEPPED_H
#define WEFT_STEPPED_H

#include "check/probe/gate.h"
#include "check/trainer/definitions.h"
#include "train/learner.h"

/* ---- a trainer on a copy of the twin (rehearsal.c), with a task whose samples have very different numbers of scored
 * tokens, some none */

struct weft_rehearsal {
    struct weft_spec spec;
    struct weft_nn model; /* with weights of its own */
    struct weft_settings settings;
    struct weft_recipe recipe; /* may be changed between steps */
    int64_t length;            /* of a sample */
    struct weft_learner *trainer;
};

/* All options have their defaults; comm NULL: alone. To be closed even when this fails. */
enum weft_status weft_rehearsal_open(struct weft_rehearsal *s, const struct weft_nn *twin,
                                     const struct weft_optim *optim, double dropout, int64_t micro_batches,
                                     int64_t groups, struct weft_comm *comm);
void weft_rehearsal_close(struct weft_rehearsal *s);

/* ---- several ranks (ranked.c) */

enum weft_status weft_check_ranks(const struct weft_trial *t);
/* One step divided as the recipe has it. */
enum weft_status weft_check_ranks_division(const struct weft_trial *t);

/* ---- gradients and losses (sums.c) */

struct weft_sums {
    struct weft_probe probe; /* one micro-batch */
    double *grads;           /* laid out as the model's */
    struct weft_losses losses;
};
/* In FAST the same kernels give the same choices between near ties; REFERENCE is f64. Closed even when this fails. */
enum weft_status weft_sums_open(struct weft_sums *s, const struct weft_rehearsal *re, enum weft_mode mode);
void weft_sums_close(struct weft_sums *s);
/* Gradient and losses of the trainer's next step. */
void weft_sums_run(struct weft_sums *s, const struct weft_rehearsal *re);
/* Its parts: takes the weights over and counts the scored tokens of the step; writes a micro-batch; and adds its losses
 * after it has run. */
int64_t weft_sums_begin(struct weft_sums *s, const struct weft_rehearsal *re);
void weft_sums_fill(struct weft_sums *s, const struct weft_rehearsal *re, int64_t micro_batch, double weight,
                    double share);
void weft_sums_add_losses(struct weft_sums *s, const struct weft_rehearsal *re, double weight, double share);
/* Checks bit by bit that the trainer summed its gradient in the order that is defined (sum_order.c). The losses of the
 * step are in `s` afterwards. */
enum weft_status weft_check_sum_order(const struct weft_trial *t, struct weft_sums *s, const struct weft_rehearsal *re,
                                      const char *what);
/* The largest error of a gradient that the trainer summed, relative to its tensor's largest element, and which
 * tensor. */
double weft_sums_error(const struct weft_sums *s, const struct weft_learner *trainer, int *at);
/* The same of the losses. */
double weft_sums_loss_error(const struct weft_sums *s, const struct weft_losses *losses, const char **at);

/* ---- scores (scored.c) */

/* Sums over the recipe's held-out samples from `first` on. */
struct weft_plain_score {
    double loss;
    int64_t right, tokens, ties; /* ties: tokens whose best logit is not clearly the best */
};
enum weft_status weft_score_plainly(const struct weft_rehearsal *s, uint64_t first, struct weft_plain_score *sum);
/* How far a mean loss is off, relative to 1 + the plain one; and an accuracy, beyond what near ties allow. */
double weft_score_loss_error(const struct weft_plain_score *plain, double loss);
double weft_score_accuracy_error(const struct weft_plain_score *plain, double accuracy);

/* ---- a run's log (logged.c) */

/* What plain code says about a step. */
struct weft_expected {
    struct weft_losses losses;
    double lr, norm; /* norm: of the gradient; NAN: an optimiser that limits it first has another */
    int64_t tokens;  /* read so far */
    bool scored, tested;
    struct weft_plain_score val, test;
};
/* Compares the records of all steps, the first in steps[0]; `what` says which run it was. */
enum weft_status weft_check_log(const struct weft_trial *t, const char *folder, const struct weft_expected *steps,
                                int count, const char *what);

/* ---- updates (updates.c): every element, or of large models a part of every tensor */

struct weft_updates {
    const struct weft_learner *trainer;
    struct weft_plain plain;
    int64_t count, tried; /* elements that are compared; updates so far */
    struct weft_run {
        int param;
        int64_t first, count, at; /* in the flat arrays; `at` in `before` */
        double error;             /* of the last update; the largest in it, relative to what is allowed */
        const char *what;         /* and where */
        int64_t element;
    } * runs;
    int64_t run_count;
    float *before[4]; /* of these elements before the update: weight, gradient, moments */
    double norm;      /* of all gradients before the update, after the optimiser's own limit */
    /* The largest error relative to what is allowed, and where: */
    double error;
    const char *what;
    int at;
    int64_t element, step;
};
enum weft_status weft_updates_open(struct weft_updates *u, const struct weft_learner *trainer);
void weft_updates_close(struct weft_updates *u);
/* Before and after weft_learner_step or weft_learner_update, with the gradient in sums[0]. */
void weft_updates_before(struct weft_updates *u);
void weft_updates_after(struct weft_updates *u);
/* Reports what was found in all updates; `what` says which. */
void weft_updates_report(const struct weft_trial *t, const struct weft_updates *u, const char *what);

/* ---- samples (targets.c and targets_*.c) */

struct weft_drawn {
    const struct weft_spec *spec;
    const struct weft_recipe *recipe;
    uint64_t index;
    int64_t length;
    int32_t *tokens, *targets;
};
/* What a task's samples must be, by its definition alone. */
struct weft_definition {
    const char *task;
    bool synthetic; /* made from seed and index */
    /* Optional: what `wrong` needs; *context may stay NULL. Freed by `close`. */
    enum weft_status (*open)(const struct weft_drawn *d, void **context);
    void (*close)(void *context);
    /* The first defect of a sample; NULL: it has none. */
    const char *(*wrong)(const struct weft_drawn *d, void *context);
    /* Optional, of training samples: a number whose mean and standard deviation are known. */
    double (*number)(const struct weft_drawn *d);
    void (*expected)(const struct weft_drawn *d, double *mean, double *deviation);
    /* Optional: whether the sample's token at a position is drawn uniformly from some tokens, and which. */
    bool (*drawn_from)(const struct weft_drawn *d, int64_t position, int64_t *first, int64_t *count);
    /* Optional: further checks, of what samples are made with. */
    enum weft_status (*further)(const struct weft_trial *t, const struct weft_drawn *d, void *context);
};
extern const struct weft_definition weft_definition_recall, weft_definition_mqar, weft_definition_fuzzy,
    weft_definition_entailment, weft_definition_text;
/* An option of the task. */
int64_t weft_drawn_option(const struct weft_drawn *d, const char *name);
/* The first defect of a sample, by the vocabulary and the definition, which may be NULL; NULL: it has none. And those
 * of all samples that a run reads, or as many as there is time for (labels.c). */
const char *weft_drawn_wrong(const struct weft_definition *definition, const struct weft_drawn *d, void *context);
enum weft_status weft_check_labels(const struct weft_trial *t, const struct weft_definition *definition,
                                   const struct weft_drawn *drawn, void *context);
/* Samples up to the last of the recipe (many_samples.c); the definition may be NULL. */
enum weft_status weft_check_many_samples(const struct weft_trial *t, const struct weft_definition *definition,
                                         const struct weft_drawn *drawn, void *context);
/* What is drawn at every position, by the definition's drawn_from (marginals.c). */
struct weft_marginals;
enum weft_status weft_marginals_open(struct weft_marginals **m, const struct weft_definition *definition,
                                     int64_t length);
void weft_marginals_close(struct weft_marginals *m);
void weft_marginals_add(struct weft_marginals *m, const struct weft_drawn *d);
void weft_marginals_report(const struct weft_trial *t, const struct weft_marginals *m);
/* Token files of a split, read plainly (token_files.c): how many there are, the tokens of all, and where in the stream
 * each begins. To be closed even when opening fails. */
struct weft_token_files;
enum weft_status weft_token_files_open(struct weft_token_files **f, const char *folder, const char *split);
void weft_token_files_close(struct weft_token_files *f);
int64_t weft_token_files_count(const struct weft_token_files *f);
int64_t weft_token_files_tokens(const struct weft_token_files *f);
int64_t weft_token_files_begin(const struct weft_token_files *f, int64_t file);
/* Returns how many files two splits share, and sets the path of the first. */
int64_t weft_token_files_shared(const struct weft_token_files *a, const struct weft_token_files *b, const char **path);
/* Returns whether all of these tokens could be read. */
bool weft_token_files_read(struct weft_token_files *f, int64_t first, int64_t count, int32_t *to);
/* The order of windows of texts, of these numbers of windows among others (order.c). */
enum weft_status weft_check_order(const struct weft_trial *t, uint64_t seed, const int64_t *own, int own_count);

/* ---- further parts of the gate */

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

/* ---- dropout (dropout.c, dropout_scores.c) */

/* How far a count of n trials of probability q is from what is expected, in standard deviations; where next to nothing
 * is expected, one less for each. */
double weft_count_sigmas(int64_t count, int64_t n, double q);
/* In the graphs of a model. */
enum weft_status weft_check_dropout(const struct weft_trial *t, const struct weft_nn *model, double dropout,
                                    int64_t sequences, int64_t length, int runs);
/* Of attention's probabilities at all positions. */
enum weft_status weft_check_dropout_scores(const struct weft_trial *t, enum weft_dtype compute, double dropout);

#endif
