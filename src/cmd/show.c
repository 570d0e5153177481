/* SPDX-License-Identifier: MIT
 *
 * show - what a model would be: its options, weights, FLOPs and memory, and its graph.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "train/train.h"

#include <string.h>

struct args {
    const char *model;
    struct weft_settings settings;
    enum weft_status status; /* of the first setting that was none */
    bool json, graph, dot;
};

static const struct argp_option options[] = {
    {"set", 's', "NAME=VALUE", 0, "Set an option of the model (see `weft help options`); may be repeated", 0},
    {"json", 'j', NULL, 0, "Print one flat JSON object", 0},
    {"graph", 'g', NULL, 0, "Print the nodes of the training graph instead", 0},
    {"dot", 'd', NULL, 0, "Print the training graph for Graphviz instead", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case 's':
        if (a->status == WEFT_OK)
            a->status = weft_settings_add(&a->settings, arg);
        return 0;
    case 'j':
        a->json = true;
        return 0;
    case 'g':
        a->graph = true;
        return 0;
    case 'd':
        a->dot = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->model)
            return ARGP_ERR_UNKNOWN;
        a->model = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which MODEL? `weft help models` lists them");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options, parse,
    "MODEL", "Tells what MODEL would be at its micro-batch and context: weights, FLOPs of training per token, bytes.",
    NULL,    NULL,
    NULL};

static int64_t count_weights(const struct weft_params *p, const char *part)
{
    int64_t n = 0;
    for (int i = 0; i < p->count; i++)
        if (strstr(p->list[i].name, part))
            n += p->list[i].count;
    return n;
}

static void print_option(void *context, const struct weft_opt *opt, const char *value)
{
    (void)context;
    printf("%-24s %-12s %s\n", opt->name, value, opt->help);
}

/* What a training step takes, planned but not backed by memory: the model may be larger than the machine. */
struct sizes {
    int64_t activation_bytes;
    double flops;
};

static enum weft_status measure(const struct weft_model *model, bool recompute, struct sizes *sizes)
{
    struct weft_spec spec = *model->spec;
    struct weft_model twin = {&spec, model->params};
    struct weft_net net;
    struct weft_exec *exec = NULL;
    spec.recompute = recompute;
    enum weft_status status = weft_net_init(&net, &twin, WEFT_TRAIN, spec.batch, spec.context);
    if (status == WEFT_OK)
        status = weft_exec_create(&exec, net.g, WEFT_UNBACKED);
    if (status == WEFT_OK)
        *sizes = (struct sizes){(int64_t)weft_exec_bytes(exec), weft_exec_cost(exec).flops};
    weft_exec_free(exec);
    weft_net_release(&net);
    return status;
}

static enum weft_status print_sizes(const struct args *a, const struct weft_model *m)
{
    const struct weft_spec *spec = m->spec;
    struct sizes kept, again;
    TRY(measure(m, false, &kept));
    TRY(measure(m, true, &again));
    const struct sizes *own = spec->recompute ? &again : &kept;
    int64_t state = m->params.total * WEFT_STATE_BYTES;
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "preset", spec->preset);
    weft_result_int(r, "params", m->params.elements);
    weft_result_int(r, "attn_params", count_weights(&m->params, ".attn."));
    weft_result_int(r, "ffn_params", count_weights(&m->params, ".ffn."));
    weft_result_real(r, "flops_train_per_token", own->flops / (double)(spec->batch * spec->context));
    weft_result_int(r, "peak_bytes", state + own->activation_bytes);
    weft_result_int(r, "param_state_bytes", state);
    weft_result_int(r, "activation_bytes", own->activation_bytes);
    weft_result_int(r, "recompute_saves_bytes", kept.activation_bytes - again.activation_bytes);
    weft_result_real(r, "recompute_flops_ratio", again.flops / kept.flops);
    if (!a->json)
        weft_settings_each(&a->settings, NULL, print_option);
    enum weft_status status = weft_result_print(r, stdout, a->json);
    weft_result_free(r);
    return status;
}

static enum weft_status show(struct args *a, const struct weft_model *m)
{
    if (!a->graph && !a->dot)
        return print_sizes(a, m);
    struct weft_net net;
    enum weft_status status = weft_net_init(&net, m, WEFT_TRAIN, m->spec->batch, m->spec->context);
    if (status == WEFT_OK)
        (a->dot ? weft_graph_print_dot : weft_graph_print)(net.g, stdout);
    weft_net_release(&net);
    return status;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct weft_spec spec = {0};
    struct weft_model *model = NULL;
    enum weft_status status = a->status;
    if (status == WEFT_OK)
        status = weft_spec_init(&spec, a->model, &a->settings);
    for (int i = 0; status == WEFT_OK && weft_train_owner_at(i); i++)
        status = weft_settings_take(&a->settings, weft_train_owner_at(i), NULL); /* for a better refusal */
    if (status == WEFT_OK)
        status = weft_settings_finish(&a->settings);
    if (status == WEFT_OK)
        status = weft_model_create(&model, &spec);
    if (status == WEFT_OK)
        status = show(a, model);
    weft_model_free(model);
    weft_spec_release(&spec);
    weft_settings_release(&a->settings);
    return status;
}

const struct weft_cmd weft_cmd_show = {"show", "what a model would be: weights, FLOPs, memory, graph", &argp,
                                       sizeof(struct args), run};
