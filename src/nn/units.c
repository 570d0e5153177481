/* SPDX-License-Identifier: MIT
 *
 * units.c - selects the units to prune: heads, feed-forward channels, or ranks of mechanisms.
 *
 * Every layer loses the same number of units, so that the result is a normal model with smaller sizes. In each layer,
 * the least important units are chosen. A unit's importance is the product of the norms of its rows and columns in all
 * weights that have rows or columns for each unit (`unit` in nn/param.h). This product is a bound on the unit's output,
 * so a unit whose output is 0 is removed first. Ties go to units whose weights are all 0, then to the higher index.
 *
 * The shapes of the smaller model's weights determine which sides of a weight are shortened. Such a side is divided
 * into units of equal width. Heads that share a key and value form one unit, unless all heads share one key and
 * value.
 */
#include "nn/units.h"
#include "nn/part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct axis {
    const char *option; /* the option that counts the units */
    bool alike;         /* all layers lose the same units, because layers pass these units to each other */
} axes[WEFT_UNITS] = {
    [WEFT_UNITS_HEADS] = {"heads"}, [WEFT_UNITS_CHANNELS] = {"ffn_width"},         [WEFT_UNITS_M1] = {"m1_width"},
    [WEFT_UNITS_M2] = {"m2_rank"},  [WEFT_UNITS_M3] = {"m3_width", .alike = true},
};

/* ---- units */

struct value_of {
    const char *name;
    int64_t value;
};

static void look(void *context, const struct weft_opt *opt, const char *value)
{
    struct value_of *v = context;
    if (strcmp(opt->name, v->name) == 0 && !weft_text_int(value, &v->value))
        v->value = 0;
}

/* Returns the value of an integer option, or 0 if the model has no such option. */
static int64_t option(const struct weft_spec *spec, const char *name)
{
    struct value_of v = {name, 0};
    weft_spec_each(spec, &v, look);
    return v.value;
}

/* Returns whether this side of a weight has a row or column for each unit. */
static bool passes(const struct weft_param *w, int side, enum weft_units what)
{
    return side < 2 && w->unit[side] && strcmp(w->unit[side], axes[what].option) == 0;
}

int64_t weft_nn_units(const struct weft_nn *model, enum weft_units what)
{
    const struct weft_spec *spec = model->spec;
    bool any = false;
    if (what == WEFT_UNITS_HEADS)
        return spec->kv_heads > 1 ? spec->kv_heads : spec->heads;
    for (int i = 0; i < model->params.count; i++)
        any |= passes(&model->params.list[i], 0, what) || passes(&model->params.list[i], 1, what);
    return any ? option(spec, axes[what].option) : 0;
}

static enum weft_status refuse_of(const struct weft_chosen *c, const struct weft_spec *spec, enum weft_units what)
{
    const char *why = c->part->keeps_all ? c->part->keeps_all(spec, c->options, axes[what].option) : NULL;
    return why ? FAIL(WEFT_UNSUPPORTED, "%s", why) : WEFT_OK;
}

/* Rejects models in which the index of a unit matters, because removing units changes the indices of later ones. */
static enum weft_status refuse(const struct weft_nn *model, enum weft_units what)
{
    const struct weft_spec *spec = model->spec;
    for (int i = 0; i < spec->mechanism_count; i++)
        TRY(refuse_of(&spec->mechanism[i], spec, what));
    for (int kind = 0; kind < WEFT_SINGLE_KINDS; kind++)
        TRY(refuse_of(&spec->part[kind], spec, what));
    return WEFT_OK;
}

static void write_settings(struct weft_smaller *s)
{
    const struct weft_spec *spec = s->from->spec;
    char *text = s->settings;
    size_t size = sizeof s->settings;
    if (s->what != WEFT_UNITS_HEADS) {
        snprintf(text, size, "%s=%lld", axes[s->what].option, (long long)s->kept);
        return;
    }
    int n = snprintf(text, size, "heads=%lld head_width=%lld", (long long)(spec->heads / s->units * s->kept),
                     (long long)spec->head);
    if (spec->kv_heads > 1 && option(spec, "kv_heads"))
        snprintf(text + n, size - (size_t)n, " kv_heads=%lld", (long long)s->kept);
}

/* ---- fractions to remove */

int64_t weft_units_at(int64_t units, double share) { return (int64_t)(share * (double)units + 0.5); }

