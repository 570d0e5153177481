/* SPDX-License-Identifier: MIT
 *
 * report.h - reads a study's folder into results, findings and verdicts, and writes these as HTML, Markdown and CSV.
 */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include "stats/stats.h"
#include "study/study.h"

struct weft_result;

/* ---- verdicts (verdict.c). The joint interval of the family decides, so the verdict always agrees with it. */

enum weft_verdict { WEFT_BETTER, WEFT_WORSE, WEFT_NOT_RESOLVED, WEFT_TOO_FEW_SEEDS };
enum weft_verdict weft_verdict(const struct weft_comparison *c);
/* Writes one sentence with the interval. For an unresolved difference, the sentence also contains the number of seeds
 * that would resolve it, and the smallest difference that the compared seeds could resolve. */
enum { WEFT_VERDICT_TEXT = 512 };
void weft_verdict_text(const struct weft_comparison *c, const char *unit, char text[WEFT_VERDICT_TEXT]);

/* ---- results (results.c, results_runs.c), from the folder alone */

struct weft_results {
    struct weft_arena arena;
    const char *folder, *name, *command, *preset, *task, *version, *machine, *program_sha256;
    const char *match, *match_by;
    char plan_sha256[65]; /* SHA-256 of the content of study.json */
    bool plan_recorded;   /* study.json records this hash; otherwise it is from release 0.1.0, or claims to be */
    int64_t seed_count, lr_count, steps;
    int64_t screen_seeds; /* number of seeds used only to choose the learning rate; 0: the judged seeds are used */
    double *lr;
    double budget;             /* budget in minutes, which determined the number of steps; 0: none */
    int64_t whole_steps;       /* steps of the config without a budget */
    const char *stand_in_for;  /* missing data that the stand-in replaced; NULL: none */
    struct weft_looks looks;   /* planned looks */
    const char *parent;        /* folder of the study that led to this one; "": none */
    int64_t planned, finished; /* number of runs */
    int64_t left_out;          /* number of ledger lines with different settings or from a different build */
    int64_t unbound; /* number of runs recorded only by their ledger line: from release 0.1.0, or claimed to be */
    bool uncounted;  /* the costs of the arms were not checked, because a different release computed them */
    int arm_count;
    struct weft_result_arm {
        const char *name, *description; /* description: its settings, or the compared folder */
        const char *repeats;            /* name of the arm that it repeats, or NULL */
        int64_t first_seed;             /* first of its consecutive seeds */
        int64_t params, peak_bytes, activation_bytes, state_bytes, matched;
        double flops, cache_bytes; /* FLOPs per training token; cache size per token over all layers */
        double tokens;             /* number of tokens per run; 0: not recorded */
        const char *config;        /* all options, as flat JSON */
        struct weft_result_entry {
            const char *name, *value;
            bool changed; /* differs from preset and default; only known for runs (compare.c) */
        } * entry;        /* the same options, as settings */
        int entry_count;
        char data_sha256[65];  /* fingerprint of its data; "": unknown. Set only by `weft compare` */
        int64_t sample_tokens; /* number of tokens per sample. Set only by `weft compare` */
        struct weft_result_gate {
            const char *gate, *message; /* message: the first failure */
            int checks, failed;
        } * gate;
        int gate_count;
        bool gates_itself; /* the plan also ran the gates on the full model; otherwise the runs did */
        int gates_checks, gates_failed;
        int run_count;
        struct weft_finished *run;                   /* sorted by learning rate, then seed */
        struct weft_run_noise {                      /* noise over the test items; items is 0 if unknown */
            struct weft_item_noise loss, difference; /* from the first arm's run with the same seed */
        } * run_noise;                               /* one per run */
        double lr;                                   /* chosen by validation loss; NAN: no run is finished */
        bool lr_at_edge; /* lr is the largest or smallest of several rates, so a better one may lie beyond it */
        struct weft_finding {
            const struct weft_finished *run; /* the runs with the chosen learning rate */
            int seeds;
            double loss, loss_sd, tokens_per_s; /* means over these runs; loss is the test loss */
            double slowest, fastest;            /* tokens/s of these runs */
            bool solved;                        /* nearly all test answers are right */
            bool falling;                       /* the training losses of these runs were still falling at the end */
            double fall;                        /* mean decrease between the last two tenths; NAN: unknown */
            struct weft_comparison against;     /* comparison with the first arm, over the seeds of the look */
            int look;                           /* number of the last complete look, from 1; 0: none */
            struct weft_interval bootstrap;
            const char *verdict; /* one or two words, see docs/report.md */
            const char *text;    /* one sentence */
            struct weft_test_noise {
                struct weft_item_noise loss;       /* noise of the loss over the runs above; items is 0 if unknown */
                struct weft_item_noise difference; /* from the first arm, over the runs that `against` compares */
                const char *kind;                  /* kind of items */
                bool own;         /* every seed has its own test set, so the interval over seeds includes this noise */
                const char *note; /* one sentence for the reader; NULL: none */
                bool warning;     /* a different test set may change the verdict, or a file is wrong */
            } test;
        } found;
    } * arm;
    struct weft_simulated simulated; /* record of simulated studies; no checks: no record */
    const char *not_comparable;      /* how the arms' test samples differ; NULL: they do not */
    int reproduced; /* 1: repeats with the same seeds have the same weights; 0: not all of them; -1: no repeats */
};
/* Reads a study; if it is unfinished, reads its finished runs. */
enum weft_status weft_results_load(struct weft_results *r, const char *folder);
void weft_results_release(struct weft_results *r);
/* Reads two runs, or two folders of runs such as a study's runs/ARM, as the arms A and B (compare.c). If a run has no
 * test loss, uses the validation loss of all runs and sets *by_val. */
