/* SPDX-License-Identifier: MIT
 *
 * scale.h - what training on several ranks would take, predicted (scale.c).
 *
 * Ranks are data-parallel: each has all weights, computes whole groups of a step's micro-batches, and keeps the moments
 * of its share of the weights (the optimiser's state is sharded). A step then has
 *     compute     the micro-batches of the rank with the most groups
 *     gradients   every rank sends each other rank the gradients of that rank's share, in buckets, and receives as much
 *     update      of the rank's share of the weights
 *     weights     all-gathered in a ring
 * Gradients of a bucket are sent as soon as the backward pass of the last micro-batch is done with them.
 */
#ifndef WEFT_SCALE_H
#define WEFT_SCALE_H

#include "train/recipe.h"

struct weft_scale_machine {
    double micro_batch;   /* seconds, forward and backward, on a rank's threads */
    double memory;        /* bytes per second that the update of the weights moves */
    double network, wait; /* bytes per second of a rank, in each direction; seconds of a message besides */
    double disk;          /* bytes per second, of all ranks together */
};
/* The bandwidth of copying memory with the threads of the caller, and of writing a file into this folder. */
enum weft_status weft_memory_rate(double *bytes_per_s);
enum weft_status weft_disk_rate(const char *folder, double *bytes_per_s);

struct weft_scale {
    int64_t ranks;
    double step, compute, update;      /* seconds */
    double gradients, weights, hidden; /* seconds of communication; of that, behind the backward pass */
    double efficiency;                 /* time of one rank / (ranks * time) */
    double tokens_per_s;
    int64_t sent_bytes;     /* by a rank in a step */
    int64_t bytes_per_rank; /* of memory */
    int64_t checkpoint_bytes;
    double checkpoint; /* seconds */
};
/* What is trained; the activations are the one buffer of a training step (train/account.h). */
struct weft_scale_load {
    const struct weft_nn *model;
    const struct weft_recipe *recipe;
    int64_t activation_bytes;
};
/* Refuses more ranks than there are groups, and says what to change. */
enum weft_status weft_scale_predict(const struct weft_scale_load *load, const struct weft_scale_machine *machine,
                                    int64_t ranks, struct weft_scale *scale);

#endif
