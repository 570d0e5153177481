/* SPDX-License-Identifier: MIT
 *
 * audit.h - repeats a run that is in a folder, on this machine, and compares all that its log says: from the start, or
 * between some of its checkpoints. Nothing in the folder is written.
 */
#ifndef WEFT_AUDIT_H
#define WEFT_AUDIT_H

#include "train/loop.h"

struct weft_audit {
    /* ---- what is wanted */
    const char *folder;
    const char *data; /* where the data of task=text are; NULL: where they were */
    int64_t segments; /* that many of those between checkpoints, drawn at random; 0: the whole run, from the start */
    uint64_t seed;    /* of the draw */
    /* A file of segments that passed before: these are left out, and others that pass are added. NULL: none. */
    const char *passed;
    /* Callbacks, each may be NULL. */
    void *context;
    weft_progress_fn *on_progress;                                  /* after every step */
    void (*on_segment)(void *context, int64_t first, int64_t last); /* before it is repeated */

    /* ---- what came of it */
    int64_t segments_there, segments_done, segments_before; /* segments_before: of those done, by `passed` */
    int64_t steps_there, steps_done;                        /* up to the newest checkpoint; repeated */
    int64_t changes; /* of options or origin when it was resumed, up to the newest checkpoint */
};

/* WEFT_CHECK: something comes out differently; the message names the step. */
enum weft_status weft_audit_run(struct weft_audit *a);

#endif
