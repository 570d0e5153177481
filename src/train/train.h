/* SPDX-License-Identifier: MIT
 *
 * train.h - training: the recipe (what was chosen), tasks, optimisers, one step, the loop around it.
 *
 * Invariants:
 *  - A sample is a function of (seed, index) alone; training takes indices from 0 up, validation from WEFT_HELD_OUT up,
 *    the test from WEFT_TEST up. No sample is of two of them.
 *  - A step is M micro-batches of the model's batch. Its gradient is summed in an order that the recipe alone decides.
 *  - Work on weights goes over spans: pieces of one weight, of a fixed size, so that neither the sum of squares nor the
 *    update depends on the number of threads or ranks.
 *  - Ranks take whole groups of micro-batches. Each owns some spans: their gradients' sums, their moments, their
 * update. Whatever is known of a step is known to all ranks, and is the same for any number of them.
 *  - A loss or gradient that is not finite ends training before it touches a weight.
 */
#ifndef WEFT_TRAIN_H
#define WEFT_TRAIN_H

#include "comm/comm.h"
#include "nn/units.h"
#include "train/ranks/partition.h"

#include <stdatomic.h>
#include <stdio.h>

/* ---- tasks and optimisers */

#define WEFT_HELD_OUT ((uint64_t)1 << 40)
#define WEFT_TEST (2 * WEFT_HELD_OUT)

/* The best that samples allow: the least loss, in nats per scored token, and the highest accuracy of any model; and the
 * accuracy of one that knows which answers there are in a sample, but not which is asked for. */
struct weft_floor {
    double loss, accuracy, chance;
};

struct weft_task {
    const char *name, *summary;
    struct weft_owner owner;
    size_t options_bytes;
    /* Refuses what is impossible with this spec; makes the tables that samples are drawn from. */
    enum weft_status (*resolve)(const struct weft_spec *spec, void *options, struct weft_arena *arena);
    int64_t (*length)(const void *options); /* tokens of a sample */
    /* Writes tokens[length] and targets[length]; a target of -1 is not scored. */
    void (*sample)(const struct weft_spec *spec, const void *options, uint64_t index, int32_t *tokens,
                   int32_t *targets);
    /* Optional, of tasks that keep no samples from training but by chance: how many different ones there are. */
    double (*different)(const struct weft_spec *spec, const void *options);
    /* Optional, of tasks for which it can be computed. */
    struct weft_floor (*floor)(const struct weft_spec *spec, const void *options);
    /* Optional, of tasks that read files: the vocabulary of the data (0: they cannot be read, which open reports),
     * opening and closing them, how many samples there are for validation or the test, the first failure of a sample,
     * the bytes of the data's tokenizer.json (NULL: none), and a hash that identifies the data. */
    int64_t (*vocab)(const void *options);
    enum weft_status (*open)(const struct weft_spec *spec, void *options, struct weft_arena *arena);
    void (*close)(void *options);
    int64_t (*held_out)(const void *options, bool test);
    enum weft_status (*failure)(const void *options);
    const char *(*tokenizer)(const void *options, size_t *bytes);
    void (*fingerprint)(const void *options, char hash[65]);
    /* Optional, of tasks whose samples are cut from documents: the document of the first target of each of the first
     * `samples` samples of the test. Documents count from 0; *end is the target that is the last of its document.
     * *documents is how many there are in these samples, 0: they are not known. */
    enum weft_status (*documents)(const void *options, int64_t samples, int64_t *document, int64_t *documents,
                                  int32_t *end);
};

/* What an optimiser needs at one step. All arrays are flat and begin at the same element. */
struct weft_update {
    int64_t step; /* from 1 */
    double lr;
    float grad_scale; /* of the global-norm clip */
    float *weights, *grads, *moments[2];
};

enum { WEFT_SPAN = 16384 }; /* elements, at most */
struct weft_span {
    int64_t first, count;
    bool decay;
    double rate; /* factor of its learning rate, not of its decay */
};

