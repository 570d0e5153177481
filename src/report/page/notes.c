/* SPDX-License-Identifier: MIT
 *
 * notes.c - writes the notes above the table of verdicts: one sentence per fact that a reader must know.
 */
#include "dnn/dnn.h"
#include "report/read/results.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct noting {
    weft_note_fn *note;
    void *context;
};

__attribute__((format(printf, 3, 4))) static void say(const struct noting *n, bool warning, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    n->note(n->context, warning, text);
}

static int count_verdict(const struct weft_results *r, const char *verdict)
{
    int count = 0;
    for (int i = 0; i < r->arm_count; i++)
        count += strcmp(r->arm[i].found.verdict, verdict) == 0;
    return count;
}

static void note_verdicts(const struct weft_results *r, const struct noting *n)
{
    static const char *const kinds[] = {"better",       "worse",      "not resolved", "too few seeds", "unfinished",
                                        "edge of grid", "not paired", "failed",       "not run"};
    char text[256];
    size_t used = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int count = count_verdict(r, kinds[i]);
        if (count)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%d %s", used ? ", " : "", count, kinds[i]);
    }
    say(n, false, "%d arm%s on task %s, compared with %s: %s.", r->arm_count, r->arm_count == 1 ? "" : "s", r->task,
        r->arm[0].name, used ? text : "nothing to compare");
}

static void note_design(const struct weft_results *r, const struct noting *n)
{
    const char *own = weft_result_option(&r->arm[0], "lr");
    bool alike = r->lr_count == 0 && own && !weft_results_differ(r, "lr");
    char lrs[WEFT_MAX_LRS * 16] = "";
    size_t used = 0;
    for (int64_t i = 0; i < r->lr_count; i++)
        used += (size_t)snprintf(lrs + used, sizeof lrs - used, "%s%s", i ? ", " : "", weft_lr_text(r->lr[i]).text);
    say(n, false, "%lld seed%s, %lld steps, %s%s%s.", (long long)r->seed_count, r->seed_count == 1 ? "" : "s",
        (long long)r->steps,
        r->lr_count > 1             ? "each arm at the best of the learning rates "
        : r->lr_count == 1 || alike ? "learning rate "
                                    : "each arm at the learning rate of its config",
        alike ? own : lrs,
        r->lr_count < 2   ? ""
        : r->screen_seeds ? ", chosen on the validation set with separate seeds and judged on the test set"
                          : ", chosen on the validation set and reported on the test set");
}

static void note_data(const struct weft_results *r, const struct noting *n)
{
    const char *data = weft_result_option(&r->arm[0], "data");
    if (r->stand_in_for)
        say(n, true, "Trained on stand-in data, %s, instead of %s, so the losses do not apply to the original data.",
            data ? data : "", r->stand_in_for);
}

/* The number of steps that fit a budget depends on the speed of the machine. */
static void note_budget(const struct weft_results *r, const struct noting *n)
{
    const char *warmup = weft_result_option(&r->arm[0], "warmup");
    if (r->whole_steps > r->steps)
        say(n, false,
            "A budget of %g minutes reduced the number of steps of all arms to %lld of %lld. To get the same plan on "
            "any machine, set steps=%lld and warmup=%s without a budget.",
            r->budget, (long long)r->steps, (long long)r->whole_steps, (long long)r->steps, warmup ? warmup : "0");
    else if (r->whole_steps)
        say(n, false, "All steps fit within the budget of %g minutes.", r->budget);
}

