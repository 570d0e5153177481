/* SPDX-License-Identifier: MIT
 *
 * verdict_table.c - writes the first table of the page: settings, cost and verdict of every arm.
 *
 * On a narrow screen a row becomes a card, so every cell contains the name of its column.
 */
#include "report/read/results.h"

#include <math.h>
#include <string.h>

/* Writes the difference from the first arm in percent. */
static void put_against(double x, double first, FILE *to)
{
    double more = first != 0 ? 100 * (x / first - 1) : NAN;
    if (fabs(more) >= 0.05) /* a smaller difference would be printed as 0 */
        fprintf(to, " <small>%+.*f&nbsp;%%</small>", fabs(more) < 10 ? 1 : 0, more);
}

static void open_cell(const char *label, const char *class, FILE *to)
{
    fprintf(to, "<td role=\"cell\" class=\"%s\" data-label=\"%s\">", class, label);
}

static void put_figure(const char *label, struct weft_text text, double exact, double x, double first, FILE *to)
{
    open_cell(label, "figure", to);
    fprintf(to, "<span title=\"%.0f\">%s</span>", exact, text.text);
    put_against(x, first, to);
    fputs("</td>", to);
}

static void put_name(const struct weft_results *r, int i, FILE *to)
{
    const struct weft_result_arm *arm = &r->arm[i];
    fprintf(to,
            "<th role=\"rowheader\" scope=\"row\"><svg class=\"swatch\" viewBox=\"0 0 26 10\" aria-hidden=\"true\">"
            "<path class=\"line d%d\" d=\"M0 5H26\"/></svg> %s",
            i / 7 % 4, arm->name);
    fputs(*arm->description ? " <code>" : "", to);
    weft_html(to, arm->description);
    fputs(*arm->description ? "</code>" : "", to);
    if (arm->matched) {
        fputs(" <small>", to);
        weft_html(to, r->match_by);
        fprintf(to, " %lld, matched</small>", (long long)arm->matched);
    }
    if (arm->gates_failed)
        fprintf(to, " <small class=\"bad\">%d gate check%s failed</small>", arm->gates_failed,
                arm->gates_failed == 1 ? "" : "s");
    fputs("</th>", to);
}

static void put_loss(const struct weft_results *r, int i, FILE *to)
{
    const struct weft_finding *f = &r->arm[i].found;
    open_cell("Test loss", "figure", to);
    fputs(weft_loss_text(f->loss).text, to);
    if (isfinite(f->loss_sd))
        fprintf(to, " <small>std %s</small>", weft_loss_text(f->loss_sd).text);
    if (r->lr_count != 1 && isfinite(r->arm[i].lr))
        fprintf(to, " <small>lr %s%s</small>", weft_lr_text(r->arm[i].lr).text, r->arm[i].lr_at_edge ? " (edge)" : "");
    fputs("</td>", to);
}

static void put_speed(const struct weft_finding *f, FILE *to)
{
    struct weft_text range = weft_speeds_text(f);
    fputs(weft_count_text(f->tokens_per_s).text, to);
    if (*range.text)
        fprintf(to, " <small>runs: %s</small>", range.text);
}

/* Writes the verdict as a CSS class name, which consists of letters and hyphens. */
static void put_class(const char *verdict, FILE *to)
{
    for (; *verdict; verdict++)
        fputc(*verdict == ' ' ? '-' : *verdict, to);
}

/* Writes the sentence without line breaks inside intervals. */
static void put_sentence(const char *text, FILE *to)
{
    const char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;
    char piece[WEFT_VERDICT_TEXT];
    if (!close) {
        weft_html(to, text);
        return;
    }
    snprintf(piece, sizeof piece, "%.*s", (int)(open - text), text);
    weft_html(to, piece);
    snprintf(piece, sizeof piece, "%.*s", (int)(close + 1 - open), open);
    fputs("<span>", to);
    weft_html(to, piece);
    fputs("</span>", to);
    put_sentence(close + 1, to);
}

static void put_row(const struct weft_results *r, int i, FILE *to)
{
    const struct weft_result_arm *arm = &r->arm[i], *first = &r->arm[0];
    fprintf(to, "<tr role=\"row\" class=\"c%d\">", i % 7);
    put_name(r, i, to);
    put_figure("Parameters", weft_count_text((double)arm->params), (double)arm->params, (double)arm->params,
               (double)first->params, to);
    put_figure("FLOPs per token", weft_count_text(arm->flops), arm->flops, arm->flops, first->flops, to);
    put_figure("Memory", weft_bytes_text((double)arm->peak_bytes), (double)arm->peak_bytes, (double)arm->peak_bytes,
               (double)first->peak_bytes, to);
    put_figure("Cache per token", weft_bytes_text(arm->cache_bytes), arm->cache_bytes, arm->cache_bytes,
               first->cache_bytes, to);
    open_cell("Tokens/s", "figure time", to);
    if (arm->found.seeds)
        put_speed(&arm->found, to);
    fputs("</td>", to);
    put_loss(r, i, to);
    fputs("<td role=\"cell\" data-label=\"Verdict\" class=\"verdict ", to);
    put_class(arm->found.verdict, to);
    fputs("\"><span>", to);
    put_sentence(arm->found.text, to);
    fputs("</span></td></tr>\n", to);
}

void weft_html_verdicts(const struct weft_results *r, FILE *to)
{
    static const char *const columns[] = {"Parameters",      "FLOPs per token", "Memory",
                                          "Cache per token", "Tokens/s",        "Test loss"};
    fputs("<table class=\"verdicts\" role=\"table\">\n<thead role=\"rowgroup\"><tr role=\"row\">"
          "<th role=\"columnheader\" scope=\"col\">Arm and its settings</th>",
          to);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        fprintf(to, "<th role=\"columnheader\" scope=\"col\">%s</th>", columns[i]);
    fputs("<th role=\"columnheader\" scope=\"col\">Verdict</th></tr></thead>\n<tbody role=\"rowgroup\">\n", to);
    for (int i = 0; i < r->arm_count; i++)
        put_row(r, i, to);
    fputs("</tbody></table>\n", to);
}
