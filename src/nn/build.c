/* SPDX-License-Identifier: MIT
 *
 * build.c - functions for building parts: weights by name, matmuls, the cache, loss terms, metrics.
 */
#include "nn/build.h"
#include "ops/ops.h"

#include <stdarg.h>
#include <string.h>

void weft_build_scope(struct weft_build *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(b->scope.text, sizeof b->scope.text, format, args);
    va_end(args);
}

struct weft_scope weft_build_enter(struct weft_build *b, const struct weft_instance *m)
{
    struct weft_scope before = b->scope;
    before.group = weft_graph_group(b->g, WEFT_GROUP_RECIP);
    weft_build_scope(b, "blocks.%d.%s", b->layer, m->mechanism->part.name);
    return before;
}

void weft_build_leave(struct weft_build *b, struct weft_scope before)
{
    weft_graph_group(b->g, before.group);
    b->scope = before;
}

struct weft_instance *weft_build_next(const struct weft_build *b, struct weft_instance *m)
{
    struct weft_instance *end = b->mechanism + b->model->spec->mechanism_count;
    for (m = m ? m + 1 : b->mechanism; m < end; m++)
        if (m->options)
            return m;
    return NULL;
}

/* ---- weights and matmuls */

/* Makes the graph fail because a part uses a weight that it does not declare; the message lists the declared weights of
 * the same scope. */
static void refuse_weight(struct weft_build *b, const char *full)
{
    const char *names[64] = {NULL};
    char list[600] = "";
    size_t scope = strlen(b->scope.text) + (*b->scope.text ? 1 : 0), used = 0;
    int n = 0;
    for (int i = 0; i < b->params->count && n < 64 && used < sizeof list; i++) {
        const char *declared = b->params->list[i].name;
        if (strncmp(declared, full, scope) != 0)
            continue;
        names[n] = declared + scope;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", n ? ", " : "", names[n]);
        n++;
    }
    const char *near = weft_suggest(full + scope, names, n);
    weft_graph_fail(b->g,
                    FAIL(WEFT_INVALID, "the weight %s is not declared in params(), which declares %s%s%s%s", full,
                         n ? list : "nothing here", near ? ": did you mean " : "", near ? near : "", near ? "?" : ""));
}

struct weft_value *weft_build_weight(struct weft_build *b, const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s%s", b->scope.text, *b->scope.text ? "." : "", name);
    int i = weft_params_find(b->params, full);
    if (i < 0) {
        refuse_weight(b, full);
        return NULL;
    }
    const struct weft_param *w = &b->params->list[i];
    struct weft_shape shape = {.ndim = w->ndim};
    for (int d = 0; d < w->ndim; d++)
        shape.dim[d] = weft_fixed(w->dim[d]);
    struct weft_value **value = &b->net->weights[i];
    if (!*value)
        *value = weft_graph_param(b->g, w->name, shape);
    return *value;
}

bool weft_build_has(const struct weft_build *b, const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s%s", b->scope.text, *b->scope.text ? "." : "", name);
    return weft_params_find(b->params, full) >= 0;
}

static struct weft_value *bias_of(struct weft_build *b, const char *name)
{
    char bias[64];
    snprintf(bias, sizeof bias, "%s_bias", name);
    return weft_build_has(b, bias) ? weft_build_weight(b, bias) : NULL;
}

struct weft_value *weft_build_head(struct weft_build *b)
{
    struct weft_scope scope = b->scope;
    weft_build_scope(b, "%s", "");
    struct weft_value *head = weft_build_weight(b, b->spec->tie ? "wte" : "head");
    b->scope = scope;
    return head;
}

struct weft_value *weft_build_product(struct weft_build *b, struct weft_value *x, const char *name)
{
    return weft_linear(b->g, x, weft_build_weight(b, name), NULL, NULL, b->spec->compute);
}

struct weft_value *weft_build_linear(struct weft_build *b, struct weft_value *x, const char *name)
{
    return weft_linear(b->g, x, weft_build_weight(b, name), bias_of(b, name), NULL, b->spec->compute);
}

struct weft_value *weft_build_project(struct weft_build *b, struct weft_value *x, const char *name)
{
    struct weft_value *w = weft_build_weight(b, name), *bias = bias_of(b, name);
    if (b->dropout == 0)
        return weft_linear(b->g, x, w, bias, b->residual, WEFT_F32);
    struct weft_value *y = weft_linear(b->g, x, w, bias, NULL, WEFT_F32);
    return weft_add(b->g, b->residual, weft_dropout(b->g, y, &b->rows, b->dropout, b->layer, b->site));
}

struct weft_value *weft_build_spread(struct weft_build *b, struct weft_value *raw)
{
    return weft_softplus(b->g, raw, WEFT_SPREAD_LEAST);
}

struct weft_value *weft_build_alpha(struct weft_build *b, double alpha)
{
    if (b->spec->learn_alpha)
        return weft_build_weight(b, "alpha");
    return weft_fill(b->g, alpha, WEFT_SHAPE(weft_fixed(1)));
}

struct weft_value *weft_build_narrow(struct weft_build *b, struct weft_value *x)
{
    if (b->spec->wider == 1 || !x)
        return x;
    return weft_mix(b->g, NULL, x, weft_fill(b->g, 1 / b->spec->wider, WEFT_SHAPE(weft_fixed(1))));
}

