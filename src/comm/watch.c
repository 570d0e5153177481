/* SPDX-License-Identifier: MIT
 *
 * watch.c - runs the watchdog's thread: sends heartbeats, reads those of the other ranks, and detects stalls.
 *
 * A watchdog that was itself stopped, for example because the whole job was suspended, has missed heartbeats and
 * restarts all its timers.
 */
#include "comm/watch.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STARTING = 60, ENDING = 10 }; /* seconds: minimum limit for MPI's start, maximum for its end after a failure */

/* The last known state of a rank. */
struct view {
    struct weft_sign sign;
    double heard; /* time of its last heartbeat; 0: none yet */
    double moved; /* time when it last sent or received, or began to wait or to work */
};

struct weft_watch {
    struct weft_comm *comm;
    struct weft_patience patience;
    struct weft_signs *signs;
    struct view *views; /* one per rank, including this one */
    pthread_t thread;
    atomic_bool joined, failed, done;
    double period, looked; /* seconds between two checks; time of the last check */
    double job_moved;      /* time when any rank last moved */
};

/* ---- reporting */

/* Describes what this rank is doing. */
static void describe_phase(struct weft_comm *c, char *text, size_t room)
{
    const char *phase = c->phase;
    long long step = c->step;
    char number[40] = "";
    if (step)
        snprintf(number, sizeof number, " (step %lld)", step);
    if (atomic_load(&c->waits_since) > 0)
        snprintf(text, room, "while %s%s", phase ? phase : "starting", number);
    else
        snprintf(text, room, "while computing%s", number);
}

static struct weft_sign own_sign(const struct weft_watch *w)
{
    struct weft_comm *c = w->comm;
    const char *phase = c->phase;
    bool waits = atomic_load(&c->waits_since) > 0;
    struct weft_sign sign = {.lost = WEFT_NOBODY, .calls = c->calls, .step = c->step, .waits_for = WEFT_NOBODY};
    if (waits)
        sign.waits_for = c->waits_for;
    snprintf(sign.phase, sizeof sign.phase, "%s", !waits || !phase ? "computing" : phase);
    return sign;
}

/* Reports a stall to the other ranks, then to the user. `more` is appended to the description of what this rank was
 * doing. */
static void report(struct weft_watch *w, int lost, const char *what, const char *more)
{
    struct weft_comm *c = w->comm;
    char phase[160], text[512];
    if (w->signs) {
        struct weft_sign sign = own_sign(w);
        sign.lost = lost;
        weft_signs_send(w->signs, &sign);
    }
    describe_phase(c, phase, sizeof phase);
    if (atomic_load(&w->joined))
        snprintf(text, sizeof text, "rank %d of %d: %s %s%s", c->rank, c->size, what, phase, more);
    else
        snprintf(text, sizeof text, "%s %s%s", what, phase, more);
    w->patience.stalled(w->patience.context, lost == c->rank ? -1 : lost, text);
}

/* ---- judging */

static bool works(const struct weft_sign *sign) { return sign->waits_for == WEFT_NOBODY; }

static void take(struct weft_watch *w, int rank, const struct weft_sign *sign, double now)
{
    struct view *v = &w->views[rank];
    if (!v->heard || sign->calls != v->sign.calls || works(sign) != works(&v->sign))
        v->moved = w->job_moved = now;
    v->heard = now;
    v->sign = *sign;
}

/* Reports a rank that is silent, works too long, or has itself lost a rank. */
static void judge_rank(struct weft_watch *w, int r, double now)
{
    const struct view *v = &w->views[r];
    char what[128], more[128] = "";
    if (!v->heard || v->sign.left)
        return;
    if (v->sign.lost >= 0) {
        snprintf(what, sizeof what, "rank %d has lost rank %d and ends; so does this rank,", r, v->sign.lost);
        if (v->sign.lost == r)
            snprintf(what, sizeof what, "rank %d has lost the others and ends; so does this rank,", r);
        report(w, v->sign.lost, what, more);
    } else if (now - v->heard > w->patience.seconds) {
        snprintf(what, sizeof what, "no answer from rank %d for %.0f s", r, now - v->heard);
        snprintf(more, sizeof more, "; its last heartbeat: %s", v->sign.phase);
        report(w, r, what, more);
    } else if (works(&v->sign) && now - v->moved > WEFT_WORK * w->patience.seconds) {
        snprintf(what, sizeof what, "no answer from rank %d for %.0f s", r, now - v->moved);
        report(w, r, what, "; it sends heartbeats, but no messages");
    }
}

