/* SPDX-License-Identifier: MIT
 *
 * charts.c - writes the charts of a study: training loss, validation loss, and the difference from the first arm.
 */
#include "report/read/results.h"

#include <math.h>
#include <stddef.h>

static const struct kind {
    const char *id, *title, *about, *y_title;
    size_t offset; /* offset of its band in struct weft_arm_curves */
} kinds[] = {
    {"train", "Training loss", "Cross-entropy of the training batches.", "training loss, nats",
     offsetof(struct weft_arm_curves, train)},
    {"val", "Validation loss", "Cross-entropy of held-out samples.", "validation loss, nats",
     offsetof(struct weft_arm_curves, val)},
    {"difference", "Difference from the first arm", "Difference in training loss, paired by seed; below 0 is better.",
     "difference, nats", offsetof(struct weft_arm_curves, difference)},
};
enum { CHARTS = sizeof kinds / sizeof *kinds };

/* Sets the title "step (992 tokens each)" if all arms have the same number of tokens per step. */
static void title_steps(const struct weft_results *r, char title[WEFT_CHART_TITLE])
{
    const struct weft_result_arm *first = &r->arm[0];
    int64_t steps = weft_result_steps(r, first);
    double tokens = steps > 0 ? first->tokens / (double)steps : 0;
    for (int i = 1; i < r->arm_count; i++)
        if (r->arm[i].tokens != first->tokens || weft_result_steps(r, &r->arm[i]) != steps)
            tokens = 0;
    weft_chart_title_steps(tokens, title);
}

static void make_charts(const struct weft_results *r, const struct weft_curves *c, struct weft_chart chart[CHARTS])
{
    for (int k = 0; k < CHARTS; k++) {
        const struct kind *kind = &kinds[k];
        chart[k] =
            (struct weft_chart){.id = kind->id, .title = kind->title, .about = kind->about, .y_title = kind->y_title};
        if (kind->offset == offsetof(struct weft_arm_curves, difference) && c->difference_in_val)
            chart[k].about = "Difference in validation loss, paired by seed; below 0 is better.";
        title_steps(r, chart[k].x_title);
        for (int i = 0; i < r->arm_count; i++) {
            const struct weft_band *band = (const struct weft_band *)((const char *)&c->arm[i] + kind->offset);
            if (band->count)
                chart[k].series[chart[k].count++] = (struct weft_series){r->arm[i].name, i, band};
        }
    }
}

static void list_names(const struct weft_results *r, const char *names[WEFT_MAX_ARMS])
{
    for (int i = 0; i < r->arm_count; i++)
        names[i] = r->arm[i].name;
}

void weft_html_charts(const struct weft_results *r, const struct weft_curves *c, FILE *to)
{
    struct weft_chart chart[CHARTS];
    const char *names[WEFT_MAX_ARMS];
    int shown = 0;
    make_charts(r, c, chart);
    list_names(r, names);
    for (int i = 0; i < CHARTS; i++)
        shown += weft_chart_is_drawn(&chart[i]);
    if (!shown) {
        fputs("<p>No log has more than one point.</p>\n", to);
        return;
    }
    weft_html_legend("Arms in the charts", names, r->arm_count, to);
    for (int i = 0; i < CHARTS; i++) {
        if (weft_chart_is_drawn(&chart[i]))
            weft_html_chart(&chart[i], to);
        else if (kinds[i].offset == offsetof(struct weft_arm_curves, val))
            fputs("<p>The validation loss was computed only at the end. To get a curve, set the option "
                  "<code>eval_every</code>.</p>\n",
                  to);
    }
}

void weft_html_charts_data(const struct weft_results *r, const struct weft_curves *c, FILE *to)
{
    struct weft_chart chart[CHARTS];
    const char *names[WEFT_MAX_ARMS];
    make_charts(r, c, chart);
    list_names(r, names);
    weft_html_chart_data(names, r->arm_count, chart, CHARTS, to);
}
