/* SPDX-License-Identifier: MIT
 *
 * ranks.c - a step on several ranks.
 *
 * Of every bucket each rank sends to each other rank the piece that it owns, of each of its nodes: (R - 1)/R of the
 * gradients where a rank's groups make one node. The owner has then all nodes of the tree and joins them in its order.
 * When it has moved its weights, they go round a ring: (R - 1)/R of the weights. No rank sends or receives less in a
 * step whose state is spread over all of them (S. Rajbhandari et al., ZeRO, arXiv:1910.02054).
 */
#include "train/ranks.h"

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

static int rank_nodes(const struct weft_learner *t, int rank, struct weft_tree_node nodes[WEFT_TREE_NODES])
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
        return FAIL(WEFT_NOMEM, "not enough memory for what %d ranks count", c->size);
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

/* all[rank * room + node] are the values of each node of each rank. */
static void add_losses(struct weft_learner *t, const double *all, size_t room, int count)
{
    struct weft_losses sum[WEFT_TREE_NODES];
    struct weft_tree_node open[WEFT_TREE_NODES], nodes[WEFT_TREE_NODES];
    int top = 0;
    for (int r = 0; r < t->comm->size; r++) {
        int n = rank_nodes(t, r, nodes);
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
    int count = t->sums[0].losses.count, room = 0, mine = rank_nodes(t, c->rank, nodes);
    for (int r = 0; r < c->size; r++)
        room = (int)weft_max(room, rank_nodes(t, r, nodes));
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

/* ---- gradients */

/* A piece of a bucket: so many elements of the flat arrays. */
struct piece {
    int64_t first, count;
};

static struct piece piece_of(const struct weft_learner *t, int64_t bucket, int rank)
{
    const int64_t *at = &t->partition.at[bucket * t->partition.ranks + rank];
    if (at[0] == at[1])
        return (struct piece){0, 0};
    const struct weft_span *first = &t->spans[at[0]], *last = &t->spans[at[1] - 1];
    return (struct piece){first->first, last->first + last->count - first->first};
}

/* All nodes of the tree, in order, with the values of this rank's own piece. */
struct arriving {
    const struct weft_learner *t;
    int64_t first_span; /* of the piece */
    struct piece mine;
    int count;
    struct arrived {
        struct weft_tree_node node;
        float *values; /* of the piece's first element */
    } * list;
};

struct joining {
    float *values[WEFT_TREE_NODES];
    int64_t first, count;
};

static void join_values(void *context, int to)
{
    const struct joining *j = context;
    float *sum = j->values[to] + j->first;
    const float *more = j->values[to + 1] + j->first;
    for (int64_t i = 0; i < j->count; i++)
        sum[i] += more[i];
}

static void join_span(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct arriving *a = context;
    const struct weft_span *span = &a->t->spans[a->first_span + tile];
    struct joining j = {.first = span->first - a->mine.first, .count = span->count};
    struct weft_tree_node open[WEFT_TREE_NODES];
    int top = 0;
    for (int i = 0; i < a->count; i++) {
        j.values[top] = a->list[i].values;
        top = weft_tree_add(open, top, a->list[i].node, join_values, &j);
    }
    weft_tree_finish(open, top, join_values, &j);
    float *to = a->t->sums[0].grads + span->first;
    if (j.values[0] + j.first != to)
        memcpy(to, j.values[0] + j.first, (size_t)span->count * sizeof *to);
}

/* Lists all nodes: this rank's are in its sums, those of the others will arrive in `room`, in the same order. */
static void list_nodes(const struct weft_learner *t, struct arriving *a, int *first_of_rank, float *room)
{
    struct weft_tree_node nodes[WEFT_TREE_NODES];
    a->count = 0;
    for (int r = 0; r < t->comm->size; r++) {
        int n = rank_nodes(t, r, nodes);
        first_of_rank[r] = a->count;
        for (int i = 0; i < n; i++, a->count++) {
            float *values = r == t->comm->rank ? t->sums[i].grads + a->mine.first : room;
            a->list[a->count] = (struct arrived){nodes[i], values};
            room += r == t->comm->rank ? 0 : a->mine.count;
        }
    }
    first_of_rank[t->comm->size] = a->count;
}

/* One rank's piece to it, and this rank's from another. */
static enum weft_status exchange_pieces(const struct weft_learner *t, const struct arriving *a,
                                        const int *first_of_rank, int64_t bucket, int distance)
{
    struct weft_comm *c = t->comm;
    int to = (c->rank + distance) % c->size, from = (c->rank - distance + c->size) % c->size;
    int out = first_of_rank[c->rank + 1] - first_of_rank[c->rank], in = first_of_rank[from + 1] - first_of_rank[from];
    struct piece theirs = piece_of(t, bucket, to);
    for (int i = 0; i < out || i < in; i++) {
        struct weft_message send = {to, NULL, 0}, receive = {from, NULL, 0};
        if (i < out)
            send = (struct weft_message){to, t->sums[i].grads + theirs.first, (size_t)theirs.count * sizeof(float)};
        if (i < in)
            receive = (struct weft_message){from, a->list[first_of_rank[from] + i].values,
                                            (size_t)a->mine.count * sizeof(float)};
        TRY(weft_comm_exchange(c, send, receive));
    }
    return WEFT_OK;
}

static enum weft_status share_bucket(const struct weft_learner *t, struct arriving *a, int64_t bucket,
                                     int *first_of_rank, float *room)
{
    const int64_t *at = &t->partition.at[bucket * t->partition.ranks + t->comm->rank];
    a->mine = piece_of(t, bucket, t->comm->rank);
    a->first_span = at[0];
    list_nodes(t, a, first_of_rank, room);
    for (int distance = 1; distance < t->comm->size; distance++)
        TRY(exchange_pieces(t, a, first_of_rank, bucket, distance));
    weft_parallel(at[1] - at[0], join_span, a);
    return WEFT_OK;
}

/* Elements of the largest piece of this rank. */
static int64_t largest_piece(const struct weft_learner *t)
{
    int64_t most = 0;
    for (int64_t b = 0; b < t->partition.buckets; b++)
        most = weft_max(most, piece_of(t, b, t->comm->rank).count);
    return most;
}

/* From the last bucket to the first, as the backward pass makes them known. */
static enum weft_status share_gradients(struct weft_learner *t)
{
    struct weft_comm *c = t->comm;
    struct weft_tree_node nodes[WEFT_TREE_NODES];
    int count = 0, mine = rank_nodes(t, c->rank, nodes);
    for (int r = 0; r < c->size; r++)
        count += rank_nodes(t, r, nodes);
    struct arriving a = {.t = t, .list = calloc((size_t)count, sizeof *a.list)};
    int *first_of_rank = calloc((size_t)c->size + 1, sizeof *first_of_rank);
    float *room = malloc((size_t)((count - mine) * largest_piece(t)) * sizeof *room + 1);
    enum weft_status status = WEFT_OK;
    if (!a.list || !first_of_rank || !room)
        status = FAIL(WEFT_NOMEM, "not enough memory for the gradients of %d ranks", c->size);
    c->phase = "sharing gradients";
    for (int64_t b = t->partition.buckets; status == WEFT_OK && b-- > 0;)
        status = share_bucket(t, &a, b, first_of_rank, room);
    free(a.list);
    free(first_of_rank);
    free(room);
    return status;
}

enum weft_status weft_ranks_gradient(struct weft_learner *t)
{
    TRY(share_gradients(t));
    TRY(share_losses(t));
    t->comm->phase = "sharing what was read";
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
        return FAIL(WEFT_NOMEM, "not enough memory for what %d ranks know of the weights", c->size);
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
