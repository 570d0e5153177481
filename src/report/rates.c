/* SPDX-License-Identifier: MIT
 *
 * rates.c - the validation loss of every arm over the learning rate, as a picture and a table. How sensitive an arm is
 * to its learning rate is a result of its own.
 */
#include "report/results.h"

#include <math.h>

enum { WIDTH = 720, HEIGHT = 300, LEFT = 64, RIGHT = 16, TOP = 12, BOTTOM = 48, TICKS = 4 };

struct axes {
    double low, high;        /* of the loss */
    double slowest, fastest; /* learning rates, as logarithms */
};

static struct axes find_axes(const struct weft_results *r)
{
    struct axes a = {INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (int64_t k = 0; k < r->lr_count; k++) {
        a.slowest = fmin(a.slowest, log(r->lr[k]));
        a.fastest = fmax(a.fastest, log(r->lr[k]));
        for (int i = 0; i < r->arm_count; i++) {
            double loss = weft_result_screened_loss(r, &r->arm[i], r->lr[k]);
            a.low = fmin(a.low, loss); /* which leave out NAN */
            a.high = fmax(a.high, loss);
        }
    }
    double room = fmax(0.05 * (a.high - a.low), 1e-4);
    a.low -= room;
    a.high += room;
    return a;
}

static double x_of(const struct axes *a, double lr)
{
    return LEFT + 12 + (WIDTH - LEFT - RIGHT - 24) * (log(lr) - a->slowest) / (a->fastest - a->slowest);
}

static double y_of(const struct axes *a, double loss)
{
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (loss - a->low) / (a->high - a->low);
}

static void put_axes(const struct weft_results *r, const struct axes *a, FILE *to)
{
    for (int i = 0; i <= TICKS; i++) {
        double loss = a->low + (a->high - a->low) * i / TICKS, y = y_of(a, loss);
        fprintf(to, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.3f</text>",
                LEFT, y, WIDTH - RIGHT, LEFT - 6, y + 4, loss);
    }
    for (int64_t k = 0; k < r->lr_count; k++)
        fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>", x_of(a, r->lr[k]),
                HEIGHT - BOTTOM + 18, weft_lr_text(r->lr[k]).text);
    fprintf(to,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">learning rate (logarithmic)</text>"
            "<text transform=\"translate(12 %d) rotate(-90)\" text-anchor=\"middle\">validation loss, nats</text>",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, (TOP + HEIGHT - BOTTOM) / 2);
}

/* Rates ascending, since a line through them as they are given would go back and forth. */
static double next_rate(const struct weft_results *r, double after)
{
    double next = INFINITY;
    for (int64_t k = 0; k < r->lr_count; k++)
        if (r->lr[k] > after)
            next = fmin(next, r->lr[k]);
    return next;
}

static void put_arm(const struct weft_results *r, const struct axes *a, int i, FILE *to)
{
    const struct weft_result_arm *arm = &r->arm[i];
    char move = 'M';
    fprintf(to, "<g class=\"c%d\"><path class=\"line d%d\" d=\"", i % 7, i / 7 % 4);
    for (double lr = next_rate(r, 0); isfinite(lr); lr = next_rate(r, lr)) {
        double loss = weft_result_screened_loss(r, arm, lr);
        if (isfinite(loss))
            fprintf(to, "%c%.1f %.1f", move, x_of(a, lr), y_of(a, loss));
        move = isfinite(loss) ? 'L' : 'M';
    }
    fputs("\"/>", to);
    for (int64_t k = 0; k < r->lr_count; k++) {
        double loss = weft_result_screened_loss(r, arm, r->lr[k]);
        if (isfinite(loss))
            fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"/>", x_of(a, r->lr[k]), y_of(a, loss),
                    r->lr[k] == arm->lr ? "6" : "3");
    }
    fputs("</g>", to);
}

static void put_legend(const struct weft_results *r, FILE *to)
{
    fputs("<p class=\"key\">", to);
    for (int i = 0; i < r->arm_count; i++)
        if (!r->screen_seeds || !r->arm[i].repeats)
            fprintf(to,
                    "<span class=\"c%d\"><svg class=\"swatch\" viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path "
                    "class=\"line "
                    "d%d\" d=\"M0 5H26\"/></svg> %s</span> &nbsp; ",
                    i % 7, i / 7 % 4, r->arm[i].name);
    fputs("A large dot is the rate that was chosen.</p>\n", to);
}

static void put_picture(const struct weft_results *r, FILE *to)
{
    struct axes a = find_axes(r);
    if (!isfinite(a.low))
        return;
    put_legend(r, to);
    fprintf(to,
            "<svg class=\"rates\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"validation loss over learning rate, "
            "as in "
            "the table below\">",
            WIDTH, HEIGHT);
    put_axes(r, &a, to);
    for (int i = 0; i < r->arm_count; i++)
        if (!r->screen_seeds || !r->arm[i].repeats)
            put_arm(r, &a, i, to);
    fputs("</svg>\n", to);
}

static void put_cell(const struct weft_results *r, const struct weft_result_arm *arm, double lr, FILE *to)
{
    bool chosen = arm->lr == lr;
    fprintf(to, "<td>%s%s%s</td>", chosen ? "<strong>" : "", weft_loss_text(weft_result_screened_loss(r, arm, lr)).text,
            chosen ? " chosen</strong>" : "");
}

void weft_html_lrs(const struct weft_results *r, FILE *to)
{
    const char *columns[WEFT_MAX_LRS + 2] = {"Arm"};
    struct weft_text text[WEFT_MAX_LRS];
    if (r->lr_count < 2)
        return;
    fprintf(
        to,
        "<h2 id=\"lrs\">Learning rates</h2>\n<p>Mean validation loss over seeds%s; the smallest was chosen. How flat a "
        "curve is says how much an arm depends on its learning rate.</p>\n",
        r->screen_seeds ? " that are not judged" : "");
    put_picture(r, to);
    for (int64_t k = 0; k < r->lr_count; k++) {
        text[k] = weft_lr_text(r->lr[k]);
        columns[k + 1] = text[k].text;
    }
    weft_html_open_table("Validation loss by learning rate", columns, to);
    for (int i = 0; i < r->arm_count; i++) {
        if (r->screen_seeds && r->arm[i].repeats)
            continue;
        fprintf(to, "<tr><th scope=\"row\">%s</th>", r->arm[i].name);
        for (int64_t k = 0; k < r->lr_count; k++)
            put_cell(r, &r->arm[i], r->lr[k], to);
        fputs("</tr>\n", to);
    }
    weft_html_close_table(to);
}
