/* SPDX-License-Identifier: MIT
 *
 * updates.c - recomputes every update of weights and moments from the trainer's own gradients.
 *
 * Weights, gradients and moments are copied before an update and recomputed one by one after it. The result of an
 * update is the starting point of the next, so the stored moments are also checked. An optimiser without a plain
 * definition only has to move every weight that has a gradient.
 *
 * In models with more than MOST parameters a part of every tensor is compared: BLOCK elements out of every PERIOD, and
 * the last BLOCK. PERIOD is odd, so that the blocks fall on every position relative to a span.
 */
#include "check/trainer/updates.h"
#include "check/trainer/stepped.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 50000000, BLOCK = 256, PERIOD = 16 * BLOCK + 1, RUN = 1 << 16 };
enum { WEIGHT, GRADIENT, M, V, ARRAYS };

/* ---- the elements to compare */

static const float *array(const struct weft_learner *t, int which)
{
    const float *arrays[ARRAYS] = {t->model->params.weights, t->sums[0].grads, t->moments[0], t->moments[1]};
    return arrays[which];
}

/* Adds the runs of a tensor; if `runs` is NULL, only counts them. */
static void add_runs(struct weft_updates *u, int param, bool all, struct weft_run *runs)
{
    const struct weft_param *w = &u->trainer->model->params.list[param];
    int64_t length = all ? RUN : BLOCK, period = all ? RUN : PERIOD;
    for (int64_t first = 0; first < w->count; first += period) {
        int64_t at = all || first + period < w->count ? first : weft_max(first, w->count - length);
        int64_t count = weft_min(length, w->count - at);
        if (runs)
            runs[u->run_count] =
                (struct weft_run){.param = param, .first = w->offset + at, .count = count, .at = u->count};
        u->run_count++;
        u->count += count;
    }
}

static void find_runs(struct weft_updates *u, struct weft_run *runs)
{
    const struct weft_params *p = &u->trainer->model->params;
    u->run_count = u->count = 0;
    for (int i = 0; i < p->count; i++)
        add_runs(u, i, p->elements <= MOST, runs);
}

enum weft_status weft_updates_open(struct weft_updates *u, const struct weft_learner *trainer)
{
    *u = (struct weft_updates){.trainer = trainer, .what = ""};
    weft_plain_init(&u->plain, trainer->recipe->optim, trainer->recipe->optim_options);
    find_runs(u, NULL);
    u->runs = calloc((size_t)u->run_count, sizeof *u->runs);
    bool made = u->runs;
    for (int i = 0; i < ARRAYS; i++)
        made &= (u->before[i] = calloc((size_t)u->count, sizeof(float))) != NULL;
    if (!made)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    find_runs(u, u->runs);
    return WEFT_OK;
}

void weft_updates_close(struct weft_updates *u)
{
    free(u->runs);
    for (int i = 0; i < ARRAYS; i++)
        free(u->before[i]);
    *u = (struct weft_updates){0};
}

/* ---- before */

static double plain_norm(const struct weft_updates *u)
{
    const struct weft_learner *t = u->trainer;
    const struct weft_params *p = &t->model->params;
    struct weft_plain_step step = weft_plain_begin(&u->plain, t->step + 1, 0);
    double sum = 0;
    for (int i = 0; i < p->count; i++)
        for (int64_t e = p->list[i].offset; e < p->list[i].offset + p->list[i].count; e++) {
            double g = weft_plain_limit(&step, t->sums[0].grads[e], t->moments[1][e]);
            sum += g * g;
        }
    return sqrt(sum);
}

void weft_updates_before(struct weft_updates *u)
{
    for (int i = 0; i < ARRAYS; i++) {
        const float *from = array(u->trainer, i);
        float *to = u->before[i];
        for (int64_t r = 0; r < u->run_count; r++)
            for (int64_t e = 0; e < u->runs[r].count; e++)
                *to++ = from[u->runs[r].first + e];
    }
    u->norm = plain_norm(u);
}

/* ---- after */

static double over(double error, double allowed) { return error == 0 ? 0 : error / allowed; }

static void note(struct weft_run *run, double error, const char *what, int64_t element)
{
    if (error <= run->error)
        return;
    run->error = isnan(error) ? INFINITY : error;
    run->what = what;
    run->element = element;
}

struct comparing {
    struct weft_updates *u;
    struct weft_plain_step step;
    double scale; /* factor by which the clip reduces gradients */
};

