/* SPDX-License-Identifier: MIT
 *
 * dots.c - the losses of an arm as a small picture: a dot per seed, and below them the mean difference with its
 * interval, drawn from the mean of the first arm. All arms share one axis, so that the pictures can be compared.
 */
#include "report/results.h"

#include <math.h>

enum { WIDTH = 240, HEIGHT = 34, MARGIN = 8, DOTS_Y = 11, BAR_Y = 25 };

struct axis {
    double low, high;
};

static void widen(struct axis *a, double x)
{
    a->low = fmin(a->low, x);
    a->high = fmax(a->high, x);
}

/* The range of the dots, extended for intervals by at most its width on either side: those of two seeds are huge. */
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

static double x_of(struct axis a, double x)
{
    return MARGIN + (WIDTH - 2 * MARGIN) * fmin(fmax((x - a.low) / (a.high - a.low), 0), 1);
}

static void put_interval(struct axis a, double base, const struct weft_comparison *c, FILE *to)
{
    double low = base + c->family.low, high = base + c->family.high;
    double left = x_of(a, low), right = x_of(a, high);
    fprintf(to, "<path class=\"bar\" d=\"M%.1f %dH%.1f\"/>", left, BAR_Y, right);
    if (low < a.low) /* it continues */
        fprintf(to, "<path class=\"end\" d=\"M%.1f %dl5 -4v8z\"/>", left - 5, BAR_Y);
    if (high > a.high)
        fprintf(to, "<path class=\"end\" d=\"M%.1f %dl-5 -4v8z\"/>", right + 5, BAR_Y);
}

static void put_label(const struct weft_finding *f, FILE *to)
{
    fputs("test loss by seed:", to);
    for (int i = 0; i < f->seeds; i++)
        fprintf(to, "%s %s", i ? "," : "", weft_loss_text(f->run[i].test_loss).text);
    if (f->against.seeds && isfinite(f->against.family.low))
        fprintf(to, "; difference from the first arm %+.4f %s", f->against.mean,
                weft_interval_text(f->against.family).text);
}

void weft_html_dots(const struct weft_results *r, int arm, FILE *to)
{
    const struct weft_finding *f = &r->arm[arm].found;
    struct axis a = find_axis(r);
    double base = r->arm[0].found.loss;
    if (!f->seeds)
        return;
    fprintf(to, "<svg class=\"dots\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    put_label(f, to);
    fputs("\">", to);
    if (isfinite(base))
        fprintf(to, "<path class=\"base\" d=\"M%.1f 0V%d\"/>", x_of(a, base), HEIGHT);
    for (int i = 0; i < f->seeds; i++)
        fprintf(to, "<circle cx=\"%.1f\" cy=\"%d\" r=\"3.4\"/>", x_of(a, f->run[i].test_loss), DOTS_Y);
    if (f->against.seeds && isfinite(f->against.family.low))
        put_interval(a, base, &f->against, to);
    double mean = f->against.seeds ? base + f->against.mean : f->loss;
    fprintf(to, "<path class=\"mean\" d=\"M%.1f %dv10\"/></svg>", x_of(a, mean), BAR_Y - 5);
}

void weft_html_dots_axis(const struct weft_results *r, FILE *to)
{
    struct axis a = find_axis(r);
    if (isfinite(a.low))
        fprintf(to, "<span class=\"axis\"><span>%s</span><span>%s</span></span>", weft_loss_text(a.low).text,
                weft_loss_text(a.high).text);
}
