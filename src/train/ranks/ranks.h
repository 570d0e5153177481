/* SPDX-License-Identifier: MIT
 *
 * ranks.h - a step on several ranks: what they send each other. Alone, there is nothing to send.
 */
#ifndef WEFT_RANKS_H
#define WEFT_RANKS_H

#include "train/learner.h"
#include "train/ranks/tree.h"

/* The micro-batches of a group, or of a rank, begin here. */
int64_t weft_group_micro_batch(const struct weft_learner *t, int64_t group);
int64_t weft_rank_micro_batch(const struct weft_learner *t, int rank);
/* The nodes that a rank has when its groups are added. */
int weft_learner_nodes(const struct weft_learner *t, int rank, struct weft_tree_node nodes[WEFT_TREE_NODES]);
void weft_losses_add(struct weft_losses *to, const struct weft_losses *from);

/* What the ranks counted, together. */
enum weft_status weft_ranks_count(struct weft_learner *t, int64_t *count);
/* From the losses of each rank's nodes to those of the whole step, and from its digests to all. */
enum weft_status weft_ranks_losses(struct weft_learner *t);
/* A record of so many bytes per span: from those of its own spans to those of all. */
enum weft_status weft_ranks_spans(const struct weft_learner *t, void *records, size_t bytes);
/* From the weights of its own spans to all. */
enum weft_status weft_ranks_weights(const struct weft_learner *t);

/* ---- gradients (sharing.c) */

enum weft_status weft_sharing_create(struct weft_learner *t); /* t->sharing; none where it is alone */
void weft_sharing_free(struct weft_sharing *s);
/* The last run of a rank in a step. With it, `open` of its sums are open, nodes[open - 1] being the last group. While
 * it goes on, what is known of the gradients is joined and sent: when it returns, sums[0] has those of the rank's own
 * spans, of the whole step. */
enum weft_status weft_sharing_run(struct weft_learner *t, const struct weft_tree_node *nodes, int open);
/* The same when the run is over. */
enum weft_status weft_sharing_finish(struct weft_learner *t, const struct weft_tree_node *nodes, int open);

/* ---- what a neighbour computes, computed again (verify_rank.c) */

typedef enum weft_status weft_group_fn(struct weft_learner *t, int64_t group, struct weft_sum *sum);
bool weft_neighbour_due(const struct weft_learner *t);
int64_t weft_neighbour_group(const struct weft_learner *t, int rank); /* of that rank, which is computed twice */
void weft_sum_hash(const struct weft_learner *t, const struct weft_sum *sum, char hex[65]);
/* The hash of the rank's own group against what the rank before it has of it; all sums are lost where they differ. */
enum weft_status weft_neighbour_compare(struct weft_learner *t, const char own[65], const char next[65],
                                        weft_group_fn *sum_group);

#endif
