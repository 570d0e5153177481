/* SPDX-License-Identifier: MIT
 *
 * charts.c - the curves of the page: boxes that report/charts.js draws into, and the same numbers as tables and as
 * JSON.
 */
#include "report/results.h"

#include <math.h>
#include <stddef.h>

enum { ROWS = 20 }; /* of a chart's table */

static const struct chart {
    const char *id, *title, *about;
    size_t offset; /* of its band in struct weft_arm_curves */
} charts[] = {
    {"train", "Training loss", "Cross-entropy of the batches, in nats", offsetof(struct weft_arm_curves, train)},
    {"val", "Validation loss", "Cross-entropy of held-out samples, in nats", offsetof(struct weft_arm_curves, val)},
    {"difference", "Difference from the first arm", "Paired by seed, in nats; below 0 is better",
     offsetof(struct weft_arm_curves, difference)},
};
enum { CHARTS = sizeof charts / sizeof *charts };

static const struct weft_band *band_of(const struct weft_curves *c, int arm, const struct chart *chart)
{
    return (const struct weft_band *)((const char *)&c->arm[arm] + chart->offset);
}

/* The one with the most points, whose steps the table has. A chart needs at least two. */
static const struct weft_band *longest(const struct weft_results *r, const struct weft_curves *c,
                                       const struct chart *chart)
{
    const struct weft_band *most = band_of(c, 0, chart);
    for (int i = 1; i < r->arm_count; i++)
        if (band_of(c, i, chart)->count > most->count)
            most = band_of(c, i, chart);
    return most;
}

/* ---- tables */

static void put_cell(const struct weft_band *band, double step, FILE *to)
{
    for (int i = 0; i < band->count; i++)
        if (band->step[i] == step) {
            fprintf(to, "<td>%s <small>%s to %s</small></td>", weft_loss_text(band->mean[i]).text,
                    weft_loss_text(band->low[i]).text, weft_loss_text(band->high[i]).text);
            return;
        }
    fputs("<td>-</td>", to);
}

static void put_table(const struct weft_results *r, const struct weft_curves *c, const struct chart *chart, FILE *to)
{
    const struct weft_band *all = longest(r, c, chart);
    int rows = all->count < ROWS ? all->count : ROWS;
    fprintf(to,
            "<details><summary>%s as a table</summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" "
            "aria-label=\"%s as a table\"><table class=\"plain\"><thead><tr><th scope=\"col\">Step</th>",
            chart->title, chart->title);
    for (int i = 0; i < r->arm_count; i++)
        if (band_of(c, i, chart)->count)
            fprintf(to, "<th scope=\"col\">%s</th>", r->arm[i].name);
    fputs("</tr></thead><tbody>\n", to);
    for (int row = 1; row <= rows; row++) {
        double step = all->step[(int64_t)row * all->count / rows - 1];
        fprintf(to, "<tr><th scope=\"row\">%.0f</th>", step);
        for (int i = 0; i < r->arm_count; i++)
            if (band_of(c, i, chart)->count)
                put_cell(band_of(c, i, chart), step, to);
        fputs("</tr>\n", to);
    }
    fputs("</tbody></table></div></details>\n", to);
}

/* ---- boxes */

static void put_label(const struct weft_results *r, const struct weft_curves *c, const struct chart *chart, FILE *to)
{
    fprintf(to, "%s over steps, mean and range over seeds. At the end:", chart->title);
    for (int i = 0; i < r->arm_count; i++) {
        const struct weft_band *band = band_of(c, i, chart);
        if (band->count)
            fprintf(to, " %s %s (%s to %s);", r->arm[i].name, weft_loss_text(band->mean[band->count - 1]).text,
                    weft_loss_text(band->low[band->count - 1]).text, weft_loss_text(band->high[band->count - 1]).text);
    }
}

static void put_chart(const struct weft_results *r, const struct weft_curves *c, const struct chart *chart, FILE *to)
{
    fprintf(to, "<figure class=\"chart\"><figcaption><h3>%s</h3><p>%s", chart->title, chart->about);
    if (chart->offset == offsetof(struct weft_arm_curves, difference))
        fprintf(to, ". Difference of the %s loss", c->difference_in_val ? "validation" : "training");
    fprintf(to, ".</p></figcaption><div class=\"plot\" id=\"plot-%s\" role=\"img\" aria-label=\"", chart->id);
    put_label(r, c, chart, to);
    fputs("\"></div>\n", to);
    put_table(r, c, chart, to);
    fputs("</figure>\n", to);
}

static void put_legend(const struct weft_results *r, FILE *to)
{
    fputs("<div class=\"legend\" role=\"group\" aria-label=\"Arms in the charts\">", to);
    for (int i = 0; i < r->arm_count; i++)
        fprintf(to,
                "<button type=\"button\" class=\"c%d\" aria-pressed=\"true\" data-arm=\"%d\"><svg class=\"swatch\" "
                "viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path class=\"line d%d\" d=\"M0 5H26\"/></svg> "
                "%s</button>\n",
                i % 7, i, i / 7 % 4, r->arm[i].name);
    fputs("</div>\n", to);
}

void weft_html_charts(const struct weft_results *r, const struct weft_curves *c, FILE *to)
{
    int shown = 0;
    for (int i = 0; i < CHARTS; i++)
        shown += longest(r, c, &charts[i])->count > 1;
    if (!shown) {
        fputs("<p>No run has a log with more than one point.</p>\n", to);
        return;
    }
    put_legend(r, to);
    for (int i = 0; i < CHARTS; i++) {
        if (longest(r, c, &charts[i])->count > 1)
            put_chart(r, c, &charts[i], to);
        else if (charts[i].offset == offsetof(struct weft_arm_curves, val))
            fputs("<p>Validation was scored only at the end; set the option <code>eval_every</code> to get a "
                  "curve.</p>\n",
                  to);
    }
}

/* ---- the numbers for charts.js; names of arms need no escaping */

static void put_numbers(const char *name, const double *list, int count, const char *format, FILE *to)
{
    fprintf(to, "\"%s\":[", name);
    for (int i = 0; i < count; i++) {
        fputs(i ? "," : "", to);
        fprintf(to, format, list[i]);
    }
    fputs("]", to);
}

static void put_band(const struct weft_band *band, int arm, FILE *to)
{
    fprintf(to, "{\"arm\":%d,", arm);
    put_numbers("step", band->step, band->count, "%.0f", to);
    fputc(',', to);
    put_numbers("mean", band->mean, band->count, "%.5g", to);
    fputc(',', to);
    put_numbers("low", band->low, band->count, "%.5g", to);
    fputc(',', to);
    put_numbers("high", band->high, band->count, "%.5g", to);
    fputc('}', to);
}

void weft_html_chart_data(const struct weft_results *r, const struct weft_curves *c, FILE *to)
{
    fputs("{\"arms\":[", to);
    for (int i = 0; i < r->arm_count; i++)
        fprintf(to, "%s\"%s\"", i ? "," : "", r->arm[i].name);
    fputs("],\n\"charts\":[", to);
    for (int i = 0, shown = 0; i < CHARTS; i++) {
        if (longest(r, c, &charts[i])->count < 2)
            continue;
        fprintf(to, "%s\n{\"id\":\"%s\",\"bands\":[", shown++ ? "," : "", charts[i].id);
        for (int arm = 0, bands = 0; arm < r->arm_count; arm++)
            if (band_of(c, arm, &charts[i])->count) {
                fputs(bands++ ? ",\n" : "\n", to);
                put_band(band_of(c, arm, &charts[i]), arm, to);
            }
        fputs("]}", to);
    }
    fputs("]}", to);
}
