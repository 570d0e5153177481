/* SPDX-License-Identifier: MIT
 *
 * arms.h - between the files that read a study: what its arms are called and made of (arms.c), and what none of them
 * heeds (effect.c).
 */
#ifndef WEFT_ARMS_H
#define WEFT_ARMS_H

#include "study/study.h"

/* Fills in name, apart and repeats of all arms, from the study's options. */
enum weft_status weft_arms_read(struct weft_study *s);
/* "file:line: " of the setting that an option of the study comes from, for messages; "": it has its default. */
const char *weft_study_where(const struct weft_study *s, const char *option, char *text, size_t size);

/* Refuses settings of the study that no arm makes use of, and two arms that are one. All arms are resolved. */
enum weft_status weft_arms_check(const struct weft_study *s);

#endif
