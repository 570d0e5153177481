/* SPDX-License-Identifier: MIT
 *
 * probe.c - creates the twin, a model without accidental zeros, and graphs of models that are ready to run.
 */
#include "check/probe/gate.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the twin */

enum weft_status weft_twin_create(struct weft_nn **model, const struct weft_spec *spec)
{
    const double noise = 0.2;
    *model = NULL;
    TRY(weft_nn_create(model, spec));
    TRY(weft_nn_init(*model));
    const struct weft_params *p = &(*model)->params;
    for (int i = 0; i < p->count; i++) {
        const struct weft_param *w = &p->list[i];
        uint64_t key = weft_key_name(weft_key((uint64_t)spec->seed, 1), w->name);
        for (int64_t e = 0; e < w->count; e++)
            p->weights[w->offset + e] += (float)(noise * weft_normal(key, (uint64_t)e));
    }
    return WEFT_OK;
}

enum weft_status weft_trial_on_twin(const struct weft_trial *t, enum weft_status (*check)(const struct weft_trial *t))
{
    struct weft_spec tiny;
    struct weft_nn *twin = NULL;
    struct weft_threads_scope one;
    enum weft_status status = weft_spec_shrink(&tiny, t->itself->model->spec);
    weft_threads_enter(&one, 1); /* a model this small gains nothing from more */
    if (status == WEFT_OK)
        status = weft_twin_create(&twin, &tiny);
    if (status == WEFT_OK)
        status = check(&(struct weft_trial){t->gate, twin, t->itself, t->report});
    weft_nn_free(twin);
    weft_spec_release(&tiny);
    weft_threads_leave(&one);
    return status;
}

/* ---- probes */

static void bind(struct weft_probe *p)
{
    size_t each = weft_dtype_bytes(p->dtype);
    for (int i = 0; i < p->model->params.count; i++) {
        size_t offset = (size_t)p->model->params.list[i].offset * each;
        struct weft_value *w = p->net.weights[i];
        if (w)
            weft_exec_bind(p->exec, w, (char *)p->weights + offset);
        if (w && p->grads && weft_graph_gradient(w))
            weft_exec_bind(p->exec, weft_graph_gradient(w), (char *)p->grads + offset);
    }
}

enum weft_status weft_probe_plan(struct weft_probe *p, enum weft_mode mode)
{
    const struct weft_nn *model = p->model;
    TRY(weft_exec_create(&p->exec, p->net.g, mode));
    p->weights = calloc((size_t)model->params.total, weft_dtype_bytes(p->dtype));
    if (p->net.use == WEFT_TRAIN)
        p->grads = calloc((size_t)model->params.total, weft_dtype_bytes(p->dtype));
    if (!p->weights || (p->net.use == WEFT_TRAIN && !p->grads))
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    weft_convert(p->weights, p->dtype, model->params.weights, WEFT_F32, model->params.total);
    bind(p);
    return WEFT_OK;
}

enum weft_status weft_probe_open(struct weft_probe *p, const struct weft_nn *model, enum weft_use use,
                                 struct weft_net_size size, enum weft_mode mode)
{
    *p = (struct weft_probe){.model = model, .dtype = weft_mode_is_reference(mode) ? WEFT_F64 : WEFT_F32};
    TRY(weft_net_init(&p->net, model, use, size));
    TRY(weft_probe_plan(p, mode));
    return WEFT_OK;
}

enum weft_status weft_probe_open_traced(struct weft_probe *p, const struct weft_nn *model, struct weft_net_size size)
{
    struct weft_node *const *nodes;
    *p = (struct weft_probe){.model = model, .dtype = WEFT_F32};
    TRY(weft_net_init(&p->net, model, WEFT_TRAIN, size));
    int n = weft_graph_nodes(p->net.g, &nodes);
    for (int i = 0; i < n; i++)
        if (nodes[i]->backward && nodes[i]->op == weft_op(WEFT_OP_embed) && nodes[i]->in[1] == p->net.tokens)
            p->embedding = nodes[i]->gout[0];
    if (!p->embedding)
        return FAIL(WEFT_CHECK, "the gradient of the loss does not reach the embedding of the tokens");
    weft_graph_output(p->net.g, p->embedding);
    TRY(weft_probe_plan(p, WEFT_FAST));
    return WEFT_OK;
}

void weft_probe_close(struct weft_probe *p)
{
    free(p->weights);
    free(p->grads);
    weft_exec_free(p->exec);
    weft_net_release(&p->net);
    *p = (struct weft_probe){0};
}

static int32_t *ints(const struct weft_probe *p, const struct weft_value *v)
{
    return weft_exec_tensor(p->exec, v)->data;
}

static void set_number(const struct weft_probe *p, const struct weft_value *v, double x)
{
    if (v)
        weft_tensor_set(weft_exec_tensor(p->exec, v), 0, x);
}

void weft_probe_rows(struct weft_probe *p, int64_t sequences, int64_t length, const int64_t *lengths)
{
    const struct weft_net *net = &p->net;
    int32_t *seq = ints(p, net->at.seq), *pos = ints(p, net->at.pos), *position = ints(p, net->position);
    int32_t *tiles = ints(p, net->at.tiles);
    int64_t row = 0;
    for (int64_t s = 0; s < sequences; s++) {
        for (int64_t j = 0; j < net->tiles; j++)
            tiles[s * net->tiles + j] = (int32_t)(row + j * WEFT_KEY_TILE);
        for (int64_t t = 0; t < (lengths ? lengths[s] : length); t++, row++) {
            seq[row] = (int32_t)s;
            pos[row] = position[row] = (int32_t)t;
        }
        if (net->at.sample)
            ints(p, net->at.sample)[s] = (int32_t)s;
    }
    weft_exec_count(p->exec, net->rows, row);
    weft_exec_count(p->exec, net->sequences, sequences);
    set_number(p, net->weight, 1 / (double)row);
    set_number(p, net->share, 1);
}

void weft_probe_fill(struct weft_probe *p, uint64_t key)
{
    uint64_t vocab = (uint64_t)p->model->spec->vocab;
    int32_t *tokens = ints(p, p->net.tokens), *targets = p->net.targets ? ints(p, p->net.targets) : NULL;
    int64_t rows = weft_tensor_count(weft_exec_tensor(p->exec, p->net.tokens));
    for (int64_t i = 0; i < rows; i++) {
        tokens[i] = (int32_t)weft_below(key, 2 * (uint64_t)i, vocab);
        if (targets)
            targets[i] = (int32_t)weft_below(key, 2 * (uint64_t)i + 1, vocab);
    }
}

void weft_probe_prepare(struct weft_probe *p)
{
    if (p->grads)
        memset(p->grads, 0, (size_t)p->model->params.total * weft_dtype_bytes(p->dtype));
    weft_defer(weft_exec_prepare(p->exec));
}

void weft_probe_run(struct weft_probe *p)
{
    weft_probe_prepare(p);
    weft_defer(weft_exec_run(p->exec));
}

const struct weft_tensor *weft_probe_grad(const struct weft_probe *p, int i)
{
    const struct weft_value *w = p->net.weights[i], *grad = w ? weft_graph_gradient(w) : NULL;
    return grad ? weft_exec_tensor(p->exec, grad) : NULL;
}

/* ---- tensors */

double weft_tensor_distance(const struct weft_tensor *a, const struct weft_tensor *b)
{
    int64_t n = weft_tensor_count(a);
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(weft_tensor_get(a, i) - weft_tensor_get(b, i));
        if (isnan(d))
            return INFINITY;
        largest = fmax(largest, d);
    }
    return largest;
}
