/* SPDX-License-Identifier: MIT
 *
 * step.c - one step: the gradient, its limits, the update; and the memory it all takes.
 */
#include "base/vmath_inl.h"
#include "train/train.h"

#include <stdlib.h>

enum { SPAN = 16384 };

/* ---- memory */

static enum weft_status make_spans(struct weft_learner *t)
{
    const struct weft_params *p = &t->model->params;
    for (int i = 0; i < p->count; i++)
        t->span_count += weft_div_up(p->list[i].count, SPAN);
    t->spans = weft_arena_alloc(&t->arena, (size_t)t->span_count * sizeof *t->spans);
    t->squares = weft_arena_alloc(&t->arena, (size_t)t->span_count * sizeof *t->squares);
    if (!t->spans || !t->squares)
        return FAIL(WEFT_NOMEM, "not enough memory to train with");
    int64_t n = 0;
    for (int i = 0; i < p->count; i++)
        for (int64_t first = 0; first < p->list[i].count; first += SPAN)
            t->spans[n++] = (struct weft_span){p->list[i].offset + first, weft_min(SPAN, p->list[i].count - first),
                                               p->list[i].decay, p->list[i].rate};
    return WEFT_OK;
}

static enum weft_status make_arrays(struct weft_learner *t)
{
    const struct weft_params *p = &t->model->params;
    int sums = weft_recipe_sums(t->recipe);
    t->sums = weft_arena_alloc(&t->arena, (size_t)sums * sizeof *t->sums);
    t->moments[0] = weft_params_array(p);
    t->moments[1] = weft_params_array(p);
    bool made = t->sums && t->moments[0] && t->moments[1];
    for (t->sum_count = 0; made && t->sum_count < sums; t->sum_count++)
        made = (t->sums[t->sum_count].grads = weft_params_array(p));
    if (!made)
        return FAIL(WEFT_NOMEM, "not enough memory for gradients and moments: make the model or grad_groups smaller");
    return WEFT_OK;
}

enum weft_status weft_learner_create(struct weft_learner **trainer, struct weft_nn *model,
                                     const struct weft_recipe *recipe)
{
    struct weft_learner *t = *trainer = calloc(1, sizeof *t);
    if (!t)
        return FAIL(WEFT_NOMEM, "not enough memory to train with");
    t->model = model;
    t->recipe = recipe;
    t->length = recipe->task->length(recipe->task_options);
    memset(t->stream, '0', sizeof t->stream - 1);
    memcpy(t->next_stream, t->stream, sizeof t->stream);
    memcpy(t->loss_chain, t->stream, sizeof t->stream);
    TRY(make_spans(t));
    TRY(weft_params_alloc(&model->params));
    TRY(make_arrays(t));
    TRY(weft_net_init(&t->net, model, WEFT_TRAIN,
                      (struct weft_net_size){.sequences = model->spec->batch, .length = t->length}));
    TRY(weft_exec_create(&t->exec, t->net.g, WEFT_FAST));
    weft_net_bind(&t->net, t->exec, model, t->sums[0].grads);
    weft_net_plain_rows(&t->net, t->exec, model->spec->batch, t->length);
    return WEFT_OK;
}

void weft_learner_free(struct weft_learner *t)
{
    if (!t)
        return;
    weft_exec_free(t->exec);
    weft_net_release(&t->net);
    for (int i = 0; i < t->sum_count; i++)
        weft_params_array_free(&t->model->params, t->sums[i].grads);
    weft_params_array_free(&t->model->params, t->moments[0]);
    weft_params_array_free(&t->model->params, t->moments[1]);
    weft_arena_release(&t->arena);
    free(t);
}

/* ---- gradient and weights, span by span */

static void square_span(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_learner *t = context;
    const struct weft_span *span = &t->spans[tile];
    const float *g = t->sums[0].grads + span->first;
    vf sum = vset(0);
    for (int64_t i = 0; i < span->count; i += VLANES) {
        vf x = vload_f32(g + i, span->count - i);
        sum = sum + x * x;
    }
    t->squares[tile] = vsum(sum);
}

