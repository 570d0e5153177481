/* SPDX-License-Identifier: MIT
 *
 * rehearsal.h - a trainer on a copy of the twin, with a task whose samples differ widely in the number of scored tokens
 * (in some it is 0).
 */
#ifndef WEFT_REHEARSAL_H
#define WEFT_REHEARSAL_H

#include "check/probe/gate.h"
#include "train/loop.h"

struct weft_rehearsal {
    struct weft_spec spec;
    struct weft_nn model; /* with its own weights */
    struct weft_settings settings;
    struct weft_recipe recipe; /* may be changed between steps */
    int64_t length;            /* length of a sample in tokens */
    struct weft_learner *trainer;
};

/* Creates the trainer; all options have their defaults; comm NULL: one rank. Close it even after a failure. */
enum weft_status weft_rehearsal_open(struct weft_rehearsal *s, const struct weft_nn *twin,
                                     const struct weft_optim *optim, double dropout, int64_t micro_batches,
                                     int64_t groups, struct weft_comm *comm);
void weft_rehearsal_close(struct weft_rehearsal *s);

#endif
