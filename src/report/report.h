/* SPDX-License-Identifier: MIT
 *
 * report.h - from a study's folder to results, findings and verdicts, and from these to HTML, Markdown and CSV.
 */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include "stats/stats.h"
#include "study/study.h"

struct weft_result;

/* ---- verdicts (verdict.c). The family's interval decides, so verdict and interval always agree. */

enum weft_verdict { WEFT_BETTER, WEFT_WORSE, WEFT_NOT_RESOLVED, WEFT_TOO_FEW_SEEDS };
enum weft_verdict weft_verdict(const struct weft_comparison *c);
/* One sentence with the interval; if the difference is not resolved, also how many seeds would resolve the one that was
 * seen, and the smallest that these seeds could have found. */
enum { WEFT_VERDICT_TEXT = 512 };
void weft_verdict_text(const struct weft_comparison *c, const char *unit, char text[WEFT_VERDICT_TEXT]);

/* ---- results (results.c, results_runs.c), from the folder alone */

struct weft_results {
    struct weft_arena arena;
    const char *folder, *name, *command, *preset, *task, *version, *machine, *program_sha256;
    const char *match, *match_by;
    char plan_sha256[65]; /* of what study.json contains */
    bool plan_recorded;   /* it has that hash, too; else it is of release 0.1.0, or says so */
    int64_t seed_count, lr_count, steps;
    int64_t screen_seeds; /* that chose the learning rate; 0: the judged ones did, or there is nothing to choose */
    double *lr;
    double budget;             /* minutes that fixed the number of steps; 0: none did */
    int64_t whole_steps;       /* that the config has without it */
    const char *stand_in_for;  /* the data that it was not trained on, as they were missing; NULL: none */
    struct weft_looks looks;   /* of the plan */
    const char *parent;        /* the folder of the study that led to this one; "": none */
    int64_t planned, finished; /* runs */
    int64_t left_out;          /* lines of the ledger with other settings or of another program */
    int64_t unbound; /* runs that nothing but their line in the ledger vouches for: of release 0.1.0, or said to be */
    bool uncounted;  /* another release counted the costs of its arms, which were not compared */
    int arm_count;
    struct weft_result_arm {
        const char *name, *description; /* description: its settings, or the folder that was compared */
        const char *repeats;            /* the name of the arm that it repeats, or NULL */
        int64_t first_seed;             /* of as many as the study has */
        int64_t params, peak_bytes, activation_bytes, state_bytes, matched;
        double flops, cache_bytes; /* per trained token; per token, all layers */
        double tokens;             /* that a run is trained on; 0: not recorded */
        const char *config;        /* all options, as flat JSON */
        struct weft_result_entry {
            const char *name, *value;
            bool changed; /* from the preset and the default; only known of runs (compare.c) */
        } * entry;        /* the same options, as settings */
        int entry_count;
        char data_sha256[65];  /* fingerprint of its data; "": not known. Of `weft compare` alone, as is the next */
        int64_t sample_tokens; /* tokens of a sample */
        struct weft_result_gate {
            const char *gate, *message; /* message: of the first failure */
            int checks, failed;
        } * gate;
        int gate_count;
        bool gates_itself; /* of the plan, they also ran on the model itself; else its runs did that */
        int gates_checks, gates_failed;
        int run_count;
        struct weft_finished *run;                   /* by learning rate, then seed */
        struct weft_run_noise {                      /* over the items of the test; items is 0 where it is not known */
            struct weft_item_noise loss, difference; /* from the run of the first arm with the same seed */
        } * run_noise;                               /* of every run */
        double lr;                                   /* chosen on validation; NAN: no run is finished */
        bool lr_at_edge; /* the largest or smallest of several: there may be a better one beyond */
        struct weft_finding {
            const struct weft_finished *run; /* those with the chosen learning rate */
            int seeds;
            double loss, loss_sd, tokens_per_s; /* means over them; the loss is the test loss */
            bool solved;                        /* nearly all of their test answers are right */
            bool falling;                       /* their training losses were still falling at the end */
            double fall;                        /* by so much between the last two tenths; NAN: not known */
            struct weft_comparison against;     /* with the first arm, over the seeds of the look */
            int look;                           /* of the plan, from 1; 0: none is complete */
            struct weft_interval bootstrap;
            const char *verdict; /* in a word or two, see docs/report.md */
            const char *text;    /* in one sentence */
            struct weft_test_noise {
                struct weft_item_noise loss;       /* of the runs above; items is 0: not known */
                struct weft_item_noise difference; /* from the first arm, of the runs that `against` compares */
                const char *kind;                  /* of the items */
                bool own; /* every seed has a test set of its own: the interval over seeds has this noise, too */
                const char *note; /* what a reader must know of it, in a sentence; NULL: nothing */
                bool warning;     /* the verdict may be another with another test set, or a file is wrong */
            } test;
        } found;
    } * arm;
    struct weft_simulated simulated; /* the record of simulated studies; no checks: there is none */
    const char *not_comparable;      /* NULL, or how the samples differ that the arms were scored on */
    int reproduced; /* repeats with the same seeds have the same weights: 1 all, 0 not all; -1: there are none */
};
/* Of an unfinished study the finished runs are read. */
enum weft_status weft_results_load(struct weft_results *r, const char *folder);
void weft_results_release(struct weft_results *r);
/* Two runs, or two folders of runs such as a study's runs/ARM, as the arms A and B (compare.c). If a run has no test
 * loss, the validation loss of all runs is used instead, and *by_val is true. */
