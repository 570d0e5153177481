/* SPDX-License-Identifier: MIT
 *
 * internal.h - what the files that write a run's folder share.
 */
#ifndef WEFT_TRAIN_INTERNAL_H
#define WEFT_TRAIN_INTERNAL_H

#include "train/record.h"

/* ---- where the bits come from (origin.c) */

const char *weft_origin_name(int i);
enum weft_status weft_origin_find(struct weft_origin *o, const struct weft_recipe *r, int gates_failed);

/* ---- initial weights (initial.c) */

/* Writes the file: an entry per weight, its name and "SHAPE RULE key KEY: SHA-256 of its values". */
enum weft_status weft_initial_save(const struct weft_model *model, const char *path);

/* ---- records (log.c) */

enum weft_status weft_log_head(struct weft_record *record, const struct weft_trainer *t);
/* Of run->changes; not again where the log ends with just this record. */
enum weft_status weft_log_change(struct weft_record *record, int64_t step);
enum weft_status weft_log_losses(struct weft_record *record, const struct weft_trainer *t,
                                 const struct weft_progress *now);
enum weft_status weft_log_scores(struct weft_record *record, const struct weft_trainer *t,
                                 const struct weft_scores *scores);
enum weft_status weft_log_diagnosis(struct weft_record *record, const struct weft_trainer *t);
enum weft_status weft_log_weights(struct weft_record *record, const struct weft_trainer *t, const char *hash);
/* Drops all records after the step, and one that is not whole; gives the number of bytes that are left. */
enum weft_status weft_log_cut(struct weft_record *record, int64_t step, int64_t *kept);

/* ---- TensorBoard (events.c) */

#define WEFT_EVENTS "events.out.tfevents.weft"
/* Opens the file, without what is after the step. */
enum weft_status weft_events_open(struct weft_record *record, int64_t step);
enum weft_status weft_events_add(struct weft_record *record, int64_t step, const char *tag, double value);

#endif
