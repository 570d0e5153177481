/* SPDX-License-Identifier: MIT
 *
 * net.c - builds a model's graph: tokens -> embedding (+ positions) -> blocks -> final norm -> loss on the logits; and
 * writes the graph's inputs.
 */
#include "nn/build.h"
#include "ops/ops.h"

static struct weft_value *ints(struct weft_net *net, const char *name, struct weft_shape shape)
{
    return weft_graph_input(net->g, name, WEFT_I32, shape);
}

static void add_inputs(struct weft_net *net, const struct weft_net_size *size)
{
    struct weft_graph *g = net->g;
    net->rows = weft_graph_symbol(g, "rows", size->rows ? size->rows : size->sequences * size->length);
    net->sequences = weft_graph_symbol(g, "sequences", size->sequences);
    net->tiles = weft_div_up(size->length, WEFT_KEY_TILE);
    struct weft_shape rows = WEFT_SHAPE(weft_times(net->rows, 1)), count = WEFT_SHAPE(weft_times(net->sequences, 1));
    struct weft_shape tiles = WEFT_SHAPE(count.dim[0], weft_fixed(net->tiles));
    net->tokens = ints(net, "tokens", rows);
    net->at.seq = ints(net, "seq", rows);
    net->at.pos = ints(net, "pos", rows);
    net->position = ints(net, "position", rows);
    net->at.tiles = ints(net, "tiles", tiles);
    if (size->logits) {
        net->scored_rows = weft_graph_symbol(g, "scored", size->logits);
        net->scored = ints(net, "scored", WEFT_SHAPE(weft_times(net->scored_rows, 1)));
    }
    if (net->use <= WEFT_WATCH) {
        net->targets = ints(net, "targets", rows);
        net->weight = weft_graph_input(g, "weight", WEFT_F32, WEFT_SHAPE(weft_fixed(1)));
    }
    if (net->use == WEFT_TRAIN) {
        net->share = weft_graph_input(g, "share", WEFT_F32, WEFT_SHAPE(weft_fixed(1)));
        net->at.sample = ints(net, "sample", count);
        net->at.step_key = ints(net, "step_key", WEFT_SHAPE(weft_fixed(4)));
    }
    if (net->use < WEFT_PREFILL)
        return;
    net->store_rows = weft_graph_symbol(g, "store", size->store_rows);
    net->ring_rows = weft_graph_symbol(g, "ring", weft_max(1, size->ring_rows));
    net->store = ints(net, "store", rows);
    net->ring = ints(net, "ring", rows);
    net->ring_tiles = ints(net, "ring_tiles", tiles);
    net->lanes = ints(net, "lanes", count);
}

static struct weft_value *final_norm(struct weft_build *b, struct weft_value *x)
{
    return b->spec->post ? weft_cast(b->g, x, b->spec->compute) : weft_build_norm(b, x, "norm");
}

/* Builds the sum of all loss terms; the terms that parts add are scaled by `share`. */
static void build_loss(struct weft_build *b, struct weft_value *x, struct weft_value *head)
{
    struct weft_net *net = b->net;
    net->loss = weft_cross_entropy(b->g, x, head, net->targets, net->weight, b->spec->logits_z);
    if (!net->loss)
        return;
    struct weft_value **rows[] = {&net->nll, &net->lse, &net->prediction};
    for (int i = 0; i < 3; i++) {
        *rows[i] = weft_sibling(net->loss, 1 + i);
        weft_graph_output(b->g, *rows[i]);
    }
    struct weft_value *aux = NULL;
    for (int i = 0; i < net->term_count; i++) {
        weft_graph_output(b->g, net->terms[i].value);
        aux = aux ? weft_add(b->g, aux, net->terms[i].value) : net->terms[i].value;
    }
    if (aux)
        net->loss = weft_mix(b->g, net->loss, aux, net->share);
    weft_graph_output(b->g, net->loss);
}

static void build_blocks(struct weft_build *b, const struct weft_net_size *size)
{
    struct weft_net *net = b->net;
    struct weft_shape shape = WEFT_SHAPE(weft_times(net->rows, 1), weft_fixed(b->spec->width));
    net->y = net->x = weft_graph_input(b->g, "x", WEFT_F32, shape);
    for (int64_t i = 0; i < size->blocks; i++)
        net->y = weft_block(b, net->y, (int)(size->first + i));
    weft_graph_output(b->g, net->y);
    if (net->use == WEFT_TRAIN && net->y) {
        net->x->wants_grad = true;
        net->dy = weft_graph_input(b->g, "dy", WEFT_F32, shape);
    }
}

static void build(struct weft_build *b)
{
    struct weft_net *net = b->net;
    const struct weft_pos *pos = weft_spec_pos(b->spec);
    struct weft_value *x = weft_embed(b->g, weft_build_weight(b, "wte"), net->tokens);
    if (pos->embed)
        x = pos->embed(b, b->spec->part[WEFT_POS].options, x);
    if (b->dropout > 0)
        x = weft_dropout(b->g, x, &b->rows, b->dropout, 0, WEFT_SITE_EMBED);
    for (int layer = 0; layer < b->spec->layers; layer++)
        x = weft_block(b, x, layer);
    if (net->use == WEFT_WATCH)
        return;
    if (net->scored)
        x = weft_embed(b->g, x, net->scored);
    x = weft_build_narrow(b, final_norm(b, x));
    struct weft_value *head = weft_build_head(b);
    if (net->use <= WEFT_EVAL) {
        build_loss(b, x, head);
        return;
    }
    net->logits = weft_linear(b->g, x, head, NULL, NULL, WEFT_F32);
    weft_graph_output(b->g, net->logits);
}