enum weft_status weft_results_pair(struct weft_results *r, const char *a, const char *b, bool *by_val);
/* Reads one run as a study with one arm, which has the options and costs of the run in the folder and, if finished, the
 * run itself. Config, log and the record of the gates must agree (compare.c). Call weft_results_release() also after a
 * failure. */
enum weft_status weft_results_single(struct weft_results *r, const char *folder);
/* Fills in the findings, which depend only on the arms and runs (findings.c). */
enum weft_status weft_results_judge(struct weft_results *r);
/* Returns whether more seeds of the plan could change a verdict. */
bool weft_results_open(const struct weft_results *r);
/* Runs a study from look to look, until no verdict is open (looks.c). */
struct weft_queue;
enum weft_status weft_queue_run_looks(struct weft_queue *q);

/* Writes one sentence about the parts of the pairing that could not be checked, and returns true; returns false if all
 * parts were checked (pairing.c). */
bool weft_results_unrecorded(const struct weft_results *r, char text[400]);

/* Fills in the noise of the test set (noise.c), after the verdicts, which it does not change. */
enum weft_status weft_results_test_noise(struct weft_results *r);

/* ---- ladders (ladder.c): studies of the same arms at several sizes */

struct weft_rungs {
    struct weft_arena arena;
    int count;
    int64_t seeds; /* number of seeds compared on every rung */
    struct weft_results rung[WEFT_MAX_RUNGS];
    struct weft_rung_arm {
        const char *name; /* NULL: the first arm, or a repeat */
        bool judged;
        double compute[2][WEFT_MAX_RUNGS]; /* FLOPs per run of the first arm and of this arm */
        struct weft_ladder ladder;
        const char *verdict, *text;
    } * arm;
};
/* Reads the folders of studies, smallest models first. Call weft_rungs_release() also after a failure. */
enum weft_status weft_rungs_load(struct weft_rungs *l, const char *const *folders, int count);
/* Reads the rungs of a study with a ladder, and writes its page, ladder.html. */
struct weft_study_ladder;
enum weft_status weft_rungs_conclude(struct weft_rungs *l, const struct weft_study_ladder *of, const char *folder);
void weft_rungs_release(struct weft_rungs *l);
/* Writes the arms on the largest rung, best first, with their test losses: "dot 1.8756, w2 1.8778 (not resolved)". */
void weft_rungs_ranking(const struct weft_rungs *l, char text[WEFT_VERDICT_TEXT]);
/* Prints the table, or a flat JSON object. */
enum weft_status weft_rungs_print(const struct weft_rungs *l, bool json, FILE *to);
/* Writes the page, whole or not at all (ladder_page.c). */
enum weft_status weft_rungs_write(const struct weft_rungs *l, const char *path);

/* ---- options of the arms (options.c) */

const char *weft_result_option(const struct weft_result_arm *arm, const char *name); /* NULL: not set */
/* Returns whether an option differs between arms. */
bool weft_results_differ(const struct weft_results *r, const char *option);

/* ---- output */

/* Writes the finding in one sentence (headline.c). */
void weft_results_headline(const struct weft_results *r, char text[WEFT_VERDICT_TEXT]);
/* Reports the notes above the table, one sentence per call; the first describes the comparison. */
typedef void weft_note_fn(void *context, bool warning, const char *text);
void weft_results_notes(const struct weft_results *r, weft_note_fn *note, void *context);
/* Names each planned run that is not in the ledger, and each run on disk that the ledger does not count; returns their
 * number (missing.c). */
int64_t weft_results_missing(const struct weft_results *r, weft_note_fn *found, void *context);
/* Runs the gates of an arm and compares them with the plan's; `data` is the path of the data of task=text; NULL: the
 * path in the config. *there is false if the arm has no run (recount.c). */
enum weft_status weft_results_check_gates(const struct weft_results *r, int arm, const char *data, bool *there);
/* Prints the table of verdicts on a terminal, or adds it as entries ARM.key to a flat JSON object. */
void weft_results_print(const struct weft_results *r, FILE *to);
void weft_results_add(const struct weft_results *r, struct weft_result *to);
/* Writes report.html, report.md and report.csv, or none of them if one cannot be replaced. */
enum weft_status weft_report_write(const char *folder);

/* ---- a single run (run.c), finished or not */

/* Returns whether a folder contains a run instead of a study. */
bool weft_report_is_run(const char *folder);
/* Writes report.html and report.md, both or neither. Returns their headline and, as a flat JSON object, their figures.
 */
enum weft_status weft_report_write_run(const char *folder, char headline[WEFT_VERDICT_TEXT], struct weft_result *to);

#endif
