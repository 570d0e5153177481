/* SPDX-License-Identifier: MIT
 *
 * study.h - studies: arms x learning rates x seeds, each run in its own process.
 *
 * A study is read from a config in Kconfig's format (study.c), planned (plan.c: matching widths, cost and gates of
 * every arm; estimate.c: time and memory; budget.c: steps that fit into a time limit) and run into a folder (queue.c,
 * ledger.c). Room `report` makes reports from the folder alone.
 *
 * The folder:
 *   study.json            the plan (save.c): a function of config, program and machine
 *   NAME.config           a copy of the config, for the command that runs the study again
 *   runs.jsonl            the ledger: a line per finished run, in the order in which they finished
 *   runs/ARM/lr-LR-seed-N the folder of a run, as `weft train --out` writes it
 *   report.html .md .csv  written by `weft report`: the same for the same runs, in any order
 *
 * Invariants: the first arm is the baseline. Runs of all arms with the same seed see the same data in the same order
 * and start from the same weights where names and shapes agree; the report checks both by hashes
 * (report/read/pairing.c). An arm that repeats an arm is trained in its own processes with a different number of
 * threads; its runs are never copied.
 */
#ifndef WEFT_STUDY_H
#define WEFT_STUDY_H

#include "check/check.h"
#include "stats/stats.h"
#include "train/account.h"

enum { WEFT_MAX_ARMS = 64, WEFT_MAX_LRS = 16, WEFT_MAX_SEEDS = 1000 };
enum weft_match { WEFT_MATCH_NONE, WEFT_MATCH_PARAMS, WEFT_MATCH_FLOPS };
enum weft_match_by { WEFT_MATCH_FFN_WIDTH, WEFT_MATCH_WIDTH };
extern const char *const weft_match_names[], *const weft_match_by_names[]; /* end with NULL (match.c) */
/* Offset from the seeds that are judged to the seeds that choose a learning rate. */
enum { WEFT_SCREEN_OFFSET = 2 * WEFT_MAX_SEEDS };
enum weft_repeat_seeds { WEFT_REPEAT_SAME, WEFT_REPEAT_OTHER };

struct weft_arm {
    const char *name;              /* letters, digits, - and _; also the name of a folder */
    const char *settings_text;     /* its own settings, separated by spaces */
    int repeats;                   /* index of the arm that it repeats; -1: none */
    struct weft_settings settings; /* settings of the study and of the arm, all used */
    struct weft_spec spec;
    struct weft_recipe recipe;
    /* Filled in by the plan: */
    struct weft_account account;
    int64_t matched; /* width found by matching; 0: none */
    struct weft_arm_gate {
        const char *gate;
        int checks, failed;
        char message[200]; /* message of the first failure */
    } gate[WEFT_GATE_COUNT];
    int gate_count;
    char gate_sizes[160]; /* see weft_gates.sizes */
    double step_seconds;  /* estimated seconds per step; `seconds`: per run */
    double seconds;
    double lr; /* learning rate chosen by screening (queue.c); NAN: not yet chosen */
};

struct weft_study {
    const char *name; /* default: the config file's name without folder and extension */
    const char *path; /* path of the config file */
    const char *text; /* content of the config file */
    /* Its own options, see the table in study.c: */
    const char *preset;
    const char *arms_text;   /* "dot: geom=dot | w2: geom=w2 spread=full" */
    const char *steps_text;  /* "0,1,2,3,4,5": the steps of the RA-MLA study, instead of arms */
    const char *lrs_text;    /* "3e-4 1e-3"; "": the learning rate of each arm's recipe */
    const char *looks_text;  /* "3,5,8"; "": one look, after all seeds */
    const char *ladder_text; /* "layers=2 width=32 | layers=2 width=48": its rungs, see ladder.h */
    const char *parent;      /* folder of the study that led to this one; "": none */
    const char *stand_in;    /* data that replaces the config's in all arms; "": none */
    int64_t seeds, slots;    /* slots: number of concurrent runs; 0: one per core */
    int64_t screen_seeds;    /* number of seeds that choose the learning rate */
    double budget;           /* time limit for all runs together, in minutes; 0: no limit */
    int match, match_by, repeat_seeds;
    struct weft_settings settings; /* settings of the config, then of the command line */
    /* Derived from them: */
    const char *stands_for; /* data of the config that stand_in replaces; "": none */
    struct weft_arm *arm;
    int arm_count, lr_count; /* lr_count 0: every arm has its recipe's learning rate */
    double lr[WEFT_MAX_LRS];
    bool planned;
    int64_t whole_steps;   /* steps of the config before a budget fixed the number; 0: no budget */
    char whole_sha256[65]; /* hash of the plan with whole_steps */
    int look_count;        /* number of looks, at least one; the last is after all seeds */
    int64_t look[WEFT_MAX_LOOKS];
    struct weft_arena arena;
};

