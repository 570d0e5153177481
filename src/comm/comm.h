/* SPDX-License-Identifier: MIT
 *
 * comm.h - ranks, that is, processes that train one model together, and the messages between them.
 *
 * Invariants:
 *  - No reductions: bytes arrive as they were sent. MPI does not specify the order of its reductions, so callers add
 *    numbers themselves, in a fixed order.
 *  - All ranks make the same calls in the same order. A call returns when its data has been sent and received.
 *  - Only one thread of a rank makes calls at a time.
 *  - The backend is loaded only if there are several ranks; a single process needs no MPI.
 *  - A call waits as long as MPI does. If MPI never returns, the rank's watchdog (watch.h) ends the process. The
 *    watchdog has its own thread, which reads the atomic fields.
 */
#ifndef WEFT_COMM_H
#define WEFT_COMM_H

#include "base/base.h"

#include <stdatomic.h>

/* ---- backends. A module is a shared library that uses only this section of Weft. */

struct weft_message {
    int rank; /* destination or source */
    void *data;
    size_t bytes; /* 0: no message */
};

struct weft_comm_backend {
    const char *name;
    /* Sends a message and receives one at the same time. Returns an error message, or NULL. Messages have at most
     * WEFT_MESSAGE_BYTES. */
    const char *(*exchange)(void *state, struct weft_message send, struct weft_message receive);
    /* Called once. If `failed` is true, also ends the other ranks, as far as possible. */
    void (*end)(void *state, bool failed);
};
enum { WEFT_MESSAGE_BYTES = 1 << 28 };

/* The symbol `weft_comm_module` of a module. */
enum { WEFT_COMM_MODULE = 1 }; /* must change whenever a declaration above changes */
struct weft_comm_module {
    int version; /* WEFT_COMM_MODULE */
    /* Joins the job that this process belongs to. Returns an error message, or NULL. */
    const char *(*start)(struct weft_comm_backend *backend, void **state, int *rank, int *size);
};

/* ---- a rank's view of the job (comm.c) */

struct weft_watch;

struct weft_comm {
    int rank, size;
    struct weft_comm_backend backend;
    void *state;
    int64_t bytes_sent, messages; /* sent so far */
    double seconds;               /* seconds spent in calls so far */
    double hidden;                /* part of `seconds` that overlapped with other work */
    const char *_Atomic phase;    /* current purpose of calls, for messages */
    _Atomic int64_t step;         /* current training step, from 1, for messages; 0: before the first */
    bool other_failed;            /* weft_comm_join failed because of another rank, whose message has the details */
    _Atomic double waits_since;   /* start of the current call, by weft_seconds; 0: in no call */
    _Atomic int waits_for;        /* rank that the current call waits for */
    _Atomic int64_t calls;        /* number of exchanges so far */
    struct weft_watch *watch;     /* NULL: none */
};

/* Exchanges data of any size, cut into messages. Both ranks must pass the same number of bytes. */
enum weft_status weft_comm_exchange(struct weft_comm *c, struct weft_message send, struct weft_message receive);

/* ---- collective calls (collect.c) */

/* All-gathers `size` blocks of `bytes` bytes, one from each rank. */
enum weft_status weft_comm_gather(struct weft_comm *c, void *blocks, size_t bytes);
/* All-gathers large pieces of different sizes: rank r has bytes at[r] to at[r + 1] of the array. */
enum weft_status weft_comm_spread(struct weft_comm *c, void *array, const int64_t *at);
/* Sets *any if `mine` is true on any rank. */
enum weft_status weft_comm_any(struct weft_comm *c, bool mine, bool *any);
/* Fails on every rank if `mine` is an error on one. */
enum weft_status weft_comm_join(struct weft_comm *c, enum weft_status mine);
/* Fails if the text, of at most 64 bytes, differs from rank 0's on any rank. */
enum weft_status weft_comm_agree(struct weft_comm *c, const char *what, const char *text);

/* ---- starting and ending */

/* Returns whether mpirun or srun started this process as one of several, and sets their number (module.c). */
bool weft_comm_launched(int *size);
/* The time limit for silent ranks. */
struct weft_patience {
    double seconds; /* 0: no limit */
    /* Receives the lost rank (-1: unknown) and a sentence that names it and the phase. It is called by the watchdog's
     * thread and must end the process, because the waiting thread may never return. */
    void (*stalled)(void *context, int lost, const char *what);
    void *context;
};
/* Loads the module of the MPI that started the process and joins the other ranks. Call weft_comm_end even after a
 * failure. */
enum weft_status weft_comm_start(struct weft_comm *c, const struct weft_patience *patience);
/* Leaves the job. If `failed` is true, reports the failure to the other ranks. */
void weft_comm_end(struct weft_comm *c, bool failed);
/* Runs fn once per rank, each in its own thread of this process (loopback.c). Returns the first failure. */
typedef enum weft_status weft_rank_fn(struct weft_comm *c, void *context);
enum weft_status weft_comm_loopback(int ranks, weft_rank_fn *fn, void *context);

#endif
