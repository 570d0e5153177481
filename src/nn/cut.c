/* SPDX-License-Identifier: MIT
 *
 * cut.c - a smaller model of a model: heads, channels of the feed-forward, or ranks of mechanisms are left out.
 *
 * Every layer loses as many units, so the result is a model like any other, with other sizes. Which ones is for each
 * layer to choose: those of the least importance, which is the product of the norms of a unit's rows and columns in the
 * weights that it goes through (the table below). What a unit writes is at most as large as that, and a unit that
 * writes nothing goes first. Of equally important ones, the last go.
 *
 * The weights of the smaller model say which of their sides are shorter. Such a side is a row of units, each as wide as
 * the others. Heads that share a key and value are one unit, unless all do.
 */
#include "nn/model.h"
#include "nn/part.h"

#include <stdlib.h>
#include <string.h>

enum { WEIGHTS = 5 };

static const struct axis {
    const char *option;           /* that has their number */
    const char *weights[WEIGHTS]; /* that a unit goes through, without "blocks.N." */
    bool alike;                   /* all layers lose the same, because they pass units to each other */
} axes[WEFT_UNITS] = {
    [WEFT_UNITS_HEADS] = {"heads", {"attn.wo", "attn.wv", "attn.wb"}},
    [WEFT_UNITS_CHANNELS] = {"ffn_width", {"ffn.proj", "ffn.fc", "ffn.w1", "ffn.w2", "ffn.w3"}},
    [WEFT_UNITS_M1] = {"m1_width", {"m1.w1", "m1.w2"}},
    [WEFT_UNITS_M2] = {"m2_rank", {"m2.p", "m2.q"}},
    [WEFT_UNITS_M3] = {"m3_width", {"m3.wc", "m3.w"}, .alike = true},
};

