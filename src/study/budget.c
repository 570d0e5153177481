/* SPDX-License-Identifier: MIT
 *
 * budget.c - fixes the number of steps that fits into a time limit.
 *
 * The number is fixed once, with the plan, for all arms: study.json records it together with a hash of the plan. A
 * study that is continued, on any machine, reads the number from study.json.
 */
#include "base/fields.h"
#include "study/study.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* Checks that all arms have the first arm's number of steps, because a budget fixes one number for all. */
static enum weft_status check_steps(const struct weft_study *s)
{
    for (int i = 1; i < s->arm_count; i++)
        if (s->arm[i].recipe.steps != s->arm[0].recipe.steps)
            return FAIL(WEFT_INVALID,
                        "a budget fixes one number of steps for all arms, but arm %s has steps=%" PRId64
                        " and arm %s has %" PRId64 ": remove one of these settings",
                        s->arm[i].name, s->arm[i].recipe.steps, s->arm[0].name, s->arm[0].recipe.steps);
    return WEFT_OK;
}

/* ---- the number of steps in a folder's plan */

/* Reads the number of steps from the folder's plan; 0: there is no plan, or its budget or study is different. */
static enum weft_status read_number(const struct weft_study *s, const char *path, int64_t *steps)
{
    json_t *study;
    TRY(weft_fields_load(path, &study));
    struct weft_fields f = {.object = study, .where = path};
    struct weft_fields b = {.object = json_object_get(study, "budget"), .where = path};
    if (json_is_object(b.object)) {
        double minutes = weft_field_real(&b, "minutes");
        const char *plan = weft_field_text(&b, "plan_sha256");
        if (minutes == s->budget && strcmp(plan, s->whole_sha256) == 0)
            *steps = weft_field_int(&f, "steps", 1, s->whole_steps);
    }
    enum weft_status status = b.status != WEFT_OK ? b.status : f.status;
    json_decref(study);
    return status;
}

static enum weft_status find_number(const struct weft_study *s, const char *folder, int64_t *steps)
{
    char path[4096];
    *steps = 0;
    if (snprintf(path, sizeof path, "%s/study.json", folder) >= (int)sizeof path)
        return FAIL(WEFT_INVALID, "the path of the study's folder is too long");
    return access(path, F_OK) == 0 ? read_number(s, path, steps) : WEFT_OK;
}

/* ---- a new number of steps */

static enum weft_status choose_number(const struct weft_study *s, const struct weft_estimate *e, int64_t *steps)
{
    int64_t fits = 0, too_many = s->whole_steps + 1;
    while (too_many - fits > 1) {
        int64_t middle = fits + (too_many - fits) / 2;
        if (weft_study_seconds(s, e, middle) <= 60 * s->budget)
            fits = middle;
        else
            too_many = middle;
    }
    *steps = fits;
    if (!fits)
        return FAIL(WEFT_INVALID,
                    "a budget of %g minutes is too small for one step of every run: %" PRId64
                    " runs of one step take about %.0f minutes, including scoring. Increase the budget, use fewer "
                    "seeds or arms, or reduce eval_samples",
                    s->budget, weft_study_runs(s), ceil(weft_study_seconds(s, e, 1) / 60));
    return WEFT_OK;
}

/* The warm-up keeps its fraction of the steps. */
static enum weft_status set_steps(struct weft_arm *arm, int64_t steps)
{
    const struct weft_recipe *r = &arm->recipe;
    double warmup = round((double)r->warmup * (double)steps / (double)r->steps);
    char settings[2][64];
    snprintf(settings[0], sizeof settings[0], "steps=%" PRId64, steps);
    snprintf(settings[1], sizeof settings[1], "warmup=%.0f", r->warmup ? fmax(1, warmup) : 0);
    return weft_arm_set(arm, (const char *const[]){settings[0], settings[1], NULL});
}

enum weft_status weft_study_fix_steps(struct weft_study *s, const char *folder, struct weft_estimate *e)
{
    int64_t steps;
    if (s->budget == 0)
        return WEFT_OK;
    TRY(check_steps(s));
    s->whole_steps = s->arm[0].recipe.steps;
    *s->whole_sha256 = 0;
    TRY(weft_study_plan_hash(s, s->whole_sha256));
    TRY(find_number(s, folder, &steps));
    if (!steps && !e)
        return FAIL(WEFT_INVALID, "%s has no plan with a budget of %g minutes: plan it first, without --run", folder,
                    s->budget);
    if (!steps)
        TRY(choose_number(s, e, &steps));
    for (int i = 0; i < s->arm_count && steps != s->whole_steps; i++)
        TRY(set_steps(&s->arm[i], steps));
    if (e)
        e->seconds = weft_study_seconds(s, e, steps);
    return WEFT_OK;
}
