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

#include "train/learner.h"

/* What a log has in place of the number of checks if the gates were skipped (WEFT_TEST_SKIP_GATES). */
#define WEFT_GATES_NOT_RUN "not run"
/* The error of reports, audits and publishing for such a run. */
enum weft_status weft_record_ungated(const char *folder);

/* ---- where the bits of a run come from, besides its config (origin.c); "": not known */

enum { WEFT_ORIGIN_DATA, WEFT_ORIGIN_NUMBERS, WEFT_ORIGIN_ISA, WEFT_ORIGIN_PROGRAM, WEFT_ORIGIN_GATES, WEFT_ORIGINS };
/* Which definition of all results a run follows. It changes when a release changes their bits; 0.1.0 recorded none. */
#define WEFT_NUMBERS "2"
struct weft_origin {
    char text[WEFT_ORIGINS][65];
};
/* The SHA-256 of the data that a recipe reads; "": it reads none. */
void weft_origin_data(const struct weft_recipe *r, char hash[65]);

/* ---- the chain of a log (chain.c) */

struct weft_chain {
    char head[65]; /* of the last record; 64 zeros: there is none */
    int64_t lines;
};
void weft_chain_start(struct weft_chain *c);
/* Writes a record: its text without the closing brace, then its chain. */
bool weft_chain_write(struct weft_chain *c, const char *text, size_t bytes, FILE *to);
/* Whether a line, with its newline, continues the chain; then it is taken up, and *text is how many bytes come before
 * its own chain. */
bool weft_chain_read(struct weft_chain *c, const char *line, size_t bytes, size_t *text);

/* ---- the folder (record.c, log.c, events.c) */

/* Records are functions of the step, but for those of the environment; of these, two matter when a run is repeated. */
enum weft_record_kind {
    WEFT_RECORD_STEP,
    WEFT_RECORD_STOPPED, /* a checkpoint that was saved only because training was stopped */
    WEFT_RECORD_CHANGE,  /* what changed when training was resumed */
    WEFT_RECORD_OTHER,
};

struct weft_expected_record {
    struct weft_expected_record *next;
    enum weft_record_kind kind;
    int64_t step;
    const char *text; /* without its chain and the closing brace */
    char chain[65];
};

struct weft_record {
    const char *folder;
    const struct weft_settings *settings;
    char *config; /* the text of config.json */
    char config_sha256[65];
    FILE *log, *events;
    int gates_checks, gates_failed; /* for the first record of the log; set before weft_record_begin. 0: not run */
    bool gates_skipped;             /* a record that was read says so */
    char plan_sha256[65], gates_sha256[65]; /* of the study's plan, "": none; of gates.json */
    struct weft_origin origin;              /* of the bits from here on */
    const char *changes; /* of options and origin, from what the folder says to what is asked for now; "": none */
    struct weft_chain chain;
    struct weft_expected_record *expected, **expected_end; /* records that must come again, see log.c */
    char matched[65];                                      /* the chain of the last one that came */
    int checkpoints;                                       /* of the folder that a replay has compared */
    bool may_differ; /* and yet need not: options were changed, or another engine computes */
    bool replays;    /* nothing is written into the folder; all that is expected must come, in order */
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
enum weft_status weft_record_begin(struct weft_record *record, struct weft_learner *t);
void weft_record_close(struct weft_record *record);

/* ---- a replay (replay.c) */

/* Instead of open and begin, to repeat a run that is in a folder from one of its checkpoints (NULL: from the start).
 * The trainer's model has its initial weights. Nothing is written there. What is recorded from now on must be what the
 * log has; a step that comes out differently ends training with WEFT_CHECK. A checkpoint that the folder has must be
 * what would be saved now. */
enum weft_status weft_record_replay(struct weft_record *record, const char *folder, const char *checkpoint,
                                    struct weft_learner *t, const struct weft_settings *settings);
/* The options from here on, where the run was resumed with others. */
enum weft_status weft_record_change(struct weft_record *record, const struct weft_settings *settings);
/* Only reads the log of a run: `expected` is the list of its records but for WEFT_RECORD_OTHER. */
enum weft_status weft_record_read(struct weft_record *record, const char *folder);
/* Behind a step, after a replay: whether the log has records up to it that did not come. */
enum weft_status weft_record_replayed(const struct weft_record *record, int64_t step);

/* ---- eras (options_then.c): a run that was resumed with other options has several, one after the other */

enum { WEFT_CHANGES = 8 }; /* options that may change */
struct weft_era {
    int64_t step;                    /* that it begins after */
    const char *value[WEFT_CHANGES]; /* NULL: as in the config of the newest checkpoint */
    const char *text;                /* of the record that it begins with; NULL: the first */
    char config_sha256[65];          /* that the log says; "": it does not */
};
struct weft_eras {
    struct weft_era *list; /* count of them; what follows the newest checkpoint belongs to list[newest] or later ones */
    int count, newest;
    bool only_begun; /* nothing was recorded in the last one */
    struct weft_record log;
    struct weft_arena arena;
};
/* Reads them out of the log of a run. `settings` are those of the config of its newest checkpoint, which is in the
 * folder `checkpoint`. WEFT_CHECK: such changes are not possible. Release also after a failure. */
enum weft_status weft_eras_read(struct weft_eras *eras, const char *folder, const char *checkpoint,
                                const struct weft_settings *settings);
void weft_eras_release(struct weft_eras *eras);
/* Which of them a checkpoint was saved in. */
enum weft_status weft_eras_find(const struct weft_eras *eras, const char *checkpoint, int *era);
const char *weft_may_change(int i); /* the name of an option */

/* ---- checkpoints (state.c, state_load.c) */

/* Writes a checkpoint into the run's folder, after its record into the log. All ranks together; only rank 0 has the
 * record. */
enum weft_status weft_state_save(const struct weft_learner *t, const char *run, struct weft_record *record, bool due);
/* Writes one that no log knows of, with the text of its config.json: of training outside of a run. */
enum weft_status weft_state_save_alone(const struct weft_learner *t, const char *run, const char *config);
struct weft_binding;
/* Loads the newest good checkpoint, whose folder, origin and binding it gives; without one the trainer stays as it is,
 * and `folder`, with room for 4096 bytes, is "". */
enum weft_status weft_state_load(struct weft_learner *t, const char *run, char *folder, struct weft_origin *origin,
                                 struct weft_binding *binding);
/* What the other ranks do while rank 0 calls weft_state_load, or weft_record_begin. */
enum weft_status weft_state_follow(struct weft_learner *t);
/* Called with what was loaded, after all checks; NULL. For tests that break loading. */
extern void (*weft_state_loaded)(struct weft_learner *t);
/* Loads one checkpoint, with all checks. */
enum weft_status weft_state_load_one(struct weft_learner *t, const char *checkpoint);
/* Whether the weights that were loaded from a checkpoint, and its other files, are those that were saved. Notes it if a
 * checkpoint has no hashes, as those of release 0.1.0. */
enum weft_status weft_state_verify(const char *checkpoint, const struct weft_params *params);
/* Loads the weights of a run, a checkpoint, a model folder, or a file *.safetensors, and verifies those of a folder
 * (opened.c). */
enum weft_status weft_weights_open(struct weft_nn *model, const char *path);
/* The origin of a checkpoint; all "" where its optimizer.safetensors is missing. */
enum weft_status weft_state_origin(const char *checkpoint, struct weft_origin *origin);
/* Step and SHA-256 of the weights of the newest good checkpoint of a run, or of a checkpoint; -1: there is none. */
enum weft_status weft_state_find(const char *run, int64_t *step, char hash[65]);

#endif
