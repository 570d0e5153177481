/* SPDX-License-Identifier: MIT
 *
 * rehearsal.c - runs the real trainer on a copy of the twin with its own task: random tokens and targets, of which a
 * sample scores all, some or none. So a wrong count, a wrong sample or a mean of means changes the gradient.
 */
#include "check/trainer/rehearsal.h"

#include <string.h>

enum { LENGTH = 12, TASK_KEY = 81 };

/* ---- the task */

static int64_t length(const void *options) { return *(const int64_t *)options; }

static void sample(const struct weft_spec *spec, const void *options, uint64_t index, int32_t *tokens, int32_t *targets)
{
    uint64_t key = weft_key(TASK_KEY, index), vocab = (uint64_t)spec->vocab;
    double share = index % 5 == 3 ? 0 : weft_uniform(key, 0);
    for (int64_t i = 0; i < length(options); i++) {
        uint64_t at = 3 * (uint64_t)i + 1;
        tokens[i] = (int32_t)weft_below(key, at, vocab);
        targets[i] = weft_uniform(key, at + 1) < share ? (int32_t)weft_below(key, at + 2, vocab) : -1;
    }
}

static const struct weft_task uneven = {.name = "uneven", .length = length, .sample = sample};

/* ---- the rehearsal */

static enum weft_status set_recipe(struct weft_rehearsal *s, const struct weft_optim *optim)
{
    struct weft_recipe *r = &s->recipe;
    TRY(weft_settings_take(&s->settings, weft_train_owner_at(0), r));
    r->optim = optim;
    r->optim_options = weft_arena_alloc(&r->arena, optim->options_bytes + 1);
    if (!r->optim_options)
        return FAIL(WEFT_NOMEM, "not enough memory for options");
    TRY(weft_settings_take(&s->settings, &optim->owner, r->optim_options));
    r->task = &uneven;
    r->task_options = &s->length;
    r->open = true;
    r->steps = 2000;
    r->warmup = 4;
    r->eval_samples = 7;
    return WEFT_OK;
}

enum weft_status weft_rehearsal_open(struct weft_rehearsal *s, const struct weft_nn *twin,
                                     const struct weft_optim *optim, double dropout, int64_t micro_batches,
                                     int64_t groups, struct weft_comm *comm)
{
    *s = (struct weft_rehearsal){.spec = *twin->spec, .model = *twin};
    s->spec.dropout = dropout;
    s->model.spec = &s->spec;
    s->length = weft_min(LENGTH, s->spec.context);
    s->model.params.weights = weft_params_array(&twin->params);
    if (!s->model.params.weights)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    memcpy(s->model.params.weights, twin->params.weights, (size_t)twin->params.total * sizeof(float));
    TRY(set_recipe(s, optim));
    s->recipe.micro_batches = micro_batches;
    s->recipe.grad_groups = groups;
    TRY(weft_learner_create(&s->trainer, &s->model, &s->recipe, comm));
    return WEFT_OK;
}

void weft_rehearsal_close(struct weft_rehearsal *s)
{
    weft_learner_free(s->trainer);
    if (s->model.params.weights)
        weft_params_array_free(&s->model.params, s->model.params.weights);
    weft_arena_release(&s->recipe.arena);
    weft_settings_release(&s->settings);
    s->trainer = NULL;
}
