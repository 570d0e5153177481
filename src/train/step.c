/* SPDX-License-Identifier: MIT
 *
 * step.c - one step: samples in, gradients out, clip, update; and the evaluation, which is the first half of it.
 */
#include "base/vmath.h"
#include "train/train.h"

#include <stdlib.h>

enum { SPAN = 16384 };

/* ---- memory */

static enum weft_status make_spans(struct weft_trainer *t)
{
    const struct weft_params *p = &t->model->params;
    for (int i = 0; i < p->count; i++)
        t->span_count += weft_div_up(p->list[i].count, SPAN);
    t->spans = weft_arena_alloc(&t->arena, (size_t)t->span_count * sizeof *t->spans);
    t->squares = weft_arena_alloc(&t->arena, (size_t)t->span_count * sizeof *t->squares);
    if (!t->spans || !t->squares)
        return FAIL(WEFT_NOMEM, "no memory to train with");
    int64_t n = 0;
    for (int i = 0; i < p->count; i++)
        for (int64_t first = 0; first < p->list[i].count; first += SPAN)
            t->spans[n++] = (struct weft_span){p->list[i].offset + first, weft_min(SPAN, p->list[i].count - first),
                                               p->list[i].decay};
    return WEFT_OK;
}

enum weft_status weft_trainer_create(struct weft_trainer **trainer, struct weft_model *model,
                                     const struct weft_recipe *recipe)
{
    struct weft_trainer *t = *trainer = calloc(1, sizeof *t);
    if (!t)
        return FAIL(WEFT_NOMEM, "no memory to train with");
    t->model = model;
    t->recipe = recipe;
    t->length = recipe->task->length(recipe->task_options);
    TRY(make_spans(t));
    t->grads = weft_params_array(&model->params);
    t->moments[0] = weft_params_array(&model->params);
    t->moments[1] = weft_params_array(&model->params);
    if (!t->grads || !t->moments[0] || !t->moments[1])
        return FAIL(WEFT_NOMEM, "no memory for gradients and moments: make the model smaller");
    TRY(weft_net_init(&t->net, model, WEFT_TRAIN,
                      (struct weft_net_size){.sequences = model->spec->batch, .length = t->length}));
    TRY(weft_exec_create(&t->exec, t->net.g, WEFT_FAST));
    weft_net_bind(&t->net, t->exec, model, t->grads);
    weft_net_plain_rows(&t->net, t->exec, model->spec->batch, t->length);
    return WEFT_OK;
}

void weft_trainer_free(struct weft_trainer *t)
{
    if (!t)
        return;
    weft_exec_free(t->exec);
    weft_net_release(&t->net);
    weft_params_array_free(&t->model->params, t->grads);
    weft_params_array_free(&t->model->params, t->moments[0]);
    weft_params_array_free(&t->model->params, t->moments[1]);
    weft_arena_release(&t->arena);
    free(t);
}

/* ---- inputs */

/* Writes `count` samples from `index` on; returns how many tokens are scored. */
static int64_t fill(const struct weft_trainer *t, const struct weft_net *net, struct weft_exec *exec, uint64_t index,
                    int64_t count)
{
    const struct weft_recipe *r = t->recipe;
    int32_t *tokens = weft_exec_tensor(exec, net->tokens)->data, *targets = weft_exec_tensor(exec, net->targets)->data;
    for (int64_t s = 0; s < count; s++)
        r->task->sample(t->model->spec, r->task_options, index + (uint64_t)s, tokens + s * t->length,
                        targets + s * t->length);
    if (net->use == WEFT_TRAIN)
        weft_net_stamp(net, exec, (uint64_t)t->model->spec->seed, (uint64_t)t->step, index);
    int64_t scored = 0;
    for (int64_t i = 0; i < count * t->length; i++)
        scored += targets[i] >= 0;
    *(float *)weft_exec_tensor(exec, net->weight)->data = 1 / (float)weft_max(1, scored);
    return scored;
}

/* ---- gradients and weights, span by span */

static void zero_span(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_trainer *t = context;
    memset(t->grads + t->spans[tile].first, 0, (size_t)t->spans[tile].count * sizeof(float));
}

static void square_span(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_trainer *t = context;
    const struct weft_span *span = &t->spans[tile];
    const float *g = t->grads + span->first;
    vf sum = vset(0);
    for (int64_t i = 0; i < span->count; i += VLANES) {
        vf x = vload_f32(g + i, span->count - i);
        sum = sum + x * x;
    }
    t->squares[tile] = vsum(sum);
}

