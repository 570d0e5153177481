/* SPDX-License-Identifier: MIT
 *
 * show - prints a model without creating it: options, parameters, FLOPs, memory and cache; its graph; the source files
 * that its data passes through.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "nn/part.h"
#include "train/account.h"
#include "train/record/record.h"

#include <math.h>
#include <string.h>

struct args {
    struct weft_common common;
    int64_t length; /* 0: the context */
    bool options, graph, dot, config, walk;
};

static const struct weft_arg table[] = {
    {"length", 'l', "T", WEFT_ARG_INT, offsetof(struct args, length),
     .help = "Count the FLOPs of prefill and decode for a sequence of T tokens (default: the context)", .min = 1,
     .max = INFINITY},
    {"options", 'o', NULL, WEFT_ARG_FLAG, offsetof(struct args, options),
     .help = "Print all options with their values instead"},
    {"config", 'c', NULL, WEFT_ARG_FLAG, offsetof(struct args, config),
     .help = "Print all options as a config file instead, which commands accept as MODEL"},
    {"walk", 'w', NULL, WEFT_ARG_FLAG, offsetof(struct args, walk),
     .help = "Print the source files that the data passes through instead"},
    {"graph", 'g', NULL, WEFT_ARG_FLAG, offsetof(struct args, graph),
     .help = "Print the nodes of the training graph instead"},
    {"dot", 'd', NULL, WEFT_ARG_FLAG, offsetof(struct args, dot),
     .help = "Print the graph of the forward pass for Graphviz instead"},
    {0},
};

/* ---- the account */

/* Groups of FLOPs, in the order of weft_group. */
static const struct {
    const char *key, *title;
} groups[WEFT_GROUPS] = {
    {"other", "logits etc."}, {"attn", "attention"}, {"ffn", "feed-forward"}, {"recip", "mechanisms"}};

static void add_flops(struct weft_result *r, const char *use, double all, const double flops[WEFT_GROUPS])
{
    char name[64];
    snprintf(name, sizeof name, "flops_%s_per_token", use);
    weft_result_real(r, name, all);
    for (int i = 0; i < WEFT_GROUPS; i++) {
        snprintf(name, sizeof name, "%s_flops_%s", groups[i].key, use);
        weft_result_real(r, name, flops[i]);
    }
    snprintf(name, sizeof name, "shift_%s", use);
    weft_result_real(r, name, weft_account_shift(flops[WEFT_GROUP_ATTN], flops[WEFT_GROUP_FFN]));
}

/* Adds the step and the hash of the newest checkpoint if MODEL is a folder with one. */
static enum weft_status add_checkpoint(struct weft_result *r, const char *model)
{
    int64_t step;
    char hash[65];
    if (!weft_model_is_folder(model))
        return WEFT_OK;
    TRY(weft_state_find(model, &step, hash));
    if (step >= 0) {
        weft_result_int(r, "step", step);
        weft_result_text(r, "weights_sha256", hash);
    }
    return WEFT_OK;
}

