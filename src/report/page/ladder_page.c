/* SPDX-License-Identifier: MIT
 *
 * ladder_page.c - writes a ladder as a page: for every arm the verdict, the losses with their curves, the multipliers
 * with their intervals, and the numbers.
 */
#include "ckpt/ckpt.h"
#include "report/read/results.h"
#include "study/ladder.h"

#include <math.h>
#include <stdlib.h>

enum { POINTS = 40 }; /* number of points of a curve */

static void put_ticks(struct weft_plot *p, const struct weft_rungs *l, const struct weft_rung_arm *arm)
{
    for (int r = 0; r < l->count; r++)
        weft_plot_tick(p, arm->compute[0][r], weft_short_text(arm->compute[0][r]).text);
}

/* Draws one of the two curves between the smallest and the largest rung; the curve's factor is computed from its last
 * point. */
static void put_curve(const struct weft_plot *p, const struct weft_rungs *l, int i, int a)
{
    const struct weft_rung_arm *arm = &l->arm[i];
    const struct weft_ladder *of = &arm->ladder;
    double x[POINTS], y[POINTS], first = arm->compute[a][0], last = arm->compute[a][l->count - 1];
    double end = l->rung[l->count - 1].arm[a ? i : 0].found.loss - of->residual[a][l->count - 1];
    for (int k = 0; k < POINTS; k++) {
        x[k] = first * pow(last / first, (double)k / (POINTS - 1));
        y[k] = of->floor + (end - of->floor) * pow(x[k] / last, -of->exponent[a]);
    }
    weft_plot_line(p, a ? i : 0, x, y, POINTS);
}

static void put_losses(const struct weft_rungs *l, int i, FILE *to)
{
    const struct weft_rung_arm *arm = &l->arm[i];
    struct weft_plot p = {.to = to};
    for (int a = 0; a < 2; a++)
        for (int r = 0; r < l->count; r++)
            weft_plot_include(&p, arm->compute[a][r], l->rung[r].arm[a ? i : 0].found.loss);
    weft_plot_open(&p, "test loss by compute", "FLOPs of a run", "test loss, nats");
    put_ticks(&p, l, arm);
    for (int a = 0; a < 2; a++) {
        put_curve(&p, l, i, a);
        for (int r = 0; r < l->count; r++)
            weft_plot_dot(&p, a ? i : 0, arm->compute[a][r], l->rung[r].arm[a ? i : 0].found.loss, false);
    }
    weft_plot_close(&p);
}

static void put_multipliers(const struct weft_rungs *l, int i, FILE *to)
{
    const struct weft_rung_arm *arm = &l->arm[i];
    struct weft_plot p = {.to = to, .log_y = true}; /* 2 and 1/2 are equally far from 1 */
    weft_plot_include(&p, arm->compute[0][0], 1);
    for (int r = 0; r < l->count; r++) {
        const struct weft_estimate_of *m = &arm->ladder.multiplier[r];
        weft_plot_include(&p, arm->compute[0][r], exp(m->interval.low));
        weft_plot_include(&p, arm->compute[0][r], exp(m->interval.high));
    }
    weft_plot_open(&p, "compute multiplier by rung", "FLOPs of a run", "compute multiplier");
    put_ticks(&p, l, arm);
    weft_plot_rule(&p, 1);
    for (int r = 0; r < l->count; r++) {
        const struct weft_estimate_of *m = &arm->ladder.multiplier[r];
        struct weft_interval of = {exp(m->interval.low), exp(m->interval.high)};
        weft_plot_interval(&p, i, arm->compute[0][r], of);
        weft_plot_dot(&p, i, arm->compute[0][r], exp(m->value), false);
    }
    weft_plot_close(&p);
}

