/* SPDX-License-Identifier: MIT
 *
 * ranks.h - communication between ranks in a step. Without other ranks, nothing is sent.
 */
#ifndef WEFT_RANKS_H
#define WEFT_RANKS_H

#include "train/learner.h"
#include "train/ranks/tree.h"

/* Return the first micro-batch of a group or of a rank. */
int64_t weft_group_micro_batch(const struct weft_learner *t, int64_t group);
int64_t weft_rank_micro_batch(const struct weft_learner *t, int rank);
/* Finds the nodes of a rank after its groups are added; returns their number. */
int weft_learner_nodes(const struct weft_learner *t, int rank, struct weft_tree_node nodes[WEFT_TREE_NODES]);
void weft_losses_add(struct weft_losses *to, const struct weft_losses *from);

/* Sums a count over the ranks. */
enum weft_status weft_ranks_count(struct weft_learner *t, int64_t *count);
/* Combines the losses of each rank's nodes into the losses of the whole step, and sends each rank's digests to all. */
enum weft_status weft_ranks_losses(struct weft_learner *t);
/* Sends records of `bytes` bytes per span from the owner of each span to all ranks. */
enum weft_status weft_ranks_spans(const struct weft_learner *t, void *records, size_t bytes);
/* Sends the weights of each rank's own spans to all ranks. */
enum weft_status weft_ranks_weights(const struct weft_learner *t);

/* ---- gradients (sharing.c) */

enum weft_status weft_sharing_create(struct weft_learner *t); /* creates t->sharing; NULL without other ranks */
void weft_sharing_free(struct weft_sharing *s);
/* Runs the last micro-batch of a rank in a step. The first `open` sums of the rank are then open, including the last
 * group, nodes[open - 1]. During the run, finished gradients are joined and sent; on return, sums[0] holds the
 * gradients of the whole step for the rank's own spans. */
enum weft_status weft_sharing_run(struct weft_learner *t, const struct weft_tree_node *nodes, int open);
/* Joins and sends the gradients in the same way after the run. */
enum weft_status weft_sharing_finish(struct weft_learner *t, const struct weft_tree_node *nodes, int open);

/* ---- recomputing a neighbour's group (verify_rank.c) */

typedef enum weft_status weft_group_fn(struct weft_learner *t, int64_t group, struct weft_sum *sum);
bool weft_neighbour_due(const struct weft_learner *t);
/* Returns the group of a rank that the previous rank also computes. */
int64_t weft_neighbour_group(const struct weft_learner *t, int rank);
void weft_sum_hash(const struct weft_learner *t, const struct weft_sum *sum, char hex[65]);
/* Compares the hash of the rank's own group with the hash that the previous rank computed for this group; destroys all
 * sums if they differ. */
enum weft_status weft_neighbour_compare(struct weft_learner *t, const char own[65], const char next[65],
                                        weft_group_fn *sum_group);

#endif
