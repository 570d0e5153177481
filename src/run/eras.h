/* SPDX-License-Identifier: MIT
 *
 * eras.h - a run as it was configured from change to change, ready to be repeated.
 */
#ifndef WEFT_ERAS_H
#define WEFT_ERAS_H

#include "train/record/record.h"

/* As a config says. */
struct weft_configured {
    struct weft_settings settings;
    struct weft_spec spec;
    struct weft_recipe recipe;
};

struct weft_configured_era {
    /* As its records must say, and as it is repeated: the data may be elsewhere. */
    struct weft_configured recorded, repeated;
};

struct weft_configured_eras {
    struct weft_eras eras;
    struct weft_configured_era *list; /* as many as there are eras */
};

/* Of the run in a folder, whose newest checkpoint is of this step. `data`: where the data of task=text are; NULL: where
 * they were. All that the folder says of options must fit together. Release also after a failure. */
enum weft_status weft_configured_eras_init(struct weft_configured_eras *c, const char *folder, int64_t newest,
                                           const char *data);
/* Opens the data of an era. */
enum weft_status weft_configured_eras_open(struct weft_configured_eras *c, int era);
void weft_configured_eras_release(struct weft_configured_eras *c);

#endif