struct weft_value *weft_build_detach(struct weft_build *b, struct weft_value *x)
{
    return b->spec->detach && x ? weft_detach(b->g, x) : x;
}

/* ---- norms and positions */

struct weft_value *weft_build_norm(struct weft_build *b, struct weft_value *x, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(b->scope.text, sizeof b->scope.text, format, args);
    va_end(args);
    return weft_spec_norm(b->spec)->build(b, b->spec->part[WEFT_NORM].options, x);
}

enum weft_dtype weft_build_norm_dtype(const struct weft_build *b)
{
    return b->spec->post ? WEFT_F32 : b->spec->compute;
}

struct weft_value *weft_build_rotate(struct weft_build *b, struct weft_value *x, int64_t heads, enum weft_side side)
{
    const struct weft_pos *pos = weft_spec_pos(b->spec);
    return pos->rotate ? pos->rotate(b, b->spec->part[WEFT_POS].options, x, heads, side) : x;
}

/* ---- loss terms */

void weft_build_loss(struct weft_build *b, const char *name, struct weft_value *value)
{
    struct weft_net *net = b->net;
    for (int i = 0; i < net->term_count; i++)
        if (strcmp(net->terms[i].name, name) == 0) {
            net->terms[i].value = weft_add(b->g, net->terms[i].value, value);
            return;
        }
    if (net->term_count == WEFT_MAX_TERMS) {
        weft_graph_fail(b->g, FAIL(WEFT_INVALID, "%s: cannot add the loss term %s: a model has at most %d",
                                   b->scope.text, name, WEFT_MAX_TERMS));
        return;
    }
    net->terms[net->term_count++] = (struct weft_term){name, value};
}

/* Returns whether a metric of this name can be added in this layer. */
static bool has_room(const struct weft_net *net, int layer, const char *name)
{
    int names = 0;
    bool known = false;
    for (int i = 0; i < net->watch_count; i++) {
        const struct weft_watch *w = &net->watches[i];
        bool first = true;
        for (int k = 0; k < i; k++)
            first = first && strcmp(net->watches[k].name, w->name) != 0;
        names += first;
        if (strcmp(w->name, name) == 0 && w->layer == layer)
            return false;
        known |= strcmp(w->name, name) == 0;
    }
    return known || names < WEFT_MAX_WATCHES;
}

void weft_build_watch(struct weft_build *b, const char *name, struct weft_value *value)
{
    struct weft_net *net = b->net;
    if (!value)
        return;
    if (!has_room(net, b->layer, name)) {
        weft_graph_fail(b->g,
                        FAIL(WEFT_INVALID,
                             "%s: cannot watch %s: a model has at most %d watched names, each at most once per layer",
                             b->scope.text, name, WEFT_MAX_WATCHES));
        return;
    }
    weft_graph_output(b->g, value);
    net->watches[net->watch_count++] = (struct weft_watch){name, b->layer, value};
}

/* ---- the cache */

static struct weft_value *slot(struct weft_build *b, const char *name, enum weft_lifetime lifetime,
                               enum weft_dtype dtype, int64_t width)
{
    struct weft_net *net = b->net;
    char full[128];
    snprintf(full, sizeof full, "%s.%s", b->scope.text, name);
    int rows[] = {net->store_rows, net->ring_rows, net->sequences};
    struct weft_shape shape = WEFT_SHAPE(weft_times(rows[lifetime], 1), weft_fixed(width));
    struct weft_value *state = weft_graph_state(b->g, full, dtype, shape);
    if (net->slot_count == net->slot_room) {
        weft_graph_fail(b->g, FAIL(WEFT_INVALID, "%s: cannot add the cache %s: a model with %lld layers has at most %d",
                                   b->scope.text, name, (long long)b->spec->layers, net->slot_room));
        return NULL;
    }
    net->slots[net->slot_count++] = (struct weft_slot){state ? state->name : name, lifetime, width, state};
    return state;
}

bool weft_build_decodes(struct weft_build *b)
{
    if (b->use != WEFT_DECODE)
        return false;
    b->net->decodes_apart = true;
    return true;
}

struct weft_value *weft_build_keep(struct weft_build *b, const char *name, enum weft_lifetime lifetime,
                                   struct weft_value *x)
{
    if (!weft_build_cached(b) || !x)
        return x;
    struct weft_value *state = slot(b, name, lifetime, x->dtype, weft_shape_width(&x->shape));
    return weft_store(b->g, state, x, lifetime == WEFT_WINDOW ? b->net->ring : b->net->store);
}

struct weft_value *weft_build_mean(struct weft_build *b, const char *name, struct weft_value *x, bool whole)
{
    if (!weft_build_cached(b) || !x)
        return weft_prefix_mean(b->g, x, &b->rows, NULL, whole);
    struct weft_value *state = slot(b, name, WEFT_PER_SEQUENCE, WEFT_F32, weft_shape_width(&x->shape));
    struct weft_value *mean = weft_prefix_mean(b->g, x, &b->rows, state, whole);
    weft_store(b->g, state, mean ? weft_sibling(mean, 1) : NULL, b->net->lanes);
    return mean;
}
