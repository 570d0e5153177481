/* SPDX-License-Identifier: MIT
 *
 * publish.h - a study as one file, with all that an audit needs.
 */
#ifndef WEFT_PUBLISH_H
#define WEFT_PUBLISH_H

#include "base/base.h"

struct weft_publish {
    const char *folder, *file; /* of the study; to write, a .tar.zst */
    bool all_checkpoints;      /* else the newest of every run */
    /* What came of it: */
    int64_t runs, files, checkpoints;
    bool data_needed, data_included;
    char sha256[65]; /* of the file */
};
/* Writes the report, too. The same study gives the same bytes. */
enum weft_status weft_publish(struct weft_publish *of);

#endif