/* The norm of all gradients: a sum per span, then one binary tree over the spans. */
static double gradient_norm(struct weft_learner *t)
{
    weft_parallel(t->span_count, square_span, t);
    for (int64_t step = 1; step < t->span_count; step *= 2)
        for (int64_t i = 0; i + step < t->span_count; i += 2 * step)
            t->squares[i] += t->squares[i + step];
    return sqrt(t->squares[0]);
}

struct updating {
    const struct weft_learner *t;
    struct weft_update update;
};

static void limit_span(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct updating *u = context;
    u->t->recipe->optim->limit(u->t->recipe->optim_options, &u->update, &u->t->spans[tile]);
}

static void update_span(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct updating *u = context;
    u->t->recipe->optim->update(u->t->recipe->optim_options, &u->update, &u->t->spans[tile]);
}

/* Reports the first number in an array of the parameters' layout that is not finite. */
static bool find_bad(const struct weft_params *p, const float *array, const char *what, char *text, size_t size)
{
    for (int i = 0; i < p->count; i++)
        for (int64_t e = 0; e < p->list[i].count; e++)
            if (!isfinite(array[p->list[i].offset + e])) {
                snprintf(text, size, "the %s of %s is not finite at element %lld", what, p->list[i].name, (long long)e);
                return true;
            }
    return false;
}

/* Names a weight that is not finite, or what went bad first on the way to the gradient; a gradient where computing it
 * again finds nothing (two groups may be finite and their sum not). */
static enum weft_status not_finite(struct weft_learner *t, double loss, double norm)
{
    const struct weft_params *p = &t->model->params;
    char text[256], gradient[256];
    bool in_weights = find_bad(p, p->weights, "value", text, sizeof text);
    bool in_gradient = find_bad(p, t->sums[0].grads, "gradient", gradient, sizeof gradient);
    bool found = in_weights || weft_learner_find_bad(t, text, sizeof text);
    if (!found && !in_gradient)
        snprintf(gradient, sizeof gradient, "the norm of the gradients %g", fabs(norm));
    return FAIL(WEFT_CHECK, "step %lld: the loss is %g and %s; no weight was changed by this step. Try a lower lr%s",
                (long long)t->step + 1, fabs(loss), found ? text : gradient,
                t->model->spec->compute == WEFT_F32 ? " or a longer warmup" : ", a longer warmup or dtype=f32");
}

static void extend_losses(struct weft_learner *t)
{
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    weft_sha256_add(&sha, t->loss_chain, 64);
    weft_sha256_add(&sha, &t->loss, sizeof t->loss);
    weft_sha256_hex(&sha, t->loss_chain);
}

enum weft_status weft_learner_update(struct weft_learner *t)
{
    const struct weft_recipe *r = t->recipe;
    struct updating u = {t,
                         {.step = t->step + 1,
                          .lr = weft_recipe_lr(r, t->step + 1),
                          .grad_scale = 1,
                          .weights = t->model->params.weights,
                          .grads = t->sums[0].grads,
                          .moments = {t->moments[0], t->moments[1]}}};
    if (r->optim->limit)
        weft_parallel(t->span_count, limit_span, &u);
    double loss = t->sums[0].losses.list[0].value, norm = gradient_norm(t);
    if (!isfinite(loss) || !isfinite(norm))
        return not_finite(t, loss, norm);
    t->loss = loss;
    t->grad_norm = norm;
    if (norm > r->clip)
        u.update.grad_scale = (float)(r->clip / norm);
    weft_parallel(t->span_count, update_span, &u);
    t->step++;
    memcpy(t->stream, t->next_stream, sizeof t->stream);
    extend_losses(t);
    return WEFT_OK;
}

enum weft_status weft_learner_step(struct weft_learner *t, struct weft_losses *losses)
{
    TRY(weft_learner_gradient(t));
    *losses = t->sums[0].losses;
    if (t->recipe->task->failure)
        TRY(t->recipe->task->failure(t->recipe->task_options));
    TRY(weft_learner_update(t));
    return WEFT_OK;
}
