/* SPDX-License-Identifier: MIT
 *
 * report - what a study came to, from its folder: the verdict table, and report.html, .md and .csv.
 */
#include "report/report.h"
#include "base/json.h"
#include "cmd/cmd.h"

struct args {
    const char *folder;
    bool json;
};

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "Print one flat JSON object, with names ARM.key", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case 'j':
        a->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->folder)
            return ARGP_ERR_UNKNOWN;
        a->folder = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which study? Give the folder that `weft ablate --out` made");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "DIR",
    .doc = "Tells what the study in DIR came to so far and writes report.html, report.md and report.csv there. Every "
           "arm is held against the first, paired by seed, at the learning rate that validation chose, on the test "
           "loss. Intervals hold for all arms at once in 95 % of studies.",
};

static enum weft_status print_json(const struct weft_results *r)
{
    struct weft_result *out = weft_result_create();
    weft_result_text(out, "study", r->name);
    weft_result_int(out, "runs", r->finished);
    weft_result_int(out, "runs_planned", r->planned);
    weft_results_add(r, out);
    enum weft_status status = weft_result_print(out, stdout, true);
    weft_result_free(out);
    return status;
}

static void print_note(void *context, bool warning, const char *text)
{
    (void)context;
    printf("%s%s\n", warning ? "NOTE: " : "", text);
}

static enum weft_status tell(const struct args *a, const struct weft_results *r)
{
    if (a->json)
        return print_json(r);
    printf("study %s\n", r->name);
    weft_results_notes(r, print_note, NULL);
    putchar('\n');
    weft_results_print(r, stdout);
    printf("\n%s/report.html has the curves and all numbers\n", a->folder);
    return WEFT_OK;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct weft_results r;
    TRY(weft_report_write(a->folder));
    enum weft_status status = weft_results_load(&r, a->folder);
    if (status == WEFT_OK)
        status = tell(a, &r);
    weft_results_release(&r);
    return status;
}

const struct weft_cmd weft_cmd_report = {"report", "what a study came to, as a table and as a page", &argp,
                                         sizeof(struct args), run};
