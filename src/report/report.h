/* SPDX-License-Identifier: MIT
 *
 * report.h - from a study's folder to results, findings and verdicts, and from these to HTML, Markdown and CSV.
 */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include "stats/stats.h"
#include "study/study.h"

/* ---- in words (verdict.c). The family's interval decides, so words and interval never disagree. */

enum weft_verdict { WEFT_BETTER, WEFT_WORSE, WEFT_NOT_RESOLVED, WEFT_TOO_FEW_SEEDS };
enum weft_verdict weft_verdict(const struct weft_comparison *c);
/* One sentence with the interval; where nothing is resolved, with the seeds that a difference of `size` would need (0:
 * of the interval's half width). */
enum { WEFT_VERDICT_TEXT = 320 };
void weft_verdict_text(const struct weft_comparison *c, double size, const char *unit, char text[WEFT_VERDICT_TEXT]);

/* ---- what came out (results.c, results_runs.c): from the folder alone */

struct weft_results {
    struct weft_arena arena;
    const char *folder, *name, *command, *preset, *task, *version, *machine, *program_sha256;
    const char *match, *match_by;
    int64_t seed_count, lr_count, steps;
    double *lr;
    int64_t planned, finished; /* runs */
    int64_t left_out;          /* lines of the ledger that are of other settings or another program */
    int arm_count;
    struct weft_result_arm {
        const char *name, *description, *repeats; /* repeats: NULL, or the arm's name */
        int64_t first_seed;                       /* of as many as the study has */
        int64_t params, peak_bytes, activation_bytes, state_bytes, matched;
        double flops, cache_bytes; /* per trained token; per token, all layers */
        const char *config;        /* the whole config, flat JSON */
        struct weft_result_entry {
            const char *name, *value;
        } * entry; /* of the config, as one would write them as settings */
        int entry_count;
        char data_sha256[65];  /* fingerprint of its data; "": not known. Of `weft compare` alone, as is the next */
        int64_t sample_tokens; /* tokens of a sample */
        struct weft_result_gate {
            const char *gate, *message; /* the first failure */
            int checks, failed;
        } * gate;
        int gate_count;
        int gates_checks, gates_failed;
        int run_count;
        struct weft_finished *run; /* by learning rate, then seed */
        double lr;                 /* the one chosen on validation; NAN: no run finished */
        bool lr_at_edge;           /* of a grid of several: a better one may stand beyond it */
        struct weft_finding {
            const struct weft_finished *run; /* those at the chosen learning rate */
            int seeds;
            double loss, loss_sd, tokens_per_s; /* means over them; the loss is the test's */
            struct weft_comparison against;     /* the first arm, over the seeds that both have */
            struct weft_interval bootstrap;
            const char *verdict; /* in a word or two: weft_verdict_name, or that of a repeat */
            const char *text;    /* in a sentence */
        } found;
    } * arm;
    const char *not_comparable; /* NULL, or in what the samples differ that the arms were scored on */
    int reproduced; /* repeats with the same seeds came to the same weights: 1 all, 0 not all; -1: there are none */
};
/* A study that is not done is told as far as it is. */
enum weft_status weft_results_load(struct weft_results *r, const char *folder);
void weft_results_release(struct weft_results *r);
/* Two runs, or two folders of runs as a study's runs/ARM, as the arms A and B (compare.c). Where a run has no
 * test, its validation stands for it, and *by_val says so. */
enum weft_status weft_results_pair(struct weft_results *r, const char *a, const char *b, bool *by_val);
/* Fills in what was found, from arms and runs alone (findings.c). */
enum weft_status weft_results_judge(struct weft_results *r);

/* ---- options of the arms (options.c) */

const char *weft_result_option(const struct weft_result_arm *arm, const char *name); /* NULL: it has none */
/* Whether an option differs between arms. */
bool weft_results_differ(const struct weft_results *r, const char *option);

/* ---- telling it (folder report) */

/* What a reader must know before the table, a sentence at a time; the first says what was compared. */
typedef void weft_note_fn(void *context, bool warning, const char *text);
void weft_results_notes(const struct weft_results *r, weft_note_fn *note, void *context);
/* The verdict table, for a terminal, and as entries ARM.key of a flat object. */
void weft_results_print(const struct weft_results *r, FILE *to);
struct weft_result;
void weft_results_add(const struct weft_results *r, struct weft_result *to);
/* report.html, report.md and report.csv, each whole or not at all. */
enum weft_status weft_report_write(const char *folder);

#endif
