/* SPDX-License-Identifier: MIT
 *
 * stepped_own_size.c - checks that the trainer of the model itself follows its definition: its samples, learning
 * rates, initial weights and inputs, and its updates with the recipe's own batch, task, optimiser, dtype and dropout.
 *
 * The initial weights are trained and afterwards initialised again. The graphs of other gates are closed first, because
 * a trainer needs as much memory as a training run.
 */
#include "check/probe/dropout.h"
#include "check/trainer/stepped.h"
#include "check/trainer/updates.h"

enum { STEPS = 3, MICRO_BATCHES = 2, LATER = 8, MOST_STEPPED = 32 };

/* Takes steps like training, but computes gradient and update separately; the third is the recipe's last step. */
static enum weft_status take_steps(const struct weft_trial *t, struct weft_learner *trainer, struct weft_updates *u)
{
    for (int i = 0; i < STEPS && (i == 0 || weft_itself_has_time(t->itself, 0.1)); i++) {
        if (i == STEPS - 1)
            trainer->step = weft_max(i, trainer->recipe->steps - 1);
        TRY(weft_learner_gradient(trainer));
        if (trainer->recipe->task->failure)
            TRY(trainer->recipe->task->failure(trainer->recipe->task_options));
        if (i == 0 || i == STEPS - 1)
            TRY(weft_check_inputs(t, trainer));
        weft_updates_before(u);
        TRY(weft_learner_update(trainer));
        weft_updates_after(u);
    }
    weft_updates_report(t, u, "the model itself, from its first weights");
    return WEFT_OK;
}

/* Turns some gradients into spikes, so that limits act. */
static void add_spikes(struct weft_learner *trainer)
{
    const struct weft_params *p = &trainer->model->params;
    for (int64_t e = 0; e < p->total; e += 7)
        trainer->sums[0].grads[e] *= 1000;
}

/* Uses the last gradient again at steps where learning rate or optimiser change. */
static enum weft_status update_later(const struct weft_trial *t, struct weft_learner *trainer, struct weft_updates *u)
{
    const struct weft_recipe *r = trainer->recipe;
    const struct weft_plain *p = &u->plain;
    const int64_t steps[LATER] = {r->warmup,
                                  r->warmup + 1,
                                  r->steps,
                                  p->spam ? p->interval - 1 : 1,
                                  p->spam ? p->interval : 2,
                                  p->spam ? p->interval + 1 : 3,
                                  p->spam ? p->interval + p->warmup : 4,
                                  p->spam ? 2 * p->interval - 1 : 5};
    u->tried = 0;
    u->error = 0;
    add_spikes(trainer);
    for (int i = 0; i < LATER && (i < 2 || weft_itself_has_time(t->itself, 0.15)); i++) {
        trainer->step = weft_max(1, weft_min(steps[i], r->steps)) - 1;
        weft_updates_before(u);
        TRY(weft_learner_update(trainer));
        weft_updates_after(u);
    }
    weft_updates_report(t, u, "the model itself, at later steps");
    return WEFT_OK;
}

static enum weft_status check_updates(const struct weft_trial *t, const struct weft_recipe *r)
{
    struct weft_learner *trainer = NULL;
    struct weft_updates u = {0};
    enum weft_status status = weft_learner_create(&trainer, t->itself->model, r, NULL);
    if (status == WEFT_OK)
        status = weft_updates_open(&u, trainer);
    if (status == WEFT_OK)
        status = take_steps(t, trainer, &u);
    if (status == WEFT_OK)
        status = update_later(t, trainer, &u);
    weft_updates_close(&u);
    weft_learner_free(trainer);
    return weft_trial_refused(t, status, "the model itself");
}

/* Checks the recipe's own division of a step on the twin: some steps and updates, and one step with all of it. */
static enum weft_status check_division(const struct weft_trial *t)
{
    const struct weft_recipe *r = t->itself->recipe;
    TRY(weft_check_steps(&(struct weft_trial){t->gate, t->model, NULL, t->report},
                         weft_min(MOST_STEPPED, r->micro_batches), weft_min(MOST_STEPPED, weft_recipe_groups(r)), 0));
    return weft_check_division(t);
}

enum weft_status weft_gate_stepped_itself(const struct weft_trial *t)
{
    struct weft_itself *it = t->itself;
    struct weft_recipe recipe = *it->recipe;
    recipe.micro_batches = weft_min(MICRO_BATCHES, recipe.micro_batches);
    TRY(weft_itself_measure(it));
    TRY(weft_check_first_weights(t));
    if (it->recipe->micro_batches > 1)
        TRY(weft_trial_on_twin(t, check_division));
    weft_check_schedule(t, &recipe);
    TRY(weft_check_targets(t));
    if (it->model->spec->dropout > 0)
        TRY(weft_check_dropout(t, it->model, it->model->spec->dropout, 2, it->length, 4));
    weft_itself_make_room(it);
    enum weft_status status = check_updates(t, &recipe);
    TRY(weft_nn_init(it->model));
    TRY(status);
    TRY(weft_check_pruned(t));
    TRY(weft_check_rehearsed(t));
    TRY(weft_check_restored(t));
    return WEFT_OK;
}
