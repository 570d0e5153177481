/* SPDX-License-Identifier: MIT
 *
 * publish.h - packs a study into one file with everything that an audit needs.
 */
#ifndef WEFT_PUBLISH_H
#define WEFT_PUBLISH_H

#include "base/base.h"

struct weft_publish {
    const char *folder, *file; /* the study's folder; the .tar.zst to write */
    bool all_checkpoints;      /* include all checkpoints; otherwise only the newest of every run */
    /* Results: */
    int64_t runs, files, checkpoints;
    bool data_needed, data_included;
    char sha256[65]; /* SHA-256 of the file */
};
/* Writes the archive, and also the report. The same study always gives the same bytes. */
enum weft_status weft_publish(struct weft_publish *of);

#endif
