/* SPDX-License-Identifier: MIT
 *
 * loop.c - runs steps until done, with the actions due after each: records, held-out scores, diagnoses, checkpoints.
 *
 * Everything that a run writes is a function of the step, so a run that was stopped at any point and resumed writes the
 * same files. A checkpoint is written last, when the records up to its step are safe on disk.
 */
#include "train/loop.h"
#include "train/record/internal.h"
#include "train/score/items.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Durations for --time: the longest so far, in seconds. */
struct pace {
    double step;  /* step without the actions due after it */
    double score; /* per held-out sample */
    double diagnosis;
    double save;
};

static bool due_at(const struct weft_learner *t, int64_t step, int64_t every)
{
    return step == t->recipe->steps || (every && step % every == 0);
}

static bool due(const struct weft_learner *t, int64_t every) { return due_at(t, t->step, every); }

static double longer(double a, double b) { return a > b ? a : b; }

static enum weft_status save(struct weft_loop *l, struct pace *pace, bool due)
{
    double start = weft_seconds();
    TRY(weft_state_save(l->trainer, l->folder, l->record, due));
    pace->save = longer(pace->save, weft_seconds() - start);
    return WEFT_OK;
}

static enum weft_status diagnose(struct weft_loop *l, struct weft_progress *now, struct pace *pace)
{
    struct weft_learner *t = l->trainer;
    double start = weft_seconds();
    now->diagnosis = NULL;
    if (!t->recipe->diagnose_every || !due(t, t->recipe->diagnose_every))
        return WEFT_OK;
    TRY(weft_learner_diagnose(t));
    pace->diagnosis = longer(pace->diagnosis, weft_seconds() - start);
    now->diagnosis = &t->diagnosis;
    if (l->record)
        TRY(weft_log_diagnosis(l->record, t));
    return WEFT_OK;
}

/* Returns the number of samples scored after a step. The test is scored only at the end, because no earlier decision
 * depends on it. */
static double scored_samples(const struct weft_learner *t, int64_t step)
{
    int64_t wanted = t->recipe->eval_samples, samples = weft_recipe_held_out(t->recipe, WEFT_HELD_OUT, wanted);
    if (step == t->recipe->steps)
        samples += weft_recipe_held_out(t->recipe, WEFT_TEST, wanted);
    return (double)samples;
}

static enum weft_status test(struct weft_loop *l, struct weft_score *score)
{
    const struct weft_learner *t = l->trainer;
    struct weft_items items = {0};
    enum weft_status status = weft_evaluate_test(t->model, t->recipe, t->comm, t->model->spec->batch, score, &items);
    if (status == WEFT_OK && l->record)
        status = weft_items_record(&items, l->record);
    weft_items_release(&items);
    return status;
}

static enum weft_status evaluate(struct weft_loop *l, struct weft_scores *scores, struct pace *pace)
{
    const struct weft_learner *t = l->trainer;
    double start = weft_seconds();
    TRY(weft_evaluate(t->model, t->recipe, t->comm, t->model->spec->batch, WEFT_HELD_OUT, &scores->val));
    if (t->step == t->recipe->steps)
        TRY(test(l, &scores->test));
    pace->score = longer(pace->score, (weft_seconds() - start) / scored_samples(t, t->step));
    return WEFT_OK;
}

/* Performs the actions due after a step; *scored and *saved: whether the current weights were scored and saved. */
static enum weft_status follow_up(struct weft_loop *l, struct weft_progress *now, struct pace *pace,
                                  struct weft_scores *scores, bool *scored, bool *saved)
{
    char hash[65];
    struct weft_learner *t = l->trainer;
    const struct weft_recipe *r = t->recipe;
    *scored = due(t, r->eval_every);
    *saved = l->folder && due(t, r->checkpoint_every);
    if (l->record && due(t, r->log_every))
        TRY(weft_log_losses(l->record, t, now));
    if (*scored) {
        TRY(evaluate(l, scores, pace));
        if (l->record)
            TRY(weft_log_scores(l->record, t, scores));
    }
    TRY(diagnose(l, now, pace));
    if (*saved) {
        TRY(save(l, pace, true));
    } else if (*scored && l->record) {
        weft_params_hash(&t->model->params, hash);
        TRY(weft_log_weights(l->record, t, hash));
    }
    return WEFT_OK;
}