/* Writes the looks for which the intervals are adjusted, and the study that this one follows. */
static void note_looks(const struct weft_results *r, const struct noting *n)
{
    const struct weft_looks *l = &r->looks;
    char list[WEFT_MAX_LOOKS * 8] = "";
    size_t used = 0;
    for (int k = 0; k < l->count; k++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%lld", k ? ", " : "", (long long)l->seeds[k]);
    if (l->count > 1)
        say(n, false,
            "The study looks at its results after %s seeds until every arm is decided; verdicts and intervals are "
            "adjusted for these %d looks and %lld comparison%s.",
            list, l->count, (long long)l->comparisons, l->comparisons == 1 ? "" : "s");
    if (*r->parent)
        say(n, false, "This study follows the one in %s, with different seeds.", r->parent);
}

static void note_size(const struct weft_results *r, const struct noting *n)
{
    double most = 0;
    for (int i = 1; i < r->arm_count; i++)
        most = fmax(most, fabs((double)r->arm[i].params / (double)weft_max(1, r->arm[0].params) - 1));
    if (strcmp(r->match, "none") != 0)
        say(n, false, "Arms are matched in %s by adjusting %s.", r->match, r->match_by);
    else if (most > 0.02)
        say(n, false, "Arms are not matched in size: parameter counts differ from that of %s by up to %.0f %%.",
            r->arm[0].name, 100 * most);
}

static void note_tuning(const struct weft_results *r, const struct noting *n)
{
    if (r->lr_count < 2 && r->arm_count > 1)
        say(n, false,
            "Learning rates were not tuned, so the verdicts hold only for these rates. To choose the best rate for "
            "each arm, set lrs=\"RATE RATE RATE\".");
}

/* Writes how much the training loss decreased at the end, for the arms whose loss was still falling. */
static void note_falling(const struct weft_results *r, const struct noting *n)
{
    enum { NAMED = 6 };
    char list[NAMED * 96] = "";
    size_t used = 0;
    int named = 0;
    for (int i = 0; i < r->arm_count; i++) {
        const struct weft_finding *f = &r->arm[i].found;
        if (f->falling && named++ < NAMED)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%.63s by %.2g", used ? ", " : "",
                                     r->arm[i].name, f->fall);
    }
    if (named)
        say(n, false,
            "Training losses were still falling at the end: %s nats%s between the last two tenths of the steps. Longer "
            "training may change the verdicts.",
            list, named > NAMED ? " and others" : "");
}

static void note_gates(const struct weft_results *r, const struct noting *n)
{
    for (int i = 0; i < r->arm_count; i++)
        if (r->arm[i].gates_failed)
            say(n, true, "%s fails %d of %d gate checks, so its model does not match its config.", r->arm[i].name,
                r->arm[i].gates_failed, r->arm[i].gates_checks);
}

/* Warns of failed simulated studies; training then required --unsafe. */
static void note_simulated(const struct weft_results *r, const struct noting *n)
{
    if (r->simulated.failed)
        say(n, true,
            "%d of %d checks of simulated studies failed before this study was trained (`weft verify --study`), so the "
            "queue, ledger or report of this study may be wrong.",
            r->simulated.failed, r->simulated.checks);
}

/* Writes the noise of the test set if it matters. */
static void note_test(const struct weft_results *r, const struct noting *n)
{
    bool own = false;
    for (int i = 0; i < r->arm_count; i++) {
        const struct weft_test_noise *t = &r->arm[i].found.test;
        own |= t->own && t->difference.items;
        if (t->note)
            say(n, t->warning, "%s.", t->note);
    }
    if (own)
        say(n, false, "Every seed has its own test set, so intervals over seeds include the noise of the test set.");
}

/* Lists the values that cannot be checked because an earlier release did not record them. */
static void note_unbound(const struct weft_results *r, const struct noting *n)
{
    if (r->unbound)
        say(n, true,
            "Not checked: %lld of %lld runs are recorded only in the ledger, without a hash that binds them to the "
            "plan, as in release 0.1.0.",
            (long long)r->unbound, (long long)r->finished);
    if (r->uncounted)
        say(n, true, "Not checked: the costs of the arms, because they were computed by Weft %s.", r->version);
}

