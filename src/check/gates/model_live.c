/* SPDX-License-Identifier: MIT
 *
 * model_live.c - checks that the model itself learns in a few steps of its own trainer from its initial weights.
 *
 * Before and after the steps, every weight that is not declared idle must have a gradient, and the steps must have
 * moved it. Weight decay is 0 here, so that decay alone cannot move a weight. The learning rate is that of the recipe's
 * first step, but at least 1e-3, so that weights that start at 0 have an effect afterwards. Then the effects of the
 * model's parts are measured with the learned weights (model_effects.c).
 */
#include "check/probe/gate.h"
#include "train/learner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3, ROWS = 1024 };
#define LEAST_LR 1e-3

/* ---- the trainer */

struct learner {
    struct weft_spec spec;
    struct weft_recipe recipe;
    struct weft_nn *model;
    struct weft_learner *trainer;
};

static enum weft_status without_decay(struct weft_recipe *r)
{
    const struct weft_owner *owner = &r->optim->owner;
    void *copy = calloc(1, r->optim->options_bytes + 1);
    if (!copy)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    memcpy(copy, r->optim_options, r->optim->options_bytes);
    r->optim_options = copy;
    for (int i = 0; i < owner->count; i++)
        if (strcmp(owner->options[i].name, "decay") == 0 && owner->options[i].type == WEFT_OPT_REAL)
            *(double *)((char *)copy + owner->options[i].offset) = 0;
    return WEFT_OK;
}

static enum weft_status open_learner(struct learner *l, const struct weft_itself *it)
{
    const struct weft_nn *first = it->model;
    int64_t length = it->recipe->task->length(it->recipe->task_options);
    l->spec = *first->spec;
    l->spec.batch = weft_min(l->spec.batch, weft_max(1, ROWS / length));
    l->recipe = *it->recipe;
    l->recipe.warmup = 0;
    l->recipe.steps = 1000 * STEPS; /* so that the schedule hardly changes the learning rate */
    l->recipe.lr = fmax(weft_recipe_lr(it->recipe, 1), LEAST_LR);
    l->recipe.micro_batches = weft_min(l->recipe.micro_batches, 2);
    TRY(without_decay(&l->recipe));
    TRY(weft_nn_create(&l->model, &l->spec));
    TRY(weft_params_alloc(&l->model->params));
    memcpy(l->model->params.weights, first->params.weights, (size_t)first->params.total * sizeof(float));
    TRY(weft_learner_create(&l->trainer, l->model, &l->recipe, NULL));
    return WEFT_OK;
}

static void close_trainer(struct learner *l)
{
    weft_learner_free(l->trainer);
    l->trainer = NULL;
}

static void close_learner(struct learner *l, const struct weft_itself *it)
{
    close_trainer(l);
    weft_nn_free(l->model);
    if (l->recipe.optim_options != it->recipe->optim_options)
        free(l->recipe.optim_options);
}

/* ---- weights */

static bool is_zero(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (x[i] != 0)
            return false;
    return true;
}

/* A gradient that is identically 0 may be nonzero here because of rounding; the check of the twin, in f64, finds such
 * gradients. */
static void check_gradients(const struct weft_trial *t, const struct learner *l, const char *when)
{
    const struct weft_params *p = &l->model->params;
    const float *grads = l->trainer->sums[0].grads;
    int dead = 0, first = 0;
    char name[160];
    for (int i = 0; i < p->count; i++)
        if (!weft_weight_is_idle(&l->spec, &p->list[i]) && is_zero(grads + p->list[i].offset, p->list[i].count) &&
            dead++ == 0)
            first = i;
    snprintf(name, sizeof name, "%s: weights without a gradient (of %d)", when, p->count);
    weft_trial_report(t, dead == 0, dead, 0, name, "%s %s", p->list[first].name,
                      l->trainer->net.weights[first] ? "has no gradient" : "is not in the graph");
}

static void check_moved(const struct weft_trial *t, const struct learner *l)
{
    const struct weft_params *p = &l->model->params, *first = &t->itself->model->params;
    int still = 0, first_still = 0;
    char name[160];
    for (int i = 0; i < p->count; i++) {
        int64_t at = p->list[i].offset;
        if (weft_weight_is_idle(&l->spec, &p->list[i]) ||
            memcmp(p->weights + at, first->weights + at, (size_t)p->list[i].count * sizeof(float)) != 0)
            continue;
        if (still++ == 0)
            first_still = i;
    }
    snprintf(name, sizeof name, "weights that %d steps without decay leave as they are", STEPS);
    weft_trial_report(t, still == 0, still, 0, name, "%s has not moved", p->list[first_still].name);
}

/* A non-finite loss or gradient is a failed check, not an error. */
static enum weft_status learn(const struct weft_trial *t, struct learner *l, bool *learned)
{
    struct weft_losses losses;
    for (int i = 0; i < STEPS; i++) {
        enum weft_status status = weft_learner_step(l->trainer, &losses);
        if (status != WEFT_OK && status != WEFT_CHECK)
            return status;
        if (status == WEFT_CHECK) {
            weft_trial_report(t, false, i, STEPS, "steps from the first weights", "%s", weft_error());
            return WEFT_OK;
        }
        if (i == 0)
            check_gradients(t, l, "first weights");
    }
    TRY(weft_learner_gradient(l->trainer));
    char when[40];
    snprintf(when, sizeof when, "after %d steps", STEPS);
    check_gradients(t, l, when);
    check_moved(t, l);
    *learned = true;
    return WEFT_OK;
}

enum weft_status weft_gate_live_itself(const struct weft_trial *t)
{
    struct learner l = {.recipe = *t->itself->recipe};
    bool learned = false;
    TRY(weft_itself_train(t->itself)); /* sets the time limit of checks */
    TRY(weft_check_table_rows(t));
    enum weft_status status = open_learner(&l, t->itself);
    if (status == WEFT_OK)
        status = learn(t, &l, &learned);
    close_trainer(&l);
    if (status == WEFT_OK && learned)
        status = weft_check_effects(t, l.model);
    close_learner(&l, t->itself);
    return status;
}