static enum weft_status check_size(const struct weft_spec *spec, const struct weft_net_size *size)
{
    if (size->length > spec->context)
        return FAIL(WEFT_INVALID, "sequences are %lld tokens long, but context=%lld: set context=%lld",
                    (long long)size->length, (long long)spec->context, (long long)size->length);
    if (size->sequences > INT32_MAX / size->length)
        return FAIL(WEFT_INVALID, "%lld sequences of %lld tokens are too many rows: make batch smaller",
                    (long long)size->sequences, (long long)size->length);
    return WEFT_OK;
}

/* Returns the spec's mechanisms with empty states. */
static struct weft_instance *instances(struct weft_graph *g, const struct weft_spec *spec)
{
    struct weft_instance *list = weft_graph_alloc(g, (size_t)spec->mechanism_count * sizeof *list + 1);
    for (int i = 0; list && i < spec->mechanism_count; i++) {
        const struct weft_chosen *c = &spec->mechanism[i];
        const struct weft_mechanism *m = (const struct weft_mechanism *)c->part;
        list[i] = (struct weft_instance){m, c->options, weft_graph_alloc(g, m->state_bytes + 1), NULL, NULL};
    }
    return list;
}

enum { SLOTS_PER_LAYER = 16 };

enum weft_status weft_net_draw(struct weft_net *net, const struct weft_nn *model, enum weft_use use,
                               struct weft_net_size size)
{
    const struct weft_spec *spec = model->spec;
    *net = (struct weft_net){.g = weft_graph_new(spec->compute), .use = use};
    TRY(weft_graph_status(net->g));
    TRY(check_size(spec, &size));
    net->weights = weft_graph_alloc(net->g, (size_t)model->params.count * sizeof *net->weights);
    net->slot_room = (int)spec->layers * SLOTS_PER_LAYER;
    net->slots = weft_graph_alloc(net->g, (size_t)net->slot_room * sizeof *net->slots);
    net->watches = weft_graph_alloc(net->g, (size_t)spec->layers * WEFT_MAX_WATCHES * sizeof *net->watches);
    TRY(weft_graph_status(net->g));
    add_inputs(net, &size);
    struct weft_instance *mechanisms = instances(net->g, spec);
    TRY(weft_graph_status(net->g));
    struct weft_build b = {.g = net->g,
                           .model = model,
                           .spec = spec,
                           .params = &model->params,
                           .net = net,
                           .use = use,
                           .rows = net->at,
                           .position = net->position,
                           .mechanism = mechanisms,
                           .only_attention = size.only_attention,
                           .dropout = use == WEFT_TRAIN ? spec->dropout : 0};
    if (size.blocks)
        build_blocks(&b, &size);
    else
        build(&b);
    return weft_graph_status(net->g);
}

enum weft_status weft_net_init(struct weft_net *net, const struct weft_nn *model, enum weft_use use,
                               struct weft_net_size size)
{
    TRY(weft_net_draw(net, model, use, size));
    if (use != WEFT_TRAIN)
        return WEFT_OK;
    TRY(size.blocks ? weft_graph_backward_from(net->g, 1, &net->y, &net->dy) : weft_graph_backward(net->g, net->loss));
    return model->spec->recompute ? weft_graph_recompute(net->g) : weft_graph_recompute_marked(net->g);
}

void weft_net_release(struct weft_net *net)
{
    weft_graph_free(net->g);
    *net = (struct weft_net){0};
}

/* ---- running */

void weft_net_bind(const struct weft_net *net, struct weft_exec *exec, const struct weft_nn *model, float *grads)
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
    int32_t *tiles = weft_exec_tensor(exec, net->at.tiles)->data,
            *position = weft_exec_tensor(exec, net->position)->data;
    for (int64_t s = 0; s < sequences; s++) {
        for (int64_t t = 0; t < length; t++) {
            seq[s * length + t] = (int32_t)s;
            pos[s * length + t] = position[s * length + t] = (int32_t)t;
        }
        for (int64_t j = 0; j < net->tiles; j++)
            tiles[s * net->tiles + j] = (int32_t)(s * length + j * WEFT_KEY_TILE);
    }
}

void weft_net_step_key(const struct weft_net *net, struct weft_exec *exec, uint64_t seed, uint64_t step,
                       uint64_t first_sample)
{
    struct weft_tensor *samples = weft_exec_tensor(exec, net->at.sample);
    int32_t *sample = samples->data, *step_key = weft_exec_tensor(exec, net->at.step_key)->data;
    for (int64_t s = 0; s < samples->dim[0]; s++)
        sample[s] = (int32_t)(first_sample + (uint64_t)s);
    uint64_t words[2] = {seed, step};
    for (int i = 0; i < 4; i++)
        step_key[i] = (int32_t)(uint32_t)(words[i / 2] >> (32 * (i % 2)));
    struct weft_tensor *share = weft_exec_tensor(exec, net->share);
    if (share->dtype == WEFT_F64) /* the graph runs in a reference mode */
        *(double *)share->data = 1;
    else
        *(float *)share->data = 1;
}
