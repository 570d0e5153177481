/* SPDX-License-Identifier: MIT
 *
 * account.c - predicts a model's weights by part, FLOPs, memory and cache from graphs that are planned but not
 * allocated, so the model may be larger than the machine's memory.
 */
#include "train/account.h"
#include "nn/part.h"
#include "train/prune/prune.h"
#include "train/ranks/partition.h"

#include <string.h>

static int64_t count_half(const struct weft_params *p, enum weft_half half)
{
    int64_t n = 0;
    for (int i = 0; i < p->count; i++)
        n += p->list[i].half == half ? p->list[i].count : 0;
    return n;
}

static int64_t count_part(const struct weft_params *p, const struct weft_part *part)
{
    int64_t n = 0;
    for (int i = 0; i < p->count; i++)
        n += p->list[i].part == part ? p->list[i].count : 0;
    return n;
}

static void count_parts(const struct weft_nn *m, const struct weft_recipe *recipe, struct weft_account *a)
{
    a->params = m->params.elements;
    a->attn_params = count_half(&m->params, WEFT_HALF_ATTN);
    a->ffn_params = count_half(&m->params, WEFT_HALF_FFN);
    for (int i = 0; i < m->spec->mechanism_count; i++) {
        a->mechanism_params[i] = count_part(&m->params, m->spec->mechanism[i].part);
        a->other_params -= a->mechanism_params[i];
    }
    a->other_params += a->params - a->attn_params - a->ffn_params;
    a->state_bytes = m->params.total * (recipe ? weft_recipe_state_bytes(recipe) : WEFT_STATE_BYTES);
}

/* A graph planned without allocating memory. */
struct plan {
    struct weft_net net;
    struct weft_exec *exec;
};

static enum weft_status plan(struct plan *p, const struct weft_nn *m, enum weft_use use, struct weft_net_size size)
{
    TRY(weft_net_init(&p->net, m, use, size));
    TRY(weft_exec_create(&p->exec, p->net.g, WEFT_UNBACKED));
    return WEFT_OK;
}

static void release(struct plan *p)
{
    weft_exec_free(p->exec);
    weft_net_release(&p->net);
}

/* Counts the FLOPs per token, in total and by group. */
static void count_flops(const struct plan *p, int64_t tokens, double *flops, double groups[WEFT_GROUPS])
{
    double all[WEFT_MAX_GROUPS];
    weft_exec_flops_by_group(p->exec, all);
    *flops = weft_exec_cost(p->exec).flops / (double)tokens;
    for (int i = 0; i < WEFT_GROUPS; i++)
        groups[i] = all[i] / (double)tokens;
}

static enum weft_status count_training(const struct weft_nn *m, int64_t length, bool recompute, int64_t *bytes,
                                       double *flops, double groups[WEFT_GROUPS])
{
    struct weft_spec spec = *m->spec;
    struct weft_nn twin = {.spec = &spec, .params = m->params};
    struct plan p = {0};
    spec.recompute = recompute;
    enum weft_status status =
        plan(&p, &twin, WEFT_TRAIN, (struct weft_net_size){.sequences = spec.batch, .length = length});
    if (status == WEFT_OK) {
        *bytes = (int64_t)weft_exec_bytes(p.exec);
        count_flops(&p, spec.batch * length, flops, groups);
    }
    release(&p);
    return status;
}

static enum weft_status count_prefill(const struct weft_nn *m, int64_t length, struct weft_account *a)
{
    struct plan p = {0};
    enum weft_status status = plan(&p, m, WEFT_FORWARD, (struct weft_net_size){.sequences = 1, .length = length});
    if (status == WEFT_OK)
        count_flops(&p, length, &a->flops_prefill, a->prefill_groups);
    release(&p);
    return status;
}

/* Returns whether a weight is multiplied once per decoded token: true for matrices that decoding uses, and for a tied
 * embedding table. */
static bool is_multiplied(const struct plan *p, const struct weft_nn *m, int i)
{
    const struct weft_param *w = &m->params.list[i];
    return p->net.weights[i] && (w->tied || (w->role != WEFT_TABLE && w->role != WEFT_VECTOR));
}

/* Counts the weights and FLOPs of the model without the pruned units, and the single weights pruned from the rest.
 */
