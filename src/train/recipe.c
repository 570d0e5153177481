/* SPDX-License-Identifier: MIT
 *
 * recipe.c - reads the training recipe from settings: the task, the optimiser and the schedule.
 */
#include "train/prune/prune.h"
#include "train/ranks/tree.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { COSINE, LINEAR, CONSTANT };
static const char *const schedules[] = {"cosine", "linear", "constant", NULL};

#define PRUNES "prune!=0 or prune_heads!=0 or prune_channels!=0 or prune_ranks!=0"
#define AT(field) offsetof(struct weft_recipe, field)
static const struct weft_opt options[] = {
    {"task", WEFT_OPT_CHOICE, AT(choice.task), "recall", .choices = weft_task_names, .help = "training task"},
    {"optim", WEFT_OPT_CHOICE, AT(choice.optim), "adamw", .choices = weft_optim_names, .help = "optimiser",
     .also = "optimizer optimiser"},
    {"steps", WEFT_OPT_INT, AT(steps), "300", 1, 1e12, .help = "number of optimiser steps",
     .also = "max_iters max_steps num_steps iterations train_steps", .symbol = "GPT2_MAX_ITERS"},
    {"lr", WEFT_OPT_REAL, AT(lr), "1e-3", 0, 10, .help = "peak learning rate", .also = "learning_rate max_lr"},
    {"warmup", WEFT_OPT_INT, AT(warmup), "100", 0, 1e12, .help = "number of warm-up steps",
     .also = "warmup_steps warmup_iters num_warmup_steps"},
    {"schedule", WEFT_OPT_CHOICE, AT(choice.schedule), "cosine", .choices = schedules,
     .help = "learning rate after warm-up: cosine or linear decay to a tenth of lr, or constant"},
    {"clip", WEFT_OPT_REAL, AT(clip), "1", 1e-6, 1e30, .help = "maximum global gradient norm",
     .also = "grad_clip max_grad_norm gradient_clipping"},
    {"micro_batches", WEFT_OPT_INT, AT(micro_batches), "1", 1, 1 << 20,
     .help = "M, number of micro-batches in a step: each gradient covers M times batch sequences",
     .also = "gradient_accumulation_steps grad_accum accumulation_steps"},
    {"grad_groups", WEFT_OPT_INT, AT(grad_groups), "8", 1, 4096, .needs = "micro_batches!=1",
     .help = "number of groups of micro-batches, at most M: gradients are summed within each group, then up a binary "
             "tree. Each doubling needs memory for one more gradient; a different number rounds differently"},
    {"eval_samples", WEFT_OPT_INT, AT(eval_samples), "1024", 1, 1e9, .help = "number of held-out samples to score"},
    {"eval_every", WEFT_OPT_INT, AT(eval_every), "0", 0, 1e12,
     .help = "interval in steps between evaluations on held-out samples; 0: only at the end"},
    {"diagnose_every", WEFT_OPT_INT, AT(diagnose_every), "0", 0, 1e12,
     .help = "interval in steps between measurements of attention's entropy and reciprocity (and the parts' own "
             "metrics) on held-out samples; also measured at the end; 0: never"},
    {"log_every", WEFT_OPT_INT, AT(log_every), "10", 0, 1e12, .help = "logging interval in steps; 0: only at the end"},
    {"checkpoint_every", WEFT_OPT_INT, AT(checkpoint_every), "1000", 0, 1e12,
     .help = "checkpoint interval in steps; 0: only at the end"},
    {"keep", WEFT_OPT_INT, AT(keep), "2", 1, 1e6, .help = "number of newest checkpoints to keep"},
    {"init", WEFT_OPT_TEXT, AT(init), "",
     .help = "run, checkpoint or safetensors file with initial weights, matched by name and shape; all others are "
             "randomly initialised"},
    {"init_leave", WEFT_OPT_BOOL, AT(init_leave), "no",
     .needs = "init!=", .help = "yes: ignore weights in init that do not match the model's; no: they are an error"},
    {"prune", WEFT_OPT_REAL, AT(prune.target), "0", 0, 0.999,
     .help = "magnitude pruning: final fraction of zeros in each selected matrix; 0: no pruning"},
    {"prune_heads", WEFT_OPT_REAL, AT(prune.units.heads), "0", 0, 0.999,
     .help = "final fraction of zeroed heads in every layer, selected as by weft prune --heads"},
    {"prune_channels", WEFT_OPT_REAL, AT(prune.units.channels), "0", 0, 0.999,
     .help = "final fraction of zeroed feed-forward channels in every layer, selected as by weft prune --channels"},
    {"prune_ranks", WEFT_OPT_REAL, AT(prune.units.ranks), "0", 0, 0.999,
     .help = "final fraction of zeroed ranks of M1, M2 and M3, if they have any, selected as by weft prune --ranks"},
    {"prune_begin", WEFT_OPT_REAL, AT(prune.begin), "0.25", 0, 1, .needs = PRUNES,
     .help = "fraction of the steps after which pruning begins"},
    {"prune_end", WEFT_OPT_REAL, AT(prune.end), "0.75", 0, 1, .needs = PRUNES,
     .help = "fraction of the steps after which pruning is complete"},
    {"prune_every", WEFT_OPT_INT, AT(prune.every), "10", 1, 1e12, .needs = PRUNES,
     .help = "interval in steps at which the masks grow"},
    {"prune_attention", WEFT_OPT_BOOL, AT(prune.attention), "yes", .needs = "prune!=0",
     .help = "pruning of the attention matrices"},
    {"prune_ffn", WEFT_OPT_BOOL, AT(prune.ffn), "yes", .needs = "prune!=0",
     .help = "pruning of the feed-forward matrices"},
    {"prune_mechanisms", WEFT_OPT_BOOL, AT(prune.mechanisms), "yes", .needs = "prune!=0",
     .help = "pruning of the mechanisms' matrices"},
    {"prune_embedding", WEFT_OPT_BOOL, AT(prune.embedding), "no", .needs = "prune!=0",
     .help = "pruning of the matrices outside the blocks: embedding, positions and output"},
};
static const struct weft_owner owner = WEFT_OWNER("training", options);

