/* SPDX-License-Identifier: MIT
 *
 * record.h - a run's folder: config.json, log.jsonl, events for TensorBoard, checkpoints.
 *
 * Invariants:
 *  - What is written is a function of the step, so a run that was stopped and resumed leaves the folder of one that was
 *    not.
 *  - One process at a time writes into a folder.
 */
#ifndef WEFT_RECORD_H
#define WEFT_RECORD_H

#include "train/train.h"

/* ---- where the bits of a run come from, besides its config (origin.c); "": not known */

enum { WEFT_ORIGIN_DATA, WEFT_ORIGIN_ISA, WEFT_ORIGIN_PROGRAM, WEFT_ORIGIN_GATES, WEFT_ORIGINS };
struct weft_origin {
    char text[WEFT_ORIGINS][65];
};
/* The SHA-256 of the data that a recipe reads; "": it reads none. */
void weft_origin_data(const struct weft_recipe *r, char hash[65]);

/* ---- the folder (record.c, log.c, events.c) */

struct weft_record {
    const char *folder;
    const struct weft_settings *settings;
    char *config; /* the text of config.json */
    char config_sha256[65];
    FILE *log, *events;
    int gates_checks, gates_failed; /* for the first record of the log; set before weft_record_begin */
    struct weft_origin origin;      /* of the bits from here on */
    char changes[1024]; /* of options and origin, from what the folder says to what is asked for now; "": none */
    char *last;         /* the record that the log ends with, to be freed; NULL: none */
    struct weft_arena arena;
};

/* The text of config.json, to be freed, and its SHA-256, which identifies the run. */
enum weft_status weft_record_config(const struct weft_settings *settings, char **config, char hash[65]);
/* Makes the folder and locks it against other processes. One that is not empty is refused or, to resume, compared with
 * the settings. Close also after a failure. */
enum weft_status weft_record_open(struct weft_record *record, const char *folder, bool resume,
                                  const struct weft_recipe *recipe, const struct weft_settings *settings);
/* Loads the newest good checkpoint into the trainer, if there is one, cuts the log back to it, and writes the config.
 */
enum weft_status weft_record_begin(struct weft_record *record, struct weft_trainer *t);
void weft_record_close(struct weft_record *record);

/* ---- checkpoints (state.c) */

/* Writes a checkpoint into the run's folder. */
enum weft_status weft_state_save(const struct weft_trainer *t, const struct weft_record *record, const char *hash);
/* Loads the newest good checkpoint and its origin; without one the trainer stays as it is. */
enum weft_status weft_state_load(struct weft_trainer *t, const char *run, struct weft_origin *origin);
/* The origin of a checkpoint; all "" where its optimizer.safetensors is missing. */
enum weft_status weft_state_origin(const char *checkpoint, struct weft_origin *origin);
/* Step and SHA-256 of the weights of the newest good checkpoint of a run, or of a checkpoint; -1: there is none. */
enum weft_status weft_state_find(const char *run, int64_t *step, char hash[65]);

#endif
