/* SPDX-License-Identifier: MIT
 *
 * record.h - a run's folder: config.json, log.jsonl, events for TensorBoard, checkpoints.
 *
 * Invariants:
 *  - All files are a function of the step, so a run that was stopped and resumed leaves the same folder as an
 *    uninterrupted one.
 *  - Only one process at a time writes into a folder.
 */
#ifndef WEFT_RECORD_H
#define WEFT_RECORD_H

#include "train/learner.h"

/* Logged instead of the number of checks if the gates were skipped (WEFT_TEST_SKIP_GATES). */
#define WEFT_GATES_NOT_RUN "not run"
/* Returns the error with which reports, audits and publishing reject a run with skipped gates. */
enum weft_status weft_record_ungated(const char *folder);

/* ---- the origin of a run's results, apart from its config (origin.c); "": unknown */

enum { WEFT_ORIGIN_DATA, WEFT_ORIGIN_NUMBERS, WEFT_ORIGIN_ISA, WEFT_ORIGIN_PROGRAM, WEFT_ORIGIN_GATES, WEFT_ORIGINS };
/* Version of the definition of all results. It changes in releases whose results are not bit-identical to earlier ones;
 * 0.1.0 recorded none.
 */
#define WEFT_NUMBERS "2"
struct weft_origin {
    char text[WEFT_ORIGINS][65];
};
/* Writes the SHA-256 of the data that a recipe reads; "": it reads none. */
void weft_origin_data(const struct weft_recipe *r, char hash[65]);

/* ---- the chain of a log (chain.c) */

struct weft_chain {
    char head[65]; /* chain of the last record; 64 zeros: none */
    int64_t lines;
};
void weft_chain_start(struct weft_chain *c);
/* Writes a record: its text without the closing brace, then its chain. */
bool weft_chain_write(struct weft_chain *c, const char *text, size_t bytes, FILE *to);
/* Returns whether a line, with its newline, continues the chain. If so, adds it to the chain and sets *text to the
 * number of bytes before the line's own chain. */
bool weft_chain_read(struct weft_chain *c, const char *line, size_t bytes, size_t *text);

/* ---- the folder (record.c, log.c, events.c) */

/* Records are functions of the step, except for records of the environment, two kinds of which matter in a replay. */
enum weft_record_kind {
    WEFT_RECORD_STEP,
    WEFT_RECORD_STOPPED, /* a checkpoint saved only because training was stopped */
    WEFT_RECORD_CHANGE,  /* changes when training was resumed */
    WEFT_RECORD_OTHER,
};

struct weft_expected_record {
    struct weft_expected_record *next;
    enum weft_record_kind kind;
    int64_t step;
    const char *text; /* text without its chain and closing brace */
    char chain[65];
};

struct weft_record {
    const char *folder;
    const struct weft_settings *settings;
    char *config; /* the text of config.json */
    char config_sha256[65];
    FILE *log, *events;
    int gates_checks, gates_failed; /* for the first record of the log, set before weft_record_begin; 0: not run */
    bool gates_skipped;             /* whether gates were skipped, according to the records read */
    char plan_sha256[65], gates_sha256[65]; /* SHA-256 of the study's plan, "": none; of gates.json */
    struct weft_origin origin;              /* current origin of the results */
    const char *changes; /* changes of options and origin, from those in the folder to the current ones; "": none */
    struct weft_chain chain;
    struct weft_expected_record *expected, **expected_end; /* records that must recur, see log.c */
    char matched[65];                                      /* chain of the last record that recurred */
    int checkpoints; /* number of checkpoints in the folder that a replay has compared */
    bool may_differ; /* the records may differ: options were changed, or a different engine computes */
    bool replays;    /* a replay: nothing is written into the folder; all expected records must recur, in order */
    struct weft_arena arena;
};

/* Creates the text of config.json, which the caller frees, and its SHA-256, which identifies the run. */
enum weft_status weft_record_config(const struct weft_settings *settings, char **config, char hash[65]);
/* Creates the folder and locks it against other processes. A nonempty folder is an error or, with `resume`, is compared
 * with the settings. Close the record even after a failure. */
enum weft_status weft_record_open(struct weft_record *record, const char *folder, bool resume,
                                  const struct weft_recipe *recipe, const struct weft_settings *settings);
/* Loads the newest valid checkpoint into the trainer, if there is one, cuts the log back to it, and writes the config.
 */
enum weft_status weft_record_begin(struct weft_record *record, struct weft_learner *t);
void weft_record_close(struct weft_record *record);