const struct weft_owner *weft_train_owner_at(int i)
{
    const struct weft_task *task;
    const struct weft_optim *optim;
    if (i-- == 0)
        return weft_task_at(0) ? &owner : NULL; /* weft_task_at sets the names of the choices */
    for (int n = 0; (task = weft_task_at(n)); n++)
        if (i-- == 0)
            return &task->owner;
    optim = weft_optim_at(i);
    return optim ? &optim->owner : NULL;
}

/* Reads the options of the chosen task or optimiser; for the others, only declares the names of options. */
static enum weft_status take(struct weft_recipe *r, struct weft_settings *settings, const struct weft_owner *of,
                             size_t bytes, void **chosen)
{
    if (chosen && !(*chosen = weft_arena_alloc(&r->arena, bytes + 1)))
        return FAIL(WEFT_NOMEM, "not enough memory for options");
    TRY(weft_settings_take(settings, of, chosen ? *chosen : NULL));
    return WEFT_OK;
}

enum weft_status weft_recipe_init(struct weft_recipe *r, struct weft_spec *spec, struct weft_settings *settings)
{
    *r = (struct weft_recipe){0};
    TRY(weft_settings_take(settings, weft_train_owner_at(0), r));
    r->task = weft_task_at(r->choice.task);
    r->optim = weft_optim_at(r->choice.optim);
    const struct weft_task *task;
    for (int i = 0; (task = weft_task_at(i)); i++)
        TRY(take(r, settings, &task->owner, task->options_bytes, task == r->task ? &r->task_options : NULL));
    const struct weft_optim *optim;
    for (int i = 0; (optim = weft_optim_at(i)); i++)
        TRY(take(r, settings, &optim->owner, optim->options_bytes, optim == r->optim ? &r->optim_options : NULL));
    TRY(weft_settings_finish(settings));
    TRY(weft_pruning_resolve(r));
    int64_t vocab = spec->vocab_open && r->task->vocab ? r->task->vocab(r->task_options) : 0;
    if (vocab > 0)
        spec->vocab = weft_max(2, vocab);
    if (r->task->resolve)
        TRY(r->task->resolve(spec, r->task_options, &r->arena));
    return WEFT_OK;
}

enum weft_status weft_recipe_forget(const struct weft_recipe *r, const struct weft_shares *cut,
                                    struct weft_settings *settings)
{
    struct weft_pruning left = r->prune;
    char text[128];
    if (cut->heads > 0)
        left.units.heads = 0;
    if (cut->channels > 0)
        left.units.channels = 0;
    if (cut->ranks > 0)
        left.units.ranks = 0;
    snprintf(text, sizeof text, "prune_heads=%.17g prune_channels=%.17g prune_ranks=%.17g", left.units.heads,
             left.units.channels, left.units.ranks);
    TRY(weft_settings_add_words(settings, text));
    for (int i = 0; !weft_pruning_any(&left) && i < owner.count; i++) {
        if (!options[i].needs || strcmp(options[i].needs, PRUNES) != 0)
            continue;
        snprintf(text, sizeof text, "%s=%s", options[i].name, options[i].initial);
        TRY(weft_settings_add(settings, text));
    }
    return WEFT_OK;
}

