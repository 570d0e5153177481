/* SPDX-License-Identifier: MIT
 *
 * block.c - a block, and the small steps that every part is built from.
 *
 *     pre:   x += drop(attn(norm(x)));  x += drop(ffn(norm(x)))
 *     post:  x = norm(x + drop(attn(x)));  x = norm(x + drop(ffn(x)))
 *
 * Without dropout the sum costs nothing: the residual is the last product's addend.
 */
#include "nn/nn.h"

#include <stdarg.h>

void weft_build_scope(struct weft_build *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(b->scope, sizeof b->scope, format, args);
    va_end(args);
}

struct weft_value *weft_build_weight(struct weft_build *b, const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s%s", b->scope, *b->scope ? "." : "", name);
    int i = weft_params_find(b->params, full);
    if (i < 0)
        return weft_graph_param(b->g, full, (struct weft_shape){.ndim = 1}); /* a bug here: the graph says its name */
    const struct weft_param *w = &b->params->list[i];
    struct weft_shape shape = {.ndim = w->ndim};
    for (int d = 0; d < w->ndim; d++)
        shape.dim[d] = weft_fixed(w->dim[d]);
    if (!b->weights[i])
        b->weights[i] = weft_graph_param(b->g, w->name, shape);
    return b->weights[i];
}

static struct weft_value *bias_of(struct weft_build *b, const char *name)
{
    char bias[64];
    snprintf(bias, sizeof bias, "%s_bias", name);
    return b->spec->bias ? weft_build_weight(b, bias) : NULL;
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

struct weft_value *weft_build_norm(struct weft_build *b, struct weft_value *x, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(b->scope, sizeof b->scope, format, args);
    va_end(args);
    return b->spec->part[WEFT_NORM]->build(b, x);
}

enum weft_dtype weft_build_norm_dtype(const struct weft_build *b)
{
    return b->spec->post ? WEFT_F32 : b->spec->compute;
}

struct weft_value *weft_build_turn(struct weft_build *b, struct weft_value *x, int64_t heads)
{
    const struct weft_variant *pos = b->spec->part[WEFT_POS];
    return pos->turn ? pos->turn(b, x, heads) : x;
}

/* The two parts of a block, and under which names they and their norms stand. */
static const struct {
    enum weft_part part;
    enum weft_site site;
    const char *name, *norm;
} halves[] = {{WEFT_ATTN, WEFT_SITE_ATTN, "attn", "norm1"}, {WEFT_FFN, WEFT_SITE_FFN, "ffn", "norm2"}};

void weft_block_params(struct weft_params *p, const struct weft_spec *spec, int layer)
{
    for (int i = 0; i < 2; i++) {
        weft_params_scope(p, "blocks.%d.%s", layer, halves[i].norm);
        spec->part[WEFT_NORM]->params(p, spec);
        weft_params_scope(p, "blocks.%d.%s", layer, halves[i].name);
        spec->part[halves[i].part]->params(p, spec);
    }
}

struct weft_value *weft_block(struct weft_build *b, struct weft_value *x, int layer)
{
    weft_graph_label(b->g, layer);
    b->layer = layer;
    for (int i = 0; i < 2; i++) {
        b->residual = x;
        b->site = halves[i].site;
        struct weft_value *in = b->spec->post ? weft_cast(b->g, x, b->spec->compute)
                                              : weft_build_norm(b, x, "blocks.%d.%s", layer, halves[i].norm);
        weft_build_scope(b, "blocks.%d.%s", layer, halves[i].name);
        x = b->spec->part[halves[i].part]->build(b, in);
        if (b->spec->post)
            x = weft_build_norm(b, x, "blocks.%d.%s", layer, halves[i].norm);
    }
    weft_graph_label(b->g, -1);
    return x;
}
