/* SPDX-License-Identifier: MIT
 *
 * run_page.c - writes report.html and report.md of a single run: headline, curves, figures, settings, samples.
 */
#include "report/read/results.h"

#include <math.h>
#include <string.h>

/* ---- charts */

enum { CHARTS = 3, CURVES = 4 };
static const char *const names[CURVES] = {"training", "validation", "gradient norm", "learning rate"};

struct curves {
    struct weft_arena arena;
    struct weft_band band[CURVES];
    struct weft_chart chart[CHARTS];
};

static void add(struct weft_chart *chart, const struct curves *c, int curve)
{
    if (c->band[curve].count)
        chart->series[chart->count++] = (struct weft_series){names[curve], curve, &c->band[curve]};
}

/* Omits the curves if there is not enough memory for them; the figures remain. */
static void make_charts(const struct weft_run_report *run, struct curves *c)
{
    const struct weft_runlog *log = &run->log;
    const struct weft_curve *of[CURVES] = {&log->train, &log->val, &log->norm, &log->rate};
    *c = (struct curves){.chart = {
                             {.id = "loss",
                              .title = "Loss",
                              .about = "Cross-entropy of the training batches and of held-out samples.",
                              .y_title = "loss, nats"},
                             {.id = "norm",
                              .title = "Gradient norm",
                              .about = "Global norm of the gradient, before clipping.",
                              .y_title = "gradient norm"},
                             {.id = "rate",
                              .title = "Learning rate",
                              .about = "As set by the schedule.",
                              .y_title = "learning rate",
                              .linear = true},
                         }};
    for (int i = 0; i < CURVES; i++)
        if (weft_curve_thin(of[i], weft_max(1, log->steps), &c->band[i], &c->arena) != WEFT_OK) {
            weft_error_clear();
            c->band[i].count = 0;
        }
    for (int i = 0; i < CURVES; i++)
        add(&c->chart[i < 2 ? 0 : i - 1], c, i);
    for (int i = 0; i < CHARTS; i++)
        weft_chart_title_steps(log->steps > 0 && isfinite(log->tokens) ? log->tokens / (double)log->steps : 0,
                               c->chart[i].x_title);
}

static void put_charts(const struct curves *c, FILE *to)
{
    fputs("<h2 id=\"curves\">Curves</h2>\n", to);
    if (!weft_chart_is_drawn(&c->chart[0])) {
        fputs("<p>The log has fewer than two points.</p>\n", to);
        return;
    }
    fputs(
        "<p>Each point is the mean of the values logged in its interval of steps; the band is their range. Drag over a "
        "chart to zoom, and double-click to reset.</p>\n"
        "<noscript><p>The charts need JavaScript; the tables below them do not.</p></noscript>\n",
        to);
    weft_html_legend("Losses in the chart", names, c->band[1].count < 2 ? 1 : 2, to); /* one point is not a curve */
    for (int i = 0; i < CHARTS; i++)
        if (weft_chart_is_drawn(&c->chart[i]))
            weft_html_chart(&c->chart[i], to);
    if (c->band[1].count < 2)
        fputs("<p>The validation loss was computed only at the end, or not yet. To get a curve, set the option "
              "<code>eval_every</code>.</p>\n",
              to);
}

/* ---- the page */

static void put_figure(void *context, const char *name, const char *value, bool time)
{
    FILE *to = context;
    fprintf(to, "<dt>%s</dt><dd%s>", name, time ? " class=\"time\"" : "");
    weft_html(to, value);
    fputs("</dd>\n", to);
}

static void put_settings(const struct weft_result_arm *arm, bool all, FILE *to)
{
    static const char *const columns[] = {"Option", "Value", NULL};
    weft_html_open_table(all ? "All options" : "Settings", columns, to);
    for (int i = 0; i < arm->entry_count; i++) {
        if (!all && !arm->entry[i].changed)
            continue;
        fputs("<tr><th scope=\"row\">", to);
        weft_html(to, arm->entry[i].name);
        fputs("</th><td>", to);
        weft_html(to, arm->entry[i].value);
        fputs("</td></tr>\n", to);
    }
    weft_html_close_table(to);
}

