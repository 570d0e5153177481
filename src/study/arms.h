/* SPDX-License-Identifier: MIT
 *
 * arms.h - names and settings of a study's arms (arms.c), and settings without effect (effect.c): shared by the files
 * that read a study.
 */
#ifndef WEFT_ARMS_H
#define WEFT_ARMS_H

#include "study/study.h"

/* Fills in name, settings_text and repeats of all arms, from the study's options. */
enum weft_status weft_arms_read(struct weft_study *s);
/* Returns the prefix "file:line: " for messages about an option of the study: the position of the setting that gave it
 * its value, or "" if the option has its default. */
const char *weft_study_where(const struct weft_study *s, const char *option, char *text, size_t size);

/* Rejects settings of the study that no arm uses, and arms that are the same. All arms must be resolved. */
enum weft_status weft_arms_check(const struct weft_study *s);

#endif