static void put_table(const struct weft_rungs *l, int i, FILE *to)
{
    static const char *const columns[] = {"Rung",     "Parameters",          "FLOPs",      "Loss of the first arm",
                                          "Loss",     "Difference",          "Multiplier", "Interval",
                                          "Residual", "Verdict of the rung", NULL};
    weft_html_open_table("Rungs", columns, to);
    for (int r = 0; r < l->count; r++) {
        const struct weft_result_arm *base = &l->rung[r].arm[0], *own = &l->rung[r].arm[i];
        const struct weft_estimate_of *m = &l->arm[i].ladder.multiplier[r];
        fprintf(to, "<tr><th scope=\"row\">%d</th><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%+.4f</td>", r + 1,
                weft_count_text((double)own->params).text, weft_count_text(l->arm[i].compute[1][r]).text,
                weft_loss_text(base->found.loss).text, weft_loss_text(own->found.loss).text,
                own->found.loss - base->found.loss);
        fprintf(to, "<td>%.3f</td><td>[%.3f, %.3f]</td><td>%+.4f</td><td>%s</td></tr>\n", exp(m->value),
                exp(m->interval.low), exp(m->interval.high), l->arm[i].ladder.residual[1][r], own->found.verdict);
    }
    weft_html_close_table(to);
}

static void put_arm(const struct weft_rungs *l, int i, FILE *to)
{
    const struct weft_rung_arm *arm = &l->arm[i];
    fprintf(to, "<h2>%s against %s</h2>\n<p class=\"headline\">", arm->name, l->rung[0].arm[0].name);
    weft_html(to, arm->text);
    fputs("</p>\n", to);
    if (!arm->judged)
        return;
    fprintf(to, "<div class=\"pair\">\n<div><h3>Compute that %s would need for the same loss, as a multiple</h3>\n",
            l->rung[0].arm[0].name);
    put_multipliers(l, i, to);
    fputs("</div>\n<div><h3>Test loss by compute</h3>\n", to);
    put_losses(l, i, to);
    fputs("</div>\n</div>\n", to);
    put_table(l, i, to);
    if (isfinite(arm->ladder.prediction_error))
        fprintf(
            to,
            "<p>The loss of %s on the largest rung, as predicted from the smaller rungs, is off by %+.4f nats.</p>\n",
            l->rung[0].arm[0].name, arm->ladder.prediction_error);
}

static void put_page(const struct weft_rungs *l, FILE *to)
{
    const struct weft_results *first = &l->rung[0];
    weft_html_open_page(first->name, "a ladder", false, to);
    fputs("<h1>", to);
    weft_html(to, first->name);
    fprintf(to, ": does a gain survive scale?</h1>\n<p>%d rungs on task %s, %lld seeds each.</p>\n", l->count,
            first->task, (long long)l->seeds);
    char ranking[WEFT_VERDICT_TEXT];
    weft_rungs_ranking(l, ranking);
    fputs("<p>Ranking on the largest rung: ", to);
    weft_html(to, ranking);
    fputs(".</p>\n", to);
    weft_html_key(first, "Dots are means over seeds; bars are joint 95 % intervals for all arms.", to);
    for (int i = 1; i < first->arm_count; i++)
        if (l->arm[i].name)
            put_arm(l, i, to);
    fputs("<h2>To reproduce</h2>\n", to);
    for (int r = 0; r < l->count; r++) {
        fputs("<pre tabindex=\"0\"><code>", to);
        weft_html(to, l->rung[r].command);
        fputs("</code></pre>\n", to);
    }
    weft_html_close_page(false, to);
}

enum weft_status weft_rungs_write(const struct weft_rungs *l, const char *path)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (to)
        put_page(l, to);
    enum weft_status status = to && weft_output_close(to) ? weft_file_replace(path, text, bytes)
                                                          : FAIL(WEFT_NOMEM, "not enough memory for %s", path);
    free(text);
    return status;
}

enum weft_status weft_rungs_conclude(struct weft_rungs *l, const struct weft_study_ladder *of, const char *folder)
{
    char path[WEFT_MAX_RUNGS][4096], page[4096 + 16];
    const char *folders[WEFT_MAX_RUNGS];
    for (int i = 0; i < of->count; i++) {
        TRY(weft_study_ladder_folder(of, i, folder, path[i]));
        folders[i] = path[i];
    }
    snprintf(page, sizeof page, "%s/ladder.html", folder);
    TRY(weft_rungs_load(l, folders, of->count));
    TRY(weft_rungs_write(l, page));
    return WEFT_OK;
}
