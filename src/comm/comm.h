/* SPDX-License-Identifier: MIT
 *
 * comm.h - ranks: processes that train one model together, and the messages between them.
 *
 * Invariants:
 *  - Nothing is added up here: bytes arrive as they were sent. MPI promises no order of its reductions; who adds
 *    numbers does it in an order of its own.
 *  - All ranks make the same calls in the same order. A call returns when its data are sent and received.
 *  - One thread of a rank makes calls at a time.
 *  - What the backend needs is loaded when ranks are asked for: a process alone needs no MPI.
 *  - A call waits for as long as MPI does. What ends a rank whose call will never return is its watchdog (watch.h),
 *    which reads the atomic fields from a thread of its own.
 */
#ifndef WEFT_COMM_H
#define WEFT_COMM_H

#include "base/base.h"

#include <stdatomic.h>

/* ---- backends. A module is a shared library that knows nothing of Weft but this section. */

struct weft_message {
    int rank; /* to, or from */
    void *data;
    size_t bytes; /* 0: there is no message */
};

struct weft_comm_backend {
    const char *name;
    /* Sends a message and receives one at the same time. Returns what went wrong, or NULL. Messages have at most
     * WEFT_MESSAGE_BYTES. */
    const char *(*exchange)(void *state, struct weft_message send, struct weft_message receive);
    /* Called once. With `failed` the other ranks are ended too, as far as this is possible. */
    void (*end)(void *state, bool failed);
};
enum { WEFT_MESSAGE_BYTES = 1 << 28 };

/* The symbol `weft_comm_module` of a module. */
enum { WEFT_COMM_MODULE = 1 }; /* changes with everything above */
struct weft_comm_module {
    int version; /* WEFT_COMM_MODULE */
    /* Joins the job this process was started in. Returns what went wrong, or NULL. */
    const char *(*start)(struct weft_comm_backend *backend, void **state, int *rank, int *size);
};

/* ---- a rank's view of all (comm.c) */

struct weft_watch;

struct weft_comm {
    int rank, size;
    struct weft_comm_backend backend;
    void *state;
    int64_t bytes_sent, messages; /* so far */
    double seconds;               /* in calls so far */
    double hidden;                /* of these, while the rank did something else */
    const char *_Atomic phase;    /* what calls are for now, for messages about them */
    _Atomic int64_t step;         /* of training, counted from 1, likewise; 0: before the first */
    bool other_failed;            /* weft_comm_join failed because of another rank, which has more to say */
    _Atomic double waits_since;   /* by weft_seconds; 0: in no call now */
    _Atomic int waits_for;        /* a rank, while in a call */
    _Atomic int64_t calls;        /* messages that were sent and received so far */
    struct weft_watch *watch;     /* NULL: none */
};

/* Of any size; cut into as many messages as it takes. Both ranks give the same number of bytes. */
enum weft_status weft_comm_exchange(struct weft_comm *c, struct weft_message send, struct weft_message receive);

/* ---- all ranks together (collect.c) */

/* Each rank has its own of `size` blocks of so many bytes; then all have all. */
enum weft_status weft_comm_gather(struct weft_comm *c, void *blocks, size_t bytes);
/* The same for large pieces, one behind the other: rank r has bytes at[r] to at[r + 1] of the array. */
enum weft_status weft_comm_spread(struct weft_comm *c, void *array, const int64_t *at);
/* Whether some rank says so. */
enum weft_status weft_comm_any(struct weft_comm *c, bool mine, bool *any);
/* Fails on every rank if it failed on one. */
enum weft_status weft_comm_join(struct weft_comm *c, enum weft_status mine);
/* Fails if a rank has another text, of at most 64 bytes, than rank 0. */
enum weft_status weft_comm_agree(struct weft_comm *c, const char *what, const char *text);

/* ---- starting and ending */

/* Whether this process was started as one of several, by mpirun or srun, and of how many (module.c). */
bool weft_comm_launched(int *size);
/* How long a rank may be silent. */
struct weft_patience {
    double seconds; /* 0: for ever */
    /* Gets the rank that is lost (-1: not known which) and a sentence that names it and the phase. It is called by the
     * watchdog's thread and ends the process: the thread that waits may never return. */
    void (*stalled)(void *context, int lost, const char *what);
    void *context;
};
/* Loads the module of the MPI it was started with and joins the others. End it also after a failure. */
enum weft_status weft_comm_start(struct weft_comm *c, const struct weft_patience *patience);
/* Also after a failure, which it then brings to the other ranks. */
void weft_comm_end(struct weft_comm *c, bool failed);
/* Runs fn once per rank, each on a thread of its own, in this process (loopback.c); the first failure is returned. */
typedef enum weft_status weft_rank_fn(struct weft_comm *c, void *context);
enum weft_status weft_comm_loopback(int ranks, weft_rank_fn *fn, void *context);

#endif