bool weft_shares_any(const struct weft_shares *s) { return s->heads > 0 || s->channels > 0 || s->ranks > 0; }

double weft_shares_of(const struct weft_shares *s, const struct weft_nn *model, enum weft_units what)
{
    double share = what == WEFT_UNITS_HEADS ? s->heads : what == WEFT_UNITS_CHANNELS ? s->channels : s->ranks;
    return weft_nn_units(model, what) ? share : 0;
}

enum weft_status weft_shares_check(const struct weft_shares *s, const struct weft_nn *model)
{
    double ranks = 0;
    for (int what = WEFT_UNITS_M1; what < WEFT_UNITS; what++)
        ranks += weft_shares_of(s, model, (enum weft_units)what);
    return s->ranks > 0 && ranks == 0 ? FAIL(WEFT_INVALID, "no mechanism of this model has ranks that could be removed")
                                      : WEFT_OK;
}

/* ---- the elements of a unit */

/* Returns the layer whose units one side of a weight belongs to, or -1 outside the blocks. */
static int layer_of(const struct weft_param *w, int side) { return side == 0 ? w->rows_layer : w->layer; }

static bool is_shorter(const struct weft_smaller *s, int i, int d)
{
    return s->from->params.list[i].dim[d] != s->model->params.list[i].dim[d];
}

/* The elements of one unit along a side of a weight: `count` runs of `length` elements, `step` elements apart. */
struct runs {
    int64_t first, length, step, count;
};

static struct runs runs_of(const struct weft_smaller *s, int i, int d, int64_t unit)
{
    const struct weft_param *w = &s->from->params.list[i];
    struct runs r = {.step = 1};
    for (int k = d; k < w->ndim; k++)
        r.step *= w->dim[k];
    r.length = r.step / s->units;
    r.first = unit * r.length;
    r.count = w->count / r.step;
    return r;
}

void weft_smaller_each(const struct weft_smaller *s, int i, void *context,
                       void (*visit)(void *context, int64_t first, int64_t count))
{
    for (int d = 0; s->layer[i] >= 0 && d < s->from->params.list[i].ndim; d++)
        for (int64_t u = 0; is_shorter(s, i, d) && u < s->units; u++) {
            struct runs r = runs_of(s, i, d, u);
            for (int64_t k = 0; s->goes[s->layer[i] * s->units + u] && k < r.count; k++)
                visit(context, r.first + k * r.step, r.length);
        }
}

/* ---- importance */

static double sum_squares(const struct weft_smaller *s, int i, int d, int64_t unit)
{
    const float *values = s->from->params.weights + s->from->params.list[i].offset;
    struct runs r = runs_of(s, i, d, unit);
    double sum = 0;
    for (int64_t k = 0; k < r.count; k++)
        for (int64_t e = r.first + k * r.step; e < r.first + k * r.step + r.length; e++)
            sum += (double)values[e] * values[e];
    return sum;
}

static void find_importance(void *context, int64_t layer, int thread)
{
    (void)thread;
    const struct weft_smaller *s = context;
    struct weft_unit *list = s->list + layer * s->units;
    for (int64_t u = 0; u < s->units; u++)
        list[u] = (struct weft_unit){u, 1};
    for (int i = 0; i < s->from->params.count; i++) {
        const struct weft_param *w = &s->from->params.list[i];
        for (int d = 0; d < w->ndim; d++)
            for (int64_t u = 0; layer_of(w, d) == layer && passes(w, d, s->what) && is_shorter(s, i, d) && u < s->units;
                 u++)
                list[u].importance *= sum_squares(s, i, d, u);
    }
}

static void add_layers(const struct weft_smaller *s)
{
    for (int64_t u = 0; u < s->units; u++) {
        double sum = 0;
        for (int64_t layer = 0; layer < s->layers; layer++)
            sum += s->list[layer * s->units + u].importance;
        for (int64_t layer = 0; layer < s->layers; layer++)
            s->list[layer * s->units + u].importance = sum;
    }
}

/* Returns whether all weights of a unit are 0, including weights that do not count towards its importance. If all
 * layers lose the same units, checks the unit in all layers. */
