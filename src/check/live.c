/* SPDX-License-Identifier: MIT
 *
 * live.c - everything in the model has an effect, in f64:
 *   - every weight has a gradient (except where it is 0 by mathematics, which the part declares);
 *   - every mechanism that can be turned off changes the logits, or at least the gradients, when it is;
 *   - relative positions depend only on distances: moving all positions changes nothing.
 * A mechanism that is declared and counted but not wired in fails here, and so does a loss without gradient.
 */
#include "check/gate.h"
#include "nn/part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 2, LENGTH = 10, SHIFT = 7, TOKENS_KEY = 11, MAX_OPTIONS = 128 };

/* Runs a model on fixed tokens with the reference kernels, without dropout. */
static enum weft_status run(struct weft_probe *p, const struct weft_model *model, enum weft_use use)
{
    int64_t length = weft_min(LENGTH, model->spec->context);
    struct weft_net_size size = {.sequences = SEQUENCES, .length = length};
    TRY(weft_probe_open(p, model, use, size, WEFT_REFERENCE));
    weft_probe_rows(p, SEQUENCES, length, NULL);
    weft_probe_fill(p, TOKENS_KEY);
    weft_probe_run(p);
    return WEFT_OK;
}

/* ---- weights */

/* Whether a part declares that the weight "blocks.N.SCOPE.NAME" has no gradient. */
static bool is_idle(const struct weft_spec *spec, const char *weight)
{
    static const enum weft_part_kind in_attn[] = {WEFT_ATTN, WEFT_GEOM, WEFT_POS};
    const char *dot = strrchr(weight, '.'), *name = dot ? dot + 1 : weight;
    for (int i = 0; i < 3; i++)
        if (strstr(weight, ".attn.") && weft_chosen_idle(&spec->part[in_attn[i]], spec, name))
            return true;
    if (strstr(weight, ".ffn.") && weft_chosen_idle(&spec->part[WEFT_FFN], spec, name))
        return true;
    for (int i = 0; i < spec->mechanism_count; i++) {
        char scope[64];
        snprintf(scope, sizeof scope, ".%s.", spec->mechanism[i].part->name);
        if (strstr(weight, scope) && weft_chosen_idle(&spec->mechanism[i], spec, name))
            return true;
    }
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
        if (is_idle(t->model->spec, p->list[i].name))
            continue;
        dead += !(share > limit);
        if (!(share >= least)) {
            least = share;
            worst = i;
        }
    }
    weft_trial_report(t, dead == 0, least, limit, "every weight has a gradient", "%s %s (%d of %d weights)",
                      p->list[worst].name, trained->net.weights[worst] ? "has none" : "is not in the graph", dead,
                      p->count);
}

/* ---- mechanisms */

struct option {
    const struct weft_opt *opt;
    char value[40];
};
struct options {
    struct option list[MAX_OPTIONS];
    int count;
};

static void note_option(void *context, const struct weft_opt *opt, const char *value)
{
    struct options *all = context;
    if (all->count == MAX_OPTIONS)
        return;
    all->list[all->count].opt = opt;
    snprintf(all->list[all->count++].value, sizeof all->list[0].value, "%s", value);
}

/* A number can be written in several ways. */
static bool has_value(const struct option *o, const char *value)
{
    if (o->opt->type == WEFT_OPT_REAL || o->opt->type == WEFT_OPT_INT)
        return strtod(o->value, NULL) == strtod(value, NULL);
    return strcmp(o->value, value) == 0;
}

/* Whether the condition of an option, "name=value" or "name!=value", is met. */
static bool has_needs(const struct options *all, const char *needs)
{
    size_t n = needs ? strcspn(needs, "!=") : 0;
    for (int i = 0; needs && i < all->count; i++) {
        const struct option *o = &all->list[i];
        if (strlen(o->opt->name) != n || strncmp(o->opt->name, needs, n) != 0)
            continue;
        bool unlike = needs[n] == '!';
        return has_value(o, needs + n + (unlike ? 2 : 1)) != unlike;
    }
    return !needs;
}

static double change(const struct weft_tensor *a, const struct weft_tensor *b)
{
    return weft_tensor_distance(a, b) / weft_tensor_rms(a);
}

/* The largest change of a gradient that both models have. */
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

static enum weft_status effect_on(const struct base *base, const struct weft_model *other, double limit, double *effect)
{
    struct weft_probe p;
    enum weft_status status = run(&p, other, WEFT_FORWARD);
    if (status == WEFT_OK)
        *effect = change(weft_exec_tensor(base->forward.exec, base->forward.net.logits),
                         weft_exec_tensor(p.exec, p.net.logits));
    weft_probe_close(&p);
    if (status != WEFT_OK || *effect > limit)
        return status;
    status = run(&p, other, WEFT_TRAIN);
    if (status == WEFT_OK)
        *effect = change_of_gradients(&base->trained, &p);
    weft_probe_close(&p);
    return status;
}

static enum weft_status check_switch(const struct weft_trial *t, const struct base *base, const struct option *o)
{
    const double limit = 1e-12; /* rounding is 1e-16, and a setting that is read back may differ by that much */
    char name[96], setting[96];
    double effect = 0;
    struct weft_spec spec;
    struct weft_model *model = NULL;
    snprintf(setting, sizeof setting, "%s=%s", o->opt->name, o->opt->off);
    snprintf(name, sizeof name, "%s=%s has an effect", o->opt->name, o->value);
    enum weft_status status = weft_spec_vary(&spec, t->model->spec, setting);
    if (status == WEFT_OK)
        status = weft_twin_create(&model, &spec);
    if (status == WEFT_OK)
        status = effect_on(base, model, limit, &effect);
    if (status == WEFT_OK)
        weft_trial_report(t, effect > limit, effect, limit, name, "logits and gradients are the same with %s", setting);
    weft_model_free(model);
    weft_spec_release(&spec);
    return status;
}

static enum weft_status check_switches(const struct weft_trial *t, const struct base *base)
{
    struct options all = {.count = 0};
    weft_spec_each(t->model->spec, &all, note_option);
    for (int i = 0; i < all.count; i++) {
        const struct option *o = &all.list[i];
        if (o->opt->off && !has_value(o, o->opt->off) && has_needs(&all, o->opt->needs))
            TRY(check_switch(t, base, o));
    }
    return WEFT_OK;
}

/* ---- positions */

/* If keys are rotated and queries are not, for example, the result depends on where the sequence begins. Not for
 * schemes that add something to the embedding, which depend on absolute positions. */
static enum weft_status check_positions(const struct weft_trial *t, const struct base *base)
{
    const double limit = 1e-9;
    struct weft_probe p;
    if (weft_spec_pos(t->model->spec)->embed)
        return WEFT_OK;
    enum weft_status status = run(&p, t->model, WEFT_FORWARD);
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
    TRY(run(&base->trained, t->model, WEFT_TRAIN));
    TRY(run(&base->forward, t->model, WEFT_FORWARD));
    check_weights(t, &base->trained);
    TRY(check_switches(t, base));
    TRY(check_positions(t, base));
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