struct weft_optim {
    const char *name, *summary;
    struct weft_owner owner;
    size_t options_bytes;
    /* Optional: limits the gradients of a span before their norm is taken. What is not finite must stay so. */
    void (*limit)(const void *options, const struct weft_update *u, const struct weft_span *span);
    void (*update)(const void *options, const struct weft_update *u, const struct weft_span *span);
};

#define TASK(name) extern const struct weft_task weft_task_##name;
#define OPTIM(name) extern const struct weft_optim weft_optim_##name;
#include "train/tasks.def"

/* ---- the registry (registry.c) */

enum { WEFT_MAX_TASKS = 64 }; /* and as many optimisers */
/* The i-th; NULL past the last. */
const struct weft_task *weft_task_at(int i);
const struct weft_optim *weft_optim_at(int i);
/* Makes one known by its name, behind the others. Before the first recipe is made; it is kept. */
enum weft_status weft_task_register(const struct weft_task *task);
enum weft_status weft_optim_register(const struct weft_optim *optim);
extern const char *weft_task_names[], *weft_optim_names[]; /* choices of the options; end with NULL */

/* ---- the recipe (recipe.c) */

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

/* ---- a step (step.c, gradient.c, ranks.c, sharing.c, verify_rank.c, diagnose.c) */

/* The loss of a step: the total, and the terms it is the sum of: "main" (cross-entropy), those of the parts by their
 * names, "logits_z" where it is trained. */
struct weft_losses {
    int count;
    struct weft_loss {
        const char *name;
        double value;
    } list[WEFT_MAX_TERMS + 3]; /* the first is the total */
};

struct weft_sum {
    float *grads;
    struct weft_losses losses;
};

/* What the parts of the model make known of themselves (weft_build_watch), by layer and as the mean over layers. */
struct weft_diagnosis {
    int count, layers;
    struct weft_metric {
        const char *name;
        double mean, *layer;
    } list[WEFT_MAX_WATCHES];
};

struct weft_learner {
    struct weft_nn *model;
    const struct weft_recipe *recipe;
    struct weft_comm *comm, alone; /* `alone` is the comm of a trainer that has no other */
    struct weft_net net;
    struct weft_exec *exec;
    int64_t length;
    struct weft_sum *sums; /* the first holds the whole step's when all are added up, of its own spans */
    int sum_count;
    struct weft_span *spans;
    double *squares; /* of each span */
    int64_t span_count;
    struct weft_partition partition;
    struct weft_own {
        int64_t span, moment; /* its moments begin there */
    } * own;
    int64_t own_count;
    float *moments[2]; /* of its own spans: alone, in the order of the weights */
    int64_t moment_count;
    uint32_t *mask;               /* of what is pruned, see prune.h; NULL: nothing is */
    struct weft_smaller *units;   /* [WEFT_UNITS], as pruning is done, see prune.h; NULL likewise */
    int64_t pruned;               /* weights that are */
    int64_t verify_every;         /* steps, on several ranks: see verify_rank.c; 0: never */
    struct weft_sharing *sharing; /* of gradients, with other ranks; NULL: alone */
    char (*digests)[64];          /* of a step's samples, for `next_stream`; the same room for each rank */
    int64_t digest_room;
    float weight;           /* of a scored token in the loss of the step */
    int64_t step;           /* done so far */
    double loss, grad_norm; /* of the last step; the norm is the one before the clip */
    /* Hash of all samples read by the steps done so far, and by the gradient on top of them: a chain, in order of their
     * index, of SHA-256(hash so far, SHA-256(tokens, targets)), both in hex. 64 zeros: none yet. */
    char stream[65], next_stream[65];
    /* Hash of the losses of all steps so far: a chain of SHA-256(hash so far in hex, loss as a double). */
    char loss_chain[65];
    double seconds;                  /* of training so far, over all processes that had a part in it */
    struct weft_diagnosis diagnosis; /* the last */
    struct weft_arena arena;
};

