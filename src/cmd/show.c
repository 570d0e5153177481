/* SPDX-License-Identifier: MIT
 *
 * show - what a model would be: its options, weights, FLOPs and memory, and its graph.
 */
#include "base/json.h"
#include "cmd/cmd.h"

#include <string.h>

struct args {
    struct weft_common common;
    bool graph, dot, config;
};

static const struct argp_option options[] = {
    {"graph", 'g', NULL, 0, "Print the nodes of the training graph instead", 0},
    {"dot", 'd', NULL, 0, "Print the graph of the forward pass for Graphviz instead", 0},
    {"config", 'c', NULL, 0, "Print all options as a config file instead, which is a MODEL too", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    struct args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->common;
        return 0;
    case 'g':
        a->graph = true;
        return 0;
    case 'd':
        a->dot = true;
        return 0;
    case 'c':
        a->config = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&weft_model_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .doc = "Tells what MODEL, a preset or a config file, would be at its micro-batch and context: weights, FLOPs of "
           "training per token, bytes.",
};

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
    enum weft_status status =
        weft_net_init(&net, &twin, WEFT_TRAIN, (struct weft_net_size){.sequences = spec.batch, .length = spec.context});
    if (status == WEFT_OK)
        status = weft_exec_create(&exec, net.g, WEFT_UNBACKED);
    if (status == WEFT_OK)
        *sizes = (struct sizes){(int64_t)weft_exec_bytes(exec), weft_exec_cost(exec).flops};
    weft_exec_free(exec);
    weft_net_release(&net);
    return status;
}

static enum weft_status print_sizes(const struct weft_common *c, const struct weft_model *m)
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
    if (!c->json)
        weft_settings_each(&c->settings, NULL, print_option);
    enum weft_status status = weft_result_print(r, stdout, c->json);
    weft_result_free(r);
    return status;
}

static enum weft_status print_graph(const struct args *a, const struct weft_model *m)
{
    struct weft_net net;
    enum weft_status status = weft_net_init(
        &net, m, WEFT_TRAIN, (struct weft_net_size){.sequences = m->spec->batch, .length = m->spec->context});
    if (status == WEFT_OK)
        (a->dot ? weft_graph_print_dot : weft_graph_print)(net.g, stdout);
    weft_net_release(&net);
    return status;
}

static enum weft_status show(const struct args *a)
{
    struct weft_model *model = NULL;
    if (a->config)
        return weft_settings_save(&a->common.settings, stdout);
    enum weft_status status = weft_model_create(&model, &a->common.spec);
    if (status == WEFT_OK)
        status = a->graph || a->dot ? print_graph(a, model) : print_sizes(&a->common, model);
    weft_model_free(model);
    return status;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    enum weft_status status = weft_common_init(&a->common);
    if (status == WEFT_OK)
        status = show(a);
    weft_common_release(&a->common);
    return status;
}

const struct weft_cmd weft_cmd_show = {"show", "what a model would be: weights, FLOPs, memory, graph, config", &argp,
                                       sizeof(struct args), run};
