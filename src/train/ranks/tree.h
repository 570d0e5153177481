/* SPDX-License-Identifier: MIT
 *
 * tree.h - the order in which the sums of groups are added: one binary tree, whoever computes them (tree.c).
 *
 * 0 + 1, 2 + 3, .. then (0 + 1) + (2 + 3), and so on; whoever has no partner waits for a higher level. Where groups
 * come in order, the nodes that are still open are few, as the digits of a binary counter. Ranks have groups in order,
 * too: the nodes that a rank cannot join by itself are joined with those of the others, in the same tree.
 */
#ifndef WEFT_TREE_H
#define WEFT_TREE_H

#include <stdbool.h>
#include <stdint.h>

/* The sum of so many groups, from one on. */
struct weft_tree_node {
    int64_t first, groups;
};
enum { WEFT_TREE_NODES = 128 }; /* of a rank: two for each power of two */

/* Whether the last two of the open nodes are added next. */
bool weft_tree_joins(const struct weft_tree_node *open, int count);
/* Adds a node to the open ones and joins what can be: the caller does with its values what `join` is called for, which
 * is to add those of node `to + 1` to those of node `to`. Returns how many are open. */
typedef void weft_join_fn(void *context, int to);
int weft_tree_add(struct weft_tree_node *open, int count, struct weft_tree_node node, weft_join_fn *join,
                  void *context);
/* Joins what is left, when all groups were added. */
void weft_tree_finish(struct weft_tree_node *open, int count, weft_join_fn *join, void *context);

/* The groups of a rank begin here; those of the next rank, where they end. */
int64_t weft_rank_first(int64_t groups, int rank, int ranks);
/* The nodes of a rank when its groups are added; *most of them are open at once on the way. */
int weft_rank_nodes(int64_t groups, int rank, int ranks, struct weft_tree_node nodes[WEFT_TREE_NODES], int *most);

#endif
