/* SPDX-License-Identifier: MIT
 *
 * ranks.c - exchanges the ranks' shared data in a step: counts, losses, records of spans, and weights. Updated weights
 * are sent around a ring, so that each rank sends (R - 1)/R of all weights. sharing.c sends the gradients.
 */
#include "train/ranks/ranks.h"

#include <stdlib.h>
#include <string.h>

int64_t weft_group_micro_batch(const struct weft_learner *t, int64_t group)
{
    return group * t->recipe->micro_batches / weft_recipe_groups(t->recipe);
}

int64_t weft_rank_micro_batch(const struct weft_learner *t, int rank)
{
    return weft_group_micro_batch(t, weft_rank_first(weft_recipe_groups(t->recipe), rank, t->comm->size));
}

void weft_losses_add(struct weft_losses *to, const struct weft_losses *from)
{
    for (int i = 0; i < to->count; i++)
        to->list[i].value += from->list[i].value;
}

int weft_learner_nodes(const struct weft_learner *t, int rank, struct weft_tree_node nodes[WEFT_TREE_NODES])
{
    int most;
    return weft_rank_nodes(weft_recipe_groups(t->recipe), rank, t->comm->size, nodes, &most);
}

enum weft_status weft_ranks_count(struct weft_learner *t, int64_t *count)
{
    struct weft_comm *c = t->comm;
    if (c->size == 1)
        return WEFT_OK;
    int64_t *all = calloc((size_t)c->size, sizeof *all);
    if (!all)
        return FAIL(WEFT_NOMEM, "not enough memory for the counts of %d ranks", c->size);
    all[c->rank] = *count;
    c->phase = "counting the tokens of a step";
    enum weft_status status = weft_comm_gather(c, all, sizeof *all);
    *count = 0;
    for (int r = 0; r < c->size; r++)
        *count += all[r];
    free(all);
    return status;
}

/* ---- losses */

static void join_losses(void *context, int to)
{
    struct weft_losses *sum = context;
    weft_losses_add(&sum[to], &sum[to + 1]);
}

/* Adds up the losses of all nodes; all[(rank * room + node) * count] is the first of the `count` losses of a node. */
static void add_losses(struct weft_learner *t, const double *all, size_t room, int count)
{
    struct weft_losses sum[WEFT_TREE_NODES];
    struct weft_tree_node open[WEFT_TREE_NODES], nodes[WEFT_TREE_NODES];
    int top = 0;
    for (int r = 0; r < t->comm->size; r++) {
        int n = weft_learner_nodes(t, r, nodes);
        for (int i = 0; i < n; i++) {
            sum[top] = t->sums[0].losses;
            for (int v = 0; v < count; v++)
                sum[top].list[v].value = all[((size_t)r * room + (size_t)i) * (size_t)count + (size_t)v];
            top = weft_tree_add(open, top, nodes[i], join_losses, sum);
        }
    }
    weft_tree_finish(open, top, join_losses, sum);
    t->sums[0].losses = sum[0];
}

static enum weft_status share_losses(struct weft_learner *t)
{
    struct weft_comm *c = t->comm;
    struct weft_tree_node nodes[WEFT_TREE_NODES];
    int count = t->sums[0].losses.count, room = 0, mine = weft_learner_nodes(t, c->rank, nodes);
    for (int r = 0; r < c->size; r++)
        room = (int)weft_max(room, weft_learner_nodes(t, r, nodes));
    size_t block = (size_t)room * (size_t)count;
    double *all = calloc((size_t)c->size * block, sizeof *all);
    if (!all)
        return FAIL(WEFT_NOMEM, "not enough memory for the losses of %d ranks", c->size);
    for (int i = 0; i < mine; i++)
        for (int v = 0; v < count; v++)
            all[(size_t)c->rank * block + (size_t)(i * count + v)] = t->sums[i].losses.list[v].value;
    c->phase = "sharing losses";
    enum weft_status status = weft_comm_gather(c, all, block * sizeof *all);
    if (status == WEFT_OK)
        add_losses(t, all, (size_t)room, count);
    free(all);
    return status;
}

enum weft_status weft_ranks_losses(struct weft_learner *t)
{
    TRY(share_losses(t));
    t->comm->phase = "sharing the hashes of samples";
    TRY(weft_comm_gather(t->comm, t->digests, (size_t)t->digest_room * sizeof *t->digests));
    return WEFT_OK;
}

/* ---- spans and weights */

enum weft_status weft_ranks_spans(const struct weft_learner *t, void *records, size_t bytes)
{
    struct weft_comm *c = t->comm;
    const struct weft_partition *p = &t->partition;
    if (c->size == 1)
        return WEFT_OK;
    size_t room = (size_t)weft_partition_most(p) * bytes;
    char *all = calloc((size_t)c->size, room), *list = records;
    if (!all)
        return FAIL(WEFT_NOMEM, "not enough memory for the records of %d ranks", c->size);
    for (int64_t i = 0; i < t->own_count; i++)
        memcpy(all + (size_t)c->rank * room + (size_t)i * bytes, list + (size_t)t->own[i].span * bytes, bytes);
    enum weft_status status = weft_comm_gather(c, all, room);
    for (int r = 0; status == WEFT_OK && r < c->size; r++) {
        const char *from = all + (size_t)r * room;
        for (int64_t b = 0; b < p->buckets; b++) {
            const int64_t *at = &p->at[b * p->ranks + r];
            memcpy(list + (size_t)at[0] * bytes, from, (size_t)(at[1] - at[0]) * bytes);
            from += (size_t)(at[1] - at[0]) * bytes;
        }
    }
    free(all);
    return status;
}

enum weft_status weft_ranks_weights(const struct weft_learner *t)
{
    struct weft_comm *c = t->comm;
    if (c->size == 1)
        return WEFT_OK;
    int64_t *at = calloc((size_t)c->size + 1, sizeof *at);
    if (!at)
        return FAIL(WEFT_NOMEM, "not enough memory for the weights of %d ranks", c->size);
    enum weft_status status = WEFT_OK;
    c->phase = "sharing weights";
    for (int64_t b = 0; status == WEFT_OK && b < t->partition.buckets; b++) {
        const int64_t *span = &t->partition.at[b * c->size];
        for (int r = 0; r <= c->size; r++) {
            int64_t s = span[r];
            at[r] = (s < t->span_count ? t->spans[s].first : t->spans[s - 1].first + t->spans[s - 1].count) *
                    (int64_t)sizeof(float);
        }
        status = weft_comm_spread(c, t->model->params.weights, at);
    }
    free(at);
    return status;
}
