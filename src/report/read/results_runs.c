/* SPDX-License-Identifier: MIT
 *
 * results_runs.c - selects the ledger lines that record runs of the study as currently planned.
 *
 * The ledger is kept when a study is changed: lines from a different build, with a different number of steps, or with
 * settings that the arm no longer has are ignored. The settings are those in the run's folder; if the folder was
 * removed, the line counts. A folder without a config is rejected, and so is a folder whose config has a seed or
 * learning rate different from those in its name and its line, because the run was replaced.
 */
#include "base/json.h"
#include "report/read/results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- settings */

struct comparing {
    const struct weft_result_arm *arm;
    const struct weft_finished *run;
    int count, same; /* number of options in the config, and of those that equal the arm's */
};

/* Checks that an option that differs between runs has the value in the line. */
static bool is_of_run(const struct weft_finished *run, const char *name, const char *value)
{
    int64_t whole;
    double real;
    if (strcmp(name, "seed") == 0)
        return weft_text_int(value, &whole) && whole == run->seed;
    return strcmp(name, "lr") != 0 || (weft_text_real(value, &real) && real == run->lr);
}

static enum weft_status compare_entry(void *context, const char *name, const char *value)
{
    struct comparing *c = context;
    const char *ours = weft_result_option(c->arm, name);
    if (!is_of_run(c->run, name, value))
        return FAIL(WEFT_FORMAT,
                    "%s/config.json has %s=%s, but its folder and its line in runs.jsonl have lr=%s, seed=%lld",
                    c->run->folder, name, value, weft_lr_text(c->run->lr).text, (long long)c->run->seed);
    c->count++;
    c->same += ours && (weft_option_is_per_run(name) || strcmp(ours, value) == 0);
    return WEFT_OK;
}

static enum weft_status has_settings(const struct weft_result_arm *arm, const struct weft_finished *run, bool *same)
{
    char path[4096], hash[65];
    struct comparing c = {.arm = arm, .run = run};
    if (snprintf(path, sizeof path, "%s/config.json", run->folder) >= (int)sizeof path)
        return FAIL(WEFT_INVALID, "the path of the study's folder is too long");
    *same = access(run->folder, F_OK) != 0;
    if (*same)
        return WEFT_OK;
    if (access(path, F_OK) != 0)
        return FAIL(WEFT_FORMAT, "%s is missing, so it is unknown what was trained in that folder", path);
    TRY(weft_sha256_within(path, WEFT_MAX_CONFIG_BYTES, hash));
    TRY(weft_json_load(path, compare_entry, &c));
    *same = c.count == arm->entry_count && c.same == arm->entry_count && strcmp(hash, run->config_sha256) == 0;
    return WEFT_OK;
}

/* ---- consistency of the ledger */

/* Ties are sorted in the order of the ledger. */
static int by_arm_and_weights(const void *a, const void *b)
{
    const struct weft_finished *x = *(const struct weft_finished *const *)a,
                               *y = *(const struct weft_finished *const *)b;
    int order = strcmp(x->arm, y->arm);
    order = order ? order : strcmp(x->weights_sha256, y->weights_sha256);
    return order ? order : (x > y) - (x < y);
}

/* Runs with different seeds have different weights, unless a line was copied. Lines of older releases have no chain,
 * and their weights are not compared. */
static enum weft_status check_lines(struct weft_results *r, const struct weft_finished *list, int64_t count)
{
    const struct weft_finished **sorted = weft_arena_alloc(&r->arena, (size_t)weft_max(1, count) * sizeof *sorted);
    if (!sorted)
        return WEFT_NOMEM;
    for (int64_t i = 0; i < count; i++)
        sorted[i] = &list[i];
    qsort(sorted, (size_t)count, sizeof *sorted, by_arm_and_weights);
    for (int64_t i = 1; i < count; i++) {
        const struct weft_finished *a = sorted[i - 1], *b = sorted[i];
        if (b->chain[0] && a->seed != b->seed && strcmp(a->arm, b->arm) == 0 &&
            strcmp(a->weights_sha256, b->weights_sha256) == 0)
            return FAIL(WEFT_FORMAT,
                        "%s/runs.jsonl:%lld has the same weights as line %lld, although their seeds differ", r->folder,
                        (long long)(b - list) + 1, (long long)(a - list) + 1);
    }
    return WEFT_OK;
}