/* Returns the expected duration of the next step, including the actions due after it and a checkpoint. Before they have
 * been measured, scoring a sample is assumed to take a third of the time for training on it, and a diagnosis as long as
 * a step. */
static double next_round(const struct weft_learner *t, const struct pace *pace)
{
    const struct weft_recipe *r = t->recipe;
    double seconds = pace->step + pace->save;
    double score = pace->score > 0 ? pace->score : pace->step / (double)(3 * r->micro_batches * t->model->spec->batch);
    if (due_at(t, t->step + 1, r->eval_every))
        seconds += score * scored_samples(t, t->step + 1);
    if (r->diagnose_every && due_at(t, t->step + 1, r->diagnose_every))
        seconds += pace->diagnosis > 0 ? pace->diagnosis : pace->step;
    return seconds;
}

static enum weft_status must_stop(const struct weft_loop *l, const struct pace *pace, bool *stop)
{
    bool mine = l->stop && atomic_load(l->stop);
    mine |= l->deadline > 0 && weft_seconds() + 1.5 * next_round(l->trainer, pace) > l->deadline;
    l->trainer->comm->phase = "between steps";
    l->trainer->comm->step = l->trainer->step + 1;
    TRY(weft_comm_any(l->trainer->comm, mine, stop));
    return WEFT_OK;
}

static void measure(struct weft_progress *now, const struct weft_learner *t, int64_t steps)
{
    now->step = t->step;
    now->tokens = t->step * now->step_tokens;
    now->tokens_per_s = (double)(steps * now->step_tokens) / now->seconds;
    now->seconds_left = now->seconds / (double)steps * (double)(now->steps - now->step);
}

enum weft_status weft_loop_init(struct weft_loop *l, struct weft_learner *t)
{
    const struct weft_recipe *r = t->recipe;
    int64_t tokens = t->model->spec->batch * t->length; /* tokens of a micro-batch */
    *l = (struct weft_loop){.trainer = t};
    l->progress = (struct weft_progress){.step = t->step, .steps = r->steps};
    l->progress.step_tokens = r->micro_batches * tokens;
    l->progress.tokens = t->step * l->progress.step_tokens;
    TRY(weft_recipe_flops(r, t->model->spec, weft_exec_cost(t->exec).flops / (double)tokens,
                          &l->progress.flops_per_token));
    return WEFT_OK;
}

enum weft_status weft_loop_run(struct weft_loop *l, bool *finished, struct weft_scores *scores)
{
    struct weft_learner *t = l->trainer;
    struct weft_progress *now = &l->progress;
    /* estimate until a save is measured: weights and moments at 100 MB/s */
    struct pace pace = {.save = l->folder ? 0.2 + 12e-8 * (double)t->model->params.total : 0};
    double start = weft_seconds(), before = t->seconds;
    int64_t first = t->step;
    bool scored = false, saved = false, stop = false;
    while (t->step < now->steps) {
        TRY(must_stop(l, &pace, &stop));
        if (stop)
            break;
        double begun = weft_seconds();
        TRY(weft_learner_step(t, &now->losses));
        pace.step = longer(pace.step, weft_seconds() - begun);
        now->seconds = weft_seconds() - start;
        t->seconds = before + now->seconds;
        measure(now, t, t->step - first);
        TRY(follow_up(l, now, &pace, scores, &scored, &saved));
        if (l->report)
            l->report(l->context, now);
    }
    *finished = t->step == now->steps;
    if (*finished && !scored)
        TRY(evaluate(l, scores, &pace));
    if (!*finished && l->folder && !saved)
        TRY(save(l, &pace, false));
    return WEFT_OK;
}
