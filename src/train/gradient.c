/* SPDX-License-Identifier: MIT
 *
 * gradient.c - computes the gradient of a step: reads samples, runs every micro-batch, and sums the gradients in a
 * fixed order.
 *
 * Micro-batches of a group add to the same sum one after another, inside the kernels. The groups' sums are added along
 * one binary tree (tree.h). Because groups arrive in order, one open sum per level is enough. Each rank computes some
 * of the groups; it sends the sums that it cannot join by itself to the owners of the weights, which continue the same
 * tree (ranks.c).
 *
 * The loss is a mean over the scored tokens of all micro-batches, whose number must be known before the first backward
 * pass. Samples are functions of their index, so they are generated once for counting and a second time for the run
 * instead of being stored.
 */
#include "base/vmath_inl.h"
#include "train/ranks/ranks.h"

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

/* Adds the losses of a micro-batch, multiplied by their coefficients, in the order of make_losses. */
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

/* Writes the digests of the samples of a micro-batch. */
static void make_digests(const struct weft_learner *t, char (*to)[64])
{
    const int32_t *tokens = weft_exec_tensor(t->exec, t->net.tokens)->data;
    const int32_t *targets = weft_exec_tensor(t->exec, t->net.targets)->data;
    size_t bytes = (size_t)t->length * sizeof *tokens;
    for (int64_t s = 0; s < t->model->spec->batch; s++) {
        struct weft_sha256 sha;
        char hex[65];
        weft_sha256_init(&sha);
        weft_sha256_add(&sha, tokens + s * t->length, bytes);
        weft_sha256_add(&sha, targets + s * t->length, bytes);
        weft_sha256_hex(&sha, hex);
        memcpy(to[s], hex, sizeof to[s]);
    }
}

/* How to run a group. */
struct purpose {
    float weight;                       /* weight of a scored token in the loss */
    bool other;                         /* the group belongs to a different rank: its samples are not recorded */
    const struct weft_tree_node *nodes; /* [open] nodes, for the last group on one of several ranks; else NULL */
    int open;
};

