/* SPDX-License-Identifier: MIT
 *
 * sharing.c - checks that the model itself shares weights only if it declares this: a tied table saves exactly the
 * weights of the head, and every layer has its own weights and reads no others.
 *
 * Layers between the first and the last declare the same weights, and an additional layer adds exactly these. The first
 * and the last layer may differ from them, because mechanisms pass values from layer to layer, but must not depend on
 * the depth. If a part declares that it skips layers (part.h), only layers in which it does the same are compared.
 */
#include "check/probe/gate.h"
#include "nn/part.h"

#include <stdio.h>
#include <string.h>

/* ---- tied or not */

static enum weft_status check_tie(const struct weft_trial *t)
{
    const struct weft_nn *model = t->itself->model;
    struct weft_spec spec;
    struct weft_nn *other = NULL;
    enum weft_status status = weft_spec_vary(&spec, model->spec, model->spec->tie ? "tie=no" : "tie=yes");
    if (status == WEFT_OK)
        status = weft_nn_create(&other, &spec);
    if (status == WEFT_OK) {
        int64_t tied = (model->spec->tie ? model : other)->params.elements;
        int64_t saved = (model->spec->tie ? other : model)->params.elements - tied;
        int64_t wanted = model->spec->vocab * model->spec->width;
        weft_trial_report(t, saved == wanted, (double)saved, (double)wanted, "weights that tie=yes saves",
                          "tie=yes saves %lld weights, but the head has %lld", (long long)saved, (long long)wanted);
    }
    weft_nn_free(other);
    weft_spec_release(&spec);
    return status;
}

/* ---- layers that declare the same weights */

static bool same_skips(const struct weft_chosen *c, const struct weft_spec *spec, int a, int b)
{
    const struct weft_part *part = c->part;
    return !part->skips || part->skips(spec, c->options, a) == part->skips(spec, c->options, b);
}

/* Returns whether all parts declare that they do the same in both layers. */
static bool do_the_same(const struct weft_spec *spec, int a, int b)
{
    for (int kind = 0; kind < WEFT_SINGLE_KINDS; kind++)
        if (!same_skips(&spec->part[kind], spec, a, b))
            return false;
    for (int i = 0; i < spec->mechanism_count; i++)
        if (!same_skips(&spec->mechanism[i], spec, a, b))
            return false;
    return true;
}

/* Returns the name without "blocks.N.". */
static const char *local_name(const struct weft_param *w)
{
    const char *dot = strchr(w->name, '.'), *second = dot ? strchr(dot + 1, '.') : NULL;
    return second ? second + 1 : w->name;
}

static bool same_weight(const struct weft_param *a, const struct weft_param *b)
{
    return a->ndim == b->ndim && memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) == 0 && a->role == b->role &&
           a->group == b->group && strcmp(local_name(a), local_name(b)) == 0;
}

/* Returns the first weight of a layer of model a that a layer of model b lacks; NULL: none. */
static const struct weft_param *missing(const struct weft_nn *a, int layer_a, const struct weft_nn *b, int layer_b)
{
    for (int i = 0; i < a->params.count; i++) {
        const struct weft_param *w = &a->params.list[i];
        bool found = w->layer != layer_a;
        for (int j = 0; j < b->params.count && !found; j++)
            found = b->params.list[j].layer == layer_b && same_weight(w, &b->params.list[j]);
        if (!found)
            return w;
    }
    return NULL;
}

/* Returns the first weight that one of two layers lacks; NULL: they declare the same weights. */
static const struct weft_param *differing(const struct weft_nn *a, int layer_a, const struct weft_nn *b, int layer_b)
{
    const struct weft_param *w = missing(a, layer_a, b, layer_b);
    return w ? w : missing(b, layer_b, a, layer_a);
}

struct unlike {
    int layers, first, as;
    const char *weight;
};

static void note(struct unlike *u, const struct weft_param *w, int layer, int as)
{
    if (w && u->layers++ == 0)
        *u = (struct unlike){1, layer, as, local_name(w)};
}

static void compare_layers(const struct weft_trial *t, const struct weft_nn *deeper)
{
    const struct weft_nn *model = t->itself->model;
    const struct weft_spec *spec = model->spec;
    int last = (int)spec->layers - 1;
    struct unlike u = {0};
    for (int a = 1; a < last; a++)
        for (int b = a - 1; b >= 1; b--)
            if (do_the_same(spec, a, b)) {
                note(&u, differing(model, a, model, b), a, b);
                break;
            }
    if (do_the_same(deeper->spec, last, 1) && do_the_same(deeper->spec, last, last + 1)) {
        note(&u, last > 0 ? differing(model, 0, deeper, 0) : NULL, 0, 0);
        note(&u, last > 0 ? differing(model, last, deeper, last + 1) : NULL, last, last + 1);
        note(&u, last > 1 ? differing(model, 1, deeper, last) : NULL, last, 1);
    }
    weft_trial_report(t, u.layers == 0, u.layers, 0, "layers that do not declare the same weights as others",
                      "layers %d and %d do not both have %s with the same shape", u.first, u.as,
                      u.layers ? u.weight : "");
}

static enum weft_status check_layers(const struct weft_trial *t)
{
    struct weft_spec spec;
    struct weft_nn *deeper = NULL;
    char more[64];
    snprintf(more, sizeof more, "layers=%lld", (long long)t->itself->model->spec->layers + 1);
    enum weft_status status = weft_spec_vary(&spec, t->itself->model->spec, more);
    if (status == WEFT_OK)
        status = weft_nn_create(&deeper, &spec);
    if (status == WEFT_OK)
        compare_layers(t, deeper);
    weft_nn_free(deeper);
    weft_spec_release(&spec);
    return status;
}

/* ---- layers that read their own weights */

/* Returns whether the layer may read the weight. A mechanism passes values to the next layer, which may also read its
 * weights. */
static bool may_read(const struct weft_param *w, int layer)
{
    bool passes_on = w->part && w->part->kind == WEFT_RECIP;
    return layer == w->layer || (passes_on && layer == w->layer + 1);
}

static void compare_readers(const struct weft_trial *t, const struct weft_net *net)
{
    const struct weft_params *p = &t->itself->model->params;
    struct weft_node *const *nodes;
    int n = weft_graph_nodes(net->g, &nodes), foreign = 0, first = 0, reader = 0;
    for (int i = 0; i < p->count; i++)
        for (int k = 0; net->weights[i] && p->list[i].layer >= 0 && k < n; k++)
            for (int a = 0; a < WEFT_MAX_ARGS; a++)
                if (nodes[k]->in[a] == net->weights[i] && !may_read(&p->list[i], nodes[k]->label) && foreign++ == 0) {
                    first = i;
                    reader = nodes[k]->label;
                }
    weft_trial_report(t, foreign == 0, foreign, 0, "weights that another layer reads", "layer %d reads %s", reader,
                      p->list[first].name);
}

static enum weft_status check_readers(const struct weft_trial *t)
{
    struct weft_net net;
    struct weft_net_size size = {.sequences = 1, .length = t->itself->length};
    enum weft_status status = weft_net_init(&net, t->itself->model, WEFT_TRAIN, size);
    if (status == WEFT_OK)
        compare_readers(t, &net);
    weft_net_release(&net);
    return status;
}

enum weft_status weft_gate_accounted_itself(const struct weft_trial *t)
{
    TRY(check_tie(t));
    TRY(check_layers(t));
    TRY(check_readers(t));
    return WEFT_OK;
}
