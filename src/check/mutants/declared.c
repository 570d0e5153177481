/* SPDX-License-Identifier: MIT
 *
 * declared.c - mutants that declare weights with a wrong role, group or unit, or layers that openly share weights.
 */
#include "check/mutants/mutants.h"

#include <string.h>

/* ---- roles, groups and units of weights */

static bool is_named(const struct weft_param *w, const char *name)
{
    const char *dot = strrchr(w->name, '.');
    return strcmp(dot ? dot + 1 : w->name, name) == 0;
}

/* Declares the weights of a part, but changes the role and group of the weight with this name. */
static void declare_as(const struct weft_part *sound, struct weft_params *p, const struct weft_spec *spec,
                       const void *options, const char *name, enum weft_role role, enum weft_trained_as group)
{
    int before = p->count;
    sound->params(p, spec, options);
    for (int i = before; i < p->count; i++)
        if (is_named(&p->list[i], name)) {
            p->list[i].role = role;
            p->list[i].group = group;
            p->list[i].decay = group <= WEFT_TRAINED_HEAD;
        }
}

/* Defines the wrong declaration of one weight of a part, and the function that installs it. */
#define DECLARED(function, kind, whole, weight, role, group)                                                           \
    static void function##_params(struct weft_params *p, const struct weft_spec *spec, const void *options)            \
    {                                                                                                                  \
        declare_as(&(whole).part, p, spec, options, weight, role, group);                                              \
    }                                                                                                                  \
    static void function(void) { WEFT_BREAK_PART(kind, whole)->part.params = function##_params; }

DECLARED(positions_as_matrix, weft_pos, weft_pos_learned, "wpe", WEFT_MATRIX, WEFT_TRAINED_MATRIX)
DECLARED(values_into_stream, weft_attn, weft_attn_full, "wv", WEFT_INTO_STREAM, WEFT_TRAINED_MATRIX)
DECLARED(gate_as_head, weft_ffn, weft_ffn_swiglu, "w3", WEFT_HEAD, WEFT_TRAINED_HEAD)
DECLARED(latent_as_table, weft_attn, weft_attn_latent, "wdk", WEFT_TABLE, WEFT_TRAINED_EMBEDDING)
DECLARED(gain_as_matrix, weft_norm, weft_norm_rmsnorm, "gain", WEFT_VECTOR, WEFT_TRAINED_MATRIX)
DECLARED(router_as_vector, weft_mechanism, weft_recip_m2, "q", WEFT_MATRIX, WEFT_TRAINED_VECTOR)

static void no_units(struct weft_params *p, const struct weft_spec *spec, const void *options)
{
    weft_attn_full.part.params(p, spec, options);
    weft_params_units(p, "wv", NULL, NULL);
}

static void forget_heads(void) { WEFT_BREAK_PART(weft_attn, weft_attn_full)->part.params = no_units; }

/* ---- layers that declare fewer or more weights than others */

/* Layers 3 and 5 read the weights of layer 2 and declare none. */
static bool borrows(int layer) { return layer == 3 || layer == 5; }

static void declare_few(struct weft_params *p, const struct weft_spec *spec, const void *options)
{
    if (!borrows(p->layer))
        weft_ffn_swiglu.part.params(p, spec, options);
}

static struct weft_value *borrow(struct weft_build *b, const void *options, struct weft_value *x)
{
    struct weft_scope own = b->scope;
    if (borrows(b->layer))
        weft_build_scope(b, "blocks.%d.ffn", 2);
    struct weft_value *h = weft_ffn_swiglu.build(b, options, x);
    b->scope = own;
    return h;
}

static void borrow_openly(void)
{
    struct weft_ffn *ffn = WEFT_BREAK_PART(weft_ffn, weft_ffn_swiglu);
    ffn->part.params = declare_few;
    ffn->build = borrow;
}

/* Odd layers, from layer 3, use the norms of the previous layer. */
static void declare_even(struct weft_params *p, const struct weft_spec *spec, const void *options)
{
    if (p->layer < 3 || p->layer % 2 == 0)
        weft_norm_layernorm.part.params(p, spec, options);
}

static struct weft_value *norm_before(struct weft_build *b, const void *options, struct weft_value *x)
{
    struct weft_scope own = b->scope;
    const char *name = strrchr(b->scope.text, '.');
    if (name && b->layer >= 3 && b->layer % 2)
        weft_build_scope(b, "blocks.%d.%s", b->layer - 1, strrchr(own.text, '.') + 1);
    struct weft_value *y = weft_norm_layernorm.build(b, options, x);
    b->scope = own;
    return y;
}

static void share_norms(void)
{
    struct weft_norm *norm = WEFT_BREAK_PART(weft_norm, weft_norm_layernorm);
    norm->part.params = declare_even;
    norm->build = norm_before;
}

/* Late layers have a second bias. */
static void declare_more(struct weft_params *p, const struct weft_spec *spec, const void *options)
{
    weft_ffn_gelu.part.params(p, spec, options);
    if (p->layer >= 4)
        weft_params_vector(p, "more", spec->ffn_width, 0.5);
}

static struct weft_value *add_more(struct weft_build *b, const void *options, struct weft_value *x)
{
    struct weft_value *h = weft_ffn_gelu.build(b, options, x);
    return b->layer >= 4 ? weft_bias(b->g, h, weft_build_weight(b, "more")) : h;
}

static void grow_late(void)
{
    struct weft_ffn *ffn = WEFT_BREAK_PART(weft_ffn, weft_ffn_gelu);
    ffn->part.params = declare_more;
    ffn->build = add_more;
}

/* The fourth layer has its own weights and also reads those of the first. */
static struct weft_value *read_both(struct weft_build *b, const void *options, struct weft_value *x)
{
    struct weft_scope own = b->scope;
    struct weft_value *h = weft_ffn_swiglu.build(b, options, x);
    if (b->layer != 3)
        return h;
    weft_build_scope(b, "blocks.%d.ffn", 0);
    struct weft_value *first = weft_ffn_swiglu.build(b, options, x);
    b->scope = own;
    return weft_add(b->g, h, first);
}

static void read_first(void) { WEFT_BREAK_PART(weft_ffn, weft_ffn_swiglu)->build = read_both; }

/* ---- the list */

#define DEEP "layers=6 context=48 batch=2 width=32 heads=4 "
#define ROLE .gate = WEFT_GATE_LIVE, .check = "weights whose declared role"
#define GROUP .gate = WEFT_GATE_LIVE, .check = "trained in the group of another role"
#define ALIKE .gate = WEFT_GATE_ACCOUNTED, .check = "layers that do not declare the same weights"
const struct weft_mutant weft_mutants_declared[] = {
    {"learned positions are declared as a matrix", "pos=learned", ROLE, .install = positions_as_matrix},
    {"values are declared to write into the stream", "attn=full kv_heads=1", ROLE, .install = values_into_stream},
    {"a gate is declared as the head", "ffn=swiglu", ROLE, .install = gate_as_head},
    {"a latent's projection is declared as a table", "attn=latent latent_width=12", ROLE, .install = latent_as_table},
    {"gains of norms are trained as matrices", "norm=rmsnorm", GROUP, .install = gain_as_matrix},
    {"M2's matrix is trained as a vector", "m2=yes", GROUP, .install = router_as_vector},
    {"values do not count heads", "attn=full", .gate = WEFT_GATE_STEPPED, .check = "pruned",
     .training = "prune_heads=0.5", .install = forget_heads},
    {"two layers borrow the weights of a third", DEEP "ffn=swiglu", ALIKE, .install = borrow_openly},
    {"odd layers share the norms of the previous layer", DEEP "norm=layernorm", ALIKE, .install = share_norms},
    {"late layers have one more weight", DEEP "ffn=gelu", ALIKE, .install = grow_late},
    {"the fourth layer also reads the first one's weights", DEEP "ffn=swiglu", .gate = WEFT_GATE_ACCOUNTED,
     .check = "weights that another layer reads", .install = read_first},
    {0},
};
