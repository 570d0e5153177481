/* SPDX-License-Identifier: MIT
 *
 * internal.h - declarations shared by the files that write a run's folder.
 */
#ifndef WEFT_TRAIN_RECORD_INTERNAL_H
#define WEFT_TRAIN_RECORD_INTERNAL_H

#include "train/loop.h"
#include "train/record/record.h"

/* ---- the origin of the results (origin.c) */

const char *weft_origin_name(int i);
enum weft_status weft_origin_find(struct weft_origin *o, const struct weft_recipe *r, int gates_failed);

/* ---- the folder (record.c) */

/* Returns a path in the record's arena; NULL: not enough memory. */
const char *weft_record_path(struct weft_record *record, const char *name);
/* Records differences from the previous origin; different data is an error. */
enum weft_status weft_record_compare_origin(struct weft_record *record, const struct weft_origin *before);

/* ---- initial weights (initial.c) */

/* Writes initial.json, which has an entry per weight: its name and "SHAPE RULE key KEY: SHA-256 of its values". */
enum weft_status weft_initial_save(const struct weft_nn *model, const char *path);
/* Checks initial.json against the model, which must have its initial weights. */
enum weft_status weft_initial_check(const struct weft_nn *model, const char *path);

/* ---- the hashes that bind a checkpoint (binding.c) */

enum { WEFT_BINDING_FIELDS = 8 };
struct weft_binding {
    char step[65], config[65], tokenizer[65], weights[65], optimizer[65], stream[65], losses[65], chain[65];
};
struct weft_safetensors;
/* Computes all fields but the chain. */
enum weft_status weft_binding_make(struct weft_binding *b, const struct weft_learner *t, const char *config,
                                   const char *tokenizer, size_t tokenizer_bytes);
/* Writes 2 * WEFT_BINDING_FIELDS names and values into the list. */
void weft_binding_metadata(const struct weft_binding *b, const char **list);
/* Returns false if the file has no complete binding. */
bool weft_binding_read(const struct weft_safetensors *f, struct weft_binding *b);
/* Returns the name of the first field that differs, or NULL. */
const char *weft_binding_differs(const struct weft_binding *a, const struct weft_binding *b);
/* Compare the files in a folder, or the values loaded from it, with the hashes. */
enum weft_status weft_binding_check_texts(const struct weft_binding *b, const char *folder);
enum weft_status weft_binding_check_weights(const struct weft_binding *b, const struct weft_params *p,
                                            const char *folder);
enum weft_status weft_binding_check_moments(const struct weft_binding *b, const struct weft_learner *t,
                                            const char *folder);

/* ---- a checkpoint (state.c) */

/* Loads a checkpoint, with all checks. */
enum weft_status weft_state_load_from(struct weft_learner *t, const char *folder, struct weft_origin *origin,
                                      struct weft_binding *binding);

/* ---- records (log.c) */

enum weft_status weft_log_head(struct weft_record *record, const struct weft_learner *t);
/* Logs record->changes. */
enum weft_status weft_log_change(struct weft_record *record, int64_t step);
enum weft_status weft_log_losses(struct weft_record *record, const struct weft_learner *t,
                                 const struct weft_progress *now);
enum weft_status weft_log_scores(struct weft_record *record, const struct weft_learner *t,
                                 const struct weft_scores *scores);
enum weft_status weft_log_diagnosis(struct weft_record *record, const struct weft_learner *t);
enum weft_status weft_log_weights(struct weft_record *record, const struct weft_learner *t, const char *hash);
/* Logs a checkpoint that is about to be saved; sets its chain. A checkpoint that was not due is saved only because
 * training was stopped. */
enum weft_status weft_log_checkpoint(struct weft_record *record, const struct weft_learner *t, struct weft_binding *b,
                                     bool due);
/* Drops all records after a checkpoint's record, which must be in the log (NULL: all records). The dropped records must
 * recur. */
enum weft_status weft_log_cut(struct weft_record *record, const struct weft_binding *from, int64_t step);
/* Reads all records after a checkpoint (NULL: all) of a log with an intact chain, for comparison with the records from
 * now on. */
enum weft_status weft_log_expect(struct weft_record *record, FILE *log, const struct weft_binding *from, int64_t step);

/* ---- changes when a run is resumed (changed_options.c) */

/* Adds a change to record->changes. */
enum weft_status weft_change_add(struct weft_record *record, const char *name, const char *before, const char *now);
/* Calls `each` for every change in a record's text until `each` returns false. Returns false if `each` did, or if the
 * text is not in the form that Weft writes. */
typedef bool weft_change_fn(void *context, const char *name, const char *before, const char *now);
bool weft_change_read(const char *text, weft_change_fn *each, void *context);
/* Returns the index of an option among those that may change; -1: it must not change. */
int weft_change_option(const char *name);
/* Returns whether this field of the origin may change: all may, except data and numbers. */
bool weft_change_is_origin(const char *name);

/* ---- a checkpoint of a replayed run (checkpoint_compare.c) */

/* Compares the checkpoint that would be saved now with the one in the folder. */
enum weft_status weft_saved_compare(const struct weft_learner *t, struct weft_record *record,
                                    const struct weft_binding *binding);

/* ---- TensorBoard (events.c) */

#define WEFT_EVENTS "events.out.tfevents.weft"
/* Opens the events file and drops all events after the step; -1: drops all events. */
enum weft_status weft_events_open(struct weft_record *record, int64_t step);
enum weft_status weft_events_add(struct weft_record *record, int64_t step, const char *tag, double value);

#endif
