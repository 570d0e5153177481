/* SPDX-License-Identifier: MIT
 *
 * block.c - a block: attention, then the feed-forward with the mechanisms that work on it.
 *
 *     pre:   x += drop(attn(norm(x)));  x += drop(ffn(norm(x)))
 *     post:  x = norm(x + drop(attn(x)));  x = norm(x + drop(ffn(x)))
 *
 * Without dropout the sum costs nothing: the residual is the last product's addend.
 */
#include "nn/nn.h"

/* ---- attention: heads' outputs, gates, projection */

static void attn_params(struct weft_params *p, const struct weft_spec *spec)
{
    int64_t heads = spec->heads * spec->head;
    spec->part[WEFT_ATTN]->params(p, spec);
    if (spec->part[WEFT_GEOM]->params)
        spec->part[WEFT_GEOM]->params(p, spec);
    if (spec->part[WEFT_POS]->bias_params)
        spec->part[WEFT_POS]->bias_params(p, spec);
    if (spec->output_gate)
        weft_params_matrix(p, "wg", heads, spec->width, WEFT_DEVIATION);
    weft_params_project(p, spec, "wo", spec->width, heads);
}

static struct weft_value *attn(struct weft_build *b, struct weft_value *x)
{
    struct weft_value *o = b->spec->part[WEFT_ATTN]->build(b, x);
    if (b->gate.value) {
        o = weft_gate_heads(b->g, o, b->gate.value, b->gate.alpha);
        weft_graph_remake(o);
    }
    b->gate = (struct weft_carry){0};
    if (b->spec->output_gate) {
        o = weft_mul(b->g, o, weft_sigmoid(b->g, weft_build_product(b, x, "wg")));
        weft_graph_remake(o);
    }
    return weft_build_project(b, o, "wo");
}

/* ---- feed-forward: hidden activation, mechanisms, projection */

static void ffn_params(struct weft_params *p, const struct weft_spec *spec)
{
    spec->part[WEFT_FFN]->params(p, spec);
    weft_params_project(p, spec, spec->part[WEFT_FFN]->output, spec->width, spec->ffn_width);
}

static void recip_params(struct weft_params *p, const struct weft_spec *spec)
{
    for (int i = 0; i < WEFT_RECIP_COUNT; i++)
        if (spec->recip[i]) {
            weft_params_scope(p, "blocks.%d.%s", p->layer, spec->recip[i]->name);
            spec->recip[i]->params(p, spec);
        }
}

static struct weft_value *ffn(struct weft_build *b, struct weft_value *x)
{
    const struct weft_variant *part = b->spec->part[WEFT_FFN];
    struct weft_hidden h = {.base = part->build(b, x)};
    for (int i = 0; i < WEFT_RECIP_COUNT; i++) {
        if (!b->spec->recip[i] || !b->spec->recip[i]->hidden)
            continue;
        weft_build_scope(b, "blocks.%d.%s", b->layer, b->spec->recip[i]->name);
        b->spec->recip[i]->hidden(b, &h);
    }
    struct weft_value *whole = weft_hidden_whole(b, &h);
    weft_build_scope(b, "blocks.%d.ffn", b->layer);
    return weft_build_project(b, whole, part->output);
}

/* ---- the block */

/* The two parts of a block, and under which names they and their norms stand. */
static const struct {
    enum weft_site site;
    const char *name, *norm;
    void (*params)(struct weft_params *p, const struct weft_spec *spec);
    struct weft_value *(*build)(struct weft_build *b, struct weft_value *x);
} halves[] = {{WEFT_SITE_ATTN, "attn", "norm1", attn_params, attn}, {WEFT_SITE_FFN, "ffn", "norm2", ffn_params, ffn}};

void weft_block_params(struct weft_params *p, const struct weft_spec *spec, int layer)
{
    p->layer = layer;
    for (int i = 0; i < 2; i++) {
        weft_params_scope(p, "blocks.%d.%s", layer, halves[i].norm);
        spec->part[WEFT_NORM]->params(p, spec);
        weft_params_scope(p, "blocks.%d.%s", layer, halves[i].name);
        halves[i].params(p, spec);
    }
    recip_params(p, spec);
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
        x = halves[i].build(b, in);
        if (b->spec->post)
            x = weft_build_norm(b, x, "blocks.%d.%s", layer, halves[i].norm);
    }
    weft_graph_label(b->g, -1);
    return x;
}