static enum weft_status print_json(const struct weft_common *c, const struct weft_account *a)
{
    const struct weft_spec *spec = &c->spec;
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "preset", spec->preset);
    weft_result_int(r, "params", a->params);
    weft_result_int(r, "attn_params", a->attn_params);
    weft_result_int(r, "ffn_params", a->ffn_params);
    for (int i = 0; i < spec->mechanism_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s_params", spec->mechanism[i].part->name);
        weft_result_int(r, name, a->mechanism_params[i]);
    }
    weft_result_real(r, "ffn_over_attn", (double)a->ffn_params / (double)a->attn_params);
    weft_result_real(r, "shift_params", weft_account_shift((double)a->attn_params, (double)a->ffn_params));
    add_flops(r, "train", a->flops_train, a->train_groups);
    add_flops(r, "prefill", a->flops_prefill, a->prefill_groups);
    add_flops(r, "decode", a->flops_decode, a->decode_groups);
    if (a->pruned) {
        weft_result_int(r, "pruned_params", a->pruned);
        weft_result_real(r, "flops_decode_pruned_per_token", a->flops_pruned);
        weft_result_int(r, "weight_bytes", a->weight_bytes);
        weft_result_int(r, "pruned_weight_bytes", a->kept_bytes);
    }
    if (a->pruned && a->cut_params < a->params) {
        weft_result_int(r, "cut_params", a->cut_params);
        weft_result_real(r, "flops_decode_cut_per_token", a->flops_cut);
    }
    weft_result_int(r, "peak_bytes", a->state_bytes + a->activation_bytes);
    weft_result_int(r, "param_state_bytes", a->state_bytes);
    weft_result_int(r, "activation_bytes", a->activation_bytes);
    weft_result_int(r, "recompute_saves_bytes", a->recompute_saves_bytes);
    weft_result_real(r, "recompute_flops_ratio", a->recompute_flops_ratio);
    weft_result_real(r, "cache_bytes_per_token_layer", a->cache_bytes_layer);
    weft_result_real(r, "cache_ratio_to_mha", a->cache_ratio_to_mha);
    weft_result_int(r, "cache_window_bytes", a->window_bytes);
    weft_result_int(r, "cache_sequence_bytes", a->sequence_bytes);
    enum weft_status status = add_checkpoint(r, c->model);
    if (status == WEFT_OK)
        status = weft_result_print(r, stdout, true);
    weft_result_free(r);
    return status;
}

static void print_share(const char *what, int64_t n, int64_t all)
{
    printf("  %-14s %14lld  %5.1f %%\n", what, (long long)n, 100 * (double)n / (double)all);
}

static void print_weights(const struct weft_spec *spec, const struct weft_account *a)
{
    printf("parameters       %14lld\n", (long long)a->params);
    print_share("attention", a->attn_params, a->params);
    print_share("feed-forward", a->ffn_params, a->params);
    for (int i = 0; i < spec->mechanism_count; i++)
        print_share(spec->mechanism[i].part->name, a->mechanism_params[i], a->params);
    print_share("embedding etc.", a->other_params, a->params);
    printf("  attention : feed-forward = 1 : %.2f (inference scaling laws recommend about 1 : %.1f)\n",
           (double)a->ffn_params / (double)a->attn_params, WEFT_FFN_RULE);
}

static void print_group(int i, const struct weft_account *a)
{
    printf("  %-14s %14.4g  %5.1f %%  %10.4g  %5.1f %%  %10.4g  %5.1f %%\n", groups[i].title, a->train_groups[i],
           100 * a->train_groups[i] / a->flops_train, a->prefill_groups[i],
           100 * a->prefill_groups[i] / a->flops_prefill, a->decode_groups[i],
           100 * a->decode_groups[i] / a->flops_decode);
}

static void print_flops(const struct weft_spec *spec, const struct weft_account *a, int64_t length)
{
    const double *const uses[] = {a->train_groups, a->prefill_groups, a->decode_groups};
    printf("\nFLOPs per token        training              prefill               decode\n");
    printf("  %-14s %14.4g  %19.4g  %19.4g\n", "all", a->flops_train, a->flops_prefill, a->flops_decode);
    for (int i = 1; i < WEFT_GROUPS; i++)
        if (i != WEFT_GROUP_RECIP || spec->mechanism_count)
            print_group(i, a);
    print_group(WEFT_GROUP_OTHER, a);
    printf("  attn : ffn    ");
    for (int u = 0; u < 3; u++)
        printf("%*s1 : %-5.2f", u ? 12 : 7, "", uses[u][WEFT_GROUP_FFN] / uses[u][WEFT_GROUP_ATTN]);
    printf("\n  to 1 : %.1f     ", WEFT_FFN_RULE);
    for (int u = 0; u < 3; u++)
        printf("%*s%+7.1f %%", u ? 12 : 7, "",
               100 * weft_account_shift(uses[u][WEFT_GROUP_ATTN], uses[u][WEFT_GROUP_FFN]));
    printf("  of attention's FLOPs would move to the feed-forward\n");
    printf("  training: batch %lld, context %lld; prefill: mean over %lld tokens; decode: token %lld\n",
           (long long)spec->batch, (long long)spec->context, (long long)length, (long long)length);
}

