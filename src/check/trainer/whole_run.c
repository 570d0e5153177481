/* SPDX-License-Identifier: MIT
 *
 * whole_run.c - checks a whole run on a twin of the model: the training loop with its log, its scores of validation and
 * test, and its checkpoints, in a temporary folder.
 *
 * Plain code computes each step before the loop takes it, and scores the weights when the loop has scored them. Weights
 * are scaled up during the run and later partly scaled down, and the logits with them, while targets are random. So
 * scores get worse, then better, and the last is neither the best nor the worst: a score kept from an earlier step
 * would be detected. A second run is stopped and resumed by a new trainer; its final weights and moments must have the
 * same bits. If it is resumed with no step left, it is only scored again.
 */
#include "check/trainer/scores.h"
#include "check/trainer/stepped.h"
#include "check/trainer/sums.h"
#include "train/loop.h"
#include "train/record/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 8, STOP = 3, EVAL_EVERY = 3, EVAL_SAMPLES = 7, MOST_SAMPLES = 4096, MICRO_BATCHES = 3, GROUPS = 2 };
enum { ENLARGED = 4, REDUCED = 7 }; /* steps after which weights are scaled up and down */
#define DROPOUT 0.1
#define SCORE_LIMIT 1e-4

/* Scales the weights after some steps. The change depends only on the step, so that a run that is stopped and resumed
 * gets the same one. */
static void change_weights(const struct weft_rehearsal *s, int64_t step)
{
    float factor = step == ENLARGED ? 2 : step == REDUCED ? 0.75F : 1;
    for (int64_t i = 0; factor != 1 && i < s->model.params.total; i++)
        s->model.params.weights[i] *= factor;
}

/* ---- the expected values of each step */

struct following {
    struct weft_rehearsal *s;
    struct weft_sums plain; /* plain sums of the next step */
    struct weft_expected steps[STEPS];
    struct weft_scores scores; /* final scores of the loop */
    double gradients, losses;  /* largest errors */
    int gradients_at;
    const char *losses_at;
    enum weft_status status;
};

static double norm_of(const struct weft_sums *plain)
{
    double sum = 0;
    for (int64_t i = 0; i < plain->probe.model->params.total; i++)
        sum += plain->grads[i] * plain->grads[i];
    return sqrt(sum);
}

static void foresee(struct following *f)
{
    const struct weft_rehearsal *s = f->s;
    int64_t step = s->trainer->step;
    if (step >= STEPS)
        return;
    weft_sums_run(&f->plain, s);
    struct weft_expected *e = &f->steps[step];
    e->losses = f->plain.losses;
    e->lr = weft_plain_lr(&s->recipe, step + 1);
    e->norm = s->recipe.optim->limit ? NAN : norm_of(&f->plain);
    e->tokens = (step + 1) * MICRO_BATCHES * s->spec.batch * s->length;
    e->tested = step + 1 == STEPS;
    e->scored = e->tested || (step + 1) % EVAL_EVERY == 0;
}

static void compare(struct following *f, const struct weft_progress *now)
{
    const char *loss = "";
    int at = 0;
    double error = weft_sums_loss_error(&f->plain, &now->losses, &loss);
    if (!(error <= f->losses)) {
        f->losses = error;
        f->losses_at = loss;
    }
    error = f->s->recipe.optim->limit ? 0 : weft_sums_error(&f->plain, f->s->trainer, &at);
    if (!(error <= f->gradients)) {
        f->gradients = error;
        f->gradients_at = at;
    }
}

/* Called after every step of the loop. */
static void follow(void *context, const struct weft_progress *now)
{
    struct following *f = context;
    struct weft_expected *e = &f->steps[now->step - 1];
    compare(f, now);
    if (e->scored && f->status == WEFT_OK)
        f->status = weft_score_plainly(f->s, WEFT_HELD_OUT, &e->val);
    if (e->tested && f->status == WEFT_OK)
        f->status = weft_score_plainly(f->s, WEFT_TEST, &e->test);
    change_weights(f->s, now->step);
    foresee(f);
}

/* ---- runs */

static enum weft_status open_rehearsal(struct weft_rehearsal *s, const struct weft_trial *t)
{
    const struct weft_recipe *own = t->itself->recipe;
    TRY(weft_rehearsal_open(s, t->model, own->optim, DROPOUT, MICRO_BATCHES, GROUPS, NULL));
    s->settings.preset_name = t->model->spec->preset;
    s->recipe.steps = STEPS;
    s->recipe.choice.schedule = own->choice.schedule;
    s->recipe.log_every = 1;
    s->recipe.eval_every = EVAL_EVERY;
    s->recipe.eval_samples = EVAL_SAMPLES;
    s->recipe.checkpoint_every = 0;
    return WEFT_OK;
}

