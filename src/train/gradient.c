/* SPDX-License-Identifier: MIT
 *
 * gradient.c - the gradient of a step: samples in, a run per micro-batch, and the sum of them all in one fixed order.
 *
 * Micro-batches of a group add to the same sum one after another, as the kernels do it. The groups' sums go up one
 * binary tree: 0 + 1, 2 + 3, .. then (0 + 1) + (2 + 3), and so on; whoever has no partner waits for a higher level. The
 * groups come in order, so as in a binary counter one open sum per level is enough.
 *
 * The loss is a mean over the scored tokens of all micro-batches, which must be known before the first backward pass.
 * Samples are functions of their index: they are made once to be counted and a second time to be run, instead of being
 * kept.
 */
#include "base/vmath_inl.h"
#include "train/train.h"

/* ---- a micro-batch */

static uint64_t first_sample(const struct weft_learner *t, int64_t micro_batch)
{
    return (uint64_t)((t->step * t->recipe->micro_batches + micro_batch) * t->model->spec->batch);
}

static int64_t fill(const struct weft_learner *t, int64_t micro_batch)
{
    return weft_recipe_fill(t->recipe, t->model->spec, &t->net, t->exec, first_sample(t, micro_batch),
                            t->model->spec->batch);
}

static float *number(const struct weft_learner *t, const struct weft_value *v)
{
    return weft_exec_tensor(t->exec, v)->data;
}

/* The terms as they stand in the loss, in the order of make_losses. */
static void add_losses(const struct weft_learner *t, struct weft_losses *l)
{
    const struct weft_net *net = &t->net;
    const float *nll = number(t, net->nll), *lse = number(t, net->lse);
    double weight = *number(t, net->weight), main = 0, squares = 0;
    for (int64_t i = 0; i < t->model->spec->batch * t->length; i++) {
        main += nll[i];
        squares += (double)lse[i] * lse[i];
    }
    struct weft_loss *to = l->list;
    (to++)->value += *number(t, net->loss);
    (to++)->value += weight * main;
    for (int i = 0; i < net->term_count; i++)
        (to++)->value += (double)*number(t, net->share) * *number(t, net->terms[i].value);
    if (to < l->list + l->count)
        to->value += weight * t->model->spec->logits_z * squares;
}

static void set_inputs(const struct weft_learner *t, int64_t micro_batch, float weight)
{
    fill(t, micro_batch);
    weft_net_step_key(&t->net, t->exec, (uint64_t)t->model->spec->seed, (uint64_t)t->step,
                      first_sample(t, micro_batch));
    *number(t, t->net.weight) = weight;
    *number(t, t->net.share) = 1 / (float)t->recipe->micro_batches;
}

/* One link per sample, so that the chain depends neither on micro-batches nor on where a run was stopped. */
static void extend_stream(struct weft_learner *t)
{
    const int32_t *tokens = weft_exec_tensor(t->exec, t->net.tokens)->data;
    const int32_t *targets = weft_exec_tensor(t->exec, t->net.targets)->data;
    size_t bytes = (size_t)t->length * sizeof *tokens;
    for (int64_t s = 0; s < t->model->spec->batch; s++) {
        struct weft_sha256 sha;
        weft_sha256_init(&sha);
        weft_sha256_add(&sha, t->next_stream, 64);
        weft_sha256_add(&sha, tokens + s * t->length, bytes);
        weft_sha256_add(&sha, targets + s * t->length, bytes);
        weft_sha256_hex(&sha, t->next_stream);
    }
}

static enum weft_status run(struct weft_learner *t, int64_t micro_batch, float weight, struct weft_sum *sum)
{
    set_inputs(t, micro_batch, weight);
    extend_stream(t);
    TRY(weft_exec_run(t->exec));
    add_losses(t, &sum->losses);
    return WEFT_OK;
}

/* ---- sums */

static struct weft_losses make_losses(const struct weft_learner *t)
{
    struct weft_losses l = {.count = 2, .list = {{"total", 0}, {"main", 0}}};
    for (int i = 0; i < t->net.term_count; i++)
        l.list[l.count++].name = t->net.terms[i].name;
    if (t->model->spec->logits_z > 0)
        l.list[l.count++].name = "logits_z";
    return l;
}

