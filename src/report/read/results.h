/* SPDX-License-Identifier: MIT
 *
 * results.h - declarations shared by the files of this room.
 */
#ifndef WEFT_RESULTS_H
#define WEFT_RESULTS_H

#include "report/report.h"

/* ---- reading */

/* Reads the runs of this study from the ledger, and chooses the learning rate of every arm (results_runs.c). */
enum weft_status weft_results_take_runs(struct weft_results *r);
void weft_results_choose_lr(struct weft_results *r);
/* Resolves the settings, spec and recipe of an arm from the config of one of its runs; *there is false if it has none.
 * Call weft_result_arm_release() also after a failure (recount.c). */
enum weft_status weft_result_arm_configure(const struct weft_result_arm *of, const char *data, struct weft_arm *arm,
                                           bool *there);
void weft_result_arm_release(struct weft_arm *arm);
/* Returns whether the plan was made with this instruction set: memory and the number of checks depend on it. */
bool weft_results_same_isa(const struct weft_results *r, const char *isa);
/* Recomputes the costs of each arm from the config of one of its runs, and compares them with the plan (recount.c). */
enum weft_status weft_results_recount(struct weft_results *r);

/* Rejects a run whose log does not agree with its line in the ledger, the plan, or the gates of the arm
 * (results_logs.c). A run without a chain is counted as unbound. */
enum weft_status weft_result_check_log(struct weft_results *r, struct weft_result_arm *arm, struct weft_finished *run);

/* Return the number of planned runs of an arm; whether a run counts for verdicts, or for choosing the learning rate;
 * and the mean validation loss by which a rate is chosen, which is NAN while runs are missing. */
int64_t weft_result_planned(const struct weft_results *r, const struct weft_result_arm *arm);
bool weft_result_is_judged(const struct weft_results *r, const struct weft_result_arm *arm,
                           const struct weft_finished *run);
bool weft_result_is_screening(const struct weft_results *r, const struct weft_result_arm *arm,
                              const struct weft_finished *run);
double weft_result_screened_loss(const struct weft_results *r, const struct weft_result_arm *arm, double lr);

/* Returns the mean difference of an arm as a percentage of the first arm's mean loss; NAN if the first arm solves the
 * task or its loss is below this limit, because the percentage then grows without bound (format.c). */
#define WEFT_LEAST_PERCENT_LOSS 0.1
double weft_result_percent(const struct weft_results *r, const struct weft_result_arm *arm);
/* Returns the number of steps of an arm, which may differ from the first arm's (options.c). */
int64_t weft_result_steps(const struct weft_results *r, const struct weft_result_arm *arm);
/* Returns whether runs of one arm may differ in the option, as in seed and learning rate. */
bool weft_option_is_per_run(const char *option);

/* Reads the fingerprint of a run's training data from its newest checkpoint; "": unknown (samples.c). */
enum weft_status weft_run_data_hash(const char *folder, char hash[65]);
/* Fills in not_comparable for two arms. */
enum weft_status weft_results_check_samples(struct weft_results *r);

/* Adds the result of this look at every arm to the study's looks.jsonl, unless already recorded (looks.c). */
enum weft_status weft_looks_record(const struct weft_results *r);

/* Finds the reason why runs of this arm and the first arm with the same seed are not pairs; NULL: they are pairs, as
 * far as recorded (pairing.c). */
enum weft_status weft_pairing_check(struct weft_results *r, const struct weft_result_arm *arm, const char **reason);

/* A run's log.jsonl (runlog.c). Missing values are NAN, -1 or empty. */
struct weft_curve {
    int64_t count;
    int64_t *step;
    double *loss;
};
struct weft_runlog {
    bool exists, gates_skipped;
    struct weft_curve train, val; /* cross-entropy only, which all arms have */
    struct weft_curve rate, norm; /* learning rate; norm of the gradient, before clipping */
    int64_t params, steps, gates_checks, gates_failed;
    char version[32], isa[32]; /* version and instruction set of the program that started or last resumed it */
    double tokens;             /* number of tokens trained on */
    double train_loss;         /* loss of the last logged step, with all terms */
    double val_accuracy, test_loss, test_accuracy, tokens_per_s, seconds;
    char weights_sha256[65], stream_sha256[65];
    char config_sha256[65], data_sha256[65], plan_sha256[65], gates_sha256[65]; /* "": not recorded */
    char chain[65]; /* hash of the last record; "": none, as in logs of release 0.1.0 */
};
/* Reads a log; rejects one with a broken chain. */
enum weft_status weft_runlog_load(struct weft_runlog *log, const char *folder, struct weft_arena *arena);

