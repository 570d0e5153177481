/* SPDX-License-Identifier: MIT
 *
 * tree.h - the order in which the sums of groups are added: one binary tree, independent of the ranks (tree.c).
 *
 * 0 + 1, 2 + 3, .. then (0 + 1) + (2 + 3), and so on; a node without a partner waits for a higher level. If groups
 * arrive in order, few nodes are open at a time, like the digits of a binary counter. Each rank has consecutive groups,
 * so the nodes that a rank cannot join by itself are joined with nodes of the other ranks, in the same tree.
 */
#ifndef WEFT_TREE_H
#define WEFT_TREE_H

#include <stdbool.h>
#include <stdint.h>

/* The sum of `groups` groups, starting at `first`. */
struct weft_tree_node {
    int64_t first, groups;
};
enum { WEFT_TREE_NODES = 128 }; /* per rank: two for each power of two */

/* Returns whether the last two open nodes must be joined next. */
bool weft_tree_joins(const struct weft_tree_node *open, int count);
/* Adds a node to the open ones and joins as many as possible. For each join, calls `join`, which must add the
 * values of node `to + 1` to the values of node `to`. Returns the number of open nodes. */
typedef void weft_join_fn(void *context, int to);
int weft_tree_add(struct weft_tree_node *open, int count, struct weft_tree_node node, weft_join_fn *join,
                  void *context);
/* Joins the remaining nodes after all groups were added. */
void weft_tree_finish(struct weft_tree_node *open, int count, weft_join_fn *join, void *context);

/* Returns the first group of a rank, which is also the end of the previous rank's groups. */
int64_t weft_rank_first(int64_t groups, int rank, int ranks);
/* Finds the nodes of a rank after its groups are added, and returns their number; *most: maximum number of nodes that
 * are open at a time. */
int weft_rank_nodes(int64_t groups, int rank, int ranks, struct weft_tree_node nodes[WEFT_TREE_NODES], int *most);

#endif
