/* SPDX-License-Identifier: MIT
 *
 * options.c - lists the options of a model with their values, decides which must have an effect, and compares models
 * without running them.
 */
#include "check/probe/gate.h"
#include "nn/part.h"

#include <stdio.h>
#include <string.h>

static void note_option(void *context, const struct weft_opt *opt, const char *value)
{
    struct weft_options *all = context;
    if (all->count == WEFT_MAX_OPTIONS)
        return;
    all->list[all->count].opt = opt;
    snprintf(all->list[all->count++].value, WEFT_MAX_VALUE, "%s", value);
}

void weft_options_find(struct weft_options *all, const struct weft_spec *spec)
{
    all->spec = spec;
    all->count = 0;
    weft_spec_each(spec, all, note_option);
}

/* ---- options that must have an effect */

bool weft_options_met(const struct weft_options *all, const char *needs)
{
    size_t n = needs ? strcspn(needs, "!=") : 0;
    for (int i = 0; needs && i < all->count; i++) {
        const struct weft_option *o = &all->list[i];
        if (strlen(o->opt->name) != n || strncmp(o->opt->name, needs, n) != 0)
            continue;
        bool unlike = needs[n] == '!';
        return weft_opt_same(o->opt, o->value, needs + n + (unlike ? 2 : 1)) != unlike &&
               weft_options_met(all, o->opt->needs);
    }
    return !needs;
}

bool weft_chosen_owns(const struct weft_chosen *c, const struct weft_opt *opt)
{
    const struct weft_owner *owner = &c->part->owner;
    return owner->count && opt >= owner->options && opt < owner->options + owner->count;
}

/* Returns the struct that the option's table describes. */
static const void *struct_of(const struct weft_spec *spec, const struct weft_opt *opt)
{
    for (int kind = 0; kind < WEFT_SINGLE_KINDS; kind++)
        if (weft_chosen_owns(&spec->part[kind], opt))
            return spec->part[kind].options;
    for (int i = 0; i < spec->mechanism_count; i++)
        if (weft_chosen_owns(&spec->mechanism[i], opt))
            return spec->mechanism[i].options;
    return spec;
}

bool weft_option_acts(const struct weft_options *all, const struct weft_option *o)
{
    if (!weft_options_met(all, o->opt->needs))
        return false;
    return !o->opt->idle || !o->opt->idle(all->spec, struct_of(all->spec, o->opt));
}

bool weft_option_matters(const struct weft_options *all, const struct weft_option *o)
{
    return !weft_opt_same(o->opt, o->value, o->opt->initial) && weft_option_acts(all, o);
}

/* ---- models that are not run */

static bool same_weight(const struct weft_param *a, const struct weft_param *b)
{
    return strcmp(a->name, b->name) == 0 && a->ndim == b->ndim &&
           memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) == 0;
}

/* Initialises copies of both models and compares their weights, because a twin's weights have noise. */
enum weft_status weft_models_begin_alike(const struct weft_nn *a, const struct weft_nn *b, bool *alike)
{
    struct weft_nn *first[2] = {NULL, NULL};
    const struct weft_params *p = &a->params, *q = &b->params;
    *alike = p->count == q->count;
    for (int i = 0; *alike && i < p->count; i++)
        *alike = same_weight(&p->list[i], &q->list[i]);
    if (!*alike)
        return WEFT_OK;
    enum weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < 2; i++) {
        status = weft_nn_create(&first[i], (i ? b : a)->spec);
        if (status == WEFT_OK)
            status = weft_nn_init(first[i]);
    }
    if (status == WEFT_OK)
        *alike = memcmp(first[0]->params.weights, first[1]->params.weights, (size_t)p->total * sizeof(float)) == 0;
    weft_nn_free(first[0]);
    weft_nn_free(first[1]);
    return status;
}

struct plan {
    int nodes;
    size_t bytes;
    double flops;
};

static enum weft_status plan_step(const struct weft_nn *m, struct plan *plan)
{
    struct weft_node *const *nodes;
    struct weft_net net;
    struct weft_exec *exec = NULL;
    struct weft_net_size size = {.sequences = m->spec->batch, .length = m->spec->context};
    enum weft_status status = weft_net_init(&net, m, WEFT_TRAIN, size);
    if (status == WEFT_OK)
        status = weft_exec_create(&exec, net.g, WEFT_FAST);
    if (status == WEFT_OK)
        *plan = (struct plan){weft_graph_nodes(net.g, &nodes), weft_exec_bytes(exec), weft_exec_cost(exec).flops};
    weft_exec_free(exec);
    weft_net_release(&net);
    return status;
}

enum weft_status weft_models_plan_alike(const struct weft_nn *a, const struct weft_nn *b, bool *alike)
{
    struct plan one, other;
    TRY(plan_step(a, &one));
    TRY(plan_step(b, &other));
    *alike = one.nodes == other.nodes && one.bytes == other.bytes && one.flops == other.flops;
    return WEFT_OK;
}
