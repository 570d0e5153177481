/* SPDX-License-Identifier: MIT
 *
 * files.c - writes report.md, with the table of verdicts, and report.csv, with a row per run.
 */
#include "base/json.h"
#include "report/read/results.h"

#include <math.h>
#include <string.h>

/* ---- Markdown */

void weft_markdown(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (strchr("|\\`*<>[]", *text))
            fputc('\\', to);
        fputc(*text, to);
    }
}

void weft_markdown_note(void *to, bool warning, const char *text)
{
    fputs(warning ? "- **Note:** " : "- ", to);
    weft_markdown(to, text);
    fputc('\n', to);
}

static void print_row(const struct weft_result_arm *arm, FILE *to)
{
    const struct weft_finding *f = &arm->found;
    fprintf(to, "| %s | ", arm->name);
    weft_markdown(to, arm->description);
    fprintf(to, " | %s | %s | %s | %s |", weft_count_text((double)arm->params).text, weft_count_text(arm->flops).text,
            weft_bytes_text((double)arm->peak_bytes).text, weft_bytes_text(arm->cache_bytes).text);
    fprintf(to, " %s | %s | %d | ", weft_lr_text(arm->lr).text, weft_loss_text(f->loss).text, f->seeds);
    weft_markdown(to, f->text);
    struct weft_text range = weft_speeds_text(f);
    if (f->seeds)
        fprintf(to, *range.text ? " | %.0f (runs: %s) |\n" : " | %.0f |\n", f->tokens_per_s, range.text);
    else
        fputs(" | - |\n", to);
}

/* Writes these intervals below the table, so that readers do not mistake them for the intervals that determine the
 * verdicts. */
static void print_item_noise(const struct weft_results *r, FILE *to)
{
    bool any = false;
    for (int i = 1; i < r->arm_count; i++) {
        const struct weft_test_noise *test = &r->arm[i].found.test;
        if (!test->difference.items)
            continue;
        if (!any)
            fputs("\nNoise of the test items only, not of seeds: 95 % intervals of the differences if the same runs "
                  "were scored on different test items. Verdicts do not use them.\n\n",
                  to);
        any = true;
        fprintf(to, "- %s: ", r->arm[i].name);
        weft_markdown(to, weft_interval_text(test->difference.interval).text);
        fprintf(to, ", %lld %s\n", (long long)test->difference.items, test->kind);
    }
}

void weft_report_markdown(const struct weft_results *r, FILE *to)
{
    fprintf(to, "# ");
    weft_markdown(to, r->name);
    char headline[WEFT_VERDICT_TEXT];
    weft_results_headline(r, headline);
    fputs("\n\n**", to);
    weft_markdown(to, headline);
    fputs("**\n\n", to);
    weft_results_notes(r, weft_markdown_note, to);
    fputs("\n| arm | settings | parameters | FLOPs/token | memory | cache/token | learning rate | test loss | "
          "seeds | verdict | tokens/s |\n|---|---|--:|--:|--:|--:|--:|--:|--:|---|--:|\n",
          to);
    for (int i = 0; i < r->arm_count; i++)
        print_row(&r->arm[i], to);
    fputs("\nDifferences in test loss from the first arm are in nats and paired by seed; below 0 is better. The "
          "intervals hold for all arms simultaneously in 95 % of studies.\n",
          to);
    print_item_noise(r, to);
    fprintf(to, "\nTo reproduce:\n\n    %s\n\nMade with weft ", r->command);
    weft_markdown(to, r->version);
    fprintf(to, " (program %.16s...) on ", r->program_sha256);
    weft_markdown(to, r->machine);
    fputs(". All runs are in report.csv, curves in report.html.\n", to);
}

/* ---- CSV */

static void print_real(FILE *to, double x)
{
    char text[40];
    weft_json_real(x, text, sizeof text);
    fprintf(to, "%s,", text);
}

/* Writes the noise over the test items, or empty fields if it is unknown. */
static void print_noise(const struct weft_run_noise *n, FILE *to)
{
    fprintf(to, n->loss.items ? "%lld," : ",", (long long)n->loss.items);
    if (n->loss.items)
        print_real(to, n->loss.error);
    else
        fputc(',', to);
    if (n->difference.items) {
        print_real(to, n->difference.mean);
        print_real(to, n->difference.error);
    } else {
        fputs(",,", to);
    }
}

/* Columns with measured times come last. */
static void print_run(const struct weft_result_arm *arm, const struct weft_finished *run, FILE *to)
{
    fprintf(to, "%s,", arm->name);
    print_real(to, run->lr);
    fprintf(to, "%s,%lld,%lld,%lld,", run->lr == arm->lr ? "yes" : "no", (long long)run->seed, (long long)run->steps,
            (long long)run->params);
    print_real(to, run->train_loss);
    print_real(to, run->val_loss);
    print_real(to, run->val_accuracy);
    print_real(to, run->test_loss);
    print_real(to, run->test_accuracy);
    print_noise(&arm->run_noise[run - arm->run], to);
    fprintf(to, "%s,%s,%s,%d,%.6g,%.6g\n", run->weights_sha256, run->config_sha256, run->program_sha256, run->threads,
            run->tokens_per_s, run->seconds);
}

void weft_report_csv(const struct weft_results *r, FILE *to)
{
    fputs("arm,lr,lr_chosen,seed,steps,params,train_loss,val_loss,val_accuracy,test_loss,test_accuracy,"
          "test_items,test_error,diff,diff_error,weights_sha256,config_sha256,program_sha256,threads,tokens_per_s,"
          "seconds\n",
          to);
    for (int i = 0; i < r->arm_count; i++)
        for (int k = 0; k < r->arm[i].run_count; k++)
            print_run(&r->arm[i], &r->arm[i].run[k], to);
}
