/* SPDX-License-Identifier: MIT
 *
 * live.c - checks in f64 that everything in the model has an effect:
 *   - every weight has a gradient, unless its part declares that it is identically 0;
 *   - every weight has its declared role (roles.c);
 *   - every mechanism that can be turned off changes the logits, or at least the gradients, when it is turned off in
 *     all layers and in each of them (switches.c);
 *   - every option that is not at its default changes something: weights, their initial values, logits or gradients or,
 *     if its table declares only that, the plan;
 *   - auxiliary losses have their own gradient;
 *   - relative positions depend only on distances: moving all positions changes nothing.
 * A mechanism that is declared and counted but not wired in fails here, and so does a loss without a gradient.
 */
#include "check/probe/gate.h"
#include "nn/part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 2, LENGTH = 10, SHIFT = 7, TOKENS_KEY = 11 };
#define ROUNDING 1e-12 /* the precision of f64 is 1e-16, and a setting that is read back may differ by that much */

/* Runs a model on fixed tokens with the reference kernels, without dropout. If `s` is not NULL, weights are changed as
 * required if this switch is off in the layer. */
static enum weft_status run(struct weft_probe *p, const struct weft_nn *model, enum weft_use use,
                            const struct weft_switch *s, int layer)
{
    int64_t length = weft_min(LENGTH, model->spec->context);
    struct weft_net_size size = {.sequences = SEQUENCES, .length = length};
    TRY(weft_probe_open(p, model, use, size, WEFT_REFERENCE));
    weft_probe_rows(p, SEQUENCES, length, NULL);
    weft_probe_fill(p, TOKENS_KEY);
    if (s)
        weft_switch_weights(s, p, layer);
    weft_probe_run(p);
    return WEFT_OK;
}

/* ---- weights */

bool weft_weight_is_idle(const struct weft_spec *spec, const struct weft_param *w)
{
    const char *dot = strrchr(w->name, '.'), *name = dot ? dot + 1 : w->name;
    for (int kind = 0; kind < WEFT_SINGLE_KINDS; kind++)
        if (spec->part[kind].part == w->part && weft_chosen_idle(&spec->part[kind], spec, name))
            return true;
    for (int i = 0; i < spec->mechanism_count; i++)
        if (spec->mechanism[i].part == w->part && weft_chosen_idle(&spec->mechanism[i], spec, name))
            return true;
    return false;
}

static double norm(const struct weft_tensor *x)
{
    return x ? weft_tensor_rms(x) * sqrt((double)weft_tensor_count(x)) : 0;
}

static void check_weights(const struct weft_trial *t, const struct weft_probe *trained)
{
    const double limit = 1e-10;
    const struct weft_params *p = &t->model->params;
    double largest = 0, least = 1;
    int dead = 0, worst = 0;
    for (int i = 0; i < p->count; i++)
        largest = fmax(largest, norm(weft_probe_grad(trained, i)));
    for (int i = 0; i < p->count; i++) {
        double share = norm(weft_probe_grad(trained, i)) / largest;
        if (weft_weight_is_idle(t->model->spec, &p->list[i]))
            continue;
        dead += !(share > limit);
        if (!(share >= least)) {
            least = share;
            worst = i;
        }
    }
    char why[160] = "";
    struct weft_net_size size = {.sequences = SEQUENCES, .length = weft_min(LENGTH, t->model->spec->context)};
    if (dead > 0)
        weft_dead_explain(t->model, size, worst, why);
    weft_trial_report(t, dead == 0, least, limit, "every weight has a gradient", "%s %s (%d of %d weights)",
                      p->list[worst].name, why, dead, p->count);
}

/* ---- mechanisms */

static double change(const struct weft_tensor *a, const struct weft_tensor *b)
{
    return weft_tensor_distance(a, b) / weft_tensor_rms(a);
}

/* Returns the largest relative change of a gradient that both models have. */
static double change_of_gradients(const struct weft_probe *a, const struct weft_probe *b)
{
    double largest = 0;
    for (int i = 0; i < a->model->params.count; i++) {
        int j = weft_params_find(&b->model->params, a->model->params.list[i].name);
        const struct weft_tensor *x = weft_probe_grad(a, i), *y = j >= 0 ? weft_probe_grad(b, j) : NULL;
        if (x && y && weft_tensor_count(x) == weft_tensor_count(y) && weft_tensor_rms(x) > 0)
            largest = fmax(largest, change(x, y));
    }
    return largest;
}

