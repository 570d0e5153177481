/* SPDX-License-Identifier: MIT
 *
 * model_effects.c - checks that everything that can be switched off in the model itself has an effect on its loss, in
 * each layer and at late positions, measured in nats (effects.c).
 *
 * Layers are run one by one as time allows, starting with the last and the first. The graph must change in every layer
 * when the switch is off. A switch that changes nothing in any single layer is switched off in the whole model. If that
 * does not change the cross-entropy, as with auxiliary losses, gradients must change.
 */
#include "check/probe/effects.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>

enum { TOKENS_KEY = 74, SHORT = 64 };
#define SHARE 0.25 /* fraction of the time limit of all checks */

/* A switch and its measurements. */
struct measured {
    const struct weft_switch *s;
    bool layered; /* acts or must act in some layers */
    int next;     /* index of the next layer in the order of layer_at */
    struct weft_acts all, late;
};

/* ---- layers */

/* Returns the i-th layer to measure: the last, the first, then those in between. */
static int layer_at(int layers, int i) { return i == 0 ? layers - 1 : i - 1; }

/* Returns whether two nodes have different ops, inputs or constants. */
static bool is_other(const struct weft_node *a, const struct weft_node *b)
{
    if (a->op != b->op)
        return true;
    for (int i = 0; i < WEFT_MAX_ARGS; i++)
        if (!a->in[i] != !b->in[i])
            return true;
    return a->op == weft_op(WEFT_OP_fill) &&
           ((const struct weft_fill *)a->attr)->value != ((const struct weft_fill *)b->attr)->value;
}

/* Sets *changed to whether turning the switch off in this layer changes nodes of the graph or initial values of
 * weights. */
static enum weft_status changes(const struct weft_effects *e, const struct weft_switch *s, int layer, bool *changed)
{
    struct weft_node *const *a, *const *b;
    struct weft_nn model = e->model;
    struct weft_net with = {0}, without = {0};
    weft_switch_apply(s, &model, layer);
    enum weft_status status = weft_net_init(&with, &e->model, WEFT_EVAL, e->size);
    if (status == WEFT_OK)
        status = weft_net_init(&without, &model, WEFT_EVAL, e->size);
    if (status == WEFT_OK) {
        int n = weft_graph_nodes(with.g, &a);
        *changed = n != weft_graph_nodes(without.g, &b);
        for (int i = 0; i < n && !*changed; i++)
            *changed = is_other(a[i], b[i]);
        *changed |= weft_switch_starts(s, &e->model, layer);
    }
    weft_net_release(&with);
    weft_net_release(&without);
    return status;
}

/* Checks in the graphs of all layers whether the switch acts in any of them, and in which ones it must act but does
 * not. */
static enum weft_status check_graphs(const struct weft_trial *t, const struct weft_effects *e, struct measured *m)
{
    int same = 0, first = 0;
    char name[160];
    for (int layer = 0; layer < e->spec.layers; layer++) {
        bool changed = false;
        enum weft_duty duty = weft_switch_duty(m->s, &e->model, layer);
        TRY(changes(e, m->s, layer, &changed));
        m->layered |= changed || duty == WEFT_MUST_ACT;
        if (!changed && duty != WEFT_MAY_ACT && same++ == 0)
            first = layer;
    }
    snprintf(name, sizeof name, "%s: layers whose graph is the same without it (of %lld)", m->s->name,
             (long long)e->spec.layers);
    if (m->layered)
        weft_trial_report(t, same == 0, same, 0, name, "%s changes nothing in layer %d: it is not wired in there",
                          m->s->off, first);
    return WEFT_OK;
}

/* Measures the next layer in which the switch must act, if there is one. */
static enum weft_status measure_next(struct weft_effects *e, struct measured *m)
{
    int layers = (int)e->spec.layers, layer = -1;
    enum weft_duty duty = WEFT_MAY_ACT;
    struct weft_effect effect;
    while (duty == WEFT_MAY_ACT && m->next < layers) {
        layer = layer_at(layers, m->next++);
        duty = weft_switch_duty(m->s, &e->model, layer);
    }
    if (duty == WEFT_MAY_ACT)
        return WEFT_OK;
    if (m->layered)
        duty = WEFT_MUST_ACT;
    TRY(weft_effects_measure(e, m->s, layer, &effect));
    weft_acts_note(&m->all, duty, layer, effect.all);
    weft_acts_note(&m->late, duty, layer, effect.late);
    return WEFT_OK;
}

/* ---- reports */

static void report(const struct weft_trial *t, const struct weft_effects *e, double effect, const char *what, bool late,
                   const char *off, const char *in)
{
    char name[240], where[48] = "";
    if (late)
        snprintf(where, sizeof where, " at the last %lld positions",
                 (long long)(e->size.length - weft_effects_late(e)));
    snprintf(name, sizeof name, "%s%s, in nats", what, where);
    weft_trial_report(t, effect > e->plain.limit, effect, e->plain.limit, name,
                      "%s%s changes the loss%s by only %.2g nats: dead or saturated", off, in, where, effect);
}

