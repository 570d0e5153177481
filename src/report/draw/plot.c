/* SPDX-License-Identifier: MIT
 *
 * plot.c - draws a picture with a logarithmic axis as SVG without scripts: grid, ticks, titles, lines, dots, intervals.
 */
#include "report/read/results.h"

#include <math.h>
#include <string.h>

/* Units are pixels on a phone, which would scale down a wider picture and make its text smaller. */
enum { WIDTH = 360, HEIGHT = 250, LEFT = 56, RIGHT = 8, TOP = 10, BOTTOM = 46, INSET = 22, TICKS = 8, LETTER = 7 };

void weft_plot_include(struct weft_plot *p, double x, double y)
{
    if (!isfinite(y))
        return;
    bool first = !p->any;
    p->first = first ? x : fmin(p->first, x);
    p->last = first ? x : fmax(p->last, x);
    p->low = first ? y : fmin(p->low, y);
    p->high = first ? y : fmax(p->high, y);
    p->any = true;
}

static double x_of(const struct weft_plot *p, double x)
{
    double span = log(p->last / p->first), at = span > 0 ? log(x / p->first) / span : 0.5;
    return LEFT + INSET + (WIDTH - LEFT - RIGHT - 2 * INSET) * at;
}

static double y_of(const struct weft_plot *p, double y)
{
    double at = p->log_y ? log(y / p->low) / log(p->high / p->low) : (y - p->low) / (p->high - p->low);
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * at;
}

/* Adds a margin above and below the values. */
static void widen(struct weft_plot *p)
{
    double room = fmax(0.05 * (p->high - p->low), 1e-4), factor = fmax(pow(p->high / p->low, 0.05), 1.0001);
    p->low = p->log_y ? p->low / factor : p->low - room;
    p->high = p->log_y ? p->high * factor : p->high + room;
}

static void put_title(const struct weft_plot *p, const char *x_title, const char *y_title)
{
    fprintf(p->to,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s, logarithmic</text>"
            "<text transform=\"translate(11 %d) rotate(-90)\" text-anchor=\"middle\">%s%s</text>",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_title, (TOP + HEIGHT - BOTTOM) / 2, y_title,
            p->log_y ? ", logarithmic" : "");
}

void weft_plot_open(struct weft_plot *p, const char *label, const char *x_title, const char *y_title)
{
    p->log_y = p->low > 0 && (p->log_y || weft_spans_decade(p->low, p->high));
    p->used = 0;
    widen(p);
    fprintf(p->to, "<svg class=\"plotted\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">", WIDTH, HEIGHT,
            label);
    struct weft_ticks t = weft_ticks(p->low, p->high, TICKS, p->log_y);
    for (int i = 0; i < t.count; i++) {
        double y = y_of(p, t.value[i]);
        fprintf(p->to,
                "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>", LEFT,
                y, WIDTH - RIGHT, LEFT - 5, y + 4, weft_tick_text(&t, i).text);
    }
    put_title(p, x_title, y_title);
}

void weft_plot_tick(struct weft_plot *p, double x, const char *text)
{
    double at = x_of(p, x), half = LETTER * (double)strlen(text) / 2;
    fprintf(p->to, "<path class=\"tick\" d=\"M%.1f %dv5\"/>", at, HEIGHT - BOTTOM);
    if (at - half < p->used)
        return;
    fprintf(p->to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>", at, HEIGHT - BOTTOM + 18, text);
    p->used = at + half + LETTER;
}

void weft_plot_line(const struct weft_plot *p, int arm, const double *x, const double *y, int count)
{
    char move = 'M';
    fprintf(p->to, "<path class=\"line c%d d%d\" d=\"", arm % 7, arm / 7 % 4);
    for (int i = 0; i < count; i++) {
        if (isfinite(y[i]))
            fprintf(p->to, "%c%.1f %.1f", move, x_of(p, x[i]), y_of(p, y[i]));
        move = isfinite(y[i]) ? 'L' : 'M';
    }
    fputs("\"/>", p->to);
}

void weft_plot_dot(const struct weft_plot *p, int arm, double x, double y, bool large)
{
    if (isfinite(y))
        fprintf(p->to, "<circle class=\"c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"/>", arm % 7, x_of(p, x), y_of(p, y),
                large ? "6" : "3");
}

void weft_plot_interval(const struct weft_plot *p, int arm, double x, struct weft_interval i)
{
    if (isfinite(i.low) && isfinite(i.high))
        fprintf(p->to, "<path class=\"interval c%d\" d=\"M%.1f %.1fV%.1f\"/>", arm % 7, x_of(p, x), y_of(p, i.low),
                y_of(p, i.high));
}

void weft_plot_rule(const struct weft_plot *p, double y)
{
    if (y > p->low && y < p->high)
        fprintf(p->to, "<path class=\"rule\" d=\"M%d %.1fH%d\"/>", LEFT, y_of(p, y), WIDTH - RIGHT);
}

void weft_plot_close(const struct weft_plot *p) { fputs("</svg>\n", p->to); }
