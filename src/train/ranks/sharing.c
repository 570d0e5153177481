/* SPDX-License-Identifier: MIT
 *
 * sharing.c - sends gradients to their owners during the backward pass.
 *
 * For every bucket and each of its own nodes, a rank sends each of the other ranks the piece that the receiver owns.
 * This is (R - 1)/R of the gradients if a rank's groups form one node. The owner then has all nodes of the tree and
 * joins them in the tree's order. If the state is divided among all ranks, no rank can send or receive less in a step
 * (S. Rajbhandari et al., ZeRO, arXiv:1910.02054).
 *
 * Buckets are sent from the last to the first, in the order in which the backward pass finishes them. A separate thread
 * sends and receives during the last run of the rank, because MPI makes no progress by itself.
 */
#include "train/ranks/ranks.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A piece of a bucket: `count` elements of the flat arrays. */
struct piece {
    int64_t first, count;
};

struct weft_sharing {
    const struct weft_learner *t;
    int *known; /* per bucket: the step of a run after which its gradients are known */
    /* All nodes of the tree, in order, with their values in this rank's own piece of a bucket. The values of the rank's
     * own nodes are in its sums; those of the other nodes are received into `room`. */
    int count;
    struct arrived {
        struct weft_tree_node node;
        float *values; /* values, from the piece's first element */
    } * list;
    int *first_of_rank; /* index of each rank's first node in the list, and the end of the list */
    float *room;
    size_t room_bytes;
    struct piece mine; /* this rank's piece of the bucket being shared */
    int64_t first_span;

    /* State of one run: */
    int open, joins; /* number of the rank's open sums, including the last group's; number of joins to do */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int done; /* number of steps done in the run; INT_MAX: all; -1: the run failed */
    enum weft_status status;
    char *error;
};

static struct piece piece_of(const struct weft_learner *t, int64_t bucket, int rank)
{
    const int64_t *at = &t->partition.at[bucket * t->partition.ranks + rank];
    if (at[0] == at[1])
        return (struct piece){0, 0};
    const struct weft_span *first = &t->spans[at[0]], *last = &t->spans[at[1] - 1];
    return (struct piece){first->first, last->first + last->count - first->first};
}

/* ---- joining */

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

/* Joins the rank's own nodes for one span. */
static void join_own(void *context, int64_t span, int thread)
{
    (void)thread;
    const struct weft_sharing *s = context;
    struct joining j = {.first = s->t->spans[span].first, .count = s->t->spans[span].count};
    for (int i = 0; i < s->open; i++)
        j.values[i] = s->t->sums[i].grads;
    for (int i = 0; i < s->joins; i++)
        join_values(&j, s->open - 2 - i);
}

/* Joins the received nodes for one span of this rank's piece. */
static void join_all(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_sharing *s = context;
    const struct weft_span *span = &s->t->spans[s->first_span + tile];
    struct joining j = {.first = span->first - s->mine.first, .count = span->count};
    struct weft_tree_node open[WEFT_TREE_NODES];
    int top = 0;
    for (int i = 0; i < s->count; i++) {
        j.values[top] = s->list[i].values;
        top = weft_tree_add(open, top, s->list[i].node, join_values, &j);
    }
    weft_tree_finish(open, top, join_values, &j);
    float *to = s->t->sums[0].grads + span->first;
    if (j.values[0] + j.first != to)
        memcpy(to, j.values[0] + j.first, (size_t)span->count * sizeof *to);
}

/* ---- one bucket */

static void place_nodes(struct weft_sharing *s)
{
    const struct weft_comm *c = s->t->comm;
    float *room = s->room;
    for (int r = 0; r < c->size; r++)
        for (int i = s->first_of_rank[r]; i < s->first_of_rank[r + 1]; i++) {
            bool own = r == c->rank;
            s->list[i].values = own ? s->t->sums[i - s->first_of_rank[r]].grads + s->mine.first : room;
            room += own ? 0 : s->mine.count;
        }
}

