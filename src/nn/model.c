/* SPDX-License-Identifier: MIT
 *
 * model.c - tokens -> embedding (+ positions) -> blocks -> final norm -> loss on the logits; and the graph's inputs.
 */
#include "nn/nn.h"

#include <stdlib.h>

/* ---- weights */

static void declare(struct weft_params *p, const struct weft_spec *spec)
{
    const struct weft_variant *pos = spec->part[WEFT_POS];
    weft_params_matrix(p, "wte", spec->vocab, spec->width, WEFT_DEVIATION);
    if (pos->params)
        pos->params(p, spec);
    for (int layer = 0; layer < spec->layers; layer++)
        weft_block_params(p, spec, layer);
    if (!spec->post) {
        weft_params_scope(p, "norm");
        spec->part[WEFT_NORM]->params(p, spec);
    }
    weft_params_scope(p, "%s", "");
    if (!spec->tie)
        weft_params_matrix(p, "head", spec->vocab, spec->width, WEFT_DEVIATION);
}

enum weft_status weft_model_create(struct weft_model **model, const struct weft_spec *spec)
{
    struct weft_model *m = *model = calloc(1, sizeof *m);
    if (!m)
        return FAIL(WEFT_NOMEM, "no memory for a model");
    m->spec = spec;
    declare(&m->params, spec);
    TRY(m->params.status);
    return WEFT_OK;
}

enum weft_status weft_model_init(struct weft_model *m)
{
    TRY(weft_params_init(&m->params, (uint64_t)m->spec->seed));
    return WEFT_OK;
}

void weft_model_free(struct weft_model *m)
{
    if (!m)
        return;
    weft_params_release(&m->params);
    free(m);
}

/* ---- graph */

static void add_inputs(struct weft_net *net, int64_t sequences, int64_t length)
{
    struct weft_graph *g = net->g;
    net->rows = weft_graph_symbol(g, "rows", sequences * length);
    net->sequences = weft_graph_symbol(g, "sequences", sequences);
    net->tiles = weft_div_up(length, WEFT_KEY_TILE);
    struct weft_dim rows = weft_times(net->rows, 1), count = weft_times(net->sequences, 1);
    net->tokens = weft_graph_input(g, "tokens", WEFT_I32, WEFT_SHAPE(rows));
    net->targets = weft_graph_input(g, "targets", WEFT_I32, WEFT_SHAPE(rows));
    net->weight = weft_graph_input(g, "weight", WEFT_F32, WEFT_SHAPE(weft_fixed(1)));
    net->at.seq = weft_graph_input(g, "seq", WEFT_I32, WEFT_SHAPE(rows));
    net->at.pos = weft_graph_input(g, "pos", WEFT_I32, WEFT_SHAPE(rows));
    net->at.tiles = weft_graph_input(g, "tiles", WEFT_I32, WEFT_SHAPE(count, weft_fixed(net->tiles)));
    net->at.sample = weft_graph_input(g, "sample", WEFT_I32, WEFT_SHAPE(count));
    net->at.stamp = weft_graph_input(g, "stamp", WEFT_I32, WEFT_SHAPE(weft_fixed(4)));
}

static void build(struct weft_net *net, struct weft_build *b)
{
    const struct weft_variant *pos = b->spec->part[WEFT_POS];
    struct weft_value *x = weft_embed(b->g, weft_build_weight(b, "wte"), net->tokens);
    if (pos->build)
        x = pos->build(b, x);
    if (b->dropout > 0)
        x = weft_dropout(b->g, x, &b->rows, b->dropout, 0, WEFT_SITE_EMBED);
    for (int layer = 0; layer < b->spec->layers; layer++)
        x = weft_block(b, x, layer);
    x = b->spec->post ? weft_cast(b->g, x, b->spec->compute) : weft_build_norm(b, x, "norm");
    weft_build_scope(b, "%s", "");
    struct weft_value *head = weft_build_weight(b, b->spec->tie ? "wte" : "head");
    net->loss = weft_cross_entropy(b->g, x, head, net->targets, net->weight, 0);
    net->prediction = net->loss ? weft_sibling(net->loss, 3) : NULL;
    weft_graph_output(b->g, net->loss);
    weft_graph_output(b->g, net->prediction);
}

enum weft_status weft_net_init(struct weft_net *net, const struct weft_model *model, enum weft_use use,
                               int64_t sequences, int64_t length)
{
    const struct weft_spec *spec = model->spec;
    *net = (struct weft_net){.g = weft_graph_new(spec->compute)};
    TRY(weft_graph_status(net->g));
    if (length > spec->context)
        return FAIL(WEFT_INVALID, "sequences are %lld tokens long, but context=%lld: set context=%lld",
                    (long long)length, (long long)spec->context, (long long)length);
    if (sequences > INT32_MAX / length)
        return FAIL(WEFT_INVALID, "%lld sequences of %lld tokens are too many rows: make batch smaller",
                    (long long)sequences, (long long)length);
    net->weights = weft_graph_alloc(net->g, (size_t)model->params.count * sizeof *net->weights);
    add_inputs(net, sequences, length);
    TRY(weft_graph_status(net->g));
    struct weft_build b = {.g = net->g,
                           .spec = spec,
                           .params = &model->params,
                           .weights = net->weights,
                           .rows = net->at,
                           .dropout = use == WEFT_TRAIN ? spec->dropout : 0};
    build(net, &b);
    TRY(weft_graph_status(net->g));
    if (use == WEFT_TRAIN)
        TRY(weft_graph_backward(net->g, net->loss));
    if (use == WEFT_TRAIN && spec->recompute)
        TRY(weft_graph_recompute(net->g));
    return WEFT_OK;
}

void weft_net_release(struct weft_net *net)
{
    weft_graph_free(net->g);
    *net = (struct weft_net){0};
}

/* ---- running */

void weft_net_bind(const struct weft_net *net, struct weft_exec *exec, const struct weft_model *model, float *grads)
{
    for (int i = 0; i < model->params.count; i++) {
        int64_t offset = model->params.list[i].offset;
        struct weft_value *w = net->weights[i];
        if (w)
            weft_exec_bind(exec, w, model->params.weights + offset);
        if (w && grads && weft_graph_gradient(w))
            weft_exec_bind(exec, weft_graph_gradient(w), grads + offset);
    }
}

void weft_net_plain_rows(const struct weft_net *net, struct weft_exec *exec, int64_t sequences, int64_t length)
{
    weft_exec_count(exec, net->rows, sequences * length);
    weft_exec_count(exec, net->sequences, sequences);
    int32_t *seq = weft_exec_tensor(exec, net->at.seq)->data, *pos = weft_exec_tensor(exec, net->at.pos)->data;
    int32_t *tiles = weft_exec_tensor(exec, net->at.tiles)->data;
    for (int64_t s = 0; s < sequences; s++) {
        for (int64_t t = 0; t < length; t++) {
            seq[s * length + t] = (int32_t)s;
            pos[s * length + t] = (int32_t)t;
        }
        for (int64_t j = 0; j < net->tiles; j++)
            tiles[s * net->tiles + j] = (int32_t)(s * length + j * WEFT_KEY_TILE);
    }
}
