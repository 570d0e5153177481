/* SPDX-License-Identifier: MIT
 *
 * watch.h - the watchdog of a rank: a thread that ends it when another rank is gone.
 *
 * MPI waits for ever for a rank that was stopped, or whose link was cut; and a rank that waits cannot know whether the
 * other is gone or has long work: gates, scores, a checkpoint on a slow disk. So every watchdog sends signs of life to
 * all others, past MPI (signs.c), which say what its rank is doing. A rank reports a stall when, for the seconds that
 * were asked for,
 *  - there was no sign of life from some rank: it died, was stopped, or its link is cut;
 *  - all ranks gave signs, all of them wait, and no message arrived anywhere: the network that MPI uses is cut, or the
 *    ranks wait for each other;
 *  - it waited for one message of a rank whose signs never arrived: what is between them lets only MPI pass.
 * A rank that gives signs and waits for nobody is working, and may for WEFT_WORK times as long. A rank that ends so
 * says why in its last signs, and all others end, too.
 */
#ifndef WEFT_WATCH_H
#define WEFT_WATCH_H

#include "comm/comm.h"

enum { WEFT_WORK = 20 };

/* Before MPI starts, which may wait for ever itself. Nothing happens where no limit is asked for. */
enum weft_status weft_watch_start(struct weft_comm *c, const struct weft_patience *patience);
/* Exchanges addresses with the others. */
enum weft_status weft_watch_join(struct weft_comm *c);
/* The last call begins: after a failure it is given few seconds. */
void weft_watch_leave(struct weft_comm *c, bool failed);
void weft_watch_end(struct weft_comm *c);

/* ---- signs of life (signs.c) */

struct weft_sign {
    uint64_t key; /* of the job */
    int32_t from, to;
    int64_t calls, step;
    int32_t waits_for; /* a rank, or one of those below */
    int32_t lost;      /* it ends because of this rank; -1: it does not */
    int32_t left;      /* it needs the others no more */
    char phase[52];
};

enum { WEFT_NOBODY = -1, WEFT_EVERYBODY = -2 }; /* it is working; it is in a call of MPI that is not a message */

struct weft_signs;

/* All ranks together. A rank without a network gets and gives no signs, which is not a failure. */
enum weft_status weft_signs_open(struct weft_signs **signs, struct weft_comm *c);
void weft_signs_send(const struct weft_signs *signs, const struct weft_sign *sign);
/* Waits for at most so many seconds. False: none arrived. */
bool weft_signs_receive(const struct weft_signs *signs, double seconds, struct weft_sign *sign);
/* Ends the wait of the thread that receives: it gets a sign of its own. */
void weft_signs_wake(const struct weft_signs *signs);
void weft_signs_close(struct weft_signs *signs);

#endif