/* Reports a stall if this rank waits too long. */
static void judge_wait(struct weft_watch *w, bool all_wait, double now)
{
    const struct view *mine = &w->views[w->comm->rank];
    int other = mine->sign.waits_for;
    double all = now - w->job_moved, own = now - mine->moved, limit = w->patience.seconds;
    char what[128];
    if (all_wait && all > limit) {
        snprintf(what, sizeof what, "no answer from %s %d for %.0f s", other < 0 ? "any of the ranks 0 to" : "rank",
                 other < 0 ? w->comm->size - 1 : other, all);
        report(w, other < 0 ? w->comm->rank : other, what, "; all ranks send heartbeats and wait");
    } else if (other >= 0 && !w->views[other].heard && own > limit) {
        snprintf(what, sizeof what, "no answer from rank %d for %.0f s", other, own);
        report(w, other, what, "; none of its heartbeats ever arrived");
    }
}

static void judge_all(struct weft_watch *w, double now)
{
    bool all_wait = true;
    for (int r = 0; r < w->comm->size; r++) {
        const struct view *v = &w->views[r];
        all_wait &= !v->heard || v->sign.left || !works(&v->sign);
        if (r != w->comm->rank)
            judge_rank(w, r, now);
    }
    if (!works(&w->views[w->comm->rank].sign))
        judge_wait(w, all_wait, now);
}

/* Reports a stall while MPI starts or ends, when it is not known which rank causes the stall. */
static void judge_alone(struct weft_watch *w, double now)
{
    double limit = w->patience.seconds, since = atomic_load(&w->comm->waits_since);
    char what[64];
    if (!atomic_load(&w->joined) && limit < STARTING)
        limit = STARTING;
    if (atomic_load(&w->failed) && limit > ENDING)
        limit = ENDING;
    if (since == 0 || now - since < limit || (atomic_load(&w->joined) && !atomic_load(&w->failed)))
        return;
    snprintf(what, sizeof what, "no answer for %.0f s", now - since);
    report(w, w->comm->rank, what, "");
}

/* ---- the thread */

static void forgive(struct weft_watch *w, double now)
{
    w->job_moved = now;
    for (int r = 0; r < w->comm->size; r++)
        if (w->views[r].heard)
            w->views[r].heard = w->views[r].moved = now;
}

static void look(struct weft_watch *w)
{
    struct weft_sign sign = own_sign(w);
    double now = weft_seconds();
    weft_signs_send(w->signs, &sign);
    take(w, w->comm->rank, &sign, now);
    double end = now + w->period;
    while (!atomic_load(&w->done) && weft_signs_receive(w->signs, end - weft_seconds(), &sign))
        if (sign.from != w->comm->rank)
            take(w, sign.from, &sign, weft_seconds());
    now = weft_seconds();
    if (now - w->looked > 1 + 3 * w->period)
        forgive(w, now);
    w->looked = now;
    judge_all(w, now);
}

static void *watch(void *context)
{
    struct weft_watch *w = context;
    while (!atomic_load(&w->done)) {
        if (atomic_load(&w->joined))
            look(w);
        else
            nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        judge_alone(w, weft_seconds());
    }
    return NULL;
}

enum weft_status weft_watch_start(struct weft_comm *c, const struct weft_patience *patience)
{
    sigset_t all, before;
    if (!patience || patience->seconds <= 0)
        return WEFT_OK;
    struct weft_watch *w = calloc(1, sizeof *w);
    if (!w)
        return FAIL(WEFT_NOMEM, "not enough memory for a watchdog");
    w->comm = c;
    w->patience = *patience;
    w->period = patience->seconds / 8 < 1 ? patience->seconds / 8 : 1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = weft_thread_create(&w->thread, watch, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        free(w);
        return FAIL(WEFT_NOMEM, "the watchdog's thread could not be started: %s", strerror(error));
    }
    c->watch = w;
    return WEFT_OK;
}

enum weft_status weft_watch_join(struct weft_comm *c)
{
    struct weft_watch *w = c->watch;
    bool any;
    c->phase = "exchanging addresses";
    /* Collective, so also called if this rank has no limit. */
    TRY(weft_comm_any(c, !w, &any));
    if (any)
        return w ? FAIL(WEFT_INVALID, "some ranks have a stall limit and others do not: pass the same --stall to all")
                 : WEFT_OK;
    TRY(weft_signs_open(&w->signs, c));
    w->views = calloc((size_t)c->size, sizeof *w->views);
    if (!w->views)
        return FAIL(WEFT_NOMEM, "not enough memory for a watchdog of %d ranks", c->size);
    w->looked = w->job_moved = weft_seconds();
    atomic_store(&w->joined, true);
    return WEFT_OK;
}

void weft_watch_leave(struct weft_comm *c, bool failed)
{
    if (c->watch)
        atomic_store(&c->watch->failed, failed);
}

void weft_watch_end(struct weft_comm *c)
{
    struct weft_watch *w = c->watch;
    if (!w)
        return;
    atomic_store(&w->done, true);
    if (w->signs)
        weft_signs_wake(w->signs);
    pthread_join(w->thread, NULL);
    if (w->signs) {
        struct weft_sign sign = own_sign(w);
        sign.left = 1;
        weft_signs_send(w->signs, &sign);
        weft_signs_close(w->signs);
    }
    free(w->views);
    free(w);
    c->watch = NULL;
}
