/* SPDX-License-Identifier: MIT
 *
 * internal.h - what the files that write a run's folder share.
 */
#ifndef WEFT_TRAIN_RECORD_INTERNAL_H
#define WEFT_TRAIN_RECORD_INTERNAL_H

#include "train/loop.h"
#include "train/record/record.h"

/* ---- where the bits come from (origin.c) */

const char *weft_origin_name(int i);
enum weft_status weft_origin_find(struct weft_origin *o, const struct weft_recipe *r, int gates_failed);

/* ---- the folder (record.c) */

/* In the record's arena; NULL: there is not enough memory. */
const char *weft_record_path(struct weft_record *record, const char *name);
/* Notes what is another than before; refuses other data. */
enum weft_status weft_record_compare_origin(struct weft_record *record, const struct weft_origin *before);

/* ---- initial weights (initial.c) */

/* Writes the file: an entry per weight, its name and "SHAPE RULE key KEY: SHA-256 of its values". */
enum weft_status weft_initial_save(const struct weft_nn *model, const char *path);
enum weft_status weft_initial_check(const struct weft_nn *model, const char *path); /* of initial weights */

/* ---- what binds a checkpoint (binding.c) */

enum { WEFT_BINDING_FIELDS = 8 };
struct weft_binding {
    char step[65], config[65], tokenizer[65], weights[65], optimizer[65], stream[65], losses[65], chain[65];
};
struct weft_safetensors;
/* All but the chain. */
enum weft_status weft_binding_make(struct weft_binding *b, const struct weft_learner *t, const char *config,
                                   const char *tokenizer, size_t tokenizer_bytes);
/* 2 * WEFT_BINDING_FIELDS names and values. */
void weft_binding_metadata(const struct weft_binding *b, const char **list);
/* False: the file is not bound, or not wholly. */
bool weft_binding_read(const struct weft_safetensors *f, struct weft_binding *b);
/* The name of the first field that differs, or NULL. */
const char *weft_binding_differs(const struct weft_binding *a, const struct weft_binding *b);
/* What a folder contains, or was loaded from it, against the hashes. */
enum weft_status weft_binding_check_texts(const struct weft_binding *b, const char *folder);
enum weft_status weft_binding_check_weights(const struct weft_binding *b, const struct weft_params *p,
                                            const char *folder);
enum weft_status weft_binding_check_moments(const struct weft_binding *b, const struct weft_learner *t,
                                            const char *folder);

/* ---- a checkpoint (state.c) */

/* Loads it, with all checks. */
enum weft_status weft_state_load_from(struct weft_learner *t, const char *folder, struct weft_origin *origin,
                                      struct weft_binding *binding);

/* ---- records (log.c) */

enum weft_status weft_log_head(struct weft_record *record, const struct weft_learner *t);
/* Of record->changes. */
enum weft_status weft_log_change(struct weft_record *record, int64_t step);
enum weft_status weft_log_losses(struct weft_record *record, const struct weft_learner *t,
                                 const struct weft_progress *now);
enum weft_status weft_log_scores(struct weft_record *record, const struct weft_learner *t,
                                 const struct weft_scores *scores);
enum weft_status weft_log_diagnosis(struct weft_record *record, const struct weft_learner *t);
enum weft_status weft_log_weights(struct weft_record *record, const struct weft_learner *t, const char *hash);
/* Of a checkpoint that is about to be saved; sets its chain. One that was not due is only saved because training was
 * stopped. */
enum weft_status weft_log_checkpoint(struct weft_record *record, const struct weft_learner *t, struct weft_binding *b,
                                     bool due);
/* Drops all records after that of a checkpoint, which the log must have (NULL: all records). What is dropped must come
 * again. */
enum weft_status weft_log_cut(struct weft_record *record, const struct weft_binding *from, int64_t step);
/* Takes up all records behind a checkpoint (NULL: all) of a log whose chain is intact, to be compared with what is
 * recorded from now on. */
enum weft_status weft_log_expect(struct weft_record *record, FILE *log, const struct weft_binding *from, int64_t step);

/* ---- what changed when a run was resumed (changed_options.c) */

/* Adds to record->changes. */
enum weft_status weft_change_add(struct weft_record *record, const char *name, const char *before, const char *now);
/* Calls `each` for every change that a record's text says, until it returns false. False: it did, or the text is not
 * one that Weft writes. */
typedef bool weft_change_fn(void *context, const char *name, const char *before, const char *now);
bool weft_change_read(const char *text, weft_change_fn *each, void *context);
/* The index of an option that may change, else -1. */
int weft_change_option(const char *name);
/* Whether a change of the origin is possible: of all but data and numbers. */
bool weft_change_is_origin(const char *name);

/* ---- a checkpoint of a run that is repeated (checkpoint_compare.c) */

/* Compares a checkpoint that would be saved now with that of the folder. */
enum weft_status weft_saved_compare(const struct weft_learner *t, struct weft_record *record,
                                    const struct weft_binding *binding);

/* ---- TensorBoard (events.c) */

#define WEFT_EVENTS "events.out.tfevents.weft"
/* Opens the file, without what is after the step; -1: without all. */
enum weft_status weft_events_open(struct weft_record *record, int64_t step);
enum weft_status weft_events_add(struct weft_record *record, int64_t step, const char *tag, double value);

#endif
