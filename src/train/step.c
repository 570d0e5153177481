/* SPDX-License-Identifier: MIT
 *
 * step.c - runs a training step (gradient, limits, update) and allocates the memory for it.
 */
#include "base/vmath_inl.h"
#include "train/prune/prune.h"
#include "train/ranks/ranks.h"

#include <stdlib.h>

/* ---- memory */

static enum weft_status make_spans(struct weft_learner *t)
{
    const struct weft_params *p = &t->model->params;
    for (int i = 0; i < p->count; i++)
        t->span_count += weft_div_up(p->list[i].count, WEFT_SPAN);
    t->spans = weft_arena_alloc(&t->arena, (size_t)t->span_count * sizeof *t->spans);
    t->squares = weft_arena_alloc(&t->arena, (size_t)t->span_count * sizeof *t->squares);
    if (!t->spans || !t->squares)
        return FAIL(WEFT_NOMEM, "not enough memory for training");
    int64_t n = 0;
    for (int i = 0; i < p->count; i++)
        for (int64_t first = 0; first < p->list[i].count; first += WEFT_SPAN)
            t->spans[n++] = (struct weft_span){p->list[i].offset + first, weft_min(WEFT_SPAN, p->list[i].count - first),
                                               p->list[i].decay, p->list[i].rate};
    return WEFT_OK;
}

/* Without other ranks, moments are in the order of the weights; otherwise the moments of the rank's own spans are
 * contiguous. */
static enum weft_status make_own(struct weft_learner *t)
{
    const struct weft_partition *p = &t->partition;
    int rank = t->comm->rank;
    TRY(weft_partition_make(&t->partition, t->spans, t->span_count, t->comm->size, &t->arena));
    t->own = weft_arena_alloc(&t->arena, (size_t)weft_partition_own(p, rank) * sizeof *t->own + 1);
    if (!t->own)
        return FAIL(WEFT_NOMEM, "not enough memory for training");
    for (int64_t b = 0; b < p->buckets; b++)
        for (int64_t s = p->at[b * p->ranks + rank]; s < p->at[b * p->ranks + rank + 1]; s++) {
            int64_t moment = p->ranks == 1 ? t->spans[s].first : t->moment_count;
            t->own[t->own_count++] = (struct weft_own){s, moment};
            t->moment_count = weft_round_up(moment + t->spans[s].count, WEFT_PARAM_ALIGN);
        }
    t->moment_count = p->ranks == 1 ? t->model->params.total : weft_max(1, t->moment_count);
    return WEFT_OK;
}

static enum weft_status make_digests(struct weft_learner *t)
{
    int64_t most = 0;
    for (int r = 0; r < t->comm->size; r++)
        most = weft_max(most, weft_rank_micro_batch(t, r + 1) - weft_rank_micro_batch(t, r));
    t->digest_room = most * t->model->spec->batch;
    t->digests = weft_arena_alloc(&t->arena, (size_t)(t->comm->size * t->digest_room) * sizeof *t->digests);
    return t->digests ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for training");
}

static enum weft_status make_arrays(struct weft_learner *t)
{
    const struct weft_params *p = &t->model->params;
    struct weft_tree_node nodes[WEFT_TREE_NODES];
    int sums;
    weft_rank_nodes(weft_recipe_groups(t->recipe), t->comm->rank, t->comm->size, nodes, &sums);
    t->sums = weft_arena_alloc(&t->arena, (size_t)sums * sizeof *t->sums);
    t->moments[0] = weft_pages_alloc((size_t)t->moment_count * sizeof(float));
    t->moments[1] = weft_pages_alloc((size_t)t->moment_count * sizeof(float));
    bool made = t->sums && t->moments[0] && t->moments[1];
    for (t->sum_count = 0; made && t->sum_count < sums; t->sum_count++)
        made = (t->sums[t->sum_count].grads = weft_params_array(p));
    if (!made)
        return FAIL(WEFT_NOMEM, "not enough memory for gradients and moments: make the model or grad_groups smaller");
    return WEFT_OK;
}

enum weft_status weft_recipe_ranks(const struct weft_recipe *r, int ranks)
{
    int64_t groups = weft_recipe_groups(r);
    if (ranks > groups)
        return FAIL(WEFT_INVALID,
                    "%d ranks share the %lld groups of micro-batches of a step, and each needs at least one: start "
                    "fewer ranks, or raise micro_batches and grad_groups, which changes the experiment",
                    ranks, (long long)groups);
    return WEFT_OK;
}

