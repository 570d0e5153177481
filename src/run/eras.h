/* SPDX-License-Identifier: MIT
 *
 * eras.h - the configurations of a run between its changes (eras), ready to be repeated.
 */
#ifndef WEFT_ERAS_H
#define WEFT_ERAS_H

#include "train/record/record.h"

/* Everything that a config defines. */
struct weft_configured {
    struct weft_settings settings;
    struct weft_spec spec;
    struct weft_recipe recipe;
};

struct weft_configured_era {
    /* recorded: the configuration that the records of the era must match. repeated: the configuration used to repeat
     * the era, whose data may be in a different place. */
    struct weft_configured recorded, repeated;
};

struct weft_configured_eras {
    struct weft_eras eras;
    struct weft_configured_era *list; /* one per era */
};

/* Reads the configurations of the run in a folder, whose newest checkpoint is at step `newest`. `data` is the folder of
 * the data of task=text; NULL: the recorded one. Fails if configs and log contradict each other. Release even after a
 * failure. */
enum weft_status weft_configured_eras_init(struct weft_configured_eras *c, const char *folder, int64_t newest,
                                           const char *data);
/* Opens the data of an era. */
enum weft_status weft_configured_eras_open(struct weft_configured_eras *c, int era);
void weft_configured_eras_release(struct weft_configured_eras *c);

#endif