/* ---- reading a study (study.c) */

extern const struct weft_owner weft_study_owner; /* owner of a study's options */
/* Reads the config `path`; the settings `over` (--set), which may be NULL, override it; both must outlive the study.
 * All arms are resolved and checked; a setting that no arm uses is an error that names its line. Release the study even
 * after a failure. */
enum weft_status weft_study_init(struct weft_study *s, const char *path, const struct weft_settings *over);
void weft_study_release(struct weft_study *s);
/* Returns whether a string can be the name of an arm: at most 63 letters, digits, - and _. */
bool weft_is_arm_name(const char *text);
/* Finds the arm with this name, with the width set by matching. */
enum weft_status weft_study_find_arm(struct weft_study *s, const char *name, const struct weft_arm **arm);
/* Rejects the .config at `path`, generated by Kconfig from the study's config, if a value is missing or different. */
enum weft_status weft_study_kept(const struct weft_study *s, const char *path);

/* ---- planning (plan.c), without training */

/* Finds matching widths and computes the cost of every arm, once. */
enum weft_status weft_study_plan(struct weft_study *s);
typedef void weft_plan_fn(void *context, const struct weft_study *s, int arm);
/* Runs the gates of every arm, on a small copy and, if asked, on the model itself. A failed gate does not make this
 * function fail. `report` is called before each arm. */
enum weft_status weft_study_gates(struct weft_study *s, bool itself, weft_plan_fn *report, void *context);
/* Runs the gates of one arm, in which only spec and recipe must be set. */
enum weft_status weft_arm_gates(struct weft_arm *arm, bool itself);
/* Computes the cost of training a model on one thread: some buffers grow with the number of threads, and a plan must
 * not depend on the machine. */
enum weft_status weft_arm_account(const struct weft_spec *spec, const struct weft_recipe *recipe,
                                  struct weft_account *account);
/* Returns WEFT_CHECK if a gate of an arm failed; the message names the first. */
enum weft_status weft_study_passes(const struct weft_study *s);

/* Sets every arm's width so that its number of parameters, or FLOPs, is nearest to the first arm's; a difference above
 * WEFT_MATCH_LIMIT is an error (match.c). Part of planning. */
#define WEFT_MATCH_LIMIT 0.02
enum weft_status weft_study_match(struct weft_study *s);
/* Returns the remaining relative difference from the first arm: 0.01 is 1 %. */
double weft_study_mismatch(const struct weft_study *s, const struct weft_arm *arm);

/* An arm resolved again with additional settings, a NULL-terminated list of "name=value". Release it even after a
 * failure. */
struct weft_arm_twin {
    struct weft_settings settings;
    struct weft_spec spec;
    struct weft_recipe recipe;
};
enum weft_status weft_arm_vary(struct weft_arm_twin *twin, const struct weft_arm *arm, const char *const *more);
void weft_arm_twin_release(struct weft_arm_twin *twin);
/* Adds settings in the same form to the arm itself. */
enum weft_status weft_arm_set(struct weft_arm *arm, const char *const *more);

/* Compares the first samples that each arm's runs would read with the samples of the first arm's runs with the same
 * seed (first_samples.c). Returns WEFT_CHECK if they differ; the message names both arms. Issues a notice for each arm
 * that starts with the same samples but reads a different number of them, so that its runs are not pairs. */
struct weft_first_samples {
    int64_t training, held_out; /* number of samples compared per run; held_out: validation and test together */
    int64_t seeds;              /* number of compared seeds, from the first of the plan */
    char sha256[65];            /* hash of the samples of the first seed */
};
enum weft_status weft_study_first_samples(const struct weft_study *s, struct weft_first_samples *found);
/* Returns whether runs of the arm are compared with the first arm's runs that have the same seed. */
bool weft_study_is_paired(const struct weft_study *s, int arm);
/* Returns the number of samples that a run of the arm is trained on. */
int64_t weft_arm_samples(const struct weft_arm *arm);

/* Returns WEFT_CHECK if the report of this plan cannot contain a verdict; the message names the reason and what to
 * change (verdict_possible.c). */
enum weft_status weft_study_verdict_possible(const struct weft_study *s);

/* The record of simulated studies in a study's folder (simulated.c). */
#define WEFT_SIMULATED_FILE "simulated.json"
struct weft_simulated {
    int checks, failed; /* checks: 0 if there is no record */
    char program_sha256[65];
};
enum weft_status weft_simulated_load(const char *folder, struct weft_simulated *s);
enum weft_status weft_simulated_save(const char *folder, const struct weft_simulated *s);

/* Rejects a folder with finished runs of a different plan, and a parent with the same seeds: choices based on results
 * must not be judged on the same runs. */