/* Either all runs that count have a chain, or none do. */
static enum weft_status check_chains(const struct weft_results *r)
{
    const struct weft_finished *with = NULL, *without = NULL;
    for (int i = 0; i < r->arm_count; i++)
        for (int k = 0; k < r->arm[i].run_count; k++)
            *(r->arm[i].run[k].chain[0] ? &with : &without) = &r->arm[i].run[k];
    if (with && without)
        return FAIL(WEFT_FORMAT, "%s/runs.jsonl has no chain for %s, seed %lld, but one for %s, seed %lld", r->folder,
                    without->arm, (long long)without->seed, with->arm, (long long)with->seed);
    return WEFT_OK;
}

/* ---- choosing lines */

bool weft_result_is_judged(const struct weft_results *r, const struct weft_result_arm *arm,
                           const struct weft_finished *run)
{
    return run->seed >= arm->first_seed && run->seed - arm->first_seed < r->seed_count;
}

bool weft_result_is_screening(const struct weft_results *r, const struct weft_result_arm *arm,
                              const struct weft_finished *run)
{
    int64_t first = arm->first_seed + WEFT_SCREEN_OFFSET;
    return !arm->repeats && run->seed >= first && run->seed - first < r->screen_seeds;
}

static bool is_planned(const struct weft_results *r, const struct weft_result_arm *arm, const struct weft_finished *run)
{
    bool seed = weft_result_is_judged(r, arm, run) || weft_result_is_screening(r, arm, run);
    bool lr = r->lr_count == 0; /* each arm has its own learning rate */
    for (int64_t i = 0; i < r->lr_count && !lr; i++)
        lr = r->lr[i] == run->lr;
    return seed && lr && run->steps == weft_result_steps(r, arm) && strcmp(run->program_sha256, r->program_sha256) == 0;
}

static int by_lr_and_seed(const void *a, const void *b)
{
    const struct weft_finished *x = a, *y = b;
    if (x->lr != y->lr)
        return x->lr < y->lr ? -1 : 1;
    return (x->seed > y->seed) - (x->seed < y->seed);
}

/* If a run has several lines, the last one counts. */
static void put(struct weft_result_arm *arm, const struct weft_finished *run)
{
    int i = 0;
    while (i < arm->run_count && by_lr_and_seed(&arm->run[i], run) != 0)
        i++;
    arm->run[i] = *run;
    arm->run_count += i == arm->run_count;
}

static enum weft_status take(struct weft_results *r, struct weft_result_arm *arm, const struct weft_finished *list,
                             int64_t count)
{
    int64_t mine = 0;
    for (int64_t i = 0; i < count; i++)
        mine += strcmp(list[i].arm, arm->name) == 0 && is_planned(r, arm, &list[i]);
    arm->run = weft_arena_alloc(&r->arena, (size_t)mine * sizeof *arm->run);
    if (!arm->run)
        return WEFT_NOMEM;
    for (int64_t i = 0; i < count; i++)
        if (strcmp(list[i].arm, arm->name) == 0 && is_planned(r, arm, &list[i]))
            put(arm, &list[i]);
    int kept = 0;
    for (int i = 0; i < arm->run_count; i++) {
        struct weft_finished run = arm->run[i];
        char folder[256];
        bool same = false;
        weft_run_folder(arm->name, run.lr, run.seed, folder);
        run.folder = weft_arena_print(&r->arena, "%s/%s", r->folder, folder);
        if (!run.folder)
            return WEFT_NOMEM;
        TRY(has_settings(arm, &run, &same));
        if (same) {
            TRY(weft_result_check_log(r, arm, &run));
            arm->run[kept++] = run;
        }
    }
    arm->run_count = kept;
    r->finished += kept;
    return WEFT_OK;
}

/* ---- the learning rate */

