/* SPDX-License-Identifier: MIT
 *
 * layers.c - mutants in which a part has little or no effect in some layers or at late positions.
 */
#include "check/mutants/mutants.h"

#include <string.h>

#define DEEP "layers=5 context=200 batch=3 width=32 heads=4 "
enum { LATE = 4, LATE_POSITION = 64 };

/* ---- no effect in late layers */

static void m2_in_early_layers(struct weft_build *b, struct weft_instance *m, struct weft_hidden *h)
{
    if (b->layer < LATE)
        weft_recip_m2.hidden(b, m, h);
}

static void skip_m2(void) { WEFT_BREAK_PART(weft_mechanism, weft_recip_m2)->hidden = m2_in_early_layers; }

static struct weft_value *m1_in_early_layers(struct weft_build *b, struct weft_instance *m, struct weft_value *o)
{
    struct weft_value *gated = weft_recip_m1.heads(b, m, o);
    return b->layer < LATE ? gated : o;
}

static void skip_m1(void) { WEFT_BREAK_PART(weft_mechanism, weft_recip_m1)->heads = m1_in_early_layers; }

static struct weft_value *rotate_early_layers(struct weft_build *b, const void *options, struct weft_value *x,
                                              int64_t heads, enum weft_side side)
{
    return b->layer < LATE ? weft_pos_rope.rotate(b, options, x, heads, side) : x;
}

static void skip_rope(void) { WEFT_BREAK_PART(weft_pos, weft_pos_rope)->rotate = rotate_early_layers; }

static struct weft_value *bias_of_early_layers(struct weft_build *b, const void *options)
{
    return b->layer < LATE ? weft_pos_alibi.bias(b, options) : NULL;
}

static void skip_alibi(void) { WEFT_BREAK_PART(weft_pos, weft_pos_alibi)->bias = bias_of_early_layers; }

/* Makes layer LATE read the weights of the previous layer. */
static struct weft_value *share_weights(struct weft_build *b, const void *options, struct weft_value *x)
{
    struct weft_scope own = b->scope;
    if (b->layer == LATE)
        weft_build_scope(b, "blocks.%d.ffn", LATE - 1);
    struct weft_value *h = weft_ffn_gelu.build(b, options, x);
    b->scope = own;
    return h;
}

static void share_gelu(void) { WEFT_BREAK_PART(weft_ffn, weft_ffn_gelu)->build = share_weights; }

/* ---- almost no effect, or none at late positions */

static void saturated_params(struct weft_params *p, const struct weft_spec *spec, const void *options)
{
    int before = p->count;
    weft_recip_m1.part.params(p, spec, options);
    for (int i = before; i < p->count; i++)
        if (strstr(p->list[i].name, ".bias"))
            p->list[i].init_value = 40;
}

static void saturate_m1(void) { WEFT_BREAK_PART(weft_mechanism, weft_recip_m1)->part.params = saturated_params; }

static void scale_heads(const struct weft_call *call, void (*kernel)(const struct weft_call *))
{
    const struct weft_tensor *o = call->in[0];
    int64_t width = weft_tensor_width(o), first = LATE_POSITION * width, count = weft_tensor_count(o);
    kernel(call);
    for (int64_t i = first; i < count; i++)
        weft_tensor_set(call->out[0], i, weft_tensor_get(o, i));
}

static void gate_early_rows(const struct weft_call *call)
{
    scale_heads(call, weft_sound_op(WEFT_OP_gate_heads)->fwd.run);
}
static void gate_early_rows_ref(const struct weft_call *call)
{
    scale_heads(call, weft_sound_op(WEFT_OP_gate_heads)->fwd.ref);
}

static void forget_late_rows(void)
{
    struct weft_op *op = weft_break_op(WEFT_OP_gate_heads);
    op->fwd.run = gate_early_rows;
    op->fwd.ref = gate_early_rows_ref;
    op->inplace = 0;
}

const struct weft_mutant weft_mutants_layers[] = {
    {"M2 is missing in the last layer", DEEP "m2=yes", .gate = WEFT_GATE_LIVE, .check = "graph is the same",
     .install = skip_m2},
    {"M1's gate is ignored by the last layer", DEEP "m1=yes", .gate = WEFT_GATE_LIVE,
     .check = "weights without a gradient", .install = skip_m1},
    {"rope is missing in the last layer", DEEP "pos=rope", .gate = WEFT_GATE_LIVE, .check = "graph is the same",
     .install = skip_rope},
    {"alibi is missing in the last layer", DEEP "pos=alibi", .gate = WEFT_GATE_LIVE, .check = "effect on the loss",
     .install = skip_alibi},
    {"two layers share their weights", DEEP, .gate = WEFT_GATE_LIVE, .check = "weights without a gradient",
     .install = share_gelu},
    {"M1's gate is saturated", DEEP "m1=yes", .gate = WEFT_GATE_LIVE, .check = "effect on the loss",
     .install = saturate_m1},
    {"M1 gates only the first rows of a batch", DEEP "m1=yes", .gate = WEFT_GATE_LIVE,
     .check = "at the last 50 positions", .install = forget_late_rows},
    {0},
};
