/* SPDX-License-Identifier: MIT
 *
 * stepped.c - checks on the twin that the trainer follows its definition.
 *
 * Steps of the real trainer, the first three and some later ones, are compared with a plain trainer: gradient sums,
 * losses, and every update, recomputed from the trainer's own gradients. They use several divisions of a step into
 * micro-batches and groups, a clip that takes effect and one that does not, and are run with and without dropout. Then
 * every optimiser updates from random gradients and moments at steps where its definition changes.
 */
#include "check/trainer/stepped.h"
#include "check/probe/dropout.h"
#include "check/trainer/sums.h"
#include "check/trainer/updates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ATTEMPTS = 4, NUMBERS_KEY = 82 };
#define DROPOUT 0.1

/* ---- whole steps */

struct found {
    double sums, losses;
    int sums_at;
    const char *losses_at;
};

/* Takes one step. Its gradient is computed twice: first for the comparison, then by the step itself. */
static enum weft_status step(struct weft_rehearsal *s, struct weft_sums *plain, struct weft_updates *u, bool clips,
                             struct found *f)
{
    struct weft_losses losses;
    int at = 0;
    const char *loss = "";
    TRY(weft_learner_gradient(s->trainer));
    weft_updates_before(u);
    s->recipe.clip = (clips ? 0.3 : 3) * fmax(u->norm, 1e-9);
    weft_sums_run(plain, s);
    double error = weft_sums_error(plain, s->trainer, &at);
    if (!(error <= f->sums)) {
        f->sums = error;
        f->sums_at = at;
    }
    for (int64_t i = 0; i < s->model.params.total; i++)
        s->trainer->sums[0].grads[i] = 1; /* used by a step that does not compute its own gradient */
    TRY(weft_learner_step(s->trainer, &losses));
    weft_updates_after(u);
    error = weft_sums_loss_error(plain, &losses, &loss);
    if (!(error <= f->losses)) {
        f->losses = error;
        f->losses_at = loss;
    }
    return WEFT_OK;
}

static enum weft_status take_steps(const struct weft_trial *t, struct weft_rehearsal *s, struct weft_sums *plain,
                                   struct weft_updates *u, const char *what)
{
    static const int64_t steps[] = {0, 1, 2, 100, 101, 1998}; /* number of steps before each of them */
    const double limit = 1e-4;
    struct found f = {.losses_at = ""};
    char name[160];
    TRY(weft_sums_open(plain, s, WEFT_FAST));
    TRY(weft_updates_open(u, s->trainer));
    TRY(weft_learner_gradient(s->trainer));
    TRY(weft_check_sum_order(t, plain, s, what));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        s->trainer->step = steps[i];
        TRY(step(s, plain, u, i % 2 == 0, &f));
    }
    snprintf(name, sizeof name, "%s: gradients against plain sums", what);
    weft_trial_report(t, f.sums <= limit, f.sums, limit, name, "%s", s->model.params.list[f.sums_at].name);
    snprintf(name, sizeof name, "%s: losses against plain sums", what);
    weft_trial_report(t, f.losses <= limit, f.losses, limit, name, "%s", f.losses_at);
    weft_updates_report(t, u, what);
    return WEFT_OK;
}

enum weft_status weft_check_steps(const struct weft_trial *t, int64_t micro_batches, int64_t groups, double dropout)
{
    struct weft_rehearsal s;
    struct weft_sums plain = {0};
    struct weft_updates u = {0};
    char what[96];
    snprintf(what, sizeof what, "%lld micro-batches, %lld groups%s", (long long)micro_batches, (long long)groups,
             dropout > 0 ? ", dropout" : "");
    enum weft_status status = weft_rehearsal_open(&s, t->model, weft_optim_at(0), dropout, micro_batches, groups, NULL);
    if (status == WEFT_OK)
        status = weft_trial_refused(t, take_steps(t, &s, &plain, &u, what), what);
    weft_updates_close(&u);
    weft_sums_close(&plain);
    weft_rehearsal_close(&s);
    return status;
}

/* ---- against f64 */

/* Compares the trainer's gradients of a step with f64 gradients. In f32 near ties may be resolved differently, so it is
 * enough if one of a few steps agrees. */
static enum weft_status check_f64(const struct weft_trial *t, struct weft_rehearsal *s, struct weft_sums *plain)
{
    const double limit = 2e-3;
    double error = INFINITY;
    int at = 0;
    TRY(weft_sums_open(plain, s, WEFT_REFERENCE));
    for (int i = 0; i < ATTEMPTS && !(error <= limit); i++) {
        s->trainer->step = i;
        TRY(weft_learner_gradient(s->trainer));
        weft_sums_run(plain, s);
        error = weft_sums_error(plain, s->trainer, &at);
    }
    weft_trial_report(t, error <= limit, error, limit, "f32, 3 micro-batches, 2 groups: gradients against f64's", "%s",
                      s->model.params.list[at].name);
    return WEFT_OK;
}