enum weft_status weft_recipe_plain(struct weft_recipe *r, struct weft_spec *spec)
{
    struct weft_settings settings = {0};
    char length[64];
    int64_t most = weft_min(spec->vocab, (spec->context + 1) / 2);
    snprintf(length, sizeof length, "recall_length=%lld", (long long)weft_max(2, weft_min(16, most)));
    enum weft_status status = weft_settings_add(&settings, length);
    if (status == WEFT_OK)
        status = weft_recipe_init(r, spec, &settings);
    weft_settings_release(&settings);
    return status;
}

enum weft_status weft_recipe_open(struct weft_recipe *r, const struct weft_spec *spec)
{
    if (!r->open && r->task->open)
        TRY(r->task->open(spec, r->task_options, &r->arena));
    r->open = true;
    return WEFT_OK;
}

void weft_recipe_release(struct weft_recipe *r)
{
    if (r->task_options && r->task->close)
        r->task->close(r->task_options);
    weft_arena_release(&r->arena);
    *r = (struct weft_recipe){0};
}

enum weft_status weft_recipe_weights(const struct weft_recipe *r, struct weft_nn *model, weft_fit_fn *fn, void *context)
{
    TRY(weft_nn_init(model));
    if (*r->init)
        TRY(weft_nn_adopt(model, r->init, r->init_leave, fn, context));
    return WEFT_OK;
}

/* ---- samples */

int64_t weft_recipe_held_out(const struct weft_recipe *r, uint64_t first, int64_t wanted)
{
    return r->task->held_out ? weft_min(wanted, r->task->held_out(r->task_options, first == WEFT_TEST)) : wanted;
}

int64_t weft_recipe_fill(const struct weft_recipe *r, const struct weft_spec *spec, const struct weft_net *net,
                         struct weft_exec *exec, uint64_t index, int64_t count)
{
    int64_t length = r->task->length(r->task_options), scored = 0;
    int32_t *tokens = weft_exec_tensor(exec, net->tokens)->data, *targets = weft_exec_tensor(exec, net->targets)->data;
    for (int64_t s = 0; s < count; s++)
        r->task->sample(spec, r->task_options, index + (uint64_t)s, tokens + s * length, targets + s * length);
    for (int64_t i = 0; i < count * length; i++)
        scored += targets[i] >= 0;
    return scored;
}

/* Tokens that are not scored do not need the three matmuls over the vocabulary: logits, and the gradients of rows and
 * weights. */
enum weft_status weft_recipe_flops(const struct weft_recipe *r, const struct weft_spec *spec, double all, double *flops)
{
    int64_t length = r->task->length(r->task_options), silent = 0;
    int32_t *sample = calloc((size_t)length, 2 * sizeof *sample);
    if (!sample)
        return FAIL(WEFT_NOMEM, "not enough memory for a sample");
    r->task->sample(spec, r->task_options, 0, sample, sample + length);
    for (int64_t i = length; i < 2 * length; i++)
        silent += sample[i] < 0;
    free(sample);
    *flops = all - (double)silent / (double)length * 3 * 2 * (double)spec->vocab * (double)spec->width;
    return WEFT_OK;
}

/* ---- steps */

double weft_recipe_lr(const struct weft_recipe *r, int64_t step)
{
    if (step <= r->warmup)
        return r->lr * (double)step / (double)r->warmup;
    double done = (double)(step - r->warmup) / (double)weft_max(1, r->steps - r->warmup);
    double left[] = {[COSINE] = 0.5 * (1 + weft_cos_pi(done)), [LINEAR] = 1 - done, [CONSTANT] = 1};
    return r->lr * (0.1 + 0.9 * left[r->choice.schedule]);
}

int64_t weft_recipe_groups(const struct weft_recipe *r) { return weft_min(r->grad_groups, r->micro_batches); }

int weft_recipe_sums(const struct weft_recipe *r)
{
    struct weft_tree_node nodes[WEFT_TREE_NODES];
    int most;
    weft_rank_nodes(weft_recipe_groups(r), 0, 1, nodes, &most);
    return most;
}

int64_t weft_recipe_most(const struct weft_recipe *r, int64_t ranks)
{
    int64_t groups = weft_recipe_groups(r), most = 0;
    for (int64_t rank = 0; rank < ranks; rank++) {
        int64_t first = rank * groups / ranks, end = (rank + 1) * groups / ranks;
        most = weft_max(most, end * r->micro_batches / groups - first * r->micro_batches / groups);
    }
    return most;
}

int64_t weft_recipe_state_bytes(const struct weft_recipe *r)
{
    return WEFT_STATE_BYTES + (weft_recipe_sums(r) - 1) * (int64_t)sizeof(float);
}
