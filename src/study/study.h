/* SPDX-License-Identifier: MIT
 *
 * study.h - studies: arms x learning rates x seeds, each run a process of its own, and what they come to.
 *
 * A study is read from a config in Kconfig's format (study.c), planned (plan.c: widths that match, what each arm takes,
 * its gates; estimate.c: how long), run (queue.c, ledger.c) into a folder, and told from that folder alone
 * (report).
 *
 * The folder:
 *   study.json            what was planned (save.c): a function of config, program and machine
 *   runs.jsonl            the ledger: a line per finished run, in the order they finished
 *   runs/ARM/lr-LR-seed-N a run's folder, as `weft train --out` leaves it
 *   report.html .md .csv  as `weft report` writes them; the same for the same runs, whatever order they finished in
 *
 * Invariants: the first arm is the one the others are held against. Runs of all arms with the same seed see the same
 * data in the same order and begin with the same weights where names and shapes agree. An arm that repeats another is
 * never taken from the ledger of an earlier study: it is trained in its own process with another number of threads.
 */
#ifndef WEFT_STUDY_H
#define WEFT_STUDY_H

#include "check/check.h"
#include "train/account.h"

enum { WEFT_MAX_ARMS = 64, WEFT_MAX_LRS = 16, WEFT_MAX_SEEDS = 1000 };
enum weft_match { WEFT_MATCH_NONE, WEFT_MATCH_PARAMS, WEFT_MATCH_FLOPS };
enum weft_match_by { WEFT_MATCH_FFN_WIDTH, WEFT_MATCH_WIDTH };
extern const char *const weft_match_names[], *const weft_match_by_names[]; /* end with NULL (match.c) */
enum weft_repeat_seeds { WEFT_REPEAT_SAME, WEFT_REPEAT_OTHER };

struct weft_arm {
    const char *name;              /* letters, digits, - and _: it names a folder too */
    const char *settings_text;     /* the settings that make it, with spaces between */
    int repeats;                   /* the arm that it trains once more; -1: none */
    struct weft_settings settings; /* of the study and the arm, all taken */
    struct weft_spec spec;
    struct weft_recipe recipe;
    /* Filled in by the plan: */
    struct weft_account account;
    int64_t matched; /* the width that was solved for; 0: none */
    struct weft_arm_gate {
        const char *gate;
        int checks, failed;
        char message[200]; /* the first failure */
    } gate[WEFT_GATE_COUNT];
    int gate_count;
    double seconds; /* of a run, estimated */
};

struct weft_study {
    const char *name; /* the config file's, without folder and ending */
    const char *path; /* of the config file */
    /* Its own options, as in the table of study.c: */
    const char *preset;
    const char *arms_text;  /* "dot: geom=dot | w2: geom=w2 spread=full" */
    const char *steps_text; /* "0,1,2,3,4,5": the steps of the source study, instead of arms */
    const char *lrs_text;   /* "3e-4 1e-3"; "": the recipe's alone */
    int64_t seeds, slots;   /* slots: runs at once; 0: one per core */
    int match, match_by, repeat_seeds;
    struct weft_settings settings; /* of the config, then those above it */
    /* What they come to: */
    struct weft_arm *arm;
    int arm_count, lr_count; /* no rates: every arm has its recipe's */
    double lr[WEFT_MAX_LRS];
    struct weft_arena arena;
};

/* ---- reading a study (study.c); owner of its options: weft_study_owner */

extern const struct weft_owner weft_study_owner;
/* `path` is a config; `over` are settings that stand above it (--set), may be NULL; both must outlive the study. All
 * arms are resolved and checked; what no arm makes use of is refused, with its line. Release also after a failure. */
enum weft_status weft_study_init(struct weft_study *s, const char *path, const struct weft_settings *over);
void weft_study_release(struct weft_study *s);
/* Whether a text is an arm's name: letters, digits, - and _, at most 63. */
bool weft_is_arm_name(const char *text);
/* Refuses the .config at `path`, which Kconfig made of the study's config, if it does not hold what that asks for. */
enum weft_status weft_study_kept(const struct weft_study *s, const char *path);

