/* SPDX-License-Identifier: MIT
 *
 * report - prints the results of a study or of a single run from its folder, and writes report.html and report.md, and
 * for a study also report.csv.
 */
#include "report/report.h"
#include "base/json.h"
#include "cmd/cmd.h"

struct args {
    struct weft_common common;
    const char *folder;
};

static const struct weft_arg table[] = {
    {NULL, 0, "DIR", WEFT_ARG_FOLDER, offsetof(struct args, folder), .help = "Folder of a study or of a run",
     .missing = "nothing to report: pass the folder that `weft ablate --out` or `weft train --out` created"},
    {0},
};

static enum weft_status print_json(const struct weft_results *r)
{
    struct weft_result *out = weft_result_create();
    weft_result_text(out, "study", r->name);
    char headline[WEFT_VERDICT_TEXT];
    weft_results_headline(r, headline);
    weft_result_text(out, "headline", headline);
    weft_result_int(out, "runs", r->finished);
    weft_result_int(out, "runs_planned", r->planned);
    weft_results_add(r, out);
    return weft_result_finish(out, stdout, true);
}

static void print_note(void *context, bool warning, const char *text)
{
    (void)context;
    printf("%s%s\n", warning ? "NOTE: " : "", text);
}

static enum weft_status print(const struct args *a, const struct weft_results *r)
{
    if (a->common.json)
        return print_json(r);
    char headline[WEFT_VERDICT_TEXT];
    weft_results_headline(r, headline);
    weft_say(stdout, "study %s: %s\n", r->name, headline);
    weft_results_notes(r, print_note, NULL);
    putchar('\n');
    weft_results_print(r, stdout);
    weft_say(stdout, "\n%s/report.html shows the curves and all numbers\n", a->folder);
    return WEFT_OK;
}

static enum weft_status report_run(const struct args *a)
{
    char headline[WEFT_VERDICT_TEXT];
    struct weft_result *out = weft_result_create();
    enum weft_status status = weft_report_write_run(a->folder, headline, out);
    if (status == WEFT_OK && a->common.json)
        status = weft_result_print(out, stdout, true);
    else if (status == WEFT_OK)
        weft_say(stdout, "%s\n%s/report.html shows the curves and all numbers\n", headline, a->folder);
    weft_result_free(out);
    return status;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct weft_results r;
    if (weft_report_is_run(a->folder))
        return report_run(a);
    TRY(weft_report_write(a->folder));
    enum weft_status status = weft_results_load(&r, a->folder);
    if (status == WEFT_OK)
        status = print(a, &r);
    weft_results_release(&r);
    return status;
}

const struct weft_cmd weft_cmd_report = {
    .name = "report",
    .summary = "write the report of a study or of a run",
    .doc =
        "Prints the results so far of the study in DIR and writes report.html, report.md and report.csv there. Every "
        "arm is compared with the first by test loss, paired by seed, at the learning rate that validation selected. "
        "Intervals hold for all arms simultaneously in 95 % of studies. With --json, names are ARM.key.\n\n"
        "If DIR is the folder of a single run, finished or not, report.html and report.md show its losses, curves, "
        "costs and settings, and the contents of samples.txt if that file exists.",
    .args = table,
    .takes = WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