/* Sends one rank its piece, and receives this rank's piece from a different rank. */
static enum weft_status exchange_pieces(const struct weft_sharing *s, int64_t bucket, int distance)
{
    struct weft_comm *c = s->t->comm;
    const int *at = s->first_of_rank;
    int to = (c->rank + distance) % c->size, from = (c->rank - distance + c->size) % c->size;
    int out = at[c->rank + 1] - at[c->rank], in = at[from + 1] - at[from];
    struct piece theirs = piece_of(s->t, bucket, to);
    for (int i = 0; i < out || i < in; i++) {
        struct weft_message send = {to, NULL, 0}, receive = {from, NULL, 0};
        if (i < out)
            send = (struct weft_message){to, s->t->sums[i].grads + theirs.first, (size_t)theirs.count * sizeof(float)};
        if (i < in)
            receive = (struct weft_message){from, s->list[at[from] + i].values, (size_t)s->mine.count * sizeof(float)};
        TRY(weft_comm_exchange(c, send, receive));
    }
    return WEFT_OK;
}

static enum weft_status share_bucket(struct weft_sharing *s, int64_t bucket)
{
    const struct weft_partition *p = &s->t->partition;
    const int64_t *at = &p->at[bucket * p->ranks];
    int rank = s->t->comm->rank;
    for (int64_t span = at[0]; s->joins && span < at[p->ranks]; span++)
        join_own(s, span, 0);
    s->mine = piece_of(s->t, bucket, rank);
    s->first_span = at[rank];
    place_nodes(s);
    for (int distance = 1; distance < p->ranks; distance++)
        TRY(exchange_pieces(s, bucket, distance));
    weft_parallel(at[rank + 1] - at[rank], join_all, s);
    return WEFT_OK;
}

/* ---- a run */

/* Waits until a bucket's gradients are known; returns false if they never will be. */
static bool wait_for(struct weft_sharing *s, int64_t bucket)
{
    pthread_mutex_lock(&s->lock);
    while (s->done >= 0 && s->done <= s->known[bucket])
        pthread_cond_wait(&s->changed, &s->lock);
    bool known = s->done >= 0;
    pthread_mutex_unlock(&s->lock);
    return known;
}

/* Body of a run's thread, which computes without the help of other threads, because those are busy. */
static void *share_buckets(void *context)
{
    struct weft_sharing *s = context;
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, 1);
    s->t->comm->phase = "sharing gradients";
    for (int64_t b = s->t->partition.buckets; s->status == WEFT_OK && b-- > 0 && wait_for(s, b);)
        s->status = share_bucket(s, b);
    if (s->status != WEFT_OK)
        s->error = strdup(weft_error());
    weft_threads_leave(&scope);
    return NULL;
}