struct base {
    struct weft_probe trained, forward;
};

/* Measures the effect of the switch: `other` is the base model with the switch off in one layer or (-1) in all
 * layers. */
static enum weft_status effect_on(const struct base *base, const struct weft_nn *other, const struct weft_switch *s,
                                  int layer, double *effect)
{
    struct weft_probe p;
    enum weft_status status = run(&p, other, WEFT_FORWARD, s, layer);
    if (status == WEFT_OK)
        *effect = change(weft_exec_tensor(base->forward.exec, base->forward.net.logits),
                         weft_exec_tensor(p.exec, p.net.logits));
    weft_probe_close(&p);
    if (status != WEFT_OK || *effect > ROUNDING)
        return status;
    status = run(&p, other, WEFT_TRAIN, s, layer);
    if (status == WEFT_OK)
        *effect = change_of_gradients(&base->trained, &p);
    weft_probe_close(&p);
    return status;
}

static enum weft_status check_whole(const struct weft_trial *t, const struct base *base, const struct weft_switch *s)
{
    char name[128];
    double effect = 0;
    struct weft_nn *model;
    snprintf(name, sizeof name, "%s has an effect", s->name);
    enum weft_status status = weft_twin_create(&model, &s->spec);
    if (status == WEFT_OK)
        status = effect_on(base, model, NULL, -1, &effect);
    if (status == WEFT_OK)
        weft_trial_report(t, effect > ROUNDING, effect, ROUNDING, name, "logits and gradients are the same with %s",
                          s->off);
    weft_nn_free(model);
    return status;
}

static enum weft_status check_layers(const struct weft_trial *t, const struct base *base, const struct weft_switch *s)
{
    struct weft_acts acts = {0};
    for (int layer = 0; layer < t->model->spec->layers; layer++) {
        struct weft_nn model = *t->model;
        double effect = 0;
        weft_switch_apply(s, &model, layer);
        TRY(effect_on(base, &model, s, layer, &effect));
        weft_acts_note(&acts, weft_switch_duty(s, t->model, layer), layer, effect);
    }
    struct weft_act least = weft_acts_least(&acts, ROUNDING);
    if (least.effect == INFINITY)
        return WEFT_OK;
    char name[128];
    snprintf(name, sizeof name, "%s has an effect in each layer", s->name);
    weft_trial_report(t, least.effect > ROUNDING, least.effect, ROUNDING, name,
                      "logits and gradients are the same with %s in layer %d", s->off, least.layer);
    return WEFT_OK;
}

static enum weft_status check_switches(const struct weft_trial *t, const struct base *base)
{
    struct weft_switches all;
    enum weft_status status = weft_switches_find(&all, t->model->spec);
    for (int i = 0; status == WEFT_OK && i < all.count; i++) {
        status = check_whole(t, base, &all.list[i]);
        if (status == WEFT_OK && weft_switch_fits(&all.list[i], t->model))
            status = check_layers(t, base, &all.list[i]);
    }
    weft_switches_release(&all);
    return status;
}

/* ---- options that are not at their defaults */

static enum weft_status has_effect(const struct base *base, const struct weft_nn *twin, const struct weft_nn *other,
                                   bool only_plan, bool *has)
{
    bool alike;
    double effect = 0;
    TRY(weft_models_begin_alike(twin, other, &alike));
    if (alike && only_plan)
        TRY(weft_models_plan_alike(twin, other, &alike));
    else if (alike) {
        TRY(effect_on(base, other, NULL, -1, &effect));
        alike = !(effect > ROUNDING);
    }
    *has = !alike;
    return WEFT_OK;
}

/* Returns whether the default is equivalent to the current value; for example, kv_heads=0 means the number of heads. */
static bool stands_for_it(const struct weft_spec *with_default, const struct weft_option *o)
{
    struct weft_options all;
    weft_options_find(&all, with_default);
    for (int i = 0; i < all.count; i++)
        if (all.list[i].opt == o->opt)
            return strcmp(all.list[i].value, o->value) == 0;
    return false;
}

