/* SPDX-License-Identifier: MIT
 *
 * ranks.h - a command that runs on several ranks: how it joins them, leaves them, and ends when one of them is lost.
 */
#ifndef WEFT_CMD_RANKS_H
#define WEFT_CMD_RANKS_H

#include "comm/comm.h"

/* Leave them also after a failure. */
enum weft_status weft_ranks_join(struct weft_comm *comm, double stall);
/* Prints what failed. After a failure it returns only where MPI did not start. */
void weft_ranks_leave(struct weft_comm *comm, enum weft_status status);

#endif