/* ---- a single run (run.c), and its files (run_page.c) */

struct weft_run_report {
    struct weft_results of; /* with one arm, see weft_results_single */
    struct weft_runlog log;
    int64_t steps; /* number of planned steps */
    bool finished; /* the run is finished and scored */
    char title[128], headline[WEFT_VERDICT_TEXT];
    char *samples; /* content of samples.txt; NULL: none */
};
void weft_run_page(const void *report, FILE *to);
void weft_run_markdown(const void *report, FILE *to);
/* Calls `figure` for every available figure; `time`: the figure depends on a clock (run_figures.c). */
typedef void weft_figure_fn(void *context, const char *name, const char *value, bool time);
void weft_run_figures(const struct weft_run_report *run, weft_figure_fn *figure, void *context);
/* Calls `note` for every note above the figures. */
void weft_run_notes(const struct weft_run_report *run, weft_note_fn *note, void *context);

/* ---- curves over seeds (curves.c), thinned to a few hundred points */

struct weft_band {
    int count;
    double *step, *mean, *low, *high; /* over seeds */
};
struct weft_curves {
    struct weft_arena arena;
    bool difference_in_val; /* the differences are of the validation loss; otherwise of the training loss */
    struct weft_arm_curves {
        struct weft_band train, val, difference; /* difference: from the first arm, seed by seed */
    } * arm;
};
/* Thins a single curve over the logged steps: the band is the range within a point's interval. */
enum weft_status weft_curve_thin(const struct weft_curve *curve, int64_t steps, struct weft_band *band,
                                 struct weft_arena *arena);
enum weft_status weft_curves_init(struct weft_curves *c, const struct weft_results *r);
void weft_curves_release(struct weft_curves *c);

/* ---- numbers as text (format.c) */

struct weft_text {
    char text[64];
};
struct weft_text weft_count_text(double n); /* "1.235 M" */
struct weft_text weft_short_text(double n); /* "1.2 M" */
struct weft_text weft_bytes_text(double n); /* "12.3 MiB" */
struct weft_text weft_loss_text(double x);  /* four decimals; "-" if not finite */
struct weft_text weft_lr_text(double x);
struct weft_text weft_interval_text(struct weft_interval i);
struct weft_text weft_speeds_text(const struct weft_finding *f); /* range of tokens/s; "" if speeds are similar */

/* Round numbers on an axis, at most about `most`, and their texts (ticks.c). */
enum { WEFT_MAX_TICKS = 16 };
struct weft_ticks {
    int count, decimals; /* decimals is -1 if each text has as many as it needs */
    double value[WEFT_MAX_TICKS];
};
struct weft_ticks weft_ticks(double low, double high, int most, bool logarithmic);
/* Returns whether an axis with these ends should be logarithmic, because a linear one would not separate small
 * values. */
bool weft_spans_decade(double low, double high);
struct weft_text weft_tick_text(const struct weft_ticks *t, int i);

/* ---- the files */

/* The files of a report (report.html, report.md and so on), in the order of weft_report_endings (report.c). */
struct weft_report_file {
    char *text; /* to be freed */
    size_t bytes;
};
/* Sets the text to the output of `print`. */
enum weft_status weft_report_file_make(struct weft_report_file *file, void (*print)(const void *of, FILE *to),
                                       const void *of);
/* Replaces the first `count` files in a folder, all or none. */
enum weft_status weft_report_save(const char *folder, const struct weft_report_file *files, int count);

void weft_report_markdown(const struct weft_results *r, FILE *to);
void weft_report_csv(const struct weft_results *r, FILE *to);
void weft_report_page(const struct weft_results *r, const struct weft_curves *c, FILE *to);

/* Writes text from a file as a cell of a Markdown table, with markup characters escaped. */
void weft_markdown(FILE *to, const char *text);
/* Write a note as a list item: callbacks for weft_results_notes, with the FILE as context. */
void weft_markdown_note(void *to, bool warning, const char *text);
void weft_html_note(void *to, bool warning, const char *text);

