/* SPDX-License-Identifier: MIT
 *
 * planning.h - the steps of `weft ablate` before training (planning.c): the estimate, the gates, the table of arms.
 */
#ifndef WEFT_PLANNING_H
#define WEFT_PLANNING_H

#include "simulate/simulate.h"
#include "study/ladder.h"

struct weft_planning {
    bool dry_run, json;
    bool elsewhere; /* runs are trained on different hosts: gates check small copies, and the time is not limited */
    bool unsafe, endless;
};

/* Plans every rung of a ladder, whose studies have the given folders, estimates the time, and prints the plan and the
 * estimate. A study that cannot run here, or would take more than a day without a budget, is an error; a dry run only
 * prints the reason. */
enum weft_status weft_planning_estimate(const struct weft_planning *p, struct weft_study_ladder *l,
                                        const char folder[WEFT_MAX_RUNGS][4096],
                                        struct weft_estimate estimate[WEFT_MAX_RUNGS]);
/* Runs simulated studies once for each program, compares the first samples of the arms of a planned study, runs its
 * gates and prints its arms. */
enum weft_status weft_planning_check(const struct weft_planning *p, struct weft_study *s, const char *folder,
                                     struct weft_simulated *simulated);
/* Prints the plan as one flat JSON object. */
enum weft_status weft_planning_json(const struct weft_study_ladder *l, const struct weft_estimate *estimate);

#endif
