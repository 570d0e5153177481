/* SPDX-License-Identifier: MIT
 *
 * plot.c - a picture over a logarithmic axis, as SVG that needs no script: grid, ticks, titles, lines, dots, intervals.
 */
#include "report/results.h"

#include <math.h>

enum { WIDTH = 720, HEIGHT = 300, LEFT = 64, RIGHT = 16, TOP = 12, BOTTOM = 48, INSET = 24, TICKS = 4 };

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
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (y - p->low) / (p->high - p->low);
}

void weft_plot_open(struct weft_plot *p, const char *label, const char *x_title, const char *y_title)
{
    double room = fmax(0.05 * (p->high - p->low), 1e-4);
    p->low -= room;
    p->high += room;
    fprintf(p->to, "<svg class=\"plotted\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">", WIDTH, HEIGHT,
            label);
    for (int i = 0; i <= TICKS; i++) {
        double value = p->low + (p->high - p->low) * i / TICKS, y = y_of(p, value);
        fprintf(p->to,
                "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.3f</text>",
                LEFT, y, WIDTH - RIGHT, LEFT - 6, y + 4, value);
    }
    fprintf(p->to,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>"
            "<text transform=\"translate(12 %d) rotate(-90)\" text-anchor=\"middle\">%s</text>",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_title, (TOP + HEIGHT - BOTTOM) / 2, y_title);
}

void weft_plot_tick(const struct weft_plot *p, double x, const char *text)
{
    fprintf(p->to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>", x_of(p, x), HEIGHT - BOTTOM + 18,
            text);
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