enum weft_status weft_results_pair(struct weft_results *r, const char *a, const char *b, bool *by_val);
/* The only arm of the results has the options and costs of the run in a folder, and the run itself if it is finished.
 * Config, log and the record of the gates must agree (compare.c). Release also after a failure. */
enum weft_status weft_results_single(struct weft_results *r, const char *folder);
/* Fills in the findings, from arms and runs alone (findings.c). */
enum weft_status weft_results_judge(struct weft_results *r);
/* Whether more seeds of the plan could change a verdict. */
bool weft_results_open(const struct weft_results *r);
/* Runs a study from look to look, until no verdict is open (looks.c). */
struct weft_queue;
enum weft_status weft_queue_run_looks(struct weft_queue *q);

/* What of the pairing of runs could not be checked, in a sentence; false: all was (pairing.c). */
bool weft_results_unrecorded(const struct weft_results *r, char text[400]);

/* Fills in the noise of the test set (noise.c), after the verdicts, which it does not change. */
enum weft_status weft_results_test_noise(struct weft_results *r);

/* ---- ladders (ladder.c): studies of the same arms at several sizes */

struct weft_rungs {
    struct weft_arena arena;
    int count;
    int64_t seeds; /* that every rung judges */
    struct weft_results rung[WEFT_MAX_RUNGS];
    struct weft_rung_arm {
        const char *name; /* NULL: the first arm, or a repeat */
        bool judged;
        double compute[2][WEFT_MAX_RUNGS]; /* FLOPs of a run, of the first arm and of this */
        struct weft_ladder ladder;
        const char *verdict, *text;
    } * arm;
};
/* Folders of studies, the smallest models first. Release also after a failure. */
enum weft_status weft_rungs_load(struct weft_rungs *l, const char *const *folders, int count);
/* The same of a study with a ladder, and writes its page, ladder.html. */
struct weft_study_ladder;
enum weft_status weft_rungs_conclude(struct weft_rungs *l, const struct weft_study_ladder *of, const char *folder);
void weft_rungs_release(struct weft_rungs *l);
/* The arms on the largest rung, the best first, with their test losses: "dot 1.8756, w2 1.8778 (not resolved)". */
void weft_rungs_ranking(const struct weft_rungs *l, char text[WEFT_VERDICT_TEXT]);
/* The table, or a flat object. */
enum weft_status weft_rungs_print(const struct weft_rungs *l, bool json, FILE *to);
/* Writes the page, whole or not at all (ladder_page.c). */
enum weft_status weft_rungs_write(const struct weft_rungs *l, const char *path);

/* ---- options of the arms (options.c) */

const char *weft_result_option(const struct weft_result_arm *arm, const char *name); /* NULL: it has none */
/* Whether an option differs between arms. */
bool weft_results_differ(const struct weft_results *r, const char *option);

/* ---- output */

/* The finding in one sentence (headline.c). */
void weft_results_headline(const struct weft_results *r, char text[WEFT_VERDICT_TEXT]);
/* What a reader must know before the table, one sentence per call; the first says what was compared. */
typedef void weft_note_fn(void *context, bool warning, const char *text);
void weft_results_notes(const struct weft_results *r, weft_note_fn *note, void *context);
/* Names each run that the plan needs and the ledger lacks, and each on disk that the ledger does not count; returns how
 * many there are (missing.c). */
int64_t weft_results_missing(const struct weft_results *r, weft_note_fn *found, void *context);
/* Runs the gates of an arm and compares them with those of the plan; `data`: where the data of task=text are, NULL:
 * where they were. there: the arm has a run (recount.c). */
enum weft_status weft_results_check_gates(const struct weft_results *r, int arm, const char *data, bool *there);
/* The table of verdicts, for a terminal, and as entries ARM.key of a flat object. */
void weft_results_print(const struct weft_results *r, FILE *to);
void weft_results_add(const struct weft_results *r, struct weft_result *to);
/* Writes report.html, report.md and report.csv: all of them or, if one cannot be replaced, none. */
enum weft_status weft_report_write(const char *folder);

/* ---- a single run (run.c), finished or not: writes report.html and report.md, all or none. */

/* Whether a folder has a run, and not a study. */
bool weft_report_is_run(const char *folder);
/* The headline, and its figures as a flat object, come from the same reading as the files. */
enum weft_status weft_report_write_run(const char *folder, char headline[WEFT_VERDICT_TEXT], struct weft_result *to);

#endif