/* ---- a replay (replay.c) */

/* Starts a replay of the run in a folder from one of its checkpoints (NULL: from the start); replaces weft_record_open
 * and weft_record_begin. The trainer's model must have its initial weights. Nothing is written into the folder. All
 * following records must match the log; a step that differs ends training with WEFT_CHECK. A checkpoint in the folder
 * must match the one that would be saved now. */
enum weft_status weft_record_replay(struct weft_record *record, const char *folder, const char *checkpoint,
                                    struct weft_learner *t, const struct weft_settings *settings);
/* Changes the options for the following records, because the run was resumed with different options at this point. */
enum weft_status weft_record_change(struct weft_record *record, const struct weft_settings *settings);
/* Only reads the log of a run; `expected` then lists its records except WEFT_RECORD_OTHER. */
enum weft_status weft_record_read(struct weft_record *record, const char *folder);
/* Checks after a step of a replay that no record up to it is missing. */
enum weft_status weft_record_replayed(const struct weft_record *record, int64_t step);

/* ---- eras (options_then.c): a run that was resumed with different options has several, one after the other */

enum { WEFT_CHANGES = 8 }; /* number of options that may change */
struct weft_era {
    int64_t step;                    /* step after which the era begins */
    const char *value[WEFT_CHANGES]; /* NULL: as in the config of the newest checkpoint */
    const char *text;                /* text of its first record; NULL: the first era */
    char config_sha256[65];          /* according to the log; "": not logged */
};
struct weft_eras {
    struct weft_era *list; /* [count]; records after the newest checkpoint belong to list[newest] or later eras */
    int count, newest;
    bool only_begun; /* whether the last era has no further records */
    struct weft_record log;
    struct weft_arena arena;
};
/* Reads the eras from the log of a run. `settings` are from the config of its newest checkpoint, which is in the folder
 * `checkpoint`. Returns WEFT_CHECK if the changes are impossible. Release the eras even after a failure. */
enum weft_status weft_eras_read(struct weft_eras *eras, const char *folder, const char *checkpoint,
                                const struct weft_settings *settings);
void weft_eras_release(struct weft_eras *eras);
/* Finds the era in which a checkpoint was saved. */
enum weft_status weft_eras_find(const struct weft_eras *eras, const char *checkpoint, int *era);
const char *weft_may_change(int i); /* returns the name of the i-th option */

/* ---- checkpoints (state.c, state_load.c) */

/* Appends the checkpoint's record to the log, then writes the checkpoint into the run's folder. All ranks call it
 * together; only rank 0 has the record. */
enum weft_status weft_state_save(const struct weft_learner *t, const char *run, struct weft_record *record, bool due);
/* Writes an unlogged checkpoint, with `config` as its config.json, for training outside a run. */
enum weft_status weft_state_save_alone(const struct weft_learner *t, const char *run, const char *config);
struct weft_binding;
/* Loads the newest valid checkpoint and returns its folder, origin and binding. If there is none, leaves the trainer
 * unchanged and sets `folder`, which has 4096 bytes, to "". */
enum weft_status weft_state_load(struct weft_learner *t, const char *run, char *folder, struct weft_origin *origin,
                                 struct weft_binding *binding);
/* Loads along with rank 0: the other ranks call it while rank 0 calls weft_state_load or weft_record_begin. */
enum weft_status weft_state_follow(struct weft_learner *t);
/* Called with the loaded trainer after all checks; may be NULL. Tests use it to make loading fail. */
extern void (*weft_state_loaded)(struct weft_learner *t);
/* Loads one checkpoint, with all checks. */
enum weft_status weft_state_load_one(struct weft_learner *t, const char *checkpoint);
/* Checks that the weights loaded from a checkpoint, and its other files, match what was saved. Prints a notice if
 * the checkpoint has no hashes, as in release 0.1.0. */
enum weft_status weft_state_verify(const char *checkpoint, const struct weft_params *params);
/* Loads the weights of a run, a checkpoint, a model folder or a file *.safetensors, and verifies the weights of a
 * folder (opened.c). */
enum weft_status weft_weights_open(struct weft_nn *model, const char *path);
/* Reads the origin of a checkpoint; all "" if its optimizer.safetensors is missing. */
enum weft_status weft_state_origin(const char *checkpoint, struct weft_origin *origin);
/* Finds the step and the SHA-256 of the weights of the newest valid checkpoint of a run, or of a given checkpoint; step
 * -1: there is none. */
enum weft_status weft_state_find(const char *run, int64_t *step, char hash[65]);

#endif
