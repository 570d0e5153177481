/* SPDX-License-Identifier: MIT
 *
 * learner.h - a trainer: one step (step.c, gradient.c, diagnose.c, and ranks/).
 *
 * Invariants:
 *  - Weights are processed in spans, pieces of one weight of fixed size, so that neither the sum of squares nor the
 *    update depends on the number of threads or ranks.
 *  - Ranks process whole groups of micro-batches. Each rank owns some spans: the sums of their gradients, their
 *    moments, their update. All ranks know everything about a step, and it is the same for any number of ranks.
 *  - A non-finite loss or gradient ends training before it touches a weight.
 */
#ifndef WEFT_LEARNER_H
#define WEFT_LEARNER_H

#include "comm/comm.h"
#include "train/ranks/partition.h"
#include "train/recipe.h"

/* The loss of a step: the total and its terms: "main" (cross-entropy), terms of parts by name, and "logits_z" if it
 * is trained. */
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

/* The metrics that the model's parts report (weft_build_watch), by layer and as the mean over layers. */
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
    struct weft_comm *comm, alone; /* `alone` is the comm of a trainer without other ranks */
    struct weft_net net;
    struct weft_exec *exec;
    int64_t length;
    struct weft_sum *sums; /* sums[0] holds the sums of the whole step, for its own spans, when all are added up */
    int sum_count;
    struct weft_span *spans;
    double *squares; /* sum of squares per span */
    int64_t span_count;
    struct weft_partition partition;
    struct weft_own {
        int64_t span, moment; /* span: index; moment: where its moments begin */
    } * own;
    int64_t own_count;
    float *moments[2]; /* moments of its own spans; without other ranks, in the order of the weights */
    int64_t moment_count;
    uint32_t *mask;               /* mask of pruned weights, see prune.h; NULL: no pruning */
    struct weft_smaller *units;   /* [WEFT_UNITS], for pruning, see prune.h; NULL likewise */
    int64_t pruned;               /* number of pruned weights */
    int64_t verify_every;         /* interval in steps, on several ranks, see verify_rank.c; 0: never */
    struct weft_sharing *sharing; /* exchange of gradients with other ranks; NULL: no other ranks */
    char (*digests)[64];          /* digests of a step's samples, for `next_stream`; the same capacity for each rank */
    int64_t digest_room;
    float weight;           /* weight of a scored token in the loss of the step */
    int64_t step;           /* number of steps done */
    double loss, grad_norm; /* loss and gradient norm of the last step; the norm is before clipping */
    /* Hash of all samples read by the steps done so far, and with the current gradient's: a chain, in order of their
     * index, of SHA-256(hash so far, SHA-256(tokens, targets)), both in hex. 64 zeros: none yet. */
    char stream[65], next_stream[65];
    /* Hash of the losses of all steps so far: a chain of SHA-256(hash so far in hex, loss as a double). */
    char loss_chain[65];
    double seconds;                  /* training time so far, over all processes of the run */
    struct weft_diagnosis diagnosis; /* the most recent one */
    struct weft_arena arena;
};

/* Creates a trainer as one of the ranks of `comm`, all of which have the same weights; NULL: no other ranks. */
enum weft_status weft_learner_create(struct weft_learner **trainer, struct weft_nn *model,
                                     const struct weft_recipe *recipe, struct weft_comm *comm);
void weft_learner_free(struct weft_learner *t);
/* Runs a step: the gradient, then the update. */
enum weft_status weft_learner_step(struct weft_learner *t, struct weft_losses *losses);
/* Computes the gradient and losses of the next step's global batch into sums[0]. */
enum weft_status weft_learner_gradient(struct weft_learner *t);
/* Recomputes the gradient op by op and names the first non-finite value; returns false if there is none. Destroys the
 * sums. */
bool weft_learner_find_bad(struct weft_learner *t, char *text, size_t size);
/* Likewise for two trainers in parallel: names the first value in which they differ, with both numbers. */
bool weft_learner_find_difference(struct weft_learner *a, struct weft_learner *b, char *text, size_t size,
                                  double value[2]);
/* Updates the weights with the gradient in sums[0]; a non-finite gradient is an error before any weight changes. */
enum weft_status weft_learner_update(struct weft_learner *t);
/* Diagnoses the model on one micro-batch, always the first held-out samples, without dropout. */
enum weft_status weft_learner_diagnose(struct weft_learner *t);

#endif
