/* SPDX-License-Identifier: MIT
 *
 * numbers.c - writes the tables of comparisons and of all runs.
 */
#include "report/read/results.h"

#include <math.h>

static void put_p(double p, FILE *to)
{
    if (isnan(p))
        fputs("<td>-</td>", to);
    else
        fprintf(to, p < 0.0001 ? "<td>%.0e</td>" : "<td>%.4f</td>", p);
}

/* ---- comparisons */

struct columns {
    bool any, percent, bootstrap,
        items; /* any: at least one arm is compared; percent: a relative difference makes sense */
};

static struct columns find_columns(const struct weft_results *r)
{
    struct columns c = {0};
    for (int i = 1; i < r->arm_count; i++) {
        const struct weft_finding *f = &r->arm[i].found;
        c.any |= f->against.seeds > 0;
        c.percent |= f->against.seeds > 0 && isfinite(weft_result_percent(r, &r->arm[i]));
        c.bootstrap |= f->against.seeds >= WEFT_BOOTSTRAP_SEEDS;
        c.items |= f->test.difference.items > 0;
    }
    return c;
}

static void put_comparison(const struct weft_results *r, const struct weft_result_arm *arm, struct columns columns,
                           FILE *to)
{
    const struct weft_comparison *c = &arm->found.against;
    fprintf(to, "<tr><th scope=\"row\">%s</th><td>%lld</td><td>%+.4f</td>", arm->name, (long long)c->seeds, c->mean);
    if (columns.percent)
        fprintf(to, "<td>%+.2f %%</td>", weft_result_percent(r, arm));
    fprintf(to, "<td>%s</td><td>%s</td>", weft_interval_text(c->family).text, weft_interval_text(c->alone).text);
    put_p(c->p, to);
    put_p(c->p_holm, to);
    if (isfinite(c->over_noise))
        fprintf(to, "<td>%+.2f</td>", c->over_noise);
    else
        fputs("<td>-</td>", to);
    int64_t needed = c->sd > 0 ? weft_seeds_needed(fabs(c->mean) / c->sd, c->alpha) : 0;
    if (needed)
        fprintf(to, "<td>%lld</td>", (long long)needed);
    else
        fputs("<td>-</td>", to);
    if (columns.bootstrap)
        fprintf(to, "<td>%s</td>", weft_interval_text(arm->found.bootstrap).text);
    fputs("</tr>\n", to);
}

static void put_comparisons(const struct weft_results *r, struct columns columns, FILE *to)
{
    const char *names[12] = {"Arm", "Seeds", "Mean difference"};
    static const char *const others[] = {"95 %, all arms jointly", "95 %, this arm alone", "p", "p, Holm",
                                         "Ratio to seed noise",    "Seeds to resolve it"};
    int named = 3;
    if (columns.percent)
        names[named++] = "Relative";
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        names[named++] = others[i];
    if (columns.bootstrap)
        names[named++] = "95 %, bootstrap";
    weft_html_open_table("Comparisons with the first arm", names, to);
    for (int i = 1; i < r->arm_count; i++)
        if (r->arm[i].found.against.seeds)
            put_comparison(r, &r->arm[i], columns, to);
    weft_html_close_table(to);
    if (!columns.percent)
        fprintf(to,
                "<p>Percentages are omitted because they would be arbitrarily large: the loss of %s is close to 0 "
                "(below %g nats, or nearly all answers are right).</p>\n",
                r->arm[0].name, WEFT_LEAST_PERCENT_LOSS);
}

/* Writes a separate table, so that readers do not mistake this interval for the one that determines the verdict. */
static void put_item_noise(const struct weft_results *r, FILE *to)
{
    static const char *const names[] = {"Arm", "Test items", "95 %, test items only", NULL};
    fputs("<h3>Noise of the test items only</h3>\n<p>These intervals show how much each difference would vary if the "
          "same runs were scored on different test items. They exclude the noise between seeds, so they can be much "
          "narrower than the intervals above. Verdicts do not use them.</p>\n",
          to);
    weft_html_open_table("Noise of the test items only", names, to);
    for (int i = 1; i < r->arm_count; i++) {
        const struct weft_item_noise *test = &r->arm[i].found.test.difference;
        if (test->items)
            fprintf(to, "<tr><th scope=\"row\">%s</th><td>%lld %s</td><td>%s</td></tr>\n", r->arm[i].name,
                    (long long)test->items, r->arm[i].found.test.kind, weft_interval_text(test->interval).text);
    }
    weft_html_close_table(to);
}

void weft_html_numbers(const struct weft_results *r, FILE *to)
{
    struct columns columns = find_columns(r);
    if (!columns.any) {
        fputs("<p>There is nothing to compare yet.</p>\n", to);
        return;
    }
    put_comparisons(r, columns, to);
    if (columns.items)
        put_item_noise(r, to);
}

/* ---- runs */

enum { MOST_RUNS = 1000 }; /* limits the size of the page */

static void put_run(const char *arm, const struct weft_finished *run, FILE *to)
{
    fprintf(to, "<tr><th scope=\"row\">%s</th><td>%s</td><td>%lld</td><td>%s</td><td>%s</td>", arm,
            weft_lr_text(run->lr).text, (long long)run->seed, weft_loss_text(run->val_loss).text,
            weft_loss_text(run->test_loss).text);
    fprintf(to, "<td>%.1f %%</td><td>%d</td><td class=\"time\">%.0f</td><td><code>%s</code></td></tr>\n",
            100 * run->test_accuracy, run->threads, run->tokens_per_s, run->weights_sha256);
}

void weft_html_runs(const struct weft_results *r, FILE *to)
{
    static const char *const columns[] = {
        "Arm",      "Learning rate",          "Seed", "Validation", "Test", "Accuracy", "Threads",
        "Tokens/s", "SHA-256 of the weights", NULL};
    int rows = 0;
    weft_html_open_table("All runs", columns, to);
    for (int i = 0; i < r->arm_count; i++)
        for (int k = 0; k < r->arm[i].run_count && rows < MOST_RUNS; k++, rows++)
            put_run(r->arm[i].name, &r->arm[i].run[k], to);
    weft_html_close_table(to);
    if (rows < r->finished)
        fputs("<p>The other runs are in report.csv.</p>\n", to);
}