struct adding {
    const struct weft_learner *t;
    float *to;
    const float *from; /* NULL: nothing, `to` becomes 0 */
};

static void add_span(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct adding *a = context;
    const struct weft_span *span = &a->t->spans[tile];
    float *to = a->to + span->first;
    if (!a->from)
        memset(to, 0, (size_t)span->count * sizeof *to);
    for (int64_t i = 0; a->from && i < span->count; i++)
        to[i] += a->from[span->first + i];
}

/* What runs add their gradients to from here on. */
static void begin_sum(const struct weft_learner *t, struct weft_sum *sum)
{
    sum->losses = make_losses(t);
    weft_parallel(t->span_count, add_span, &(struct adding){t, sum->grads, NULL});
    if (t->sum_count > 1) /* else it was bound once and for all */
        weft_net_bind(&t->net, t->exec, t->model, sum->grads);
}

static int64_t first_of_group(const struct weft_learner *t, int64_t group)
{
    return group * t->recipe->micro_batches / weft_recipe_groups(t->recipe);
}

static enum weft_status sum_group(struct weft_learner *t, int64_t group, float weight, struct weft_sum *sum)
{
    begin_sum(t, sum);
    for (int64_t m = first_of_group(t, group); m < first_of_group(t, group + 1); m++)
        TRY(run(t, m, weight, sum));
    return WEFT_OK;
}

/* Adds the last of the open sums to the one before it; returns how many are left. */
static int join(const struct weft_learner *t, int open)
{
    struct weft_sum *to = &t->sums[open - 2], *from = &t->sums[open - 1];
    weft_parallel(t->span_count, add_span, &(struct adding){t, to->grads, from->grads});
    for (int i = 0; i < to->losses.count; i++)
        to->losses.list[i].value += from->losses.list[i].value;
    return open - 1;
}

/* Of a scored token in the loss. */
static float token_weight(const struct weft_learner *t)
{
    int64_t scored = 0;
    for (int64_t m = 0; m < t->recipe->micro_batches; m++)
        scored += fill(t, m);
    return 1 / (float)weft_max(1, scored);
}

enum weft_status weft_learner_gradient(struct weft_learner *t)
{
    float weight = token_weight(t);
    int open = 0;
    memcpy(t->next_stream, t->stream, sizeof t->stream);
    TRY(weft_exec_prepare(t->exec));
    for (int64_t group = 0; group < weft_recipe_groups(t->recipe); group++) {
        TRY(sum_group(t, group, weight, &t->sums[open++]));
        for (int64_t closed = group + 1; closed % 2 == 0; closed /= 2)
            open = join(t, open);
    }
    while (open > 1)
        open = join(t, open);
    return WEFT_OK;
}

/* ---- a step again, op by op */

static void set_again(struct weft_learner *t, int64_t micro_batch, float weight)
{
    for (int64_t group = 0; group < weft_recipe_groups(t->recipe); group++)
        if (micro_batch == first_of_group(t, group))
            begin_sum(t, &t->sums[0]);
    set_inputs(t, micro_batch, weight);
}

static void name_micro_batch(const struct weft_learner *t, int64_t m, char *text, size_t size)
{
    size_t length = strlen(text);
    if (t->recipe->micro_batches > 1)
        snprintf(text + length, size - length, " in micro-batch %lld of %lld", (long long)m + 1,
                 (long long)t->recipe->micro_batches);
}

bool weft_learner_find_bad(struct weft_learner *t, char *text, size_t size)
{
    float weight = token_weight(t);
    for (int64_t m = 0; m < t->recipe->micro_batches; m++) {
        set_again(t, m, weight);
        if (weft_exec_find_nonfinite(t->exec, text, size)) {
            name_micro_batch(t, m, text, size);
            return true;
        }
    }
    return false;
}

bool weft_learner_find_difference(struct weft_learner *a, struct weft_learner *b, char *text, size_t size,
                                  double value[2])
{
    float weight[2] = {token_weight(a), token_weight(b)};
    for (int64_t m = 0; m < weft_min(a->recipe->micro_batches, b->recipe->micro_batches); m++) {
        set_again(a, m, weight[0]);
        set_again(b, m, weight[1]);
        if (weft_exec_find_difference(a->exec, b->exec, text, size, value)) {
            name_micro_batch(a, m, text, size);
            return true;
        }
    }
    return false;
}