/* ---- planning (plan.c): nothing is trained */

typedef void weft_plan_fn(void *context, const struct weft_study *s, int arm, const char *doing);
/* Solves for the widths, accounts for every arm and, if asked, runs its gates. A failed gate is no failed status. */
enum weft_status weft_study_plan(struct weft_study *s, bool gates, weft_plan_fn *report, void *context);

/* Gives every arm the width at which it has as many weights, or FLOPs, as the first: as near as widths come, and within
 * WEFT_MATCH_LIMIT (match.c). The plan does this. */
#define WEFT_MATCH_LIMIT 0.02
enum weft_status weft_study_match(struct weft_study *s);
/* By how much more or less of it an arm has than the first: 0.01 is 1 %. */
double weft_study_mismatch(const struct weft_study *s, const struct weft_arm *arm);

/* An arm with settings more, "name=value" up to a NULL, resolved anew. Release also after a failure. */
struct weft_arm_twin {
    struct weft_settings settings;
    struct weft_spec spec;
    struct weft_recipe recipe;
};
enum weft_status weft_arm_vary(struct weft_arm_twin *twin, const struct weft_arm *arm, const char *const *more);
void weft_arm_twin_release(struct weft_arm_twin *twin);

/* Writes study.json, whole or not at all, into a folder that is made. The words of the command, up to a NULL, do it
 * again.
 */
enum weft_status weft_study_save(const struct weft_study *s, const char *folder, const char *const *command);
/* Writes a script for sbatch, an array job of which every task is a run, by the same command (slurm.c). */
enum weft_status weft_study_slurm(const struct weft_study *s, const char *path, const char *const *command,
                                  int threads);
/* Words as one would write them in a shell. */
void weft_shell_words(const char *const *words, FILE *to);
/* A table of the arms and what each takes. */
void weft_study_print(const struct weft_study *s, FILE *to);

/* Whether the study can run on this machine, and how long that takes (estimate.c). */
struct weft_estimate {
    int slots, threads; /* runs at once, and threads of each */
    double seconds;     /* of all runs */
    bool timed;         /* by steps of every arm, else by FLOPs and half of the engine's speed */
    char obstacle[512]; /* why it cannot run here: memory, data; "": it can */
};
enum weft_status weft_study_estimate(struct weft_study *s, struct weft_estimate *e);

/* A run of the study by its number, from 0 to weft_study_runs() - 1: all arms of a seed, then those of the next. */
struct weft_study_run {
    int arm;
    double lr;
    int64_t seed;
    char folder[256]; /* within the study's */
};
int64_t weft_study_runs(const struct weft_study *s);
struct weft_study_run weft_study_run_at(const struct weft_study *s, int64_t i);
/* The text of its config.json, to be freed, and the SHA-256 of that. */
enum weft_status weft_study_run_config(const struct weft_study *s, const struct weft_study_run *run, char **text,
                                       char hash[65]);

/* ---- running (queue.c, ledger.c) */

/* A finished run: a line of the ledger. The key is arm, config, seed, program and instruction set. */
struct weft_finished {
    char arm[64];
    double lr;
    int64_t seed;
    char config_sha256[65], program_sha256[65], weights_sha256[65];
    char isa[64]; /* the instruction set it used */
    int64_t steps, params;
    int threads;
    double train_loss, val_loss, val_accuracy, test_loss, test_accuracy;
    double tokens_per_s, seconds;
};

/* All lines, in the arena; a last line that was cut off is no run. */
enum weft_status weft_ledger_read(const char *folder, struct weft_arena *arena, struct weft_finished **list,
                                  int64_t *count);
/* Appends a line and brings it to disk; what was cut off before it is cut away. */
enum weft_status weft_ledger_add(const char *folder, const struct weft_finished *f);

/* A run's folder within the study's: runs/ARM/lr-LR-seed-N. */
void weft_run_folder(const char *arm, double lr, int64_t seed, char folder[256]);

#endif
