/* SPDX-License-Identifier: MIT
 *
 * plan.c - plans a study: widths, costs and gates of its arms, and the list of its runs.
 */
#include "base/json.h"
#include "study/study.h"
#include "train/record/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- arms */

enum weft_status weft_arm_account(const struct weft_spec *spec, const struct weft_recipe *recipe,
                                  struct weft_account *account)
{
    struct weft_nn *model = NULL;
    struct weft_threads_scope one;
    weft_threads_enter(&one, 1);
    enum weft_status status = weft_nn_create(&model, spec);
    if (status == WEFT_OK)
        status = weft_account(model, recipe, spec->context, account);
    weft_nn_free(model);
    weft_threads_leave(&one);
    return status;
}

static void note(void *context, const struct weft_check *c)
{
    struct weft_arm *arm = context;
    struct weft_arm_gate *gate = arm->gate;
    while (strcmp(gate->gate, c->gate) != 0)
        gate++;
    gate->checks++;
    gate->failed += !c->passed;
    if (!c->passed && !*gate->message)
        snprintf(gate->message, sizeof gate->message, "%.60s: %.3g, limit %.3g; %.90s", c->name, c->figure, c->limit,
                 c->where);
}

enum weft_status weft_arm_gates(struct weft_arm *arm, bool itself)
{
    const char *summary;
    struct weft_gates report = {.on_check = note, .context = arm};
    for (int i = 0; i < WEFT_GATE_COUNT; i++)
        arm->gate[arm->gate_count++].gate = weft_gate_at(i, &summary);
    if (itself)
        TRY(weft_recipe_open(&arm->recipe, &arm->spec));
    TRY(weft_gates_run(&arm->spec, itself ? &arm->recipe : NULL, WEFT_GATES_ALL, &report));
    snprintf(arm->gate_sizes, sizeof arm->gate_sizes, "%s", report.sizes);
    return WEFT_OK;
}

enum weft_status weft_study_plan(struct weft_study *s)
{
    if (s->planned)
        return WEFT_OK;
    TRY(weft_study_match(s));
    for (int i = 0; i < s->arm_count; i++) {
        struct weft_arm *arm = &s->arm[i];
        if (arm->repeats >= 0)
            arm->account = s->arm[arm->repeats].account;
        else
            TRY(weft_arm_account(&arm->spec, &arm->recipe, &arm->account));
    }
    s->planned = true;
    return WEFT_OK;
}

enum weft_status weft_study_gates(struct weft_study *s, bool itself, weft_plan_fn *report, void *context)
{
    if (weft_gates_skipped())
        return WEFT_OK;
    for (int i = 0; i < s->arm_count; i++) {
        struct weft_arm *arm = &s->arm[i];
        if (arm->repeats >= 0) { /* the same model, so the results are the same */
            arm->gate_count = s->arm[arm->repeats].gate_count;
            memcpy(arm->gate, s->arm[arm->repeats].gate, sizeof arm->gate);
            memcpy(arm->gate_sizes, s->arm[arm->repeats].gate_sizes, sizeof arm->gate_sizes);
            continue;
        }
        if (report)
            report(context, s, i);
        TRY(weft_arm_gates(arm, itself));
    }
    return WEFT_OK;
}

enum weft_status weft_study_passes(const struct weft_study *s)
{
    for (int i = 0; i < s->arm_count; i++)
        for (int g = 0; g < s->arm[i].gate_count; g++)
            if (s->arm[i].gate[g].failed)
                return FAIL(WEFT_CHECK,
                            "arm %s fails the gate %s: %s. Its model is not what its config describes: fix it, or pass "
                            "--unsafe",
                            s->arm[i].name, s->arm[i].gate[g].gate, s->arm[i].gate[g].message);
    return WEFT_OK;
}

/* ---- runs */

double weft_arm_tokens(const struct weft_arm *arm)
{
    const struct weft_recipe *r = &arm->recipe;
    return (double)(r->steps * r->micro_batches * arm->spec.batch) * (double)r->task->length(r->task_options);
}

/* Counts the arms that need screening; a repeat has the learning rate of the arm that it repeats. */
static int count_screened(const struct weft_study *s)
{
    int n = 0;
    for (int i = 0; i < s->arm_count; i++)
        n += s->arm[i].repeats < 0;
    return n;
}

int64_t weft_study_screening(const struct weft_study *s)
{
    return s->lr_count > 1 ? s->screen_seeds * s->lr_count * count_screened(s) : 0;
}

int64_t weft_study_runs(const struct weft_study *s) { return weft_study_screening(s) + s->seeds * s->arm_count; }

static struct weft_study_run screening_run(const struct weft_study *s, int64_t i)
{
    int64_t arms = count_screened(s), left = i % arms;
    struct weft_study_run run = {.lr = s->lr[i / arms % s->lr_count]};
    while (s->arm[run.arm].repeats >= 0 || left-- > 0)
        run.arm++;
    run.seed = s->arm[run.arm].spec.seed + WEFT_SCREEN_OFFSET + i / arms / s->lr_count;
    return run;
}

static struct weft_study_run judged_run(const struct weft_study *s, int64_t i)
{
    struct weft_study_run run = {.arm = (int)(i % s->arm_count)};
    const struct weft_arm *arm = &s->arm[run.arm], *of = arm->repeats < 0 ? arm : &s->arm[arm->repeats];
    bool other = arm->repeats >= 0 && s->repeat_seeds == WEFT_REPEAT_OTHER;
    run.lr = s->lr_count > 1 ? of->lr : s->lr_count ? s->lr[0] : arm->recipe.lr;
    run.seed = arm->spec.seed + i / s->arm_count + (other ? WEFT_MAX_SEEDS : 0); /* above all possible seeds */
    return run;
}

struct weft_study_run weft_study_run_at(const struct weft_study *s, int64_t i)
{
    int64_t screening = weft_study_screening(s);
    struct weft_study_run run = i < screening ? screening_run(s, i) : judged_run(s, i - screening);
    weft_run_folder(s->arm[run.arm].name, run.lr, run.seed, run.folder);
    return run;
}

enum weft_status weft_study_run_vary(const struct weft_study *s, const struct weft_study_run *run,
                                     struct weft_arm_twin *twin)
{
    char seed[40], lr[64] = "lr=";
    snprintf(seed, sizeof seed, "seed=%" PRId64, run->seed);
    weft_json_real(run->lr, lr + 3, sizeof lr - 3);
    return weft_arm_vary(twin, &s->arm[run->arm], (const char *const[]){seed, isnan(run->lr) ? NULL : lr, NULL});
}

enum weft_status weft_study_run_config(const struct weft_study *s, const struct weft_study_run *run, char **text,
                                       char hash[65])
{
    struct weft_arm_twin twin;
    *text = NULL;
    enum weft_status status = weft_study_run_vary(s, run, &twin);
    if (status == WEFT_OK)
        status = weft_record_config(&twin.settings, text, hash);
    weft_arm_twin_release(&twin);
    return status;
}