enum weft_status weft_study_fits(const struct weft_study *s, const char *folder);
/* Writes the path of the config's copy in the study's folder: NAME.config, which gives the study the same name. */
enum weft_status weft_study_copy_path(const char *name, const char *folder, char path[4096]);
/* Checks that the study fits the folder (weft_study_fits), creates the folder, and writes study.json and the copy of
 * the config, each atomically. `command` is the NULL-terminated list of arguments of the command that runs the study
 * again. */
enum weft_status weft_study_save(const struct weft_study *s, const char *folder, const char *const *command);
/* Writes a script for sbatch: an array job in which every task executes one run with the same command (slurm.c). */
enum weft_status weft_study_slurm(const struct weft_study *s, const char *path, const char *const *command,
                                  int threads);
/* Computes the hash of everything that a plan fixes: arms with their settings, learning rates, seeds, looks, data,
 * budget (plan_hash.h). */
enum weft_status weft_study_plan_hash(const struct weft_study *s, char hash[65]);
/* Prints arguments with the quotes that a shell needs. */
void weft_shell_words(const char *const *words, FILE *to);
/* Prints a table of the arms and their costs. */
void weft_study_print(const struct weft_study *s, FILE *to);

/* An estimate of whether the study can run here, and of its duration (estimate.c). */
struct weft_estimate {
    int slots, threads; /* number of concurrent runs, and of threads per run */
    double seconds;     /* time of all runs */
    bool timed;         /* estimated from timed steps of every arm; otherwise from FLOPs and half the engine's speed */
    bool no_data;       /* whether the obstacle is the task's data */
    char obstacle[512]; /* reason why it cannot run here, such as memory or data; "": none */
};
/* elsewhere: the study runs on different hosts, which are assumed to be like this one. */
enum weft_status weft_study_estimate(struct weft_study *s, bool elsewhere, struct weft_estimate *e);
/* Returns the estimated seconds for a different number of steps, the same for all arms. */
double weft_study_seconds(const struct weft_study *s, const struct weft_estimate *e, int64_t steps);

/* With a budget, sets for all arms the largest number of steps whose estimated time is within the budget, at most the
 * config's number; the warm-up keeps its fraction of the steps (budget.c). If the folder already has the plan, the
 * plan's number is used; without an estimate (NULL), the folder must have a plan. Updates the estimate to the fixed
 * number of steps. */
enum weft_status weft_study_fix_steps(struct weft_study *s, const char *folder, struct weft_estimate *e);

/* A run of the study. Runs are numbered from 0 to weft_study_runs() - 1: first the screening runs, which choose among
 * learning rates if there are several, then the judged runs, with all arms of the first seed before those of the next.
 */
struct weft_study_run {
    int arm;
    double lr;
    int64_t seed;
    char folder[256]; /* path within the study's folder */
};
int64_t weft_study_runs(const struct weft_study *s);
double weft_arm_tokens(const struct weft_arm *arm);       /* number of tokens per run */
int64_t weft_study_screening(const struct weft_study *s); /* number of screening runs */
struct weft_study_run weft_study_run_at(const struct weft_study *s, int64_t i);
/* Resolves the run's model and recipe from its arm, its seed and, once chosen, its learning rate. Release them even
 * after a failure. */
enum weft_status weft_study_run_vary(const struct weft_study *s, const struct weft_study_run *run,
                                     struct weft_arm_twin *twin);
/* Creates the text of the run's config.json, which the caller frees, and the SHA-256 of the text. */
enum weft_status weft_study_run_config(const struct weft_study *s, const struct weft_study_run *run, char **text,
                                       char hash[65]);

/* ---- running (queue.c, ledger.c) */

/* A finished run: a line of the ledger. It is identified by arm, config, seed, program and instruction set. */
struct weft_finished {
    char arm[64];
    double lr;
    int64_t seed;
    char config_sha256[65], program_sha256[65], weights_sha256[65];
    char stream_sha256[65]; /* hash of all samples read, see weft_learner; "": not recorded */
    char chain[65];         /* last hash in its log's chain; "": not recorded */
    char isa[64];           /* instruction set */
    int64_t steps, params;
    int threads;
    double train_loss, val_loss, val_accuracy, test_loss, test_accuracy;
    double tokens_per_s, seconds;
    /* Not in the ledger; reports set these from the run's files: */
    const char *folder;
    double fall; /* decrease of the training loss between the last two tenths of its steps; NAN: unknown */
};

/* Reads all lines into the arena; a last line without a newline is ignored. */
enum weft_status weft_ledger_read(const char *folder, struct weft_arena *arena, struct weft_finished **list,
                                  int64_t *count);
/* Appends a line and syncs it to disk; an incomplete line before it is removed. */
enum weft_status weft_ledger_add(const char *folder, const struct weft_finished *f);

/* Writes the path of a run's folder within the study's: runs/ARM/lr-LR-seed-N. */
void weft_run_folder(const char *arm, double lr, int64_t seed, char folder[256]);

#endif