/* Runs the loop like `weft train`, until it is done or stopped. *began (optional) is the step it continues from. */
static enum weft_status run_loop(struct weft_rehearsal *s, struct weft_record *record, weft_progress_fn *report,
                                 void *context, atomic_int *stop, struct weft_scores *scores, int64_t *began)
{
    struct weft_loop loop;
    bool finished;
    TRY(weft_record_begin(record, s->trainer));
    if (began)
        *began = s->trainer->step;
    TRY(weft_loop_init(&loop, s->trainer));
    loop.folder = record->folder;
    loop.record = record;
    loop.report = report;
    loop.context = context;
    loop.stop = stop;
    TRY(weft_loop_run(&loop, &finished, scores));
    return WEFT_OK;
}

static enum weft_status run_in(const char *folder, bool resume, struct weft_rehearsal *s, weft_progress_fn *report,
                               void *context, atomic_int *stop, struct weft_scores *scores, int64_t *began)
{
    struct weft_record record = {0};
    enum weft_status status = weft_record_open(&record, folder, resume, &s->recipe, &s->settings);
    if (status == WEFT_OK)
        status = run_loop(s, &record, report, context, stop, scores, began);
    weft_record_close(&record);
    return status;
}

/* ---- the whole run */

static double score_error(const struct weft_plain_score *plain, const struct weft_score *score)
{
    if (!isfinite(score->loss) || !isfinite(score->accuracy))
        return INFINITY;
    return fmax(weft_score_loss_error(plain, score->loss), weft_score_accuracy_error(plain, score->accuracy));
}

static void compare_final(const struct weft_trial *t, const struct following *f, const struct weft_scores *scores,
                          const char *name)
{
    const struct weft_expected *last = &f->steps[STEPS - 1];
    double of_val = score_error(&last->val, &scores->val), of_test = score_error(&last->test, &scores->test);
    bool counted = scores->val.tokens == last->val.tokens && scores->test.tokens == last->test.tokens;
    weft_trial_report(t, counted && of_val <= SCORE_LIMIT && of_test <= SCORE_LIMIT, fmax(of_val, of_test), SCORE_LIMIT,
                      name, "%s",
                      counted ? of_test > of_val ? "the test" : "validation" : "the number of scored tokens");
}

static double mean_loss(const struct weft_plain_score *s) { return s->loss / (double)weft_max(1, s->tokens); }

/* Returns how much the loss rises between two steps, in units of the limit of comparisons with plain scores. */
static double rise(const struct weft_expected *from, const struct weft_expected *to)
{
    double a = mean_loss(&from->val), b = mean_loss(&to->val);
    return (b - a) / ((1 + fmax(a, b)) * SCORE_LIMIT);
}

/* Reports whether the best score, or the score of a different step, would differ from the last score. */
static void report_course(const struct weft_trial *t, const struct following *f)
{
    const double clear = 0.1;
    const struct weft_expected *first = &f->steps[EVAL_EVERY - 1], *second = &f->steps[2 * EVAL_EVERY - 1];
    const struct weft_expected *last = &f->steps[STEPS - 1];
    double rises = fmax(rise(first, second), rise(second, last)), falls = fmax(rise(second, first), rise(last, second));
    double above_best = fmax(rise(first, last), rise(second, last));
    double least = fmin(fmin(rises, falls), above_best), error = least > 0 ? 1 / least : INFINITY;
    weft_trial_report(t, true, error, clear,
                      error <= clear ? "a whole run: error that a score may have, in the rises and falls of the loss"
                                     : "a whole run: scores of different steps cannot be distinguished, the loss rises "
                                       "and falls too little",
                      "%s", "");
}

static enum weft_status follow_run(const struct weft_trial *t, struct following *f, const char *folder)
{
    const double limit = 1e-4;
    TRY(weft_sums_open(&f->plain, f->s, WEFT_FAST));
    foresee(f);
    TRY(run_in(folder, false, f->s, follow, f, NULL, &f->scores, NULL));
    TRY(f->status);
    weft_trial_report(t, f->gradients <= limit, f->gradients, limit, "a whole run: gradients against plain sums", "%s",
                      f->s->model.params.list[f->gradients_at].name);
    weft_trial_report(t, f->losses <= limit, f->losses, limit, "a whole run: losses against plain sums", "%s",
                      f->losses_at);
    compare_final(t, f, &f->scores, "a whole run: final scores against plain ones");
    report_course(t, f);
    TRY(weft_check_log(t, folder, f->steps, STEPS, "a whole run"));
    return WEFT_OK;
}

/* ---- a run that is stopped */

struct part {
    const struct weft_rehearsal *s;
    bool whole; /* run to the end without a stop */
    atomic_int stop;
};

static void follow_part(void *context, const struct weft_progress *now)
{
    struct part *part = context;
    if (now->step == STOP && !part->whole)
        atomic_store(&part->stop, 1);
    change_weights(part->s, now->step);
}