/* As one of the ranks of `comm`, which has the same weights as the others; NULL: alone. */
enum weft_status weft_learner_create(struct weft_learner **trainer, struct weft_nn *model,
                                     const struct weft_recipe *recipe, struct weft_comm *comm);
void weft_learner_free(struct weft_learner *t);
/* A step: the gradient, then the update. */
enum weft_status weft_learner_step(struct weft_learner *t, struct weft_losses *losses);
/* Gradient and losses of the next step's global batch, into sums[0]. */
enum weft_status weft_learner_gradient(struct weft_learner *t);
/* Computes it again, op by op, and names the first value that is not finite; false: there is none. The sums are
 * lost. */
bool weft_learner_find_bad(struct weft_learner *t, char *text, size_t size);
/* Likewise for two, side by side: the first value in which they differ, and both of its numbers. */
bool weft_learner_find_difference(struct weft_learner *a, struct weft_learner *b, char *text, size_t size,
                                  double value[2]);
/* Moves the weights by the gradient in sums[0]; refuses what is not finite before it touches a weight. */
enum weft_status weft_learner_update(struct weft_learner *t);
/* On the first held-out samples, a micro-batch of them, without dropout: always the same. */
enum weft_status weft_learner_diagnose(struct weft_learner *t);

/* ---- scores (eval.c) */

struct weft_score {
    double loss, accuracy; /* means over scored tokens; the loss is cross-entropy alone */
    int64_t tokens;        /* scored */
};
struct weft_scores {
    struct weft_score val, test; /* choices are made on validation; the test is scored once, at the end */
};
/* Of the recipe's held-out samples from WEFT_HELD_OUT or WEFT_TEST on, without dropout. `batch` of them run side by
 * side, on each of the ranks of `comm` (NULL: alone); the score depends on neither. */
enum weft_status weft_evaluate(const struct weft_nn *model, const struct weft_recipe *recipe, struct weft_comm *comm,
                               int64_t batch, uint64_t first, struct weft_score *score);
/* The same of the test, and what each of its items costs (items.h); release these, also after a failure. */
struct weft_items;
enum weft_status weft_evaluate_test(const struct weft_nn *model, const struct weft_recipe *recipe,
                                    struct weft_comm *comm, int64_t batch, struct weft_score *score,
                                    struct weft_items *items);

/* ---- the loop (loop.c) */

struct weft_progress {
    int64_t step, steps, tokens; /* done, to do, read so far */
    int64_t step_tokens;         /* of one step */
    double flops_per_token;
    struct weft_losses losses; /* of the last step */
    double tokens_per_s, seconds_left;
    double seconds;                         /* of this process */
    const struct weft_diagnosis *diagnosis; /* after this step; NULL: none was due */
};
typedef void weft_progress_fn(void *context, const struct weft_progress *now);

struct weft_record;
struct weft_loop {
    struct weft_learner *trainer;
    struct weft_progress progress; /* as it is now */
    const char *folder;            /* where checkpoints are saved; NULL: nothing is written */
    struct weft_record *record;    /* of the folder; NULL on other ranks than the first, too */
    weft_progress_fn *report;      /* called after every step; may be NULL */
    void *context;
    /* Stop when it is not 0; another thread or a signal handler may set it; NULL: nobody does. What one rank decides
     * the others follow. */
    atomic_int *stop;
    double deadline; /* by weft_seconds; stop before it; 0: none */
};

/* A loop from where the trainer is, with the work that is left in `progress`; the other fields are the caller's. */
enum weft_status weft_loop_init(struct weft_loop *loop, struct weft_learner *t);
/* Steps, with what is due after each, until all are done and scored or it is stopped. What was stopped is saved;
 * then *finished is false and *scores unknown. */
enum weft_status weft_loop_run(struct weft_loop *loop, bool *finished, struct weft_scores *scores);

#endif
