/* SPDX-License-Identifier: MIT
 *
 * block.c - builds a block: attention, then the feed-forward with the mechanisms that act on it.
 *
 *     pre:   x += drop(attn(norm(x)));  x += drop(ffn(norm(x)))
 *     post:  x = norm(x + drop(attn(x)));  x = norm(x + drop(ffn(x)))
 *
 * Without dropout the residual sum is free, because it is the addend of the last matmul.
 */
#include "nn/build.h"
#include "ops/ops.h"

#include <string.h>

/* ---- attention: heads' outputs, gates, projection */

static void attn_params(struct weft_params *p, const struct weft_spec *spec)
{
    int64_t heads = spec->heads * spec->head;
    weft_chosen_params(&spec->part[WEFT_ATTN], p, spec);
    weft_chosen_params(&spec->part[WEFT_GEOM], p, spec);
    p->part = spec->part[WEFT_POS].part;
    if (weft_spec_pos(spec)->bias_params)
        weft_spec_pos(spec)->bias_params(p, spec, spec->part[WEFT_POS].options);
    p->part = NULL;
    if (spec->output_gate)
        weft_params_matrix(p, "wg", weft_grows(spec, heads), weft_grows(spec, spec->width), WEFT_DEVIATION);
    weft_params_project(p, spec, "wo", spec->width, heads);
    weft_params_units(p, "wo", NULL, "heads");
}

static struct weft_value *attn(struct weft_build *b, struct weft_value *x)
{
    struct weft_value *o = weft_spec_attn(b->spec)->build(b, b->spec->part[WEFT_ATTN].options, x);
    o = weft_build_heads(b, o);
    if (b->spec->output_gate) {
        o = weft_mul(b->g, o, weft_sigmoid(b->g, weft_build_product(b, x, "wg")));
        weft_graph_mark_recompute(o);
    }
    return weft_build_project(b, o, "wo");
}

/* ---- feed-forward: hidden activation, mechanisms, projection */

static const char *output_of(const struct weft_spec *spec)
{
    const char *name = weft_spec_ffn(spec)->output;
    return name ? name : "proj";
}

static void ffn_params(struct weft_params *p, const struct weft_spec *spec)
{
    weft_chosen_params(&spec->part[WEFT_FFN], p, spec);
    weft_params_project(p, spec, output_of(spec), spec->width, spec->ffn_width);
    weft_params_units(p, output_of(spec), NULL, "ffn_width");
}

static void mechanism_params(struct weft_params *p, const struct weft_spec *spec)
{
    for (int i = 0; i < spec->mechanism_count; i++) {
        weft_params_scope(p, "blocks.%d.%s", p->layer, spec->mechanism[i].part->name);
        weft_chosen_params(&spec->mechanism[i], p, spec);
    }
}

static struct weft_value *ffn(struct weft_build *b, struct weft_value *x)
{
    struct weft_hidden h = {.base = weft_spec_ffn(b->spec)->build(b, b->spec->part[WEFT_FFN].options, x)};
    for (struct weft_instance *m = NULL; (m = weft_build_next(b, m));)
        m->matrix = m->read = NULL;
    for (struct weft_instance *m = NULL; (m = weft_build_next(b, m));) {
        struct weft_scope scope = weft_build_enter(b, m);
        if (m->mechanism->hidden)
            m->mechanism->hidden(b, m, &h);
        weft_build_leave(b, scope);
    }
    return weft_build_project(b, weft_hidden_whole(b, &h), output_of(b->spec));
}

/* ---- the block */

/* The two halves of a block, and the names of their scopes and norms. */
static const struct {
    enum weft_site site;
    enum weft_group group;
    enum weft_half half;
    const char *name, *norm;
    void (*params)(struct weft_params *p, const struct weft_spec *spec);
    struct weft_value *(*build)(struct weft_build *b, struct weft_value *x);
} halves[] = {{WEFT_SITE_ATTN, WEFT_GROUP_ATTN, WEFT_HALF_ATTN, "attn", "norm1", attn_params, attn},
              {WEFT_SITE_FFN, WEFT_GROUP_FFN, WEFT_HALF_FFN, "ffn", "norm2", ffn_params, ffn}};

void weft_block_params(struct weft_params *p, const struct weft_spec *spec, int layer)
{
    p->layer = p->rows_layer = layer;
    for (int i = 0; i < 2; i++) {
        weft_params_scope(p, "blocks.%d.%s", layer, halves[i].norm);
        weft_chosen_params(&spec->part[WEFT_NORM], p, spec);
        weft_params_scope(p, "blocks.%d.%s", layer, halves[i].name);
        p->half = halves[i].half;
        halves[i].params(p, spec);
        p->half = WEFT_HALF_NONE;
    }
    mechanism_params(p, spec);
}

static const void *options_in(const struct weft_spec *spec, const struct weft_part *part)
{
    for (int i = 0; i < spec->mechanism_count; i++)
        if (spec->mechanism[i].part == part)
            return spec->mechanism[i].options;
    return NULL;
}

/* Switches to the spec of a layer, or back to the model's. Clears the state of a mechanism that the layer does not
 * have, so that it passes nothing on. */
static void use_spec(struct weft_build *b, const struct weft_spec *spec)
{
    const struct weft_spec *whole = b->model->spec;
    b->spec = spec;
    for (int i = 0; i < whole->mechanism_count; i++) {
        struct weft_instance *m = &b->mechanism[i];
        if (!m->options)
            memset(m->state, 0, m->mechanism->state_bytes);
        m->options = options_in(spec, &m->mechanism->part);
    }
}

struct weft_value *weft_block(struct weft_build *b, struct weft_value *x, int layer)
{
    const struct weft_nn *model = b->model;
    weft_graph_label(b->g, layer);
    b->layer = layer;
    use_spec(b, model->other && model->other_layer == layer ? model->other : model->spec);
    for (int i = 0; i < (b->only_attention ? 1 : 2); i++) {
        if (model->left_out && model->left_out[layer] >> i & 1)
            continue;
        b->residual = x;
        b->site = halves[i].site;
        struct weft_value *in = b->spec->post ? weft_cast(b->g, x, b->spec->compute)
                                              : weft_build_norm(b, x, "blocks.%d.%s", layer, halves[i].norm);
        weft_build_scope(b, "blocks.%d.%s", layer, halves[i].name);
        weft_graph_group(b->g, halves[i].group);
        x = halves[i].build(b, in);
        weft_graph_group(b->g, WEFT_GROUP_OTHER);
        if (b->spec->post)
            x = weft_build_norm(b, x, "blocks.%d.%s", layer, halves[i].norm);
    }
    use_spec(b, model->spec);
    weft_graph_label(b->g, -1);
    return x;
}
