/* SPDX-License-Identifier: MIT
 *
 * estimate.c - estimates whether a study can run on this machine, and how long it would take.
 *
 * If the data exists and the model is not large, a few steps of every arm are timed. Otherwise, a run is assumed to
 * reach half the speed of large matmuls, as large models do; small models are slower.
 */
#include "bench/bench.h"
#include "dnn/dnn.h"
#include "study/study.h"
#include "train/learner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHARE_OF_ENGINE 0.5
#define LONG_STEP 2.0    /* seconds; longer steps are not timed, because timing takes at least two steps */
#define TIMED 0.25       /* minimum time of timed steps in seconds */
#define MANY_WEIGHTS 2e7 /* models with more weights are not timed: creating them and training a step takes long */
#define STARTING 0.3     /* seconds per run, including saving at the end */

/* ---- memory */

static enum weft_status fit(const struct weft_arm *arm, int64_t bytes)
{
    struct weft_nn *model = NULL;
    enum weft_status status = weft_nn_create(&model, &arm->spec);
    if (status == WEFT_OK)
        status = weft_account_fit(model, &arm->recipe, 1, bytes);
    weft_nn_free(model);
    return status;
}

/* Notes the first line of the last error, with the arm's name, as the obstacle unless there already is one. */
static void note(struct weft_estimate *e, const struct weft_arm *arm)
{
    const char *message = weft_error();
    if (!*e->obstacle)
        snprintf(e->obstacle, sizeof e->obstacle, "arm %s: %.*s", arm->name,
                 (int)weft_min(400, (int64_t)strcspn(message, "\n")), message);
    weft_error_clear();
}

/* Sets the number of concurrent runs: as many as cores and memory allow or, on different hosts, as many as the study
 * allows. */
static void choose_slots(const struct weft_study *s, bool elsewhere, struct weft_estimate *e)
{
    int64_t cores = weft_threads(), bytes = weft_available_bytes(), runs = weft_study_runs(s);
    int64_t slots = weft_min(s->slots ? s->slots : elsewhere ? runs : cores, runs);
    for (int i = 0; i < s->arm_count && !elsewhere; i++) {
        while (slots > 1 && fit(&s->arm[i], bytes / slots) != WEFT_OK)
            slots--;
        if (slots == 1 && fit(&s->arm[i], bytes) != WEFT_OK)
            note(e, &s->arm[i]);
    }
    weft_error_clear();
    e->slots = (int)slots;
    e->threads = (int)weft_max(1, elsewhere ? cores : cores / slots);
}

/* ---- time */

static enum weft_status take_steps(struct weft_learner *t, double *seconds)
{
    enum { MOST = 20 };
    struct weft_losses losses;
    TRY(weft_learner_step(t, &losses)); /* warm-up, not timed */
    double start = weft_seconds();
    int n = 0;
    do
        TRY(weft_learner_step(t, &losses));
    while (++n < MOST && weft_seconds() - start < TIMED);
    *seconds = (weft_seconds() - start) / n;
    return WEFT_OK;
}

static enum weft_status time_step(const struct weft_arm *arm, double *seconds)
{
    struct weft_nn *model = NULL;
    struct weft_learner *t = NULL;
    weft_dnn_note_speed(arm->spec.compute);
    enum weft_status status = weft_nn_create(&model, &arm->spec);
    if (status == WEFT_OK)
        status = weft_nn_init(model);
    if (status == WEFT_OK)
        status = weft_learner_create(&t, model, &arm->recipe, NULL);
    if (status == WEFT_OK)
        status = take_steps(t, seconds);
    weft_learner_free(t);
    weft_nn_free(model);
    return status;
}

/* Returns the estimated duration of a run in seconds, including its evaluations; evaluating a sample takes a third of
 * the time of training on it. */
static double time_run(const struct weft_arm *arm, int64_t steps)
{
    const struct weft_recipe *r = &arm->recipe;
    double evals = 2 + (r->eval_every ? (double)(steps / r->eval_every) : 0);
    double sample = arm->step_seconds / (double)(r->micro_batches * arm->spec.batch);
    return STARTING + (double)steps * arm->step_seconds + evals * (double)r->eval_samples * sample / 3;
}

double weft_study_seconds(const struct weft_study *s, const struct weft_estimate *e, int64_t steps)
{
    double seconds = 0;
    for (int64_t i = 0; i < weft_study_runs(s); i++)
        seconds += time_run(&s->arm[weft_study_run_at(s, i).arm], steps) / e->slots;
    return seconds;
}

static enum weft_status estimate_arm(struct weft_arm *arm, struct weft_estimate *e)
{
    const struct weft_recipe *r = &arm->recipe;
    int64_t tokens = r->micro_batches * arm->spec.batch * r->task->length(r->task_options);
    double rate, *step = &arm->step_seconds, flops = arm->account.flops_train;
    TRY(weft_product_rate(arm->spec.compute, 0.05, &rate));
    if (weft_recipe_open(&arm->recipe, &arm->spec) != WEFT_OK) {
        e->no_data |= !*e->obstacle;
        note(e, arm);
    } else
        TRY(weft_recipe_flops(r, &arm->spec, flops, &flops));
    *step = flops * (double)tokens / (SHARE_OF_ENGINE * rate);
    if (*e->obstacle || *step > LONG_STEP || (double)arm->account.params > MANY_WEIGHTS)
        e->timed = false;
    else
        TRY(time_step(arm, step));
    arm->seconds = time_run(arm, r->steps);
    return WEFT_OK;
}

enum weft_status weft_study_estimate(struct weft_study *s, bool elsewhere, struct weft_estimate *e)
{
    struct weft_threads_scope scope;
    *e = (struct weft_estimate){.timed = true};
    choose_slots(s, elsewhere, e);
    weft_threads_enter(&scope, e->threads);
    enum weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < s->arm_count; i++)
        if (s->arm[i].repeats >= 0) {
            s->arm[i].step_seconds = s->arm[s->arm[i].repeats].step_seconds;
            s->arm[i].seconds = s->arm[s->arm[i].repeats].seconds;
        } else
            status = estimate_arm(&s->arm[i], e);
    weft_threads_leave(&scope);
    for (int64_t i = 0; i < weft_study_runs(s); i++)
        e->seconds += s->arm[weft_study_run_at(s, i).arm].seconds / e->slots;
    return status;
}
