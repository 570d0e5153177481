/* SPDX-License-Identifier: MIT
 *
 * trainer.c - trains step by step, on the samples of the model's task or on the caller's own.
 *
 * The caller's samples are wrapped in a task that reads them from memory.
 */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

/* The caller's samples of this step, with indices first to first + samples - 1. */
struct host {
    int64_t length, samples;
    uint64_t first;
    const int32_t *tokens, *targets;
};

struct weft_trainer {
    struct weft_model *model;
    struct weft_recipe recipe; /* the model's, except for the task if the caller passes the samples */
    struct weft_learner *learner;
    struct host host; /* length 0: the task's samples */
    bool has_gradient;
};

/* ---- the task */

static int64_t host_length(const void *options) { return ((const struct host *)options)->length; }

static void host_sample(const struct weft_spec *spec, const void *options, uint64_t index, int32_t *tokens,
                        int32_t *targets)
{
    const struct host *h = options;
    size_t bytes = (size_t)h->length * sizeof *tokens;
    memcpy(tokens, h->tokens + (int64_t)(index - h->first) * h->length, bytes);
    memcpy(targets, h->targets + (int64_t)(index - h->first) * h->length, bytes);
}

static const struct weft_task host_task = {
    .name = "host", .summary = "samples of the caller", .length = host_length, .sample = host_sample};

/* ---- creation */

static enum weft_status build(struct weft_trainer *t, int64_t length)
{
    struct weft_resolved *r = &t->model->resolved;
    t->recipe = r->recipe;
    t->host.length = length;
    if (length) {
        t->recipe.task = &host_task;
        t->recipe.task_options = &t->host;
    } else {
        TRY(weft_recipe_open(&r->recipe, &r->spec));
        t->recipe = r->recipe;
    }
    TRY(weft_learner_create(&t->learner, t->model->nn, &t->recipe, NULL));
    return WEFT_OK;
}

enum weft_status weft_trainer_create(struct weft_trainer **trainer, struct weft_model *model, int64_t length)
{
    GIVEN(trainer);
    *trainer = NULL;
    GIVEN(model);
    TRY(weft_model_has_weights(model));
    if (!model->resolved.has_recipe)
        return FAIL(WEFT_INVALID, "the model's config has no task that fits the model, so it cannot be trained");
    if (length < 0 || length > model->resolved.spec.context)
        return FAIL(WEFT_INVALID, "a sample length of %lld tokens is invalid: expected 0 to %lld, the model's context",
                    (long long)length, (long long)model->resolved.spec.context);
    struct weft_trainer *t = calloc(1, sizeof *t);
    if (!t)
        return FAIL(WEFT_NOMEM, "not enough memory for a trainer");
    t->model = model;
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, model->threads);
    enum weft_status status = build(t, length);
    weft_threads_leave(&scope);
    if (status == WEFT_OK)
        *trainer = t;
    else
        weft_trainer_free(t);
    return status;
}

void weft_trainer_free(struct weft_trainer *t)
{
    if (!t)
        return;
    weft_learner_free(t->learner);
    free(t);
}

/* ---- steps */

static enum weft_status take_samples(struct weft_trainer *t, int64_t samples, const int32_t *tokens,
                                     const int32_t *targets)
{
    struct host *h = &t->host;
    int64_t wanted = t->recipe.micro_batches * t->model->resolved.spec.batch;
    if (!h->length) {
        if (tokens || targets)
            return FAIL(
                WEFT_INVALID,
                "this trainer takes its samples from the task: to pass your own, create the trainer with their length");
        return WEFT_OK;
    }
    GIVEN(tokens);
    GIVEN(targets);
    if (samples != wanted)
        return FAIL(WEFT_INVALID, "a step has %lld samples (batch x micro_batches), not %lld", (long long)wanted,
                    (long long)samples);
    TRY(weft_tokens_valid(t->model, "token", tokens, samples * h->length, 0));
    TRY(weft_tokens_valid(t->model, "target", targets, samples * h->length, -1));
    *h = (struct host){h->length, samples, (uint64_t)(t->learner->step * wanted), tokens, targets};
    return WEFT_OK;
}

static void give_losses(const struct weft_losses *from, struct weft_loss_terms *to)
{
    *to = (struct weft_loss_terms){.count = from->count};
    for (int i = 0; i < from->count; i++) {
        snprintf(to->term[i].name, sizeof to->term[i].name, "%s", from->list[i].name);
        to->term[i].value = from->list[i].value;
    }
}

static enum weft_status compute_gradient(struct weft_trainer *t)
{
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, t->model->threads);
    enum weft_status status = weft_learner_gradient(t->learner);
    weft_threads_leave(&scope);
    TRY(status);
    if (t->recipe.task->failure)
        TRY(t->recipe.task->failure(t->recipe.task_options));
    return WEFT_OK;
}

enum weft_status weft_trainer_gradient(struct weft_trainer *trainer, int64_t samples, const int32_t *tokens,
                                       const int32_t *targets, struct weft_loss_terms *losses)
{
    GIVEN(trainer);
    trainer->has_gradient = false;
    TRY(take_samples(trainer, samples, tokens, targets));
    TRY(compute_gradient(trainer));
    trainer->has_gradient = true;
    if (losses)
        give_losses(&trainer->learner->sums[0].losses, losses);
    return WEFT_OK;
}

static enum weft_status check_gradient(const struct weft_trainer *t)
{
    if (!t->has_gradient)
        return FAIL(WEFT_INVALID, "there is no gradient for the next step yet: call weft_trainer_gradient first");
    return WEFT_OK;
}

enum weft_status weft_trainer_weight(struct weft_trainer *trainer, int i, struct weft_tensor_view *view)
{
    GIVEN(trainer);
    GIVEN(view);
    TRY(check_gradient(trainer));
    TRY(weft_view_weight(&trainer->model->nn->params, i, trainer->learner->sums[0].grads, view));
    return WEFT_OK;
}

enum weft_status weft_trainer_update(struct weft_trainer *trainer)
{
    GIVEN(trainer);
    TRY(check_gradient(trainer));
    trainer->has_gradient = false;
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, trainer->model->threads);
    enum weft_status status = weft_learner_update(trainer->learner);
    weft_threads_leave(&scope);
    return status;
}

enum weft_status weft_trainer_step(struct weft_trainer *trainer, int64_t samples, const int32_t *tokens,
                                   const int32_t *targets, struct weft_loss_terms *losses)
{
    TRY(weft_trainer_gradient(trainer, samples, tokens, targets, losses));
    TRY(weft_trainer_update(trainer));
    return WEFT_OK;
}

int64_t weft_trainer_steps(const struct weft_trainer *trainer) { return trainer ? trainer->learner->step : 0; }

/* ---- checkpoints */

enum weft_status weft_trainer_save(const struct weft_trainer *trainer, const char *folder)
{
    GIVEN(trainer);
    GIVEN(folder);
    char *config = NULL, hash[65];
    enum weft_status status = weft_record_config(&trainer->model->resolved.settings, &config, hash);
    if (status == WEFT_OK)
        status = weft_state_save_alone(trainer->learner, folder, config);
    free(config);
    return status;
}

enum weft_status weft_trainer_load(struct weft_trainer *trainer, const char *folder)
{
    char path[4096];
    GIVEN(trainer);
    GIVEN(folder);
    trainer->has_gradient = false;
    TRY(weft_nn_folder(folder, path, sizeof path));
    TRY(weft_state_load_one(trainer->learner, path));
    return WEFT_OK;
}