static enum weft_status check_precision(const struct weft_trial *t)
{
    struct weft_spec spec = *t->model->spec;
    struct weft_nn model = *t->model;
    struct weft_rehearsal s;
    struct weft_sums plain = {0};
    spec.compute = WEFT_F32;
    model.spec = &spec;
    enum weft_status status = weft_rehearsal_open(&s, &model, weft_optim_at(0), 0, 3, 2, NULL);
    if (status == WEFT_OK)
        status = check_f64(t, &s, &plain);
    if (status == WEFT_OK)
        status = weft_check_scores(t, &s);
    if (status == WEFT_OK)
        weft_check_schedules(t, &s.recipe);
    weft_sums_close(&plain);
    weft_rehearsal_close(&s);
    return status;
}

/* ---- every optimiser */

/* Draws gradients and moments. The second moments are such that about half of the gradients exceed the limit of theta
 * and count as spikes. */
static void make_up(struct weft_learner *t, double theta, uint64_t key)
{
    const struct weft_params *p = &t->model->params;
    for (int i = 0; i < p->count; i++)
        for (int64_t e = p->list[i].offset; e < p->list[i].offset + p->list[i].count; e++) {
            double g = weft_normal(key, 3 * (uint64_t)e), past = exp(4 * weft_uniform(key, 3 * (uint64_t)e + 1) - 2);
            t->sums[0].grads[e] = (float)g;
            t->moments[0][e] = (float)(0.1 * weft_normal(key, 3 * (uint64_t)e + 2));
            t->moments[1][e] = (float)(g * g * past / theta);
        }
}

static enum weft_status make_updates(const struct weft_trial *t, struct weft_rehearsal *s, struct weft_updates *u)
{
    TRY(weft_updates_open(u, s->trainer));
    int64_t I = u->plain.spam ? u->plain.interval : 500, W = u->plain.spam ? u->plain.warmup : 150;
    const int64_t steps[] = {1,      2,      3,         19,    20,        21,        I - 1,     I,        I + 1,
                             I + 19, I + 20, I + W - 1, I + W, I + W + 1, 2 * I - 1, 2 * I + 0, 2 * I + 1};
    int count = sizeof steps / sizeof *steps;
    s->trainer->sums[0].losses = (struct weft_losses){.count = 1, .list = {{"total", 1}}};
    s->recipe.steps = 2 * I + 100;
    for (int i = 0; i < count; i++) {
        s->trainer->step = steps[i] - 1;
        make_up(s->trainer, u->plain.spam ? u->plain.theta : 1, weft_key(NUMBERS_KEY, (uint64_t)i));
        weft_updates_before(u);
        s->recipe.clip = (i % 2 ? 0.3 : 3) * u->norm;
        TRY(weft_learner_update(s->trainer));
        weft_updates_after(u);
    }
    weft_updates_report(t, u, "made-up gradients");
    return WEFT_OK;
}

static enum weft_status check_optim(const struct weft_trial *t, const struct weft_optim *optim)
{
    struct weft_rehearsal s;
    struct weft_updates u = {0};
    enum weft_status status = weft_rehearsal_open(&s, t->model, optim, 0, 1, 1, NULL);
    if (status == WEFT_OK)
        status = make_updates(t, &s, &u);
    weft_updates_close(&u);
    weft_rehearsal_close(&s);
    return status;
}

enum weft_status weft_gate_stepped(const struct weft_trial *t)
{
    static const int64_t divisions[][2] = {{1, 1}, {3, 2}, {7, 5}, {8, 8}};
    const struct weft_optim *optim;
    for (size_t i = 0; i < sizeof divisions / sizeof *divisions; i++)
        TRY(weft_check_steps(t, divisions[i][0], divisions[i][1], 0));
    TRY(weft_check_steps(t, 3, 2, DROPOUT));
    TRY(check_precision(t));
    for (int i = 0; (optim = weft_optim_at(i)); i++)
        TRY(check_optim(t, optim));
    TRY(weft_check_seeds(t));
    TRY(weft_check_dropout(t, t->model, DROPOUT, 16, weft_min(6, t->model->spec->context), 32));
    TRY(weft_check_dropout_scores(t, t->model->spec->compute, DROPOUT));
    return WEFT_OK;
}