struct cutting {
    const struct axis *axis;
    const struct weft_nn *from, *to;
    int64_t units, kept, layers;
    double *importance; /* [layers][units] */
    double *squares;    /* [units], of one side of a weight */
    int64_t *keep;      /* [layers][kept], ascending */
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

/* 0 where the model has no such option, or it is 0. */
static int64_t option(const struct weft_spec *spec, const char *name)
{
    struct value_of v = {name, 0};
    weft_spec_each(spec, &v, look);
    return v.value;
}

static bool has(const struct weft_nn *model, int layer, const char *weight)
{
    char name[128];
    snprintf(name, sizeof name, "blocks.%d.%s", layer, weight);
    return weft_params_find(&model->params, name) >= 0;
}

int64_t weft_nn_units(const struct weft_nn *model, enum weft_units what)
{
    const struct weft_spec *spec = model->spec;
    if (what == WEFT_UNITS_HEADS)
        return spec->kv_heads > 1 ? spec->kv_heads : spec->heads;
    if (what == WEFT_UNITS_CHANNELS)
        return spec->ffn_width;
    return has(model, 0, axes[what].weights[0]) ? option(spec, axes[what].option) : 0;
}

/* What depends on the number of a unit, which changes when those before it go. */
static enum weft_status refuse(const struct weft_nn *model, enum weft_units what)
{
    const struct weft_pos *pos = weft_spec_pos(model->spec);
    if (what == WEFT_UNITS_HEADS && pos->bias && !pos->bias_params)
        return FAIL(WEFT_UNSUPPORTED, "pos=%s gives every head a number by its place: no head can be left out",
                    pos->part.name);
    if (what <= WEFT_UNITS_CHANNELS && has(model, 0, "m3.gamma"))
        return FAIL(WEFT_UNSUPPORTED,
                    "m3_tying=per_head_scalar couples heads and channels by their places: neither can "
                    "be left out");
    if (what == WEFT_UNITS_CHANNELS && has(model, 0, "ffn.wz"))
        return FAIL(WEFT_UNSUPPORTED, "ffn=ws divides the channels into heads by their places: none can be left out");
    if (what == WEFT_UNITS_M3 && has(model, 0, "m3.gamma"))
        return FAIL(WEFT_UNSUPPORTED, "m3_tying=per_head_scalar has no ranks");
    return WEFT_OK;
}

static void write_settings(const struct cutting *c, char *text, size_t size)
{
    const struct weft_spec *spec = c->from->spec;
    if (c->axis != &axes[WEFT_UNITS_HEADS]) {
        snprintf(text, size, "%s=%lld", c->axis->option, (long long)c->kept);
        return;
    }
    int n = snprintf(text, size, "heads=%lld head_width=%lld", (long long)(spec->heads / c->units * c->kept),
                     (long long)spec->head);
    if (spec->kv_heads > 1 && option(spec, "kv_heads"))
        snprintf(text + n, size - (size_t)n, " kv_heads=%lld", (long long)c->kept);
}

/* ---- importance */

/* The layer whose units a weight has; -1: outside the blocks. M1 gates the heads of the next layer. */
static int layer_of(const struct cutting *c, const char *name)
{
    int layer;
    char part[64];
    if (sscanf(name, "blocks.%d.%63[^.]", &layer, part) != 2)
        return -1;
    return layer + (c->axis == &axes[WEFT_UNITS_HEADS] && strcmp(part, "m1") == 0);
}

/* Elements between two neighbours along a side, and how many a unit has of it; 0: the side is not cut. */
struct side {
    int64_t stride, width;
};

static struct side side_of(const struct cutting *c, int i, int d)
{
    const struct weft_param *big = &c->from->params.list[i], *small = &c->to->params.list[i];
    struct side s = {.stride = 1};
    for (int k = d + 1; k < big->ndim; k++)
        s.stride *= big->dim[k];
    s.width = big->dim[d] == small->dim[d] ? 0 : big->dim[d] / c->units;
    return s;
}

/* Each side that differs is a whole number of equal units. */
static enum weft_status check_sides(const struct cutting *c)
{
    const struct weft_params *p = &c->from->params, *q = &c->to->params;
    bool fits = p->count == q->count;
    for (int i = 0; fits && i < p->count; i++) {
        fits = strcmp(p->list[i].name, q->list[i].name) == 0 && p->list[i].ndim == q->list[i].ndim;
        for (int d = 0; fits && d < p->list[i].ndim; d++) {
            int64_t width = side_of(c, i, d).width, layer = layer_of(c, p->list[i].name);
            bool cut = p->list[i].dim[d] != q->list[i].dim[d];
            fits = !cut || (width > 0 && layer >= 0 && layer < c->layers && width * c->units == p->list[i].dim[d] &&
                            width * c->kept == q->list[i].dim[d]);
        }
        if (!fits)
            return FAIL(WEFT_UNSUPPORTED, "%s has no equal parts of which some could be left out", p->list[i].name);
    }
    return fits ? WEFT_OK : FAIL(WEFT_UNSUPPORTED, "a model with fewer %s has other weights", c->axis->option);
}

static void multiply(struct cutting *c, int i, double *importance)
{
    const struct weft_param *w = &c->from->params.list[i];
    const float *values = c->from->params.weights + w->offset;
    for (int d = 0; d < w->ndim; d++) {
        struct side s = side_of(c, i, d);
        if (!s.width)
            continue;
        memset(c->squares, 0, (size_t)c->units * sizeof *c->squares);
        for (int64_t e = 0; e < w->count; e++)
            c->squares[e / s.stride % w->dim[d] / s.width] += (double)values[e] * values[e];
        for (int64_t u = 0; u < c->units; u++)
            importance[u] *= c->squares[u];
    }
}

static void find_importance(struct cutting *c)
{
    for (int64_t i = 0; i < c->layers * c->units; i++)
        c->importance[i] = 1;
    for (int layer = 0; layer < c->layers; layer++)
        for (int k = 0; k < WEIGHTS && c->axis->weights[k]; k++) {
            char name[128];
            snprintf(name, sizeof name, "blocks.%d.%s", layer, c->axis->weights[k]);
            int i = weft_params_find(&c->from->params, name);
            if (i >= 0)
                multiply(c, i, c->importance + layer * c->units);
        }
    for (int64_t u = 0; c->axis->alike && u < c->units; u++) {
        double sum = 0;
        for (int64_t layer = 0; layer < c->layers; layer++)
            sum += c->importance[layer * c->units + u];
        for (int64_t layer = 0; layer < c->layers; layer++)
            c->importance[layer * c->units + u] = sum;
    }
}

static void choose(struct cutting *c)
{
    for (int64_t layer = 0; layer < c->layers; layer++) {
        const double *x = c->importance + layer * c->units;
        int64_t *keep = c->keep + layer * c->kept;
        for (int64_t u = 0; u < c->units; u++) {
            int64_t before = 0;
            for (int64_t v = 0; v < c->units; v++)
                before += x[v] > x[u] || (x[v] == x[u] && v < u);
            if (before < c->kept)
                *keep++ = u;
        }
    }
}

/* ---- copying */

static void copy_weight(const struct cutting *c, int i)
{
    const struct weft_param *big = &c->from->params.list[i], *small = &c->to->params.list[i];
    const float *from = c->from->params.weights + big->offset;
    float *to = c->to->params.weights + small->offset;
    const int64_t *keep = c->keep + weft_max(0, layer_of(c, big->name)) * c->kept;
    struct side sides[WEFT_MAX_DIMS];
    for (int d = 0; d < big->ndim; d++)
        sides[d] = side_of(c, i, d);
    for (int64_t e = 0; e < small->count; e++) {
        int64_t rest = e, at = 0;
        for (int d = big->ndim - 1; d >= 0; d--) {
            int64_t n = rest % small->dim[d], width = sides[d].width;
            at += sides[d].stride * (width ? keep[n / width] * width + n % width : n);
            rest /= small->dim[d];
        }
        to[e] = from[at];
    }
}

static enum weft_status cut(struct cutting *c, struct weft_nn *to)
{
    c->layers = c->from->spec->layers;
    c->importance = calloc((size_t)(c->layers * c->units), sizeof *c->importance);
    c->squares = calloc((size_t)c->units, sizeof *c->squares);
    c->keep = calloc((size_t)(c->layers * c->kept), sizeof *c->keep);
    if (!c->importance || !c->squares || !c->keep)
        return FAIL(WEFT_NOMEM, "not enough memory for the importance of %s", c->axis->option);
    TRY(check_sides(c));
    TRY(weft_params_alloc(&to->params));
    find_importance(c);
    choose(c);
    for (int i = 0; i < to->params.count; i++)
        copy_weight(c, i);
    return WEFT_OK;
}

enum weft_status weft_nn_cut(struct weft_smaller *s, const struct weft_nn *model, enum weft_units what, double share)
{
    struct cutting c = {.axis = &axes[what], .from = model, .units = weft_nn_units(model, what)};
    *s = (struct weft_smaller){.units = c.units};
    TRY(refuse(model, what));
    s->kept = c.kept = c.units - (int64_t)(share * (double)c.units + 0.5);
    if (c.kept == c.units)
        return FAIL(WEFT_INVALID, "%g of %lld is none: nothing of %s would be left out", share, (long long)c.units,
                    c.axis->option);
    if (c.kept < 1)
        return FAIL(WEFT_INVALID, "%g of %lld is all: something of %s must be left", share, (long long)c.units,
                    c.axis->option);
    write_settings(&c, s->settings, sizeof s->settings);
    TRY(weft_spec_vary(&s->spec, model->spec, s->settings));
    TRY(weft_nn_create(&s->model, &s->spec));
    c.to = s->model;
    enum weft_status status = cut(&c, s->model);
    free(c.importance);
    free(c.squares);
    free(c.keep);
    return status;
}

void weft_smaller_release(struct weft_smaller *s)
{
    weft_nn_free(s->model);
    weft_spec_release(&s->spec);
    *s = (struct weft_smaller){0};
}
