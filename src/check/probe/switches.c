/* SPDX-License-Identifier: MIT
 *
 * switches.c - finds the options of a model that switch something off, builds the model with each of them off, and
 * decides in which layers this must have an effect.
 *
 * A part may have nothing to do in a layer. So a switch must act
 *   - in the layers that have weights for it, if there are any;
 *   - in the layers between the first and the last, if it is an option of a mechanism: mechanisms pass values from
 *     layer to layer, so the first layer receives nothing or the last one sends nothing;
 *   - else in all layers, if it acts in any;
 * but never in a layer that the part declares as skipped.
 */
#include "check/probe/gate.h"
#include "nn/part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_on(const struct weft_options *all, const struct weft_option *o)
{
    return o->opt->off && !weft_opt_same(o->opt, o->value, o->opt->off) && weft_option_acts(all, o);
}

/* ---- the part that is switched, or that has the option */

static void find_part(const struct weft_spec *spec, const struct weft_opt *opt, struct weft_switch *s)
{
    for (int kind = 0; kind < WEFT_SINGLE_KINDS; kind++)
        if (opt->choices == weft_part_names[kind] || weft_chosen_owns(&spec->part[kind], opt))
            s->part = &spec->part[kind];
    for (int i = 0; i < spec->mechanism_count; i++) {
        const struct weft_chosen *c = &spec->mechanism[i];
        s->of_mechanism |= weft_chosen_owns(c, opt);
        if (weft_chosen_owns(c, opt) || strcmp(c->part->name, opt->name) == 0)
            s->part = c;
    }
}

/* ---- the list */

static enum weft_status add(struct weft_switches *all, const struct weft_spec *spec, const struct weft_option *o)
{
    struct weft_switch *s = &all->list[all->count++];
    snprintf(s->name, sizeof s->name, "%s=%s", o->opt->name, o->value);
    snprintf(s->off, sizeof s->off, "%s=%s", o->opt->name, o->opt->off);
    find_part(spec, o->opt, s);
    TRY(weft_spec_vary(&s->spec, spec, s->off));
    TRY(weft_nn_create(&s->without, &s->spec));
    return WEFT_OK;
}

enum weft_status weft_switches_find(struct weft_switches *all, const struct weft_spec *spec)
{
    struct weft_options options;
    *all = (struct weft_switches){0};
    weft_options_find(&options, spec);
    all->list = calloc((size_t)options.count + 1, sizeof *all->list);
    if (!all->list)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    for (int i = 0; i < options.count; i++)
        if (is_on(&options, &options.list[i]))
            TRY(add(all, spec, &options.list[i]));
    return WEFT_OK;
}

void weft_switches_release(struct weft_switches *all)
{
    for (int i = 0; i < all->count; i++) {
        weft_nn_free(all->list[i].without);
        weft_spec_release(&all->list[i].spec);
    }
    free(all->list);
    *all = (struct weft_switches){0};
}

/* ---- layers */

static bool same_shape(const struct weft_param *a, const struct weft_param *b)
{
    return a->ndim == b->ndim && memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) == 0;
}

bool weft_switch_fits(const struct weft_switch *s, const struct weft_nn *model)
{
    const struct weft_params *p = &model->params, *without = &s->without->params;
    for (int i = 0; i < without->count; i++) {
        int own = weft_params_find(p, without->list[i].name);
        if (own < 0 || !same_shape(&p->list[own], &without->list[i]))
            return false;
    }
    return true;
}

/* Returns whether the layer has weights that exist only because of the switch. */
static bool has_weights(const struct weft_switch *s, const struct weft_nn *model, int layer)
{
    for (int i = 0; i < model->params.count; i++) {
        const struct weft_param *w = &model->params.list[i];
        if (w->layer == layer && weft_params_find(&s->without->params, w->name) < 0)
            return true;
    }
    return false;
}

enum weft_duty weft_switch_duty(const struct weft_switch *s, const struct weft_nn *model, int layer)
{
    int layers = (int)model->spec->layers;
    bool has = false;
    if (s->part && s->part->part->skips && s->part->part->skips(model->spec, s->part->options, layer))
        return WEFT_MAY_ACT;
    if (s->of_mechanism)
        return layers == 1 || (layer > 0 && layer < layers - 1) ? WEFT_ACTS_IF_ANY : WEFT_MAY_ACT;
    for (int i = 0; i < layers && !has; i++)
        has = has_weights(s, model, i);
    if (has)
        return has_weights(s, model, layer) ? WEFT_MUST_ACT : WEFT_MAY_ACT;
    return WEFT_ACTS_IF_ANY;
}

void weft_acts_note(struct weft_acts *a, enum weft_duty duty, int layer, double effect)
{
    struct weft_act *least[] = {[WEFT_MUST_ACT] = &a->must, [WEFT_ACTS_IF_ANY] = &a->if_any, [WEFT_MAY_ACT] = NULL};
    if (a->layers++ == 0)
        a->must.effect = a->if_any.effect = INFINITY;
    if (least[duty] && !(effect >= least[duty]->effect))
        *least[duty] = (struct weft_act){effect, layer};
    a->most = fmax(a->most, effect);
}

struct weft_act weft_acts_least(const struct weft_acts *a, double none)
{
    return a->most > none && a->if_any.effect < a->must.effect ? a->if_any : a->must;
}

void weft_switch_apply(const struct weft_switch *s, struct weft_nn *model, int layer)
{
    model->other = layer < 0 ? NULL : &s->spec;
    model->other_layer = layer;
    if (layer < 0)
        model->spec = &s->spec;
}

/* Returns the change of a weight's initial value if the option sets it; 0 for all other weights. */
static double shift(const struct weft_switch *s, const struct weft_param *own)
{
    int at = weft_params_find(&s->without->params, own->name);
    return at >= 0 && own->init == WEFT_INIT_CONSTANT ? s->without->params.list[at].init_value - own->init_value : 0;
}

bool weft_switch_starts(const struct weft_switch *s, const struct weft_nn *model, int layer)
{
    for (int i = 0; i < model->params.count; i++)
        if (model->params.list[i].layer == layer && shift(s, &model->params.list[i]) != 0)
            return true;
    return false;
}

void weft_switch_weights(const struct weft_switch *s, const struct weft_probe *p, int layer)
{
    for (int i = 0; i < p->model->params.count; i++) {
        const struct weft_param *own = &p->model->params.list[i];
        double by = p->net.weights[i] && (layer < 0 || own->layer == layer) ? shift(s, own) : 0;
        struct weft_tensor *w = by != 0 ? weft_exec_tensor(p->exec, p->net.weights[i]) : NULL;
        for (int64_t e = 0; w && e < own->count; e++)
            weft_tensor_set(w, e, weft_tensor_get(w, e) + by);
    }
}
