/* SPDX-License-Identifier: MIT
 *
 * ladder.h - a study at several sizes (ladder.c): its rungs, each a study in a folder of its own. A study without a
 * ladder has one rung, itself.
 */
#ifndef WEFT_STUDY_LADDER_H
#define WEFT_STUDY_LADDER_H

#include "study/study.h"

struct weft_study_ladder {
    int count;
    struct weft_rung {
        struct weft_settings settings; /* settings of the command line, then the rung's own */
        struct weft_study study;
    } rung[WEFT_MAX_RUNGS];
};

/* Reads the study and its option `ladder`: "layers=2 width=32 | layers=2 width=48 | ...", smallest first. A rung
 * without steps is trained on a number of tokens proportional to the parameters of its first arm, relative to the first
 * rung. Release the ladder even after a failure. */
enum weft_status weft_study_ladder_init(struct weft_study_ladder *l, const char *path,
                                        const struct weft_settings *over);
void weft_study_ladder_release(struct weft_study_ladder *l);
/* Writes the path of the folder of rung i: `folder` itself if there is only one rung, else FOLDER/rung-1 and so on. */
enum weft_status weft_study_ladder_folder(const struct weft_study_ladder *l, int i, const char *folder,
                                          char path[4096]);

#endif
