/* SPDX-License-Identifier: MIT
 *
 * loopback.c - runs ranks as threads of one process: a message is copied from the sender's memory to the receiver's.
 */
#include "comm/comm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct hub {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int size;
    bool broken;              /* a rank has failed, so no rank waits any more */
    struct weft_message *box; /* [from * size + to]: message waiting to be received */
    weft_rank_fn *fn;
    void *context;
};

struct rank {
    struct hub *hub;
    struct weft_comm comm;
    pthread_t thread;
    enum weft_status status;
    char *error;
};

/* Waits until a box is full or empty. Returns false if a rank has failed. */
static bool wait_for(struct hub *h, const struct weft_message *box, bool full)
{
    while (!h->broken && (box->bytes > 0) != full)
        pthread_cond_wait(&h->changed, &h->lock);
    return !h->broken;
}

static bool take(struct hub *h, struct weft_message *box, struct weft_message receive)
{
    if (!wait_for(h, box, true) || box->bytes != receive.bytes)
        return false;
    memcpy(receive.data, box->data, receive.bytes);
    box->bytes = 0;
    pthread_cond_broadcast(&h->changed);
    return true;
}

static const char *exchange(void *state, struct weft_message send, struct weft_message receive)
{
    struct rank *r = state;
    struct hub *h = r->hub;
    struct weft_message *out = &h->box[r->comm.rank * h->size + send.rank];
    bool done = true;
    pthread_mutex_lock(&h->lock);
    if (send.bytes && (done = wait_for(h, out, false))) {
        *out = send;
        pthread_cond_broadcast(&h->changed);
    }
    if (done && receive.bytes)
        done = take(h, &h->box[receive.rank * h->size + r->comm.rank], receive);
    if (done && send.bytes)
        done = wait_for(h, out, false);
    pthread_mutex_unlock(&h->lock);
    return done ? NULL : "another rank has failed";
}

static void *run_rank(void *context)
{
    struct rank *r = context;
    struct hub *h = r->hub;
    r->status = h->fn(&r->comm, h->context);
    if (r->status == WEFT_OK)
        return NULL;
    r->error = strdup(weft_error());
    pthread_mutex_lock(&h->lock);
    h->broken = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static enum weft_status run_all(struct hub *h, struct rank *ranks)
{
    int started = 0, error = 0;
    for (; started < h->size; started++) {
        struct rank *r = &ranks[started];
        *r = (struct rank){.hub = h};
        r->comm.rank = started;
        r->comm.size = h->size;
        r->comm.backend = (struct weft_comm_backend){"loopback", exchange, NULL};
        r->comm.state = r;
        error = weft_thread_create(&r->thread, run_rank, r);
        if (error)
            break;
    }
    if (started < h->size) {
        pthread_mutex_lock(&h->lock);
        h->broken = true;
        pthread_cond_broadcast(&h->changed);
        pthread_mutex_unlock(&h->lock);
    }
    for (int i = 0; i < started; i++)
        pthread_join(ranks[i].thread, NULL);
    if (started < h->size)
        return FAIL(WEFT_NOMEM,
                    "thread %d of %d could not be started: %s. Check the limits on memory (ulimit -v) and on threads "
                    "(ulimit -u)",
                    started + 1, h->size, strerror(error));
    return WEFT_OK;
}

/* Returns the first failure that is not merely a consequence of another rank's failure. */
static enum weft_status first_failure(struct rank *ranks, int size)
{
    const struct rank *first = NULL;
    for (int i = 0; i < size; i++)
        if (ranks[i].status != WEFT_OK && (!first || first->status == WEFT_IO))
            first = &ranks[i];
    return first ? FAIL(first->status, "%s", first->error ? first->error : "a rank failed") : WEFT_OK;
}

enum weft_status weft_comm_loopback(int ranks, weft_rank_fn *fn, void *context)
{
    struct hub h = {.size = ranks, .fn = fn, .context = context};
    struct rank *list = calloc((size_t)ranks, sizeof *list);
    h.box = calloc((size_t)ranks * (size_t)ranks, sizeof *h.box);
    if (!list || !h.box) {
        free(list);
        free(h.box);
        return FAIL(WEFT_NOMEM, "not enough memory for %d ranks", ranks);
    }
    pthread_mutex_init(&h.lock, NULL);
    pthread_cond_init(&h.changed, NULL);
    enum weft_status status = run_all(&h, list);
    if (status == WEFT_OK)
        status = first_failure(list, ranks);
    for (int i = 0; i < ranks; i++)
        free(list[i].error);
    pthread_cond_destroy(&h.changed);
    pthread_mutex_destroy(&h.lock);
    free(list);
    free(h.box);
    return status;
}