static void count_pruned(const struct plan *p, const struct weft_nn *m, const struct weft_nn *cut,
                         const struct weft_recipe *r, struct weft_account *a)
{
    a->cut_params = cut->params.elements;
    a->pruned = m->params.elements - cut->params.elements;
    a->kept_bytes = (int64_t)sizeof(float) * cut->params.elements;
    for (int i = 0; i < m->params.count; i++) {
        const struct weft_param *w = &m->params.list[i];
        int64_t left = cut->params.list[i].count, n = weft_prune_count(r, w, r->steps) - (w->count - left);
        if (!weft_prunes(r, w))
            continue;
        n = weft_max(0, n);
        a->pruned += n;
        a->kept_bytes += weft_div_up(left, 8) - (int64_t)sizeof(float) * n;
        a->flops_pruned -= is_multiplied(p, cut, i) ? 2 * (double)n : 0;
    }
}

/* Plans decoding the last token of a sequence of this length, with the other tokens cached. */
static enum weft_status plan_decode(struct plan *p, const struct weft_nn *m, int64_t length, double *flops,
                                    double groups[WEFT_GROUPS])
{
    int32_t last = (int32_t)(length - 1);
    struct weft_net_size size = {.sequences = 1, .length = length, .rows = 1};
    size.store_rows = weft_round_up(length, WEFT_KEY_TILE);
    size.ring_rows = weft_round_up(weft_min(m->spec->ra_window + 1, length), WEFT_KEY_TILE);
    TRY(plan(p, m, WEFT_DECODE, size));
    weft_exec_tensor(p->exec, p->net.at.pos)->data = &last; /* the only input that counting reads */
    count_flops(p, 1, flops, groups);
    return WEFT_OK;
}

static enum weft_status count_decode(const struct weft_nn *m, int64_t length, struct weft_account *a)
{
    struct plan p = {0};
    enum weft_status status = plan_decode(&p, m, length, &a->flops_decode, a->decode_groups);
    if (status == WEFT_OK)
        for (int i = 0; i < p.net.slot_count; i++) {
            const struct weft_slot *s = &p.net.slots[i];
            int64_t bytes = s->width * (int64_t)weft_dtype_bytes(s->state->dtype);
            a->cache_bytes += s->lifetime == WEFT_PER_TOKEN ? bytes : 0;
            a->window_bytes += s->lifetime == WEFT_WINDOW ? bytes * m->spec->ra_window : 0;
            a->sequence_bytes += s->lifetime == WEFT_PER_SEQUENCE ? bytes : 0;
        }
    release(&p);
    return status;
}

static enum weft_status count_pruning(const struct weft_nn *m, const struct weft_recipe *r, int64_t length,
                                      struct weft_account *a)
{
    struct weft_cuts cuts;
    struct plan p = {0};
    double groups[WEFT_GROUPS];
    a->weight_bytes = (int64_t)sizeof(float) * m->params.elements;
    if (!r || !weft_pruning_any(&r->prune))
        return WEFT_OK;
    TRY(weft_pruning_check(r, m));
    enum weft_status status = weft_cuts_init(&cuts, m, &r->prune.units, false);
    if (status == WEFT_OK)
        status = plan_decode(&p, cuts.model, length, &a->flops_cut, groups);
    a->flops_pruned = a->flops_cut;
    if (status == WEFT_OK)
        count_pruned(&p, m, cuts.model, r, a);
    release(&p);
    weft_cuts_release(&cuts);
    return status;
}

enum weft_status weft_account(const struct weft_nn *m, const struct weft_recipe *recipe, int64_t length,
                              struct weft_account *a)
{
    int64_t kept, again, element = (int64_t)weft_dtype_bytes(m->spec->compute);
    double flops_kept, flops_again, groups_kept[WEFT_GROUPS], groups_again[WEFT_GROUPS];
    *a = (struct weft_account){0};
    count_parts(m, recipe, a);
    TRY(count_training(m, m->spec->context, false, &kept, &flops_kept, groups_kept));
    TRY(count_training(m, m->spec->context, true, &again, &flops_again, groups_again));
    a->activation_bytes = m->spec->recompute ? again : kept;
    a->flops_train = m->spec->recompute ? flops_again : flops_kept;
    memcpy(a->train_groups, m->spec->recompute ? groups_again : groups_kept, sizeof a->train_groups);
    a->recompute_saves_bytes = kept - again;
    a->recompute_flops_ratio = flops_again / flops_kept;
    TRY(count_prefill(m, length, a));
    TRY(count_decode(m, length, a));
    TRY(count_pruning(m, recipe, length, a));
    a->cache_bytes_layer = (double)a->cache_bytes / (double)m->spec->layers;
    a->cache_ratio_to_mha = a->cache_bytes_layer / (double)(2 * m->spec->width * element);
    return WEFT_OK;
}

