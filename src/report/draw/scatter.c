/* SPDX-License-Identifier: MIT
 *
 * scatter.c - draws the losses of all arms as one picture next to the headline. Every arm has one dot per seed and,
 * below the dots, its mean difference from the first arm with the interval, drawn relative to the first arm's mean.
 *
 * The axis is linear even if losses span decades, because the verdict is about a difference, and only on a linear axis
 * does an interval of a given width have the same length for every arm. Dots that would overlap are moved up or down,
 * never sideways.
 */
#include "report/read/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Units of the picture are pixels on a phone. */
enum { WIDTH = 360, MARGIN = 12, TITLE = 17, BAR = 13, GAP = 7, AXIS = 38, TOP_AXIS = 16, LANES = 40, TICKS = 7 };
enum {
    MANY_ARMS = 8,
    MANY_SEEDS = 30
}; /* above these limits, the scale is also drawn at the top (arms), and dots are smaller (seeds) */

struct axis {
    double low, high;
    double top, bottom; /* top and bottom of all rows */
};

/* ---- the axis */

static void widen(struct axis *a, double x)
{
    if (isfinite(x)) {
        a->low = fmin(a->low, x);
        a->high = fmax(a->high, x);
    }
}

/* Returns the range of the dots, extended to show the intervals. Because intervals over only two seeds are very wide,
 * the range is extended by at most its own width on either side. */
static struct axis find_axis(const struct weft_results *r)
{
    struct axis dots = {INFINITY, -INFINITY}, all;
    double base = r->arm[0].found.loss;
    for (int i = 0; i < r->arm_count; i++)
        for (int k = 0; k < r->arm[i].found.seeds; k++)
            widen(&dots, r->arm[i].found.run[k].test_loss);
    double span = dots.high - dots.low;
    if (!(span > 0))
        span = fmax(fabs(dots.high) * 0.01, 1e-6);
    all = dots;
    for (int i = 1; i < r->arm_count; i++) {
        const struct weft_comparison *c = &r->arm[i].found.against;
        if (c->seeds && isfinite(c->family.low)) {
            widen(&all, fmax(base + c->family.low, dots.low - span));
            widen(&all, fmin(base + c->family.high, dots.high + span));
        }
    }
    return all.high > all.low ? all : (struct axis){dots.low - span, dots.high + span};
}

static double x_of(const struct axis *a, double x)
{
    return MARGIN + (WIDTH - 2 * MARGIN) * fmin(fmax((x - a->low) / (a->high - a->low), 0), 1);
}

static void put_axis(const struct weft_results *r, const struct axis *a, FILE *to)
{
    struct weft_ticks t = weft_ticks(a->low, a->high, TICKS, false);
    for (int i = 0; i < t.count; i++) {
        double x = x_of(a, t.value[i]), at = fmin(fmax(x, 18), WIDTH - 18); /* keeps the numbers inside the picture */
        fprintf(to, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", x, a->top, a->bottom);
        fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>", at, a->bottom + 14,
                weft_tick_text(&t, i).text);
        if (r->arm_count > MANY_ARMS)
            fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>", at, a->top - 5,
                    weft_tick_text(&t, i).text);
    }
    fprintf(to, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">test loss, nats</text>", WIDTH / 2, a->bottom + 31);
    if (isfinite(r->arm[0].found.loss))
        fprintf(to, "<path class=\"base\" d=\"M%.1f %.1fV%.1f\"/>", x_of(a, r->arm[0].found.loss), a->top, a->bottom);
}

/* ---- dots */

struct dot {
    double x, loss;
    int64_t seed;
    int lane; /* 0 in the middle, then 1 above, 2 below, 3 above and so on */
};

static int by_x(const void *a, const void *b)
{
    const struct dot *p = a, *q = b;
    return p->x != q->x ? (p->x > q->x) - (p->x < q->x) : (p->seed > q->seed) - (p->seed < q->seed);
}

static double radius(const struct weft_finding *f) { return f->seeds > MANY_SEEDS ? 2.2 : 3.4; }

/* Places dots from left to right, each in the first lane with room for it or, if all are full, in the lane whose last
 * dot is farthest away. Returns the number of lanes used. */
static int spread(struct dot *dot, int count, double apart)
{
    double end[LANES];
    int used = 0;
    for (int i = 0; i < LANES; i++)
        end[i] = -INFINITY;
    qsort(dot, (size_t)count, sizeof *dot, by_x);
    for (int i = 0; i < count; i++) {
        int lane = 0;
        for (int k = 0; k < LANES && dot[i].x - end[lane] < apart; k++)
            if (end[k] < end[lane])
                lane = k;
        dot[i].lane = lane;
        end[lane] = dot[i].x;
        used = lane + 1 > used ? lane + 1 : used;
    }
    return used;
}

/* Returns the number of dots; the array has room for one per seed of the arm. */
static int find_dots(const struct weft_finding *f, const struct axis *a, struct dot *dot, int *lanes)
{
    int count = 0;
    for (int i = 0; i < f->seeds && i < WEFT_MAX_SEEDS; i++)
        if (isfinite(f->run[i].test_loss))
            dot[count++] = (struct dot){x_of(a, f->run[i].test_loss), f->run[i].test_loss, f->run[i].seed, 0};
    *lanes = spread(dot, count, 2 * radius(f) + 0.6);
    return count;
}