/* Writes why arms have no verdict, and which facts about the pairing are not recorded. */
static void note_pairing(const struct weft_results *r, const struct noting *n)
{
    char text[400];
    for (int i = 1; i < r->arm_count; i++) {
        const struct weft_finding *f = &r->arm[i].found;
        if (f->seeds && (strcmp(f->verdict, "not paired") == 0 || strcmp(f->verdict, "failed") == 0))
            say(n, true, "%s: %s.", r->arm[i].name, f->text);
    }
    if (weft_results_unrecorded(r, text))
        say(n, false, "%s", text);
}

static void note_edges(const struct weft_results *r, const struct noting *n)
{
    char list[900] = "";
    size_t used = 0;
    for (int i = 0; i < r->arm_count && used < sizeof list; i++)
        if (r->arm[i].lr_at_edge && !r->arm[i].repeats)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s (%s)", used ? ", " : "", r->arm[i].name,
                                     weft_lr_text(r->arm[i].lr).text);
    if (used)
        say(n, true, "The best learning rate is at the edge of the grid, so a better one may lie beyond it: %s.", list);
}

/* Does not distinguish failed runs from runs that have not been started: the table omits both. */
static void note_missing(const struct weft_results *r, const struct noting *n)
{
    enum { NAMED = 8 };
    for (int i = 0; i < r->arm_count; i++) {
        const struct weft_result_arm *arm = &r->arm[i];
        int64_t planned = weft_result_planned(r, arm), missing = planned - arm->run_count;
        char list[NAMED * 24] = "";
        size_t used = 0;
        int named = 0;
        for (int64_t k = 0; k < r->seed_count && missing > 0; k++) {
            int64_t runs = 0;
            for (int run = 0; run < arm->run_count; run++)
                runs += arm->run[run].seed == arm->first_seed + k;
            if (runs < (r->screen_seeds ? 1 : weft_max(1, r->lr_count)) && named++ < NAMED)
                used += (size_t)snprintf(list + used, sizeof list - used, "%s%lld", used ? ", " : "",
                                         (long long)(arm->first_seed + k));
        }
        if (missing > 0)
            say(n, true, "%s lacks %lld of %lld runs (%s%s%s), which failed or are unfinished.", arm->name,
                (long long)missing, (long long)planned, named ? "seeds " : "all for choosing the learning rate", list,
                named > NAMED ? " and others" : "");
    }
}

static void note_engines(const struct weft_results *r, const struct noting *n)
{
    const char *first = NULL;
    for (int i = 0; i < r->arm_count; i++)
        for (int k = 0; k < r->arm[i].run_count; k++) {
            const char *isa = r->arm[i].run[k].isa;
            if (first && !weft_dnn_same_bits(first, isa)) {
                say(n, true,
                    "Runs used different matmul engines, %s and %s, so their weights do not agree bit for bit.", first,
                    isa);
                return;
            }
            first = isa;
        }
}

void weft_results_notes(const struct weft_results *r, weft_note_fn *note, void *context)
{
    struct noting n = {note, context};
    note_verdicts(r, &n);
    note_data(r, &n);
    note_design(r, &n);
    note_budget(r, &n);
    note_looks(r, &n);
    note_size(r, &n);
    bool open = r->looks.count == 1 || weft_results_open(r); /* otherwise the plan needs no more runs */
    if (r->finished < r->planned && open)
        say(&n, true, "The results are based on the %lld of %lld runs that are finished.", (long long)r->finished,
            (long long)r->planned);
    if (open)
        note_missing(r, &n);
    note_engines(r, &n);
    if (r->left_out)
        say(&n, false,
            "%lld line%s of the ledger ignored: the settings or the build differ, or a later run counts instead.",
            (long long)r->left_out, r->left_out == 1 ? "" : "s");
    note_gates(r, &n);
    note_simulated(r, &n);
    note_unbound(r, &n);
    note_pairing(r, &n);
    note_test(r, &n);
    note_edges(r, &n);
    note_tuning(r, &n);
    note_falling(r, &n);
    if (r->reproduced >= 0)
        say(&n, r->reproduced == 0, "%s",
            r->reproduced ? "Repeated runs have the same weights, bit for bit."
                          : "Repeated runs do NOT have the same weights.");
}