int64_t weft_result_planned(const struct weft_results *r, const struct weft_result_arm *arm)
{
    if (!r->screen_seeds)
        return r->seed_count * weft_max(1, r->lr_count);
    return r->seed_count + (arm->repeats ? 0 : r->lr_count * r->screen_seeds);
}

/* Returns the number of consecutive runs from `first` with the same learning rate. */
static int same_lr(const struct weft_result_arm *arm, int first)
{
    int n = 1;
    while (first + n < arm->run_count && arm->run[first + n].lr == arm->run[first].lr)
        n++;
    return n;
}

double weft_result_screened_loss(const struct weft_results *r, const struct weft_result_arm *arm, double lr)
{
    double sum = 0;
    int64_t n = 0;
    for (int i = 0; i < arm->run_count; i++)
        if (arm->run[i].lr == lr && (!r->screen_seeds || weft_result_is_screening(r, arm, &arm->run[i]))) {
            sum += arm->run[i].val_loss;
            n++;
        }
    return n && (!r->screen_seeds || n == r->screen_seeds) ? sum / (double)n : NAN;
}

/* Chooses the learning rate from the screening runs, which do not count for verdicts; a repeat gets the learning rate
 * of the arm that it repeats. */
static void choose_screened(const struct weft_results *r, struct weft_result_arm *arm)
{
    double least = INFINITY;
    for (const struct weft_result_arm *of = r->arm; arm->repeats && of < arm; of++)
        if (strcmp(of->name, arm->repeats) == 0)
            arm->lr = of->lr;
    for (int64_t k = 0; k < r->lr_count; k++) {
        double loss = weft_result_screened_loss(r, arm, r->lr[k]);
        if (loss < least) {
            least = loss;
            arm->lr = r->lr[k];
        }
    }
    for (int i = 0; i < arm->run_count; i++)
        if (arm->run[i].lr == arm->lr && weft_result_is_judged(r, arm, &arm->run[i])) {
            arm->found.run = arm->found.seeds ? arm->found.run : &arm->run[i];
            arm->found.seeds++;
        }
}

/* For earlier studies and compared runs: chooses the learning rate with the smallest mean validation loss; while runs
 * are missing, only among the rates with the most seeds. */
static void choose_judged(struct weft_result_arm *arm)
{
    int seeds = 0;
    double least = INFINITY;
    for (int i = 0, n; i < arm->run_count; i += n) {
        double mean = 0;
        n = same_lr(arm, i);
        for (int k = 0; k < n; k++)
            mean += arm->run[i + k].val_loss / n;
        if (n > seeds || (n == seeds && mean < least)) {
            seeds = n;
            least = mean;
            arm->lr = arm->run[i].lr;
            arm->found.run = &arm->run[i];
            arm->found.seeds = n;
        }
    }
}

static void choose(const struct weft_results *r, struct weft_result_arm *arm)
{
    arm->lr = NAN;
    if (arm->run_count)
        qsort(arm->run, (size_t)arm->run_count, sizeof *arm->run, by_lr_and_seed);
    if (r->screen_seeds)
        choose_screened(r, arm);
    else
        choose_judged(arm);
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < r->lr_count; i++) {
        low = fmin(low, r->lr[i]);
        high = fmax(high, r->lr[i]);
    }
    arm->lr_at_edge = r->lr_count > 1 && (arm->lr == low || arm->lr == high);
}

void weft_results_choose_lr(struct weft_results *r)
{
    for (int i = 0; i < r->arm_count; i++)
        choose(r, &r->arm[i]);
}

enum weft_status weft_results_take_runs(struct weft_results *r)
{
    struct weft_finished *list;
    int64_t count;
    TRY(weft_ledger_read(r->folder, &r->arena, &list, &count));
    TRY(check_lines(r, list, count));
    for (int i = 0; i < r->arm_count; i++)
        r->planned += weft_result_planned(r, &r->arm[i]);
    for (int i = 0; i < r->arm_count; i++)
        TRY(take(r, &r->arm[i], list, count));
    TRY(check_chains(r));
    r->left_out = count - r->finished;
    weft_results_choose_lr(r);
    return WEFT_OK;
}