/* The norm of all gradients: a sum per span, then one binary tree over the spans. */
static double gradient_norm(struct weft_trainer *t)
{
    weft_parallel(t->span_count, square_span, t);
    for (int64_t step = 1; step < t->span_count; step *= 2)
        for (int64_t i = 0; i + step < t->span_count; i += 2 * step)
            t->squares[i] += t->squares[i + step];
    return sqrt(t->squares[0]);
}

struct updating {
    const struct weft_trainer *t;
    struct weft_update update;
};

static void update_span(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct updating *u = context;
    u->t->recipe->optim->update(u->t->recipe->optim_options, &u->update, &u->t->spans[tile]);
}

static void update(struct weft_trainer *t, double norm)
{
    const struct weft_recipe *r = t->recipe;
    struct updating u = {t,
                         {.step = t->step + 1,
                          .lr = weft_recipe_lr(r, t->step + 1),
                          .grad_scale = norm > r->clip ? (float)(r->clip / norm) : 1,
                          .weights = t->model->params.weights,
                          .grads = t->grads,
                          .moments = {t->moments[0], t->moments[1]}}};
    weft_parallel(t->span_count, update_span, &u);
}

/* Names the first weight, then the first gradient, that is not finite. */
static enum weft_status not_finite(const struct weft_trainer *t, double loss, double norm)
{
    const struct weft_params *p = &t->model->params;
    const float *arrays[] = {p->weights, t->grads};
    for (int a = 0; a < 2; a++)
        for (int i = 0; i < p->count; i++)
            for (int64_t e = 0; e < p->list[i].count; e++)
                if (!isfinite(arrays[a][p->list[i].offset + e]))
                    return FAIL(WEFT_CHECK,
                                "step %lld: the loss is %g and the %s of %s is not finite at element %lld; no weight "
                                "was changed by this step. Try a lower lr, a longer warmup or dtype=f32",
                                (long long)t->step + 1, fabs(loss), a ? "gradient" : "value", p->list[i].name,
                                (long long)e);
    return FAIL(WEFT_CHECK,
                "step %lld: the loss is %g and the norm of the gradients %g; no weight was changed by this step. Try a "
                "lower lr or a longer warmup",
                (long long)t->step + 1, fabs(loss), fabs(norm));
}

enum weft_status weft_trainer_step(struct weft_trainer *t, double *loss)
{
    int64_t batch = t->model->spec->batch;
    fill(t, &t->net, t->exec, (uint64_t)(t->step * batch), batch);
    weft_parallel(t->span_count, zero_span, t);
    weft_exec_prepare(t->exec);
    weft_exec_run(t->exec);
    *loss = *(const float *)weft_exec_tensor(t->exec, t->net.loss)->data;
    double norm = gradient_norm(t);
    if (!isfinite(*loss) || !isfinite(norm))
        return not_finite(t, *loss, norm);
    update(t, norm);
    t->step++;
    return WEFT_OK;
}

/* ---- evaluation */

static void score_all(const struct weft_trainer *t, const struct weft_net *net, struct weft_exec *exec,
                      struct weft_score *score)
{
    int64_t samples = t->recipe->eval_samples, all = 0, right = 0;
    double loss = 0;
    for (int64_t done = 0, count; done < samples; done += count) {
        count = weft_min(t->model->spec->batch, samples - done);
        weft_net_plain_rows(net, exec, count, t->length);
        int64_t scored = fill(t, net, exec, WEFT_HELD_OUT + (uint64_t)done, count);
        weft_exec_run(exec);
        loss += *(const float *)weft_exec_tensor(exec, net->loss)->data * (double)scored;
        const int32_t *targets = weft_exec_tensor(exec, net->targets)->data;
        const int32_t *prediction = weft_exec_tensor(exec, net->prediction)->data;
        for (int64_t i = 0; i < count * t->length; i++)
            right += targets[i] >= 0 && targets[i] == prediction[i];
        all += scored;
    }
    *score = (struct weft_score){loss / (double)weft_max(1, all), (double)right / (double)weft_max(1, all)};
}

enum weft_status weft_trainer_evaluate(struct weft_trainer *t, struct weft_score *score)
{
    struct weft_net net;
    struct weft_exec *exec = NULL;
    enum weft_status status = weft_net_init(
        &net, t->model, WEFT_EVAL, (struct weft_net_size){.sequences = t->model->spec->batch, .length = t->length});
    if (status == WEFT_OK)
        status = weft_exec_create(&exec, net.g, WEFT_FAST);
    if (status == WEFT_OK) {
        weft_net_bind(&net, exec, t->model, NULL);
        weft_exec_prepare(exec);
        score_all(t, &net, exec, score);
    }
    weft_exec_free(exec);
    weft_net_release(&net);
    return status;
}