static void put_samples(const char *samples, FILE *to)
{
    if (!samples)
        return;
    fputs("<h2 id=\"samples\">Samples</h2>\n<p>From <code>samples.txt</code> in the run's folder.</p>\n"
          "<pre class=\"samples\" tabindex=\"0\">",
          to);
    weft_html(to, samples);
    fputs("</pre>\n", to);
}

static void put_header(const struct weft_run_report *run, FILE *to)
{
    const char *seed = weft_result_option(&run->of.arm[0], "seed");
    fputs("<header>\n<h1>", to);
    weft_html(to, run->title);
    fputs(", seed ", to);
    weft_html(to, seed ? seed : "not known");
    fputs("</h1>\n<p class=\"headline\">", to);
    weft_html(to, run->headline);
    fputs("</p>\n<ul class=\"notes\">\n", to);
    weft_run_notes(run, weft_html_note, to);
    fprintf(to,
            "</ul>\n<nav aria-label=\"Sections\"><a href=\"#curves\">Curves</a> <a href=\"#figures\">Figures</a> "
            "<a href=\"#settings\">Settings</a> %s<a href=\"#reproduce\">Reproduce</a></nav>\n</header>\n",
            run->samples ? "<a href=\"#samples\">Samples</a> " : "");
}

void weft_run_page(const void *report, FILE *to)
{
    const struct weft_run_report *run = report;
    const struct weft_result_arm *arm = &run->of.arm[0];
    struct curves c;
    make_charts(run, &c);
    weft_html_open_page(run->title, "a run", true, to);
    put_header(run, to);
    fputs("<main>\n", to);
    put_charts(&c, to);
    fputs("<h2 id=\"figures\">Figures</h2>\n<dl>\n", to);
    weft_run_figures(run, put_figure, to);
    fputs("</dl>\n<h2 id=\"settings\">Settings</h2>\n<p>Settings that differ from the preset and from the "
          "defaults.</p>\n",
          to);
    put_settings(arm, false, to);
    fputs("<details><summary>All options</summary>\n", to);
    put_settings(arm, true, to);
    fputs("</details>\n", to);
    put_samples(run->samples, to);
    fputs("<h2 id=\"reproduce\">To reproduce</h2>\n<p>Run one of these commands in the run's folder. The new weights "
          "must have the same SHA-256.</p>\n<pre tabindex=\"0\"><code>weft audit .                            # repeat "
          "the run and compare it record by record\nweft train config.json --out ../again   # repeat the run in a "
          "different folder</code></pre>\n</main>\n",
          to);
    weft_html_open_data(to);
    weft_html_chart_data(names, CURVES, c.chart, CHARTS, to);
    weft_html_close_page(true, to);
    weft_arena_release(&c.arena);
}

/* ---- Markdown */

static void print_figure(void *context, const char *name, const char *value, bool time)
{
    FILE *to = context;
    (void)time;
    fprintf(to, "| %s | ", name);
    weft_markdown(to, value);
    fputs(" |\n", to);
}

void weft_run_markdown(const void *report, FILE *to)
{
    const struct weft_run_report *run = report;
    const struct weft_result_arm *arm = &run->of.arm[0];
    fputs("# ", to);
    weft_markdown(to, run->title);
    fputs("\n\n**", to);
    weft_markdown(to, run->headline);
    fputs("**\n\n", to);
    weft_run_notes(run, weft_markdown_note, to);
    fputs("\n| figure | value |\n|---|---|\n", to);
    weft_run_figures(run, print_figure, to);
    fputs("\nSettings that differ from the preset and from the defaults:\n\n| option | value |\n|---|---|\n", to);
    for (int i = 0; i < arm->entry_count; i++)
        if (arm->entry[i].changed) {
            fputs("| ", to);
            weft_markdown(to, arm->entry[i].name);
            fputs(" | ", to);
            weft_markdown(to, arm->entry[i].value);
            fputs(" |\n", to);
        }
    fputs("\nCurves are in report.html.\n", to);
}