static double mib(int64_t bytes) { return (double)bytes / (1 << 20); }

static void print_pruned(const struct weft_account *a)
{
    printf("\npruned by the end  %12lld  %5.1f %% of the parameters\n", (long long)a->pruned,
           100 * (double)a->pruned / (double)a->params);
    if (a->cut_params < a->params)
        printf("  weft prune     %14lld  parameters remain, and %.4g decode FLOPs: %.1f %%\n", (long long)a->cut_params,
               a->flops_cut, 100 * a->flops_cut / a->flops_decode);
    printf("  decode         %14.4g FLOPs without multiplications by 0, which Weft does not skip: %.1f %%\n",
           a->flops_pruned, 100 * a->flops_pruned / a->flops_decode);
    printf("  weights in f32 %14.1f MiB of %.1f MiB, including a mask bit for each maskable weight\n",
           mib(a->kept_bytes), mib(a->weight_bytes));
}

static void print_account(const struct weft_spec *spec, const struct weft_account *a, int64_t length)
{
    printf("%s: %lld x %lld, %lld heads;", spec->preset, (long long)spec->layers, (long long)spec->width,
           (long long)spec->heads);
    for (int kind = 0; kind < WEFT_SINGLE_KINDS; kind++)
        printf(" %s", spec->part[kind].part->owner.name);
    for (int i = spec->mechanism_count - 1; i >= 0; i--)
        printf(" %s", spec->mechanism[i].part->name);
    printf("\n\n");
    print_weights(spec, a);
    print_flops(spec, a, length);
    if (a->pruned)
        print_pruned(a);
    printf("\ntraining memory    %12.1f MiB\n  weights, gradients, moments %9.1f MiB\n  activations %25.1f MiB\n",
           mib(a->state_bytes + a->activation_bytes), mib(a->state_bytes), mib(a->activation_bytes));
    printf("  recompute=yes would save %.1f MiB for %.2f times the FLOPs\n", mib(a->recompute_saves_bytes),
           a->recompute_flops_ratio);
    printf("\ncache            %14.1f bytes per token and layer: %.4f of multi-head attention's\n",
           a->cache_bytes_layer, a->cache_ratio_to_mha);
    if (a->window_bytes || a->sequence_bytes)
        printf("  plus %lld bytes per sequence, regardless of its length\n",
               (long long)(a->window_bytes + a->sequence_bytes));
    if (spec->latent && !weft_spec_geom(spec)->linear)
        printf("  geom=%s cannot be absorbed: decoding expands the latents of the whole context for every token\n",
               spec->part[WEFT_GEOM].part->name);
}

static enum weft_status show_account(const struct args *a, const struct weft_nn *m)
{
    struct weft_account account;
    int64_t length = a->length ? a->length : m->spec->context;
    TRY(weft_account(m, &a->common.recipe, length, &account));
    if (a->common.json)
        return print_json(&a->common, &account);
    print_account(m->spec, &account, length);
    return WEFT_OK;
}

/* ---- the walk */

