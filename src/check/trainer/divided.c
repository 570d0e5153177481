/* SPDX-License-Identifier: MIT
 *
 * divided.c - checks a step of the trainer on the twin with as many micro-batches and groups as the recipe has, or as
 * there is time for.
 *
 * Its gradient must have the bits of the sum of plain runs of the same micro-batches, which shows that each contributes
 * with the right weight and in the right place. The samples are among the last ones that the recipe trains on.
 */
#include "check/trainer/stepped.h"
#include "check/trainer/sums.h"

#include <math.h>
#include <stdio.h>

enum { LEAST = 64 }; /* minimum number of micro-batches, if the recipe has that many */
#define SHARE 0.05   /* fraction of the time limit, for additional micro-batches */
#define MOST_SECONDS 3.0
#define DROPOUT 0.1

/* Returns the number of steps before the one that reads the last samples of the recipe, given the samples per step. */
static int64_t steps_before(const struct weft_trial *t, int64_t samples)
{
    const struct weft_recipe *r = t->itself->recipe;
    double all = (double)r->steps * (double)r->micro_batches * (double)t->itself->model->spec->batch;
    return weft_max(1, (int64_t)(fmin(all, (double)WEFT_HELD_OUT) / (double)samples)) - 1;
}

static enum weft_status compare(const struct weft_trial *t, struct weft_rehearsal *s, struct weft_sums *plain,
                                const char *what)
{
    const double limit = 1e-4;
    const char *at = "";
    char name[160];
    s->trainer->step = steps_before(t, s->recipe.micro_batches * s->spec.batch);
    TRY(weft_sums_open(plain, s, WEFT_FAST));
    TRY(weft_learner_gradient(s->trainer));
    TRY(weft_check_sum_order(t, plain, s, what));
    double error = weft_sums_loss_error(plain, &s->trainer->sums[0].losses, &at);
    snprintf(name, sizeof name, "%s: losses against plain sums", what);
    weft_trial_report(t, error <= limit, error, limit, name, "%s", at);
    return WEFT_OK;
}

/* Uses micro-batches of a single sequence, which take the least time. */
static enum weft_status divide(const struct weft_trial *t, int64_t micro_batches)
{
    const struct weft_recipe *r = t->itself->recipe;
    const int64_t groups = weft_min(micro_batches, weft_recipe_groups(r));
    struct weft_spec spec = *t->model->spec;
    struct weft_nn model = *t->model;
    struct weft_rehearsal s;
    struct weft_sums plain = {0};
    char what[96];
    spec.batch = 1;
    model.spec = &spec;
    snprintf(what, sizeof what, "a late step, %lld of %lld micro-batches, %lld groups", (long long)micro_batches,
             (long long)r->micro_batches, (long long)groups);
    enum weft_status status = weft_rehearsal_open(&s, &model, weft_optim_at(0), DROPOUT, micro_batches, groups, NULL);
    if (status == WEFT_OK)
        status = weft_trial_refused(t, compare(t, &s, &plain, what), what);
    weft_sums_close(&plain);
    weft_rehearsal_close(&s);
    return status;
}

enum weft_status weft_check_division(const struct weft_trial *t)
{
    const int64_t all = t->itself->recipe->micro_batches, some = weft_min(all, LEAST);
    double start = weft_seconds();
    TRY(divide(t, some));
    int64_t more = weft_itself_fits(t->itself, SHARE, MOST_SECONDS, (weft_seconds() - start) / (double)some, all);
    return more > some ? divide(t, more) : WEFT_OK;
}
