/* SPDX-License-Identifier: MIT
 *
 * ranks.h - a step on several ranks: what they tell each other (ranks.c). Alone, there is nothing to tell.
 */
#ifndef WEFT_RANKS_H
#define WEFT_RANKS_H

#include "train/train.h"
#include "train/tree.h"

/* The micro-batches of a group, or of a rank, begin here. */
int64_t weft_group_micro_batch(const struct weft_learner *t, int64_t group);
int64_t weft_rank_micro_batch(const struct weft_learner *t, int rank);
void weft_losses_add(struct weft_losses *to, const struct weft_losses *from);

/* What the ranks counted, together. */
enum weft_status weft_ranks_count(struct weft_learner *t, int64_t *count);
/* From the sums of each rank's nodes to the whole step's: the gradient of its own spans in sums[0], and all losses and
 * digests. */
enum weft_status weft_ranks_gradient(struct weft_learner *t);
/* A record of so many bytes per span: from those of its own spans to those of all. */
enum weft_status weft_ranks_spans(const struct weft_learner *t, void *records, size_t bytes);
/* From the weights of its own spans to all. */
enum weft_status weft_ranks_weights(const struct weft_learner *t);

#endif