/* Checks one option. If the default gives an invalid model, the option has an effect. */
static enum weft_status check_default(const struct weft_trial *t, const struct base *base, const struct weft_option *o,
                                      bool *has)
{
    char setting[128];
    struct weft_spec spec;
    struct weft_nn *model = NULL;
    snprintf(setting, sizeof setting, "%s=%s", o->opt->name, o->opt->initial);
    *has = true;
    enum weft_status status = weft_spec_vary(&spec, t->model->spec, setting);
    if (status == WEFT_INVALID) {
        weft_error_clear();
        status = WEFT_OK;
    } else if (status == WEFT_OK && !stands_for_it(&spec, o)) {
        status = weft_twin_create(&model, &spec);
        if (status == WEFT_OK)
            status = has_effect(base, t->model, model, o->opt->only_plan, has);
    }
    weft_nn_free(model);
    weft_spec_release(&spec);
    return status;
}

/* Checks all options that are not at their defaults. This is skipped for short contexts, in which windows and similar
 * options have no effect. */
static enum weft_status check_defaults(const struct weft_trial *t, const struct base *base)
{
    struct weft_options all;
    char name[128];
    const struct weft_option *first = NULL;
    int tried = 0, dead = 0;
    weft_options_find(&all, t->model->spec);
    for (int i = 0; t->model->spec->context >= LENGTH && i < all.count; i++) {
        bool has;
        if (!weft_option_matters(&all, &all.list[i]))
            continue;
        TRY(check_default(t, base, &all.list[i], &has));
        tried++;
        if (!has && dead++ == 0)
            first = &all.list[i];
    }
    snprintf(name, sizeof name, "options of %d that are not at their defaults, but change nothing", tried);
    weft_trial_report(t, dead == 0, dead, 0, name, "%s=%s: the model is the same with the default, %s",
                      first ? first->opt->name : "", first ? first->value : "", first ? first->opt->initial : "");
    return WEFT_OK;
}

/* ---- losses */

/* Checks the gradient without the cross-entropy, if parts have their own losses. */
static void check_losses(const struct weft_trial *t, struct weft_probe *trained)
{
    double largest = 0;
    if (trained->net.term_count == 0)
        return;
    weft_tensor_set(weft_exec_tensor(trained->exec, trained->net.weight), 0, 0);
    weft_probe_run(trained);
    for (int i = 0; i < t->model->params.count; i++)
        largest = fmax(largest, norm(weft_probe_grad(trained, i)));
    weft_trial_report(t, largest > ROUNDING, largest, ROUNDING, "auxiliary losses alone give a gradient",
                      "%s is computed, but it gives no weight a gradient", trained->net.terms[0].name);
}

/* ---- positions */

/* Checks that the result does not depend on where the sequence begins, as it would if, for example, keys are rotated
 * and queries are not. Schemes that add something to the embedding depend on absolute positions and are left out. */
static enum weft_status check_positions(const struct weft_trial *t, const struct base *base)
{
    const double limit = 1e-9;
    struct weft_probe p;
    if (weft_spec_pos(t->model->spec)->embed)
        return WEFT_OK;
    enum weft_status status = run(&p, t->model, WEFT_FORWARD, NULL, -1);
    if (status == WEFT_OK) {
        struct weft_tensor *place = weft_exec_tensor(p.exec, p.net.position);
        for (int64_t i = 0; i < weft_tensor_count(place); i++)
            ((int32_t *)place->data)[i] += SHIFT;
        weft_probe_run(&p);
        double moved = change(weft_exec_tensor(base->forward.exec, base->forward.net.logits),
                              weft_exec_tensor(p.exec, p.net.logits));
        weft_trial_report(t, moved <= limit, moved, limit, "only distances between positions matter",
                          "logits change when all positions move by %d", SHIFT);
    }
    weft_probe_close(&p);
    return status;
}

static enum weft_status check(const struct weft_trial *t, struct base *base)
{
    TRY(run(&base->trained, t->model, WEFT_TRAIN, NULL, -1));
    TRY(run(&base->forward, t->model, WEFT_FORWARD, NULL, -1));
    check_weights(t, &base->trained);
    TRY(weft_check_roles(t, &base->trained.net));
    TRY(check_switches(t, base));
    TRY(check_defaults(t, base));
    TRY(check_positions(t, base));
    TRY(weft_check_metric(t));
    check_losses(t, &base->trained);
    return WEFT_OK;
}

enum weft_status weft_gate_live(const struct weft_trial *t)
{
    struct base base = {0};
    enum weft_status status = check(t, &base);
    weft_probe_close(&base.trained);
    weft_probe_close(&base.forward);
    return status;
}
