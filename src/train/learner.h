/* SPDX-License-Identifier: MIT
 *
 * learner.h - a trainer: one step (step.c, gradient.c, diagnose.c, and ranks/).
 *
 * Invariants:
 *  - Weights are processed in spans, pieces of one weight of fixed size, so that neither the sum of squares nor the
 *    update depends on the number of threads or ranks.
 *  - Ranks process whole groups of micro-batches. Each rank owns some spans: it sums their gradients, keeps their
 *    moments and updates them. All ranks know all results of a step, which are the same for any number of ranks.
 *  - A non-finite loss or gradient ends training before it changes a weight.
 */
#ifndef WEFT_LEARNER_H
#define WEFT_LEARNER_H

#include "comm/comm.h"
#include "train/ranks/partition.h"
#include "train/recipe.h"

/* The losses of a step: the total and its terms, which are "main" (cross-entropy), the terms of parts by name, and
 * "logits_z" if it is trained. */
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
    struct weft_sum *sums; /* after summation, sums[0] holds the whole step's gradients of the rank's own spans */
    int sum_count;
    struct weft_span *spans;
    double *squares; /* sum of squares per span */
    int64_t span_count;
    struct weft_partition partition;
    struct weft_own {
        int64_t span, moment; /* index of the span; offset of its moments */
    } * own;
    int64_t own_count;
    float *moments[2]; /* moments of the rank's own spans; without other ranks, in the order of the weights */
    int64_t moment_count;
    uint32_t *mask;               /* mask of pruned weights, see prune.h; NULL: no pruning */
    struct weft_smaller *units;   /* [WEFT_UNITS], units to prune, see prune.h; NULL: no pruning */
    int64_t pruned;               /* number of pruned weights */
    int64_t verify_every;         /* interval in steps of the check in verify_rank.c, with several ranks; 0: never */
    struct weft_sharing *sharing; /* exchange of gradients with other ranks; NULL: no other ranks */
    char (*digests)[64];          /* digests of a step's samples, for `next_stream`; the same capacity for each rank */
    int64_t digest_room;
    float weight;           /* weight of a scored token in the loss of the step */
    int64_t step;           /* number of steps done */
    double loss, grad_norm; /* loss and gradient norm of the last step; the norm is before clipping */
    /* Hash of all samples read by the steps done so far, and the hash that includes the current gradient's samples.
     * Each is a chain over the samples, in the order of their indices, of SHA-256(hash so far, SHA-256(tokens,
     * targets)), both in hex. 64 zeros: none yet. */
    char stream[65], next_stream[65];
    /* Hash of the losses of all steps so far: a chain of SHA-256(hash so far in hex, loss as a double). */
    char loss_chain[65];
    double seconds;                  /* training time so far, summed over all processes of the run */
    struct weft_diagnosis diagnosis; /* most recent diagnosis */
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
/* Does the same for two trainers in parallel, but names the first value that differs, and returns it from both. */
bool weft_learner_find_difference(struct weft_learner *a, struct weft_learner *b, char *text, size_t size,
                                  double value[2]);
/* Updates the weights with the gradient in sums[0]; a non-finite gradient is an error before any weight changes. */
enum weft_status weft_learner_update(struct weft_learner *t);
/* Diagnoses the model on one micro-batch, always the first held-out samples, without dropout. */
enum weft_status weft_learner_diagnose(struct weft_learner *t);

#endif
