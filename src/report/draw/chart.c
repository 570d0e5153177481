/* SPDX-License-Identifier: MIT
 *
 * chart.c - writes one chart of curves: a box into which report/page/charts.js draws, and the same numbers as a table
 * and as JSON.
 *
 * Losses that span a decade are drawn on a logarithmic axis, because arms differ mainly at the end, where losses are
 * small. Step axes are always linear, because a logarithmic one would give most of its width to the first steps, where
 * arms do not differ yet.
 */
#include "report/read/results.h"

#include <math.h>

enum { ROWS = 20 }; /* number of rows of a chart's table */

/* Returns the series with the most points, whose steps the table uses; NULL: none. */
static const struct weft_band *longest(const struct weft_chart *c)
{
    const struct weft_band *most = NULL;
    for (int i = 0; i < c->count; i++)
        if (!most || c->series[i].band->count > most->count)
            most = c->series[i].band;
    return most;
}

void weft_chart_title_steps(double tokens, char title[WEFT_CHART_TITLE])
{
    snprintf(title, WEFT_CHART_TITLE, tokens >= 1 ? "step (%s tokens each)" : "step", weft_short_text(tokens).text);
}

bool weft_chart_is_drawn(const struct weft_chart *c)
{
    const struct weft_band *most = longest(c);
    return most && most->count > 1;
}

static bool is_logarithmic(const struct weft_chart *c)
{
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < c->count; i++)
        for (int k = 0; k < c->series[i].band->count; k++) {
            low = fmin(low, c->series[i].band->low[k]);
            high = fmax(high, c->series[i].band->high[k]);
        }
    return !c->linear && weft_spans_decade(low, high);
}

/* ---- the table */

static void put_cell(const struct weft_band *band, double step, FILE *to)
{
    for (int i = 0; i < band->count; i++)
        if (band->step[i] == step) {
            fprintf(to, "<td>%s", weft_loss_text(band->mean[i]).text);
            if (band->low[i] != band->high[i])
                fprintf(to, " <small>%s to %s</small>", weft_loss_text(band->low[i]).text,
                        weft_loss_text(band->high[i]).text);
            fputs("</td>", to);
            return;
        }
    fputs("<td>-</td>", to);
}

static void put_table(const struct weft_chart *c, FILE *to)
{
    const struct weft_band *all = longest(c);
    int rows = all->count < ROWS ? all->count : ROWS;
    fprintf(to,
            "<details><summary>%s as a table</summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" "
            "aria-label=\"%s as a table\"><table class=\"plain\"><thead><tr><th scope=\"col\">Step</th>",
            c->title, c->title);
    for (int i = 0; i < c->count; i++)
        fprintf(to, "<th scope=\"col\">%s</th>", c->series[i].name);
    fputs("</tr></thead><tbody>\n", to);
    for (int row = 1; row <= rows; row++) {
        double step = all->step[(int64_t)row * all->count / rows - 1];
        fprintf(to, "<tr><th scope=\"row\">%.0f</th>", step);
        for (int i = 0; i < c->count; i++)
            put_cell(c->series[i].band, step, to);
        fputs("</tr>\n", to);
    }
    fputs("</tbody></table></div></details>\n", to);
}

/* ---- the box */

static void put_label(const struct weft_chart *c, FILE *to)
{
    fprintf(to, "%s over steps. At the end:", c->title);
    for (int i = 0; i < c->count; i++) {
        const struct weft_band *band = c->series[i].band;
        int last = band->count - 1;
        fprintf(to, " %s %s", c->series[i].name, weft_loss_text(band->mean[last]).text);
        if (band->low[last] != band->high[last])
            fprintf(to, " (%s to %s)", weft_loss_text(band->low[last]).text, weft_loss_text(band->high[last]).text);
        fputc(';', to);
    }
}

void weft_html_chart(const struct weft_chart *c, FILE *to)
{
    fprintf(to,
            "<figure class=\"chart\"><figcaption><h3>%s</h3><p>%s</p></figcaption><div class=\"plot\" id=\"plot-%s\" "
            "role=\"img\" aria-label=\"",
            c->title, c->about, c->id);
    put_label(c, to);
    fputs("\"></div>\n", to);
    put_table(c, to);
    fputs("</figure>\n", to);
}

void weft_html_legend(const char *label, const char *const *names, int count, FILE *to)
{
    fprintf(to, "<div class=\"legend\" role=\"group\" aria-label=\"%s\">", label);
    for (int i = 0; i < count; i++)
        fprintf(to,
                "<button type=\"button\" class=\"c%d\" aria-pressed=\"true\" data-arm=\"%d\"><svg class=\"swatch\" "
                "viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path class=\"line d%d\" d=\"M0 5H26\"/></svg> "
                "%s</button>\n",
                i % 7, i, i / 7 % 4, names[i]);
    fputs("</div>\n", to);
}

/* ---- the numbers for charts.js; names need no escaping */

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

static void put_chart_data(const struct weft_chart *c, FILE *to)
{
    bool logarithmic = is_logarithmic(c);
    fprintf(to, "\n{\"id\":\"%s\",\"x\":\"%s\",\"y\":\"%s%s\",\"log\":%s,\"bands\":[", c->id, c->x_title, c->y_title,
            logarithmic ? ", logarithmic" : "", logarithmic ? "true" : "false");
    for (int i = 0; i < c->count; i++) {
        fputs(i ? ",\n" : "\n", to);
        put_band(c->series[i].band, c->series[i].arm, to);
    }
    fputs("]}", to);
}

void weft_html_chart_data(const char *const *names, int count, const struct weft_chart *charts, int chart_count,
                          FILE *to)
{
    fputs("{\"arms\":[", to);
    for (int i = 0; i < count; i++)
        fprintf(to, "%s\"%s\"", i ? "," : "", names[i]);
    fputs("],\n\"charts\":[", to);
    for (int i = 0, shown = 0; i < chart_count; i++)
        if (weft_chart_is_drawn(&charts[i])) {
            fputs(shown++ ? "," : "", to);
            put_chart_data(&charts[i], to);
        }
    fputs("]}", to);
}
