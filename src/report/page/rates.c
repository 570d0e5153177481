/* SPDX-License-Identifier: MIT
 *
 * rates.c - draws the validation loss of every arm over the learning rate and writes it as a table. The sensitivity of
 * an arm to its learning rate is a result in itself.
 */
#include "report/read/results.h"

#include <math.h>

/* Sorts rates in ascending order, so that a line through them does not go back and forth. */
static int sort_rates(const struct weft_results *r, double lr[WEFT_MAX_LRS])
{
    int n = 0;
    for (int64_t k = 0; k < r->lr_count; k++) {
        int at = n++;
        for (; at > 0 && lr[at - 1] > r->lr[k]; at--)
            lr[at] = lr[at - 1];
        lr[at] = r->lr[k];
    }
    return n;
}

static bool has_rates(const struct weft_results *r, int i) { return !r->screen_seeds || !r->arm[i].repeats; }

static void put_picture(const struct weft_results *r, FILE *to)
{
    struct weft_plot p = {.to = to};
    double lr[WEFT_MAX_LRS], loss[WEFT_MAX_LRS];
    int n = sort_rates(r, lr);
    for (int i = 0; i < r->arm_count; i++)
        for (int k = 0; k < n && has_rates(r, i); k++)
            weft_plot_include(&p, lr[k], weft_result_screened_loss(r, &r->arm[i], lr[k]));
    if (!p.any)
        return;
    weft_html_key(r, "A large dot marks the chosen rate.", to);
    weft_plot_open(&p, "validation loss by learning rate, as in the table below", "learning rate",
                   "validation loss, nats");
    for (int k = 0; k < n; k++)
        weft_plot_tick(&p, lr[k], weft_lr_text(lr[k]).text);
    for (int i = 0; i < r->arm_count; i++) {
        for (int k = 0; k < n; k++)
            loss[k] = weft_result_screened_loss(r, &r->arm[i], lr[k]);
        if (has_rates(r, i))
            weft_plot_line(&p, i, lr, loss, n);
        for (int k = 0; k < n && has_rates(r, i); k++)
            weft_plot_dot(&p, i, lr[k], loss[k], lr[k] == r->arm[i].lr);
    }
    weft_plot_close(&p);
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
    fprintf(to,
            "<h2 id=\"lrs\">Learning rates</h2>\n<p>Mean validation loss over seeds%s; the rate with the smallest loss "
            "was chosen. The flatter the curve, the less the arm depends on its learning rate.</p>\n",
            r->screen_seeds ? " that are not used for verdicts" : "");
    put_picture(r, to);
    for (int64_t k = 0; k < r->lr_count; k++) {
        text[k] = weft_lr_text(r->lr[k]);
        columns[k + 1] = text[k].text;
    }
    weft_html_open_table("Validation loss by learning rate", columns, to);
    for (int i = 0; i < r->arm_count; i++) {
        if (!has_rates(r, i))
            continue;
        fprintf(to, "<tr><th scope=\"row\">%s</th>", r->arm[i].name);
        for (int64_t k = 0; k < r->lr_count; k++)
            put_cell(r, &r->arm[i], r->lr[k], to);
        fputs("</tr>\n", to);
    }
    weft_html_close_table(to);
}