static bool is_zero(const struct weft_smaller *s, int64_t layer, int64_t unit)
{
    for (int i = 0; i < s->from->params.count; i++) {
        bool here = s->layer[i] >= 0 && (axes[s->what].alike || s->layer[i] == layer);
        for (int d = 0; here && d < s->from->params.list[i].ndim; d++)
            if (is_shorter(s, i, d) && sum_squares(s, i, d, unit) != 0)
                return false;
    }
    return true;
}

/* ---- the choice */

static int goes_first(const void *a, const void *b)
{
    const struct weft_unit *x = a, *y = b;
    if (x->importance != y->importance)
        return x->importance < y->importance ? -1 : 1;
    return x->number > y->number ? -1 : 1;
}

static void choose(void *context, int64_t layer, int thread)
{
    (void)thread;
    const struct weft_smaller *s = context;
    struct weft_unit *list = s->list + layer * s->units;
    for (int64_t u = 0; u < s->units; u++)
        if (isnan(list[u].importance))
            list[u].importance = INFINITY; /* because NaN cannot be sorted */
        else if (list[u].importance == 0 && is_zero(s, layer, u))
            list[u].importance = -1;
    qsort(list, (size_t)s->units, sizeof *list, goes_first);
    for (int64_t k = 0; k < s->units; k++)
        s->goes[layer * s->units + list[k].number] = k < s->chosen;
}

void weft_smaller_choose(struct weft_smaller *s, int64_t count)
{
    s->chosen = count;
    weft_parallel(s->layers, find_importance, s);
    if (axes[s->what].alike)
        add_layers(s);
    weft_parallel(s->layers, choose, s);
}

/* ---- sizes */

/* Finds the sides that differ between the two models; each must consist of units of equal width. */
static enum weft_status find_sides(struct weft_smaller *s)
{
    const struct weft_params *p = &s->from->params, *q = &s->model->params;
    bool fits = p->count == q->count;
    for (int i = 0; fits && i < p->count; i++) {
        s->layer[i] = -1;
        fits = strcmp(p->list[i].name, q->list[i].name) == 0 && p->list[i].ndim == q->list[i].ndim;
        for (int d = 0; fits && d < p->list[i].ndim; d++) {
            int64_t width = p->list[i].dim[d] / s->units;
            int layer = layer_of(&p->list[i], d);
            if (!is_shorter(s, i, d))
                continue;
            fits = width > 0 && layer >= 0 && layer < s->layers && width * s->units == p->list[i].dim[d] &&
                   width * s->kept == q->list[i].dim[d];
            s->layer[i] = layer;
        }
        if (!fits)
            return FAIL(WEFT_UNSUPPORTED, "%s cannot be cut, because it cannot be divided into equal parts",
                        p->list[i].name);
    }
    return fits ? WEFT_OK
                : FAIL(WEFT_UNSUPPORTED, "a model with fewer %s would have different weights", axes[s->what].option);
}

enum weft_status weft_smaller_init(struct weft_smaller *s, const struct weft_nn *model, enum weft_units what,
                                   double share)
{
    *s = (struct weft_smaller){.from = model, .what = what, .layers = model->spec->layers};
    TRY(refuse(model, what));
    s->units = weft_nn_units(model, what);
    s->kept = s->units - weft_units_at(s->units, share);
    if (s->kept == s->units)
        return FAIL(WEFT_INVALID, "%g of %lld rounds to none: %s would not change", share, (long long)s->units,
                    axes[what].option);
    if (s->kept < 1)
        return FAIL(WEFT_INVALID, "%g of %lld rounds to all: part of %s must remain", share, (long long)s->units,
                    axes[what].option);
    write_settings(s);
    TRY(weft_spec_vary(&s->spec, model->spec, s->settings));
    TRY(weft_nn_create(&s->model, &s->spec));
    s->goes = calloc((size_t)(s->layers * s->units), sizeof *s->goes);
    s->list = calloc((size_t)(s->layers * s->units), sizeof *s->list);
    s->layer = calloc((size_t)model->params.count, sizeof *s->layer);
    if (!s->goes || !s->list || !s->layer)
        return FAIL(WEFT_NOMEM, "not enough memory for the importance scores of %s", axes[what].option);
    return find_sides(s);
}

void weft_smaller_release(struct weft_smaller *s)
{
    free(s->goes);
    free(s->list);
    free(s->layer);
    weft_nn_free(s->model);
    weft_spec_release(&s->spec);
    *s = (struct weft_smaller){0};
}