static void note_done(struct weft_sharing *s, int done)
{
    pthread_mutex_lock(&s->lock);
    s->done = done;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void note_step(void *context, int step) { note_done(context, step + 1); }

static void begin(struct weft_sharing *s, const struct weft_tree_node *nodes, int open, int done)
{
    struct weft_tree_node after[WEFT_TREE_NODES];
    memcpy(after, nodes, (size_t)open * sizeof *nodes);
    s->open = open;
    s->joins = open - weft_tree_add(after, open - 1, nodes[open - 1], NULL, NULL);
    s->done = done;
    s->status = WEFT_OK;
}

static enum weft_status end(struct weft_sharing *s)
{
    enum weft_status status = s->status;
    if (status != WEFT_OK)
        status = FAIL(status, "%s", s->error ? s->error : "");
    free(s->error);
    s->error = NULL;
    return status;
}

enum weft_status weft_sharing_run(struct weft_learner *t, const struct weft_tree_node *nodes, int open)
{
    struct weft_sharing *s = t->sharing;
    double before = t->comm->seconds;
    pthread_t thread;
    begin(s, nodes, open, 0);
    if (weft_thread_create(&thread, share_buckets, s))
        return FAIL(WEFT_NOMEM, "cannot start a thread for messages between ranks");
    enum weft_status status = weft_exec_run_watched(t->exec, note_step, s);
    note_done(s, status == WEFT_OK ? INT_MAX : -1);
    double start = weft_seconds();
    pthread_join(thread, NULL);
    double hidden = t->comm->seconds - before - (weft_seconds() - start);
    t->comm->hidden += hidden > 0 ? hidden : 0;
    TRY(status);
    return end(s);
}

enum weft_status weft_sharing_finish(struct weft_learner *t, const struct weft_tree_node *nodes, int open)
{
    begin(t->sharing, nodes, open, INT_MAX);
    share_buckets(t->sharing);
    return end(t->sharing);
}

/* ---- creating it */

/* Finds the step of a run after which each bucket is known, because the gradients of all weights with elements in it
 * are known. */
static void find_known(struct weft_sharing *s)
{
    const struct weft_learner *t = s->t;
    const struct weft_params *p = &t->model->params;
    int64_t span = 0;
    for (int i = 0; i < p->count; i++) {
        const struct weft_value *w = t->net.weights[i], *grad = w ? weft_graph_gradient(w) : NULL;
        int last = grad ? weft_exec_last_write(t->exec, grad) : -1;
        for (int64_t b = 0; b < t->partition.buckets; b++) {
            const int64_t *at = &t->partition.at[b * t->partition.ranks];
            int64_t end = span + weft_div_up(p->list[i].count, WEFT_SPAN);
            if (at[0] < end && at[t->partition.ranks] > span)
                s->known[b] = (int)weft_max(s->known[b], last);
        }
        span += weft_div_up(p->list[i].count, WEFT_SPAN);
    }
}

static enum weft_status make_lists(struct weft_sharing *s, struct weft_arena *arena)
{
    const struct weft_learner *t = s->t;
    struct weft_tree_node nodes[WEFT_TREE_NODES];
    int ranks = t->comm->size, own = weft_learner_nodes(t, t->comm->rank, nodes), n;
    int64_t most = 1;
    for (int r = 0; r < ranks; r++)
        s->count += weft_learner_nodes(t, r, nodes);
    for (int64_t b = 0; b < t->partition.buckets; b++)
        most = weft_max(most, piece_of(t, b, t->comm->rank).count);
    s->list = weft_arena_alloc(arena, (size_t)s->count * sizeof *s->list);
    s->first_of_rank = weft_arena_alloc(arena, (size_t)(ranks + 1) * sizeof *s->first_of_rank);
    s->known = weft_arena_alloc(arena, (size_t)t->partition.buckets * sizeof *s->known);
    s->room_bytes = (size_t)(most * (s->count - own)) * sizeof *s->room;
    s->room = weft_pages_alloc(s->room_bytes);
    if (!s->list || !s->first_of_rank || !s->known || !s->room)
        return FAIL(WEFT_NOMEM, "not enough memory for the gradients of %d ranks", ranks);
    for (int r = 0; r < ranks; r++) {
        n = weft_learner_nodes(t, r, nodes);
        for (int i = 0; i < n; i++)
            s->list[s->first_of_rank[r] + i].node = nodes[i];
        s->first_of_rank[r + 1] = s->first_of_rank[r] + n;
    }
    return WEFT_OK;
}

enum weft_status weft_sharing_create(struct weft_learner *t)
{
    if (t->comm->size == 1)
        return WEFT_OK;
    struct weft_sharing *s = t->sharing = calloc(1, sizeof *s);
    if (!s)
        return FAIL(WEFT_NOMEM, "not enough memory for the gradients of %d ranks", t->comm->size);
    s->t = t;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    TRY(make_lists(s, &t->arena));
    find_known(s);
    return WEFT_OK;
}

void weft_sharing_free(struct weft_sharing *s)
{
    if (!s)
        return;
    weft_pages_free(s->room, s->room_bytes);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
