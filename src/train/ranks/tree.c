/* SPDX-License-Identifier: MIT
 *
 * tree.c - see tree.h.
 */
#include "train/ranks/tree.h"

#include <stddef.h>

/* Neighbours of the same size are joined if the first one starts where a node of twice that size starts. */
bool weft_tree_joins(const struct weft_tree_node *open, int count)
{
    return count > 1 && open[count - 2].groups == open[count - 1].groups &&
           open[count - 2].first % (2 * open[count - 2].groups) == 0;
}

static int join_last(struct weft_tree_node *open, int count, weft_join_fn *join, void *context)
{
    if (join)
        join(context, count - 2);
    open[count - 2].groups += open[count - 1].groups;
    return count - 1;
}

int weft_tree_add(struct weft_tree_node *open, int count, struct weft_tree_node node, weft_join_fn *join, void *context)
{
    open[count++] = node;
    while (weft_tree_joins(open, count))
        count = join_last(open, count, join, context);
    return count;
}

void weft_tree_finish(struct weft_tree_node *open, int count, weft_join_fn *join, void *context)
{
    while (count > 1)
        count = join_last(open, count, join, context);
}

/* ---- ranks */

int64_t weft_rank_first(int64_t groups, int rank, int ranks) { return groups * rank / ranks; }

int weft_rank_nodes(int64_t groups, int rank, int ranks, struct weft_tree_node nodes[WEFT_TREE_NODES], int *most)
{
    int count = 0;
    *most = 1;
    for (int64_t g = weft_rank_first(groups, rank, ranks); g < weft_rank_first(groups, rank + 1, ranks); g++) {
        if (count + 1 > *most)
            *most = count + 1;
        count = weft_tree_add(nodes, count, (struct weft_tree_node){g, 1}, NULL, NULL);
    }
    return count;
}
