/* SPDX-License-Identifier: MIT
 *
 * diagnose.c - collects the metrics that a model's parts report, on samples that training never sees.
 *
 * A diagnosis builds its own graph and frees it again, so it affects neither the results nor the memory use of
 * training.
 */
#include "train/learner.h"

#include <string.h>

static double mean(const struct weft_tensor *x)
{
    double sum = 0;
    for (int64_t i = 0; i < weft_tensor_count(x); i++)
        sum += weft_tensor_get(x, i);
    return sum / (double)weft_max(1, weft_tensor_count(x));
}

/* Returns the metric with this name, creating it at its first layer. */
static struct weft_metric *metric(struct weft_learner *t, const char *name)
{
    struct weft_diagnosis *d = &t->diagnosis;
    for (int i = 0; i < d->count; i++)
        if (strcmp(d->list[i].name, name) == 0)
            return &d->list[i];
    struct weft_metric *f = &d->list[d->count];
    f->layer = weft_arena_alloc(&t->arena, (size_t)d->layers * sizeof *f->layer);
    if (!f->layer)
        return NULL;
    f->name = name;
    d->count++;
    return f;
}

static enum weft_status collect(struct weft_learner *t, const struct weft_net *net, struct weft_exec *exec)
{
    struct weft_diagnosis *d = &t->diagnosis;
    d->layers = (int)t->model->spec->layers;
    for (int i = 0; i < net->watch_count; i++) {
        struct weft_metric *f = metric(t, net->watches[i].name);
        if (!f)
            return FAIL(WEFT_NOMEM, "not enough memory for a diagnosis");
        f->layer[net->watches[i].layer] = mean(weft_exec_tensor(exec, net->watches[i].value));
    }
    for (int i = 0; i < d->count; i++) {
        d->list[i].mean = 0;
        for (int layer = 0; layer < d->layers; layer++)
            d->list[i].mean += d->list[i].layer[layer] / d->layers;
    }
    return WEFT_OK;
}

static enum weft_status look(struct weft_learner *t, struct weft_net *net, struct weft_exec **exec)
{
    int64_t samples = weft_recipe_held_out(t->recipe, WEFT_HELD_OUT, t->model->spec->batch);
    TRY(weft_net_init(net, t->model, WEFT_WATCH, (struct weft_net_size){.sequences = samples, .length = t->length}));
    TRY(weft_exec_create(exec, net->g, WEFT_FAST));
    weft_net_bind(net, *exec, t->model, NULL);
    weft_net_plain_rows(net, *exec, samples, t->length);
    weft_recipe_fill(t->recipe, t->model->spec, net, *exec, WEFT_HELD_OUT, samples);
    if (t->recipe->task->failure)
        TRY(t->recipe->task->failure(t->recipe->task_options));
    TRY(weft_exec_prepare(*exec));
    TRY(weft_exec_run(*exec));
    TRY(collect(t, net, *exec));
    return WEFT_OK;
}

enum weft_status weft_learner_diagnose(struct weft_learner *t)
{
    struct weft_net net;
    struct weft_exec *exec = NULL;
    enum weft_status status = look(t, &net, &exec);
    weft_exec_free(exec);
    weft_net_release(&net);
    return status;
}
