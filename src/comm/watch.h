/* SPDX-License-Identifier: MIT
 *
 * watch.h - a rank's watchdog: a thread that ends the rank when another one is lost.
 *
 * MPI waits forever for a rank that was stopped or whose link is down, and a waiting rank cannot tell a lost rank from
 * one with long work, such as gates, scores or a checkpoint on a slow disk. So every watchdog sends heartbeats to all
 * others, bypassing MPI (signs.c), and reports in them what its rank is doing. A rank reports a stall if, for the time
 * limit in seconds,
 *  - no heartbeat arrived from some rank: it died, was stopped, or its link is down;
 *  - all ranks sent heartbeats, all of them wait, and no message arrived anywhere: MPI's network is down, or the ranks
 *    wait for each other;
 *  - it waited for a message of a rank whose heartbeats never arrived: the network between them carries only MPI. A
 *    rank that sends heartbeats and waits for nobody is working; its limit is WEFT_WORK times as long. A rank that ends
 *    in this way gives the reason in its last heartbeats, and all others also end.
 */
#ifndef WEFT_WATCH_H
#define WEFT_WATCH_H

#include "comm/comm.h"

enum { WEFT_WORK = 20 };

/* Starts the watchdog. Must be called before MPI starts, because that call may itself never return. Does nothing
 * without a time limit. */
enum weft_status weft_watch_start(struct weft_comm *c, const struct weft_patience *patience);
/* Exchanges addresses with the others. */
enum weft_status weft_watch_join(struct weft_comm *c);
/* Must be called before the last MPI call, which may take only a few seconds after a failure. */
void weft_watch_leave(struct weft_comm *c, bool failed);
void weft_watch_end(struct weft_comm *c);

/* ---- heartbeats (signs.c) */

struct weft_sign {
    uint64_t key; /* key of the job */
    int32_t from, to;
    int64_t calls, step;
    int32_t waits_for; /* a rank, or one of those below */
    int32_t lost;      /* the sender ends because of this rank; -1: it does not end */
    int32_t left;      /* nonzero: the sender no longer needs the others */
    char phase[52];
};

enum { WEFT_NOBODY = -1, WEFT_EVERYBODY = -2 }; /* the rank is working; it is in an MPI call that is not an exchange */

struct weft_signs;

/* Collective. A rank without a network neither sends nor receives heartbeats, which is not a failure. */
enum weft_status weft_signs_open(struct weft_signs **signs, struct weft_comm *c);
void weft_signs_send(const struct weft_signs *signs, const struct weft_sign *sign);
/* Waits at most `seconds` for a heartbeat. Returns false if none arrived. */
bool weft_signs_receive(const struct weft_signs *signs, double seconds, struct weft_sign *sign);
/* Wakes the receiving thread by sending a heartbeat to this rank itself. */
void weft_signs_wake(const struct weft_signs *signs);
void weft_signs_close(struct weft_signs *signs);

#endif
