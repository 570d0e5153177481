/* SPDX-License-Identifier: MIT
 *
 * learner.h - a trainer: one step (step.c, gradient.c, diagnose.c, and ranks/).
 *
 * Invariants:
 *  - Work on weights goes over spans: pieces of one weight, of a fixed size, so that neither the sum of squares nor the
 *    update depends on the number of threads or ranks.
 *  - Ranks take whole groups of micro-batches. Each owns some spans: their gradients' sums, their moments, their
 * update. All ranks know everything about a step, and it is the same for any number of them.
 *  - A non-finite loss or gradient ends training before it touches a weight.
 */
#ifndef WEFT_LEARNER_H
#define WEFT_LEARNER_H

#include "comm/comm.h"
#include "train/ranks/partition.h"
#include "train/recipe.h"

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

#endif
