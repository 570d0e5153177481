/* SPDX-License-Identifier: MIT
 *
 * audit.h - repeats a finished or unfinished run on this machine, entirely or between some of its checkpoints, and
 * compares the results with its log. The run's folder is not modified.
 */
#ifndef WEFT_AUDIT_H
#define WEFT_AUDIT_H

#include "train/loop.h"

struct weft_audit {
    /* ---- set by the caller */
    const char *folder;
    const char *data; /* folder of the data of task=text; NULL: the recorded one */
    int64_t segments; /* number of segments between checkpoints, drawn at random; 0: the whole run, from the start */
    uint64_t seed;    /* seed of the random draw */
    /* A file that lists the segments that passed before. These are skipped, and further segments that pass are added.
     * NULL: no file. */
    const char *passed;
    /* Callbacks; each may be NULL. */
    void *context;
    weft_progress_fn *on_progress;                                  /* after every step */
    void (*on_segment)(void *context, int64_t first, int64_t last); /* before each segment */

    /* ---- results */
    int64_t segments_there, segments_done, segments_before; /* segments_before: already listed in `passed` */
    int64_t steps_there, steps_done;                        /* steps up to the newest checkpoint; repeated steps */
    int64_t changes; /* number of changes of options or origin on resume, up to the newest checkpoint */
};

/* Fails with WEFT_CHECK if a result differs; the message names the step. */
enum weft_status weft_audit_run(struct weft_audit *a);

#endif