/* Runs one part with its own trainer; all parts start with the same initial weights. */
static enum weft_status take_part(const struct weft_trial *t, const char *folder, int64_t from,
                                  struct weft_rehearsal *s, struct weft_scores *scores)
{
    struct part part = {.s = s, .whole = from > 0};
    int64_t began = 0;
    *scores = (struct weft_scores){0};
    TRY(open_rehearsal(s, t));
    TRY(run_in(folder, from > 0, s, follow_part, &part, &part.stop, scores, &began));
    weft_trial_report(t, began == from, (double)(began - from), 0,
                      from == STEPS ? "finished and resumed: steps between its checkpoint and where it continues"
                      : from > 0    ? "stopped and resumed: steps between its checkpoint and where it continues"
                                    : "stopped and resumed: steps before the first",
                      "step %lld", (long long)began);
    return WEFT_OK;
}

static void compare_ends(const struct weft_trial *t, const struct weft_learner *whole, const struct weft_learner *parts)
{
    const struct weft_params *p = &whole->model->params;
    const float *a[] = {p->weights, whole->moments[0], whole->moments[1]};
    const float *b[] = {parts->model->params.weights, parts->moments[0], parts->moments[1]};
    static const char *const names[] = {"its value", "its first moment", "its second moment"};
    int differing = 0, at = 0, what = 0;
    for (int i = 0; i < p->count; i++)
        for (int k = 0; k < 3; k++) {
            const struct weft_param *w = &p->list[i];
            if (memcmp(a[k] + w->offset, b[k] + w->offset, (size_t)w->count * sizeof(float)) != 0) {
                differing++;
                at = i;
                what = k;
            }
        }
    weft_trial_report(t, differing == 0 && parts->step == whole->step, differing, 0,
                      "stopped and resumed: weights and moments that differ from a whole run's", "%s: %s",
                      p->list[at].name, names[what]);
}

static enum weft_status begin_and_stop(const struct weft_trial *t, const char *folder)
{
    struct weft_rehearsal s;
    struct weft_scores unknown;
    enum weft_status status = take_part(t, folder, 0, &s, &unknown);
    weft_rehearsal_close(&s);
    return status;
}

static enum weft_status resume(const struct weft_trial *t, const struct following *f, const char *folder)
{
    struct weft_rehearsal s;
    struct weft_scores scores;
    enum weft_status status = take_part(t, folder, STOP, &s, &scores);
    if (status == WEFT_OK) {
        compare_ends(t, f->s->trainer, s.trainer);
        compare_final(t, f, &scores, "stopped and resumed: final scores against plain ones");
        status = weft_check_log(t, folder, f->steps, STEPS, "stopped and resumed");
    }
    weft_rehearsal_close(&s);
    return status;
}

/* No step is left, so the weights are only scored. */
static enum weft_status resume_finished(const struct weft_trial *t, const struct following *f, const char *folder)
{
    struct weft_rehearsal s;
    struct weft_scores scores;
    enum weft_status status = take_part(t, folder, STEPS, &s, &scores);
    if (status == WEFT_OK)
        compare_final(t, f, &scores, "finished and resumed: scores against plain ones");
    weft_rehearsal_close(&s);
    return status;
}

/* ---- the whole check */

static enum weft_status check_runs(const struct weft_trial *t, struct weft_rehearsal *s, const char *folder)
{
    char whole[300], parts[300];
    struct following f = {.s = s, .losses_at = ""};
    snprintf(whole, sizeof whole, "%s/whole", folder);
    snprintf(parts, sizeof parts, "%s/parts", folder);
    enum weft_status status = follow_run(t, &f, whole);
    if (status == WEFT_OK)
        status = begin_and_stop(t, parts);
    if (status == WEFT_OK)
        status = resume(t, &f, parts);
    if (status == WEFT_OK)
        status = resume_finished(t, &f, parts);
    weft_sums_close(&f.plain);
    TRY(status);
    s->recipe.eval_samples = weft_min(t->itself->recipe->eval_samples, MOST_SAMPLES);
    TRY(weft_check_scores(t, s));
    return WEFT_OK;
}

static enum weft_status rehearse(const struct weft_trial *t)
{
    struct weft_rehearsal s;
    struct weft_scratch scratch;
    enum weft_status status = open_rehearsal(&s, t);
    if (status == WEFT_OK)
        status = weft_scratch_make(&scratch);
    if (status == WEFT_OK) {
        status = check_runs(t, &s, scratch.folder);
        weft_scratch_remove(&scratch);
    }
    weft_rehearsal_close(&s);
    return weft_trial_refused(t, status, "a whole run");
}

enum weft_status weft_check_rehearsed(const struct weft_trial *t)
{
    if (WEFT_SANITIZED) /* it takes four runs, and each hashes the program */
        return WEFT_OK;
    return weft_trial_on_twin(t, rehearse);
}