static enum weft_status run(struct weft_learner *t, int64_t micro_batch, struct weft_sum *sum, const struct purpose *p,
                            bool last)
{
    int64_t mine = micro_batch - weft_rank_micro_batch(t, t->comm->rank);
    set_inputs(t, micro_batch, p->weight);
    if (!p->other)
        make_digests(t, t->digests + t->comm->rank * t->digest_room + mine * t->model->spec->batch);
    TRY(last && p->nodes ? weft_sharing_run(t, p->nodes, p->open) : weft_exec_run(t->exec));
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
    const float *from; /* NULL: `to` is set to 0 */
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

/* Clears a sum, to which the following runs add their gradients. */
static void begin_sum(const struct weft_learner *t, struct weft_sum *sum)
{
    sum->losses = make_losses(t);
    weft_parallel(t->span_count, add_span, &(struct adding){t, sum->grads, NULL});
    if (t->sum_count > 1) /* a single sum is always bound */
        weft_net_bind(&t->net, t->exec, t->model, sum->grads);
}

static enum weft_status sum_group(struct weft_learner *t, int64_t group, struct weft_sum *sum, const struct purpose *p)
{
    int64_t end = weft_group_micro_batch(t, group + 1);
    begin_sum(t, sum);
    for (int64_t m = weft_group_micro_batch(t, group); m < end; m++)
        TRY(run(t, m, sum, p, m + 1 == end));
    return WEFT_OK;
}

static void join_losses(void *context, int to)
{
    const struct weft_learner *t = context;
    weft_losses_add(&t->sums[to].losses, &t->sums[to + 1].losses);
}

static void join(void *context, int to)
{
    const struct weft_learner *t = context;
    struct weft_sum *sum = &t->sums[to];
    weft_parallel(t->span_count, add_span, &(struct adding){t, sum[0].grads, sum[1].grads});
    join_losses(context, to);
}

/* Adds one link per sample, so that the chain depends neither on micro-batches nor on where a run was stopped. */
static void extend_stream(struct weft_learner *t)
{
    memcpy(t->next_stream, t->stream, sizeof t->stream);
    for (int r = 0; r < t->comm->size; r++) {
        int64_t micro_batches = weft_rank_micro_batch(t, r + 1) - weft_rank_micro_batch(t, r);
        for (int64_t s = 0; s < micro_batches * t->model->spec->batch; s++) {
            struct weft_sha256 sha;
            weft_sha256_init(&sha);
            weft_sha256_add(&sha, t->next_stream, 64);
            weft_sha256_add(&sha, t->digests[r * t->digest_room + s], 64);
            weft_sha256_hex(&sha, t->next_stream);
        }
    }
}

static int64_t count_scored(const struct weft_learner *t, int64_t first, int64_t end)
{
    int64_t scored = 0;
    for (int64_t m = first; m < end; m++)
        scored += fill(t, m);
    return scored;
}

/* Returns the weight of a scored token in the loss. */
static float token_weight(int64_t scored) { return 1 / (float)weft_max(1, scored); }

/* Sums the groups of this rank and leaves *count sums open. With several ranks, the gradients are shared during the
 * last run or, if `own` is not NULL, after it; `own` then receives the hash of one group. */
static enum weft_status sum_groups(struct weft_learner *t, float weight, struct weft_tree_node *open, int *count,
                                   char own[65])
{
    const int rank = t->comm->rank, ranks = t->comm->size;
    const int64_t groups = weft_recipe_groups(t->recipe), end = weft_rank_first(groups, rank + 1, ranks);
    for (int64_t g = weft_rank_first(groups, rank, ranks); g < end; g++) {
        bool last = ranks > 1 && g + 1 == end; /* the gradients of the last group are joined while it runs */
        struct weft_sum *sum = &t->sums[*count];
        open[*count] = (struct weft_tree_node){g, 1};
        TRY(sum_group(t, g, sum, &(struct purpose){weight, false, last && !own ? open : NULL, *count + 1}));
        if (own && g == weft_neighbour_group(t, rank))
            weft_sum_hash(t, sum, own);
        if (own && last)
            TRY(weft_sharing_finish(t, open, *count + 1));
        *count = weft_tree_add(open, *count, open[*count], last ? join_losses : join, t);
    }
    return WEFT_OK;
}

static enum weft_status sum_other(struct weft_learner *t, int64_t group, struct weft_sum *sum)
{
    return sum_group(t, group, sum, &(struct purpose){.weight = t->weight, .other = true});
}

enum weft_status weft_learner_gradient(struct weft_learner *t)
{
    const int rank = t->comm->rank, ranks = t->comm->size;
    const bool verify = weft_neighbour_due(t);
    struct weft_tree_node open[WEFT_TREE_NODES];
    char own[65] = "", next[65] = "";
    int count = 0;
    int64_t scored = count_scored(t, weft_rank_micro_batch(t, rank), weft_rank_micro_batch(t, rank + 1));
    TRY(weft_ranks_count(t, &scored));
    t->weight = token_weight(scored);
    TRY(weft_exec_prepare(t->exec));
    if (verify) {
        TRY(sum_other(t, weft_neighbour_group(t, (rank + 1) % ranks), &t->sums[0]));
        weft_sum_hash(t, &t->sums[0], next);
    }
    TRY(sum_groups(t, t->weight, open, &count, verify ? own : NULL));
    if (ranks == 1)
        weft_tree_finish(open, count, join, t);
    else
        TRY(weft_ranks_losses(t));
    if (verify)
        TRY(weft_neighbour_compare(t, own, next, sum_other));
    extend_stream(t);
    return WEFT_OK;
}

/* ---- repeating a step op by op */

static void set_again(struct weft_learner *t, int64_t micro_batch, float weight)
{
    for (int64_t group = 0; group < weft_recipe_groups(t->recipe); group++)
        if (micro_batch == weft_group_micro_batch(t, group))
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
    float weight = token_weight(count_scored(t, 0, t->recipe->micro_batches));
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
    float weight[2] = {token_weight(count_scored(a, 0, a->recipe->micro_batches)),
                       token_weight(count_scored(b, 0, b->recipe->micro_batches))};
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