static void report_layers(const struct weft_trial *t, const struct weft_effects *e, const struct measured *m)
{
    const struct weft_acts *acts[] = {&m->all, &m->late};
    char what[160], in[40];
    for (int late = 0; late < 2; late++) {
        struct weft_act least = weft_acts_least(acts[late], e->plain.limit);
        if (acts[late]->layers == 0 || least.effect == INFINITY)
            continue;
        snprintf(what, sizeof what, "%s: its least effect on the loss in a layer (%d of %lld)", m->s->name,
                 acts[late]->layers, (long long)e->spec.layers);
        snprintf(in, sizeof in, " in layer %d", least.layer);
        report(t, e, least.effect, what, late, m->s->off, in);
    }
}

/* ---- gradients, for switches of auxiliary losses */

static enum weft_status open_short(const struct weft_effects *e, const struct weft_nn *model, struct weft_probe *p)
{
    struct weft_net_size size = {.sequences = 2, .length = weft_min(SHORT, e->size.length)};
    TRY(weft_probe_open(p, model, WEFT_TRAIN, size, WEFT_FAST));
    weft_probe_rows(p, size.sequences, size.length, NULL);
    weft_probe_fill(p, TOKENS_KEY);
    return WEFT_OK;
}

/* Returns the largest relative change of a weight's gradient that both graphs have. */
static double change_of_gradients(const struct weft_probe *a, const struct weft_probe *b)
{
    double largest = 0;
    for (int i = 0; i < a->model->params.count; i++) {
        const struct weft_tensor *x = weft_probe_grad(a, i), *y = weft_probe_grad(b, i);
        double size = x && y ? weft_tensor_rms(x) : 0;
        if (size > 0)
            largest = fmax(largest, weft_tensor_distance(x, y) / size);
        else if (x && !y)
            largest = INFINITY;
    }
    return largest;
}

static enum weft_status check_gradients(const struct weft_trial *t, struct weft_effects *e, const struct weft_switch *s)
{
    const double limit = 1e-6;
    struct weft_nn off = e->model;
    struct weft_probe with = {0}, without = {0};
    char name[160];
    weft_switch_apply(s, &off, -1);
    enum weft_status status = open_short(e, &e->model, &with);
    if (status == WEFT_OK)
        status = open_short(e, &off, &without);
    if (status == WEFT_OK) {
        weft_switch_weights(s, &without, -1);
        weft_probe_run(&with);
        weft_probe_run(&without);
        double change = change_of_gradients(&with, &without);
        snprintf(name, sizeof name, "%s: its largest effect on a weight's gradient, relative", s->name);
        weft_trial_report(t, change > limit, change, limit, name, "losses and gradients are the same with %s", s->off);
    }
    weft_probe_close(&with);
    weft_probe_close(&without);
    return status;
}

static enum weft_status check_whole(const struct weft_trial *t, struct weft_effects *e, const struct weft_switch *s)
{
    struct weft_effect effect;
    char what[160];
    TRY(weft_effects_measure(e, s, -1, &effect));
    if (effect.all == 0)
        return check_gradients(t, e, s);
    snprintf(what, sizeof what, "%s: its effect on the loss", s->name);
    report(t, e, effect.all, what, false, s->off, "");
    report(t, e, effect.late, what, true, s->off, "");
    return WEFT_OK;
}

/* ---- the check */

/* Measures each switch once, except options of mechanisms, which the twin covers; then more layers as time allows. */
static enum weft_status check_switches(const struct weft_trial *t, struct weft_effects *e, struct measured *list,
                                       int count)
{
    for (int i = 0; i < count; i++) {
        TRY(check_graphs(t, e, &list[i]));
        if (list[i].s->of_mechanism)
            continue;
        TRY(list[i].layered ? measure_next(e, &list[i]) : check_whole(t, e, list[i].s));
    }
    for (int i = 0; i < count && weft_itself_has_time(t->itself, SHARE); i++)
        if (list[i].s->of_mechanism)
            TRY(check_whole(t, e, list[i].s));
    for (int k = 0; k < e->spec.layers; k++)
        for (int i = 0; i < count && weft_itself_has_time(t->itself, SHARE); i++)
            if (list[i].layered || list[i].s->of_mechanism)
                TRY(measure_next(e, &list[i]));
    for (int i = 0; i < count; i++)
        report_layers(t, e, &list[i]);
    return WEFT_OK;
}

static enum weft_status check(const struct weft_trial *t, struct weft_effects *e, const struct weft_switches *all)
{
    int count = 0;
    struct measured *list = calloc((size_t)all->count + 1, sizeof *list);
    if (!list)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    for (int i = 0; i < all->count; i++)
        if (weft_switch_fits(&all->list[i], &e->model))
            list[count++].s = &all->list[i];
    enum weft_status status = check_switches(t, e, list, count);
    free(list);
    return status;
}

enum weft_status weft_check_effects(const struct weft_trial *t, const struct weft_nn *learned)
{
    struct weft_switches all = {0};
    struct weft_effects *e = calloc(1, sizeof *e);
    if (!e)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    enum weft_status status = weft_effects_init(e, learned, t->itself->length);
    if (status == WEFT_OK)
        status = weft_switches_find(&all, &e->spec);
    if (status == WEFT_OK)
        status = check(t, e, &all);
    weft_switches_release(&all);
    weft_effects_release(e);
    free(e);
    return status;
}