static void compare_one(const struct comparing *c, struct weft_run *run, const struct weft_param *w, int64_t e)
{
    const struct weft_updates *u = c->u;
    const struct weft_learner *t = u->trainer;
    int64_t n = run->at + e, at = run->first + e;
    struct weft_plain_weight x = {u->before[WEIGHT][n], u->before[M][n], u->before[V][n]}, was = x;
    double g = c->scale * weft_plain_limit(&c->step, u->before[GRADIENT][n], was.v);
    double moved = weft_plain_update(&c->step, w, g, &x);
    /* relative to the weight, only its rounding error is allowed, so that decay at a small learning rate is visible */
    double allowed = 1e-6 * (0.25 * fabs(was.w) + w->rate * c->step.lr + fabs(moved));
    if (x.v > 1e-31 || u->plain.eps > 1e-12) /* otherwise v is too small for f32, and eps does not hide it */
        note(run, over(fabs(t->model->params.weights[at] - x.w), allowed), "weight", e);
    note(run, over(fabs(t->moments[0][at] - x.m), 1e-6 * (fabs(was.m) + fabs(g)) + 1e-37), "first moment", e);
    note(run, over(fabs(t->moments[1][at] - x.v), 1e-6 * (was.v + g * g) + 1e-37), "second moment", e);
}

static void compare_run(void *context, int64_t tile, int thread)
{
    const struct comparing *c = context;
    struct weft_run *run = &c->u->runs[tile];
    const struct weft_param *w = &c->u->trainer->model->params.list[run->param];
    (void)thread;
    for (int64_t e = 0; e < run->count; e++)
        compare_one(c, run, w, e);
}

/* For optimisers without a definition: a tensor of which no weight moved is an error if a step along the gradient would
 * not be lost in rounding. */
static void check_moved(struct weft_updates *u, double lr)
{
    const float *weights = u->trainer->model->params.weights;
    for (int64_t r = 0; r < u->run_count;) {
        int param = u->runs[r].param;
        bool moved = false, must = false;
        for (; r < u->run_count && u->runs[r].param == param; r++)
            for (int64_t e = 0; e < u->runs[r].count; e++) {
                float was = u->before[WEIGHT][u->runs[r].at + e];
                moved |= weights[u->runs[r].first + e] != was;
                must |= lr * fabs(u->before[GRADIENT][u->runs[r].at + e]) > 1e-6 * fabs(was);
            }
        if (must && !moved)
            note(&u->runs[r - 1], INFINITY, "weight that does not move", 0);
    }
}

/* Keeps the largest error of all runs, if it is larger than in previous updates. */
static void keep_worst(struct weft_updates *u)
{
    const struct weft_params *p = &u->trainer->model->params;
    for (int64_t r = 0; r < u->run_count; r++) {
        struct weft_run *run = &u->runs[r];
        if (run->error > u->error) {
            u->error = run->error;
            u->what = run->what;
            u->at = run->param;
            u->element = run->first + run->element - p->list[run->param].offset;
            u->step = u->trainer->step;
        }
        run->error = 0;
    }
}

void weft_updates_after(struct weft_updates *u)
{
    const struct weft_learner *t = u->trainer;
    const struct weft_recipe *r = t->recipe;
    struct comparing c = {u, weft_plain_begin(&u->plain, t->step, weft_plain_lr(r, t->step)), 1};
    u->tried++;
    /* the trainer's norm is an f32 sum, so the clip is recomputed from it and not from the plain norm */
    if (u->plain.known || !r->optim->limit)
        note(&u->runs[0], over(fabs(t->grad_norm - u->norm), 1e-4 * u->norm), "norm of all gradients, including that",
             0);
    if (t->grad_norm > r->clip)
        c.scale = r->clip / t->grad_norm;
    if (u->plain.known)
        weft_parallel(u->run_count, compare_run, &c);
    else
        check_moved(u, c.step.lr * c.scale);
    keep_worst(u);
}

void weft_updates_report(const struct weft_trial *t, const struct weft_updates *u, const char *what)
{
    const struct weft_params *p = &u->trainer->model->params;
    const char *optim = u->trainer->recipe->optim->name;
    char name[160], part[64] = "";
    if (u->count < p->elements)
        snprintf(part, sizeof part, ", %lld of %lld weights", (long long)u->count, (long long)p->elements);
    if (u->plain.known)
        snprintf(name, sizeof name, "%s: %lld updates by %s against plain ones%s", what, (long long)u->tried, optim,
                 part);
    else
        snprintf(name, sizeof name, "%s: weights move; no plain definition of %s: its updates are not recomputed%s",
                 what, optim, part);
    weft_trial_report(t, u->error <= 1, 1e-6 * u->error, 1e-6, name, "%s of %s, element %lld, step %lld", u->what,
                      p->list[u->at].name, (long long)u->element, (long long)u->step);
}

enum weft_status weft_trial_refused(const struct weft_trial *t, enum weft_status status, const char *what)
{
    char name[160];
    if (status != WEFT_CHECK && status != WEFT_FORMAT) /* format errors are in files that the trainer itself wrote */
        return status;
    snprintf(name, sizeof name, "%s: the trainer takes its steps", what);
    weft_trial_report(t, false, 1, 0, name, "%s", weft_error());
    weft_error_clear();
    return WEFT_OK;
}