/* Parts of the page. Text from files is escaped. */
void weft_html(FILE *to, const char *text); /* html.c */
/* Write a page up to <body>, and its end. The data of charts is at the end of the page: call open_data, write the data,
 * then close. */
void weft_html_open_page(const char *title, const char *what, bool charts, FILE *to);
void weft_html_open_data(FILE *to);
void weft_html_close_page(bool charts, FILE *to);
/* Opens a table with these columns; NULL ends the list. */
void weft_html_open_table(const char *label, const char *const *columns, FILE *to);
void weft_html_close_table(FILE *to);
void weft_html_verdicts(const struct weft_results *r, FILE *to);                            /* verdict_table.c */
void weft_html_dots(const struct weft_results *r, FILE *to);                                /* scatter.c */
void weft_html_charts(const struct weft_results *r, const struct weft_curves *c, FILE *to); /* charts.c */
void weft_html_charts_data(const struct weft_results *r, const struct weft_curves *c, FILE *to);
void weft_html_numbers(const struct weft_results *r, FILE *to); /* numbers.c */
void weft_html_lrs(const struct weft_results *r, FILE *to);     /* rates.c */
void weft_html_runs(const struct weft_results *r, FILE *to);
void weft_html_gates(const struct weft_results *r, FILE *to); /* configs.c */
void weft_html_configs(const struct weft_results *r, FILE *to);

/* Charts that a script draws (chart.c): a box and a table for each, and the data of all of them. Series have the colour
 * of their arm, an index into the names of the legend. A chart may only contain series with points. */
enum { WEFT_CHART_TITLE = 64 };
struct weft_chart {
    const char *id, *title, *about, *y_title;
    char x_title[WEFT_CHART_TITLE];
    bool linear; /* draws a linear axis even if the values span a decade */
    int count;
    struct weft_series {
        const char *name;
        int arm;
        const struct weft_band *band;
    } series[WEFT_MAX_ARMS];
};
/* Writes the title of an axis of steps; tokens: tokens per step, 0: unknown. */
void weft_chart_title_steps(double tokens, char title[WEFT_CHART_TITLE]);
bool weft_chart_is_drawn(const struct weft_chart *c); /* at least one series has two points */
void weft_html_legend(const char *label, const char *const *names, int count, FILE *to);
void weft_html_chart(const struct weft_chart *c, FILE *to);
void weft_html_chart_data(const char *const *names, int count, const struct weft_chart *charts, int chart_count,
                          FILE *to);

/* Pictures with a logarithmic x axis (plot.c): include all values, open, draw, close. Arms have the same colours as in
 * the charts. The titles of axes need not mention that an axis is logarithmic. */
struct weft_plot {
    FILE *to;
    bool log_y; /* requests a logarithmic axis, as for ratios; values that span a decade always get one */
    bool any;   /* at least one value is included */
    double first, last, low, high; /* ranges of the x axis and the y axis */
    double used;                   /* right end of the tick texts so far */
};
void weft_plot_include(struct weft_plot *p, double x, double y);
void weft_plot_open(struct weft_plot *p, const char *label, const char *x_title, const char *y_title);
void weft_plot_tick(struct weft_plot *p, double x, const char *text); /* x ascending; omits a text that does not fit */
void weft_plot_line(const struct weft_plot *p, int arm, const double *x, const double *y, int count); /* x ascending */
void weft_plot_dot(const struct weft_plot *p, int arm, double x, double y, bool large);
void weft_plot_interval(const struct weft_plot *p, int arm, double x, struct weft_interval i);
void weft_plot_rule(const struct weft_plot *p, double y);
void weft_plot_close(const struct weft_plot *p);
/* Writes the names of the arms with their colours, followed by the sentence `also`. */
void weft_html_key(const struct weft_results *r, const char *also, FILE *to);

/* Files embedded in the program (assets.c), each NUL-terminated. */
extern const char weft_embedded_page[], weft_embedded_style[], weft_embedded_charts[];
extern const char weft_embedded_uplot_js[], weft_embedded_uplot_css[], weft_embedded_uplot_licence[];

#endif
