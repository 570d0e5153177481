/* SPDX-License-Identifier: MIT
 *
 * ranks.h - lets a command join and leave its ranks, and ends it when a rank is lost.
 */
#ifndef WEFT_CMD_RANKS_H
#define WEFT_CMD_RANKS_H

#include "comm/comm.h"

/* Joins the ranks. Call weft_ranks_leave even after a failure. */
enum weft_status weft_ranks_join(struct weft_comm *comm, double stall);
/* Disconnects this process from the ranks and prints any error. After a failure it returns only if MPI did not start.
 */
void weft_ranks_leave(struct weft_comm *comm, enum weft_status status);

#endif
