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

static void put_comparison(const struct weft_results *r, const struct weft_result_arm *arm, bool bootstrap, bool items,
                           FILE *to)
{
    const struct weft_comparison *c = &arm->found.against;
    fprintf(to, "<tr><th scope=\"row\">%s</th><td>%lld</td><td>%+.4f</td><td>%+.2f %%</td><td>%s</td><td>%s</td>",
            arm->name, (long long)c->seeds, c->mean, weft_result_percent(r, arm), weft_interval_text(c->family).text,
            weft_interval_text(c->alone).text);
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
    if (bootstrap)
        fprintf(to, "<td>%s</td>", weft_interval_text(arm->found.bootstrap).text);
    const struct weft_item_noise *test = &arm->found.test.difference;
    if (items && test->items)
        fprintf(to, "<td>%s <small>%lld %s</small></td>", weft_interval_text(test->interval).text,
                (long long)test->items, arm->found.test.kind);
    else if (items)
        fputs("<td>-</td>", to);
    fputs("</tr>\n", to);
}

void weft_html_numbers(const struct weft_results *r, FILE *to)
{
    const char *columns[] = {"Arm",
                             "Seeds",
                             "Mean difference",
                             "Relative",
                             "95 %, all arms jointly",
                             "95 %, this arm alone",
                             "p",
                             "p, Holm",
                             "Over seed noise",
                             "Seeds to resolve it",
                             NULL,
                             NULL,
                             NULL};
    bool any = false, bootstrap = false, items = false;
    int named = 10;
    for (int i = 1; i < r->arm_count; i++) {
        any |= r->arm[i].found.against.seeds > 0;
        bootstrap |= r->arm[i].found.against.seeds >= WEFT_BOOTSTRAP_SEEDS;
        items |= r->arm[i].found.test.difference.items > 0;
    }
    if (!any) {
        fputs("<p>There is nothing to compare yet.</p>\n", to);
        return;
    }
    if (bootstrap)
        columns[named++] = "95 %, bootstrap";
    if (items)
        columns[named++] = "95 %, over test items";
    weft_html_open_table("Comparisons with the first arm", columns, to);
    for (int i = 1; i < r->arm_count; i++)
        if (r->arm[i].found.against.seeds)
            put_comparison(r, &r->arm[i], bootstrap, items, to);
    weft_html_close_table(to);
}

/* ---- runs */

enum { MOST_RUNS = 1000 }; /* to keep the page small */

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