enum weft_status weft_learner_create(struct weft_learner **trainer, struct weft_nn *model,
                                     const struct weft_recipe *recipe, struct weft_comm *comm)
{
    struct weft_learner *t = *trainer = calloc(1, sizeof *t);
    if (!t)
        return FAIL(WEFT_NOMEM, "not enough memory for training");
    t->model = model;
    t->recipe = recipe;
    t->alone.size = 1;
    t->comm = comm ? comm : &t->alone;
    t->length = recipe->task->length(recipe->task_options);
    memset(t->stream, '0', sizeof t->stream - 1);
    memcpy(t->next_stream, t->stream, sizeof t->stream);
    memcpy(t->loss_chain, t->stream, sizeof t->stream);
    TRY(weft_recipe_ranks(recipe, t->comm->size));
    TRY(make_spans(t));
    TRY(make_own(t));
    TRY(make_digests(t));
    TRY(weft_masks_create(t));
    TRY(weft_params_alloc(&model->params));
    TRY(make_arrays(t));
    TRY(weft_net_init(&t->net, model, WEFT_TRAIN,
                      (struct weft_net_size){.sequences = model->spec->batch, .length = t->length}));
    TRY(weft_exec_create(&t->exec, t->net.g, WEFT_FAST));
    weft_net_bind(&t->net, t->exec, model, t->sums[0].grads);
    weft_net_plain_rows(&t->net, t->exec, model->spec->batch, t->length);
    TRY(weft_sharing_create(t));
    return WEFT_OK;
}

void weft_learner_free(struct weft_learner *t)
{
    if (!t)
        return;
    weft_sharing_free(t->sharing);
    weft_exec_free(t->exec);
    weft_net_release(&t->net);
    for (int i = 0; i < t->sum_count; i++)
        weft_params_array_free(&t->model->params, t->sums[i].grads);
    weft_pages_free(t->moments[0], (size_t)t->moment_count * sizeof(float));
    weft_pages_free(t->moments[1], (size_t)t->moment_count * sizeof(float));
    weft_masks_free(t);
    weft_arena_release(&t->arena);
    free(t);
}

/* ---- gradient and weights, span by span */

static void square_span(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_learner *t = context;
    const struct weft_span *span = &t->spans[t->own[tile].span];
    const float *g = t->sums[0].grads + span->first;
    vf sum = vset(0);
    for (int64_t i = 0; i < span->count; i += VLANES) {
        vf x = vload_f32(g + i, span->count - i);
        sum = sum + x * x;
    }
    t->squares[t->own[tile].span] = vsum(sum);
}

/* Computes the norm of all gradients from a sum per span; the sums are added along one binary tree. */
static enum weft_status gradient_norm(struct weft_learner *t, double *norm)
{
    weft_parallel(t->own_count, square_span, t);
    t->comm->phase = "sharing the norm of the gradient";
    TRY(weft_ranks_spans(t, t->squares, sizeof *t->squares));
    for (int64_t step = 1; step < t->span_count; step *= 2)
        for (int64_t i = 0; i + step < t->span_count; i += 2 * step)
            t->squares[i] += t->squares[i + step];
    *norm = sqrt(t->squares[0]);
    return WEFT_OK;
}

struct updating {
    const struct weft_learner *t;
    struct weft_update update;
    void (*fn)(const void *options, const struct weft_update *u, const struct weft_span *span);
};

/* Moments may have a different layout from the weights, so their pointers are shifted to make the span begin at its
 * first element. */
static void work_on_span(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct updating *u = context;
    const struct weft_own *own = &u->t->own[tile];
    const struct weft_span *span = &u->t->spans[own->span];
    struct weft_update update = u->update;
    update.moments[0] += own->moment - span->first;
    update.moments[1] += own->moment - span->first;
    u->fn(u->t->recipe->optim_options, &update, span);
    if (!u->t->mask)
        return;
    weft_mask_apply(u->t, own->span, update.weights + span->first);
    weft_mask_apply(u->t, own->span, update.moments[0] + span->first);
    weft_mask_apply(u->t, own->span, update.moments[1] + span->first);
}

static void mask_gradient(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_learner *t = context;
    int64_t span = t->own[tile].span;
    weft_mask_apply(t, span, t->sums[0].grads + t->spans[span].first);
}

static void work_on_spans(struct updating *u,
                          void (*fn)(const void *, const struct weft_update *, const struct weft_span *))
{
    u->fn = fn;
    weft_parallel(u->t->own_count, work_on_span, u);
}

/* Finds the first non-finite value in an array with the layout of the parameters. */
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

/* Names a non-finite weight, or the first bad value on the way to the gradient; if recomputing finds none, names a
 * gradient (the sum of two finite groups may not be finite). */
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
    if (t->mask)
        weft_parallel(t->own_count, mask_gradient, t);
    if (r->optim->limit)
        work_on_spans(&u, r->optim->limit);
    double loss = t->sums[0].losses.list[0].value, norm;
    TRY(gradient_norm(t, &norm));
    if (!isfinite(loss) || !isfinite(norm))
        return not_finite(t, loss, norm);
    t->loss = loss;
    t->grad_norm = norm;
    if (norm > r->clip)
        u.update.grad_scale = (float)(r->clip / norm);
    work_on_spans(&u, r->optim->update);
    TRY(weft_ranks_weights(t));
    t->step++;
    weft_masks_grow(t);
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