static double row_height(const struct weft_finding *f, int lanes)
{
    return TITLE + fmax(lanes, 1) * (2 * radius(f) + 0.6) + 3 + BAR + GAP;
}

/* ---- rows */

static void put_interval(const struct axis *a, double base, const struct weft_comparison *c, double y, FILE *to)
{
    double low = base + c->family.low, high = base + c->family.high;
    double left = x_of(a, low), right = x_of(a, high);
    fprintf(to, "<path class=\"bar\" d=\"M%.1f %.1fH%.1f\"/>", left, y, right);
    if (low < a->low) /* the bar continues outside the picture */
        fprintf(to, "<path class=\"end\" d=\"M%.1f %.1fl5 -4v8z\"/>", left - 5, y);
    if (high > a->high)
        fprintf(to, "<path class=\"end\" d=\"M%.1f %.1fl-5 -4v8z\"/>", right + 5, y);
}

static void put_verdict(const struct weft_finding *f, double y, FILE *to)
{
    bool better = strcmp(f->verdict, "better") == 0, worse = strcmp(f->verdict, "worse") == 0;
    fprintf(to, "<text class=\"%s\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
            better  ? "good"
            : worse ? "bad"
                    : "plain",
            WIDTH, y);
    if (better || worse)
        fprintf(to, "%s by %.2g</text>", f->verdict, fabs(f->against.mean)); /* same format as in the headline */
    else
        fprintf(to, "%s</text>", strcmp(f->verdict, "base") == 0 ? "baseline" : f->verdict);
}

/* Draws a row; returns the position of the next row. */
static double put_row(const struct weft_results *r, int arm, const struct axis *a, double y, struct dot *dot, FILE *to)
{
    const struct weft_finding *f = &r->arm[arm].found;
    double size = 2 * radius(f) + 0.6, base = r->arm[0].found.loss;
    int lanes, count = find_dots(f, a, dot, &lanes);
    double middle = y + TITLE + size * (lanes / 2 + 0.5), bar = y + row_height(f, lanes) - GAP - BAR / 2.0;
    fprintf(to, "<g class=\"c%d\"><text class=\"name\" x=\"0\" y=\"%.1f\">%s</text>", arm % 7, y + 12,
            r->arm[arm].name);
    put_verdict(f, y + 12, to);
    for (int i = 0; i < count; i++) {
        int lane = dot[i].lane, up = lane % 2 ? (lane + 1) / 2 : -lane / 2;
        fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"><title>seed %lld: %s</title></circle>", dot[i].x,
                middle - up * size, radius(f), (long long)dot[i].seed, weft_loss_text(dot[i].loss).text);
    }
    if (f->against.seeds && isfinite(f->against.family.low))
        put_interval(a, base, &f->against, bar, to);
    double mean = f->against.seeds ? base + f->against.mean : f->loss;
    if (isfinite(mean))
        fprintf(to, "<path class=\"mean\" d=\"M%.1f %.1fv10\"/>", x_of(a, mean), bar - 5);
    fputs("</g>\n", to);
    return y + row_height(f, lanes);
}

static void put_label(const struct weft_results *r, FILE *to)
{
    fputs("test loss by seed.", to);
    for (int i = 0; i < r->arm_count; i++) {
        const struct weft_finding *f = &r->arm[i].found;
        fprintf(to, " %s:", r->arm[i].name);
        for (int k = 0; k < f->seeds; k++)
            fprintf(to, "%s %s", k ? "," : "", weft_loss_text(f->run[k].test_loss).text);
        if (f->against.seeds && isfinite(f->against.family.low))
            fprintf(to, "; difference from the first arm %+.4f %s", f->against.mean,
                    weft_interval_text(f->against.family).text);
        fputc('.', to);
    }
}

static void put_picture(const struct weft_results *r, struct axis *a, struct dot *dot, FILE *to)
{
    int lanes;
    a->top = a->bottom = r->arm_count > MANY_ARMS ? TOP_AXIS : 0;
    for (int i = 0; i < r->arm_count; i++) {
        find_dots(&r->arm[i].found, a, dot, &lanes);
        a->bottom += row_height(&r->arm[i].found, lanes);
    }
    fprintf(to, "<svg class=\"dots\" viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"", WIDTH, a->bottom + AXIS);
    put_label(r, to);
    fputs("\">\n", to);
    put_axis(r, a, to);
    double y = a->top;
    for (int i = 0; i < r->arm_count; i++)
        y = put_row(r, i, a, y, dot, to);
    fputs("</svg>\n", to);
}

void weft_html_dots(const struct weft_results *r, FILE *to)
{
    struct axis a = find_axis(r);
    struct dot *dot = isfinite(a.low) ? malloc(WEFT_MAX_SEEDS * sizeof *dot) : NULL;
    if (!dot) /* no run is finished, or memory is short; the tables contain the same numbers */
        return;
    fputs("<figure class=\"dotplot\">\n", to);
    put_picture(r, &a, dot, to);
    fprintf(to,
            "<figcaption>Each dot is the test loss of one seed; dots that would overlap are moved up or down. The "
            "dashed line is the mean of %s. Each bar is the interval of an arm's mean difference from this line; if "
            "the bar does not touch the line, the difference is resolved. An arrow means that the bar extends beyond "
            "the plot.</figcaption>\n</figure>\n",
            r->arm[0].name);
    free(dot);
}
