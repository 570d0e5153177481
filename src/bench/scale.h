/* SPDX-License-Identifier: MIT
 *
 * scale.h - predicts time, traffic and memory of training on several ranks (scale.c).
 *
 * Ranks are data-parallel: each has all weights, computes whole groups of a step's micro-batches, and keeps the moments
 * of its part of the weights (the optimiser state is sharded). A step then consists of
 *     compute     the micro-batches of the rank with the most groups
 *     gradients   each rank sends the gradients of every other part to that part's rank, in buckets, and
 *                 receives the same amount
 *     update      of the rank's part of the weights
 *     weights     all-gathered in a ring
 * The gradients of a bucket are sent as soon as the backward pass of the last micro-batch has completed them.
 */
#ifndef WEFT_SCALE_H
#define WEFT_SCALE_H

#include "train/recipe.h"

struct weft_scale_machine {
    double micro_batch;   /* seconds, forward and backward, on a rank's threads */
    double memory;        /* memory bandwidth of the weight update, in bytes per second */
    double network, wait; /* bytes per second of a rank in each direction; additional seconds per message */
    double disk;          /* bytes per second of all ranks together */
};
/* Measure the bandwidth of copying memory on the caller's threads, and of writing a file in `folder`. */
enum weft_status weft_memory_rate(double *bytes_per_s);
enum weft_status weft_disk_rate(const char *folder, double *bytes_per_s);

struct weft_scale {
    int64_t ranks;
    double step, compute, update;      /* seconds */
    double gradients, weights, hidden; /* seconds of communication; the part that overlaps with the backward pass */
    double efficiency;                 /* time of one rank / (ranks * time) */
    double tokens_per_s;
    int64_t sent_bytes;     /* per rank and step */
    int64_t bytes_per_rank; /* memory */
    int64_t checkpoint_bytes;
    double checkpoint; /* seconds */
};
/* The training to predict; the activations are the buffer of a training step (train/account.h). */
struct weft_scale_load {
    const struct weft_nn *model;
    const struct weft_recipe *recipe;
    int64_t activation_bytes;
};
/* Fails if there are more ranks than gradient groups; the message names the settings to change. */
enum weft_status weft_scale_predict(const struct weft_scale_load *load, const struct weft_scale_machine *machine,
                                    int64_t ranks, struct weft_scale *scale);

#endif