enum weft_status weft_account_flops(const struct weft_nn *m, double *flops)
{
    int64_t bytes;
    double groups[WEFT_GROUPS];
    TRY(count_training(m, m->spec->context, m->spec->recompute, &bytes, flops, groups));
    return WEFT_OK;
}

/* Solves (ffn + s attn) : (attn - s attn) = WEFT_FFN_RULE : 1 for s. */
double weft_account_shift(double attn, double ffn)
{
    return (WEFT_FFN_RULE * attn - ffn) / ((WEFT_FFN_RULE + 1) * attn);
}

/* ---- whether training fits into memory */

/* Raises *bytes to the size of a graph that training builds temporarily, in addition to its own. */
static enum weft_status count_beside(const struct weft_nn *m, enum weft_use use, int64_t length, int64_t *bytes)
{
    struct plan p = {0};
    enum weft_status status = plan(&p, m, use, (struct weft_net_size){.sequences = m->spec->batch, .length = length});
    if (status == WEFT_OK)
        *bytes = weft_max(*bytes, (int64_t)weft_exec_bytes(p.exec));
    release(&p);
    return status;
}

/* Memory for training, in bytes. */
struct need {
    int64_t state, spare_sums; /* weights, gradients and moments; the part that grad_groups=1 saves */
    int64_t step, saved;       /* buffer of a step; the part that recompute=yes saves */
    int64_t eval;
};

int64_t weft_account_state(const struct weft_nn *m, const struct weft_recipe *r, int64_t ranks)
{
    struct weft_recipe own = *r;
    int64_t total = m->params.total, moments = 2 * (int64_t)sizeof(float) * total;
    int64_t bucket = (int64_t)sizeof(float) * weft_min(total, weft_partition_bucket(total, ranks));
    own.grad_groups = weft_div_up(weft_recipe_groups(r), ranks);
    own.micro_batches = weft_recipe_most(r, ranks);
    return total * weft_recipe_state_bytes(&own) - moments + weft_div_up(moments, ranks) + (ranks > 1 ? 2 * bucket : 0);
}

static enum weft_status count_need(const struct weft_nn *m, const struct weft_recipe *r, int64_t ranks, struct need *n)
{
    int64_t length = r->task->length(r->task_options), kept, again;
    double flops, groups[WEFT_GROUPS];
    TRY(count_training(m, length, false, &kept, &flops, groups));
    TRY(count_training(m, length, true, &again, &flops, groups));
    *n = (struct need){.state = weft_account_state(m, r, ranks)};
    n->spare_sums = weft_max(0, n->state - m->params.total * WEFT_STATE_BYTES);
    n->step = m->spec->recompute ? again : kept;
    n->saved = n->step - again;
    TRY(count_beside(m, WEFT_EVAL, length, &n->eval));
    if (r->diagnose_every)
        TRY(count_beside(m, WEFT_WATCH, length, &n->eval));
    return WEFT_OK;
}

static double gib(int64_t bytes) { return (double)bytes / (1 << 30); }

/* Suggests only changes that help: if the state alone is too large, a smaller step does not. */
static void advise(const struct need *n, int64_t batch, int64_t available, char *text, size_t size)
{
    bool smaller_step = n->state <= available;
    char samples[64] = "", groups[64] = "", recompute[64] = "";
    if (smaller_step && batch > 1)
        snprintf(samples, sizeof samples, "a batch below %lld (and more micro_batches), ", (long long)batch);
    if (n->spare_sums > 0)
        snprintf(groups, sizeof groups, "grad_groups=1 (saves %.2f GiB), ", gib(n->spare_sums));
    if (smaller_step && n->saved > 0)
        snprintf(recompute, sizeof recompute, "recompute=yes (saves %.2f GiB), ", gib(n->saved));
    bool any = *groups || *samples || *recompute;
    snprintf(text, size, "%s%s%s%sa smaller model", samples, groups, recompute, any ? "or " : "");
}

enum weft_status weft_account_fit(const struct weft_nn *m, const struct weft_recipe *r, int64_t ranks,
                                  int64_t available)
{
    struct need n;
    char advice[256];
    TRY(count_need(m, r, ranks, &n));
    int64_t all = n.state + n.step + n.eval;
    if (all <= available)
        return WEFT_OK;
    advise(&n, m->spec->batch, available, advice, sizeof advice);
    return FAIL(
        WEFT_NOMEM,
        "training would take %.2f GiB, but only %.2f GiB is free: %.2f for weights, gradients and moments, %.2f for "
        "a step, %.2f for evaluation. Try %s",
        gib(all), gib(available), gib(n.state), gib(n.step), gib(n.eval), advice);
}