/* Prints the ops of one part of the graph in order, each once. */
static void print_ops(const struct weft_net *net, int label, bool before)
{
    struct weft_value *const *values;
    const char *seen[64];
    int n = 0, count = weft_graph_values(net->g, &values);
    bool passed = false; /* the layers */
    for (int i = 0; i < count; i++) {
        const struct weft_node *node = values[i]->node;
        if (!node || node->backward || node->in_backward_pass)
            continue;
        passed |= node->label >= 0;
        bool known = node->label != label || (label < 0 && passed == before);
        for (int s = 0; !known && s < n; s++)
            known = strcmp(seen[s], node->op->name) == 0;
        if (known || n == 64)
            continue;
        printf("%s%s", n ? " -> " : "", node->op->name);
        seen[n++] = node->op->name;
    }
    printf("\n");
}

static void print_walk(const struct weft_common *c, const struct weft_net *net)
{
    const struct weft_spec *spec = &c->spec;
    const struct weft_chosen *part = spec->part;
    printf(
        "once\n  cmd/train -> nn/spec -> nn/model -> nn/block\n    attention: nn/attn/%s -> nn/geom/%s, nn/pos/%s -> "
        "nn/attend\n    feed-forward: nn/ffn/%s",
        part[WEFT_ATTN].part->name, part[WEFT_GEOM].part->name, part[WEFT_POS].part->name, part[WEFT_FFN].part->name);
    for (int i = 0; i < spec->mechanism_count; i++)
        printf(" -> nn/recip/%s", spec->mechanism[i].part->name);
    printf("\n    norms: nn/norm/%s\n  graph/autodiff -> graph/recompute -> graph/plan\n", part[WEFT_NORM].part->name);
    printf("each step, forward; then the same files' backward parts, in reverse\n");
    printf("  train/task/%s -> train/gradient -> graph/exec\n  ops/ ", c->recipe.task->name);
    print_ops(net, -1, true);
    for (int layer = 0; layer < spec->layers && layer < 2; layer++) {
        printf("  layer %d: ", layer);
        print_ops(net, layer, true);
    }
    printf("  end: ");
    print_ops(net, -1, false);
    printf("  train/gradient -> train/step -> train/optim/%s -> train/loop\n", c->recipe.optim->name);
    printf("decoding\n  infer/session -> graph/exec, the same ops on rows of infer/cache\n");
}

static enum weft_status show_graph(const struct args *a, const struct weft_nn *m)
{
    struct weft_net net;
    enum weft_use use = a->walk ? WEFT_EVAL : WEFT_TRAIN;
    enum weft_status status =
        weft_net_init(&net, m, use, (struct weft_net_size){.sequences = m->spec->batch, .length = m->spec->context});
    if (status == WEFT_OK && a->walk)
        print_walk(&a->common, &net);
    else if (status == WEFT_OK)
        (a->dot ? weft_graph_print_dot : weft_graph_print)(net.g, stdout);
    weft_net_release(&net);
    return status;
}

/* ---- the command */

static void print_option(void *context, const struct weft_opt *opt, const char *value)
{
    (void)context;
    printf("%-24s %-12s %s\n", opt->name, value, opt->help);
}

static enum weft_status show(const struct args *a)
{
    struct weft_nn *model = NULL;
    if (a->config)
        return weft_settings_save(&a->common.settings, stdout);
    if (a->options) {
        weft_settings_each(&a->common.settings, NULL, print_option);
        return WEFT_OK;
    }
    enum weft_status status = weft_nn_create(&model, &a->common.spec);
    if (status == WEFT_OK)
        status = a->graph || a->dot || a->walk ? show_graph(a, model) : show_account(a, model);
    weft_nn_free(model);
    return status;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    TRY(weft_common_init(&a->common));
    TRY(show(a));
    return WEFT_OK;
}

const struct weft_cmd weft_cmd_show = {
    .name = "show",
    .summary = "show parameters, FLOPs, memory, cache, graph or config of a model",
    .doc = "Prints the parameters, FLOPs per token, training memory and cache size of MODEL at its micro-batch and "
           "context, without allocating the model.",
    .args = table,
    .takes = WEFT_TAKES_MODEL | WEFT_TAKES_SET | WEFT_TAKES_THREADS | WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
