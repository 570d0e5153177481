/* SPDX-License-Identifier: MIT
 *
 * compare - compares two runs, or two arms of studies: their options, costs and results.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "report/report.h"

struct args {
    struct weft_common common;
    const char *folder[2];
};

static const struct weft_arg table[] = {
    {NULL, 0, "A", WEFT_ARG_FOLDER, offsetof(struct args, folder[0]),
     .help = "Folder of a run, or a folder that contains runs",
     .missing = "nothing to compare: pass two folders of runs, or two folders that contain runs"},
    {NULL, 0, "B", WEFT_ARG_FOLDER, offsetof(struct args, folder[1]), .help = "Folder to compare with A",
     .missing = "only one folder given: pass a second one to compare with"},
    {0},
};

static const char *value_of(const struct weft_result_arm *arm, const char *option)
{
    const char *value = weft_result_option(arm, option);
    return value ? value : "-";
}

/* Prints the options that differ; seed and learning rate of arms with several runs are in the table. */
static void print_options(const struct weft_results *r)
{
    for (int i = 0; i < r->arm_count; i++)
        for (int k = 0; k < r->arm[i].entry_count; k++) {
            const char *option = r->arm[i].entry[k].name;
            if (weft_results_differ(r, option) && (i == 0 || !weft_result_option(&r->arm[0], option)))
                printf("%-24s %-20s %s\n", option, value_of(&r->arm[0], option), value_of(&r->arm[1], option));
        }
}

static void print_scores(const struct weft_results *r, bool by_val)
{
    for (int i = 0; i < r->arm_count; i++)
        for (int k = 0; k < r->arm[i].found.seeds; k++) {
            const struct weft_finished *run = &r->arm[i].found.run[k];
            printf("%s  seed %lld, lr %g: loss %.4f on validation", r->arm[i].name, (long long)run->seed, run->lr,
                   run->val_loss);
            if (!by_val)
                printf(", %.4f on test", run->test_loss);
            printf(", weights %.16s\n", run->weights_sha256);
        }
}

static void print_noise(const struct weft_test_noise *t)
{
    const struct weft_item_noise *n = &t->difference;
    if (n->items)
        printf(
            "\nnoise from the test items only (%lld %s, paired), not from seeds: B - A is %+.3g nats, 95 %% interval "
            "[%+.3g, %+.3g]\n",
            (long long)n->items, t->kind, n->mean, n->interval.low, n->interval.high);
    if (t->note)
        printf("\n%s%s\n", t->warning ? "NOTE: " : "", t->note);
}

static void print_text(const struct weft_results *r, bool by_val)
{
    char unrecorded[400];
    weft_say(stdout, "A  %s\nB  %s\n\n%-24s %-20s %s\n", r->arm[0].description, r->arm[1].description, "option", "A",
             "B");
    print_options(r);
    putchar('\n');
    print_scores(r, by_val);
    putchar('\n');
    weft_results_print(r, stdout);
    if (r->not_comparable)
        printf("\nNOTE: A and B were scored on different samples: %s. Losses in nats per token cannot be compared "
               "across samples or vocabularies, so there is no verdict\n",
               r->not_comparable);
    print_noise(&r->arm[1].found.test);
    if (weft_results_unrecorded(r, unrecorded))
        printf("\n%s\n", unrecorded);
    if (r->finished < r->planned)
        printf("\n%lld of %lld runs are finished, and only those are compared\n", (long long)r->finished,
               (long long)r->planned);
    if (by_val)
        printf("\nnot all runs were scored on test, so losses are validation losses\n");
    if (!r->not_comparable && r->arm[0].found.seeds == 1 && r->arm[1].found.seeds == 1)
        printf("\none seed does not show the variation between seeds: with a different seed, the difference may "
               "reverse\n");
}

static enum weft_status print(const struct args *a, const struct weft_results *r, bool by_val)
{
    if (!a->common.json) {
        print_text(r, by_val);
        return WEFT_OK;
    }
    struct weft_result *out = weft_result_create();
    weft_result_text(out, "scored_on", by_val ? "validation" : "test");
    weft_result_text(out, "not_comparable", r->not_comparable ? r->not_comparable : "");
    weft_results_add(r, out);
    return weft_result_finish(out, stdout, true);
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct weft_results r;
    bool by_val = false;
    enum weft_status status = weft_results_pair(&r, a->folder[0], a->folder[1], &by_val);
    if (status == WEFT_OK)
        status = print(a, &r, by_val);
    weft_results_release(&r);
    return status;
}

const struct weft_cmd weft_cmd_compare = {
    .name = "compare",
    .summary = "compare two runs, or two arms with several seeds",
    .doc =
        "Compares B with A. Each is the folder of a run, or a folder that contains runs of one arm with several seeds, "
        "such as a study's runs/ARM; these are compared seed by seed. With --json, names are A.key and B.key.",
    .args = table,
    .takes = WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
