/* SPDX-License-Identifier: MIT
 *
 * print_hints.c - what variables are called: after the weights and ops that they come from.
 */
#include "export/torch/print.h"
#include "nn/part.h"
#include "ops/ops.h"

#include <string.h>

static bool is_shape(enum weft_atom_kind kind) { return kind >= WEFT_ATOM_reshape && kind <= WEFT_ATOM_pad; }

/* The name of a matrix's result: wq gives q. Weights of mechanisms give the mechanism's name. */
static const char *weight_hint(struct weft_torch_printer *p, const char *name)
{
    static const char *const known[][2] = {{"wa", "k"},   {"wb", "v"},     {"wdk", "c_k"}, {"wdv", "c_v"},
                                           {"wo", "out"}, {"proj", "out"}, {"fc", "h"},    {"wte", "x"},
                                           {"w1", "up"},  {"w2", "out"},   {"w3", "gate"}};
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name, *scope = dot;
    while (scope && scope > name && scope[-1] != '.')
        scope--;
    if (scope && scope[0] == 'm' && scope[1] >= '0' && scope[1] <= '9')
        return weft_torch_text(p, "%.*s", (int)(dot - scope), scope);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(last, known[i][0]) == 0)
            return known[i][1];
    return weft_torch_text(p, "%s", last[0] == 'w' && last[1] ? last + 1 : last);
}

/* Returns whether an atom of a node is computed from one of this kind in the same node, or is one. */
static bool is_after(const struct weft_atom *a, const struct weft_node *node, enum weft_atom_kind kind)
{
    if (a->from != node)
        return false;
    for (int i = 0; i < 3 && a->in[i] && a->kind != kind; i++)
        if (is_after(a->in[i], node, kind))
            return true;
    return a->kind == kind;
}

static const char *attention_hint(const struct weft_atom *a)
{
    if (a->kind == WEFT_ATOM_softmax)
        return "probs";
    if (is_after(a, a->from, WEFT_ATOM_softmax))
        return "out";
    return is_after(a, a->from, WEFT_ATOM_matmul) ? "scores" : NULL;
}

/* Names by op; "" for the name of the first input that is not a constant. */
static const struct {
    enum weft_op_id op;
    const char *name;
} op_names[] = {{WEFT_OP_layernorm, "h"},
                {WEFT_OP_rmsnorm, "h"},
                {WEFT_OP_gelu, "h"},
                {WEFT_OP_silu, "h"},
                {WEFT_OP_swiglu, "h"},
                {WEFT_OP_temperature, "scale"},
                {WEFT_OP_head_bias, "bias"},
                {WEFT_OP_info_nce, "nce"},
                {WEFT_OP_prefix_mean, "mean"},
                {WEFT_OP_bucket_mean, "mean"},
                {WEFT_OP_bucket_spread, "spread"},
                {WEFT_OP_off_block, "outside"},
                {WEFT_OP_square_mean, "square"},
                {WEFT_OP_entropy, "entropy"},
                {WEFT_OP_square_sum, "square"}};

/* The part of a slot's name after the last dot: "blocks.0.attn.c_k". */
static const char *slot_hint(struct weft_torch_printer *p, const char *name)
{
    const char *dot = strrchr(name, '.');
    return weft_torch_text(p, "%s", dot ? dot + 1 : name);
}

/* Masks and counts of tokens, and what is chosen among them. */
static const char *token_hint(const struct weft_torch_printer *p, const struct weft_atom *a)
{
    bool routes = a->from->op == weft_op(WEFT_OP_route), means = a->from->op == weft_op(WEFT_OP_prefix_mean);
    if (a->kind == WEFT_ATOM_both)
        return "near";
    if (p->of[a->id].free && (routes || means) && a->kind != WEFT_ATOM_array)
        return "count";
    if (!routes)
        return NULL;
    return a->kind == WEFT_ATOM_top ? "best" : a->kind == WEFT_ATOM_sum ? "weight" : "routes";
}

/* Returns the mechanism whose matrix a matmul is by; NULL: none. */
static const struct weft_part *mechanism_of(const struct weft_torch_printer *p, const struct weft_atom *a)
{
    if (a->kind != WEFT_ATOM_matmul || a->in[1]->kind != WEFT_ATOM_weight)
        return NULL;
    const struct weft_part *part = weft_torch_weight(p, a->in[1])->part;
    return part && part->kind == WEFT_RECIP ? part : NULL;
}

static const char *op_hint(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_atom *list[WEFT_TORCH_READS];
    const struct weft_node *node = a->from;
    bool sums = node && node->op == weft_op(WEFT_OP_linear) && node->in[WEFT_LINEAR_ADDEND] &&
                weft_torch_of(p, node->out[0]) == a;
    double value;
    if (mechanism_of(p, a))
        return mechanism_of(p, a)->name;
    if (node && node->op == weft_op(WEFT_OP_attention) && attention_hint(a))
        return attention_hint(a);
    if (node && token_hint(p, a))
        return token_hint(p, a);
    for (size_t i = 0; node && i < sizeof op_names / sizeof *op_names; i++)
        if (node->op == weft_op(op_names[i].op))
            return op_names[i].name;
    if (node && node->op == weft_op(WEFT_OP_linear) && node->in[4]->shape.ndim == 2)
        return weft_torch_hint(p, weft_torch_of(p, node->in[sums ? WEFT_LINEAR_ADDEND : 4]));
    for (int i = 0, n = weft_torch_reads(p, a, list); i < n; i++)
        if (!weft_torch_constant(list[i], &value))
            return weft_torch_hint(p, list[i]);
    return "value";
}

static const char *find_hint(struct weft_torch_printer *p, const struct weft_atom *a)
{
    for (int i = 0; i < p->layer_count; i++)
        if (p->layers[i].stream == a)
            return "x";
    if (a->kind == WEFT_ATOM_weight)
        return weight_hint(p, a->name);
    if (a->kind == WEFT_ATOM_input)
        return strcmp(a->name, "pos") == 0 ? "position" : a->name;
    if (a->kind == WEFT_ATOM_array)
        return weft_torch_table_name(p, a);
    if (a->kind == WEFT_ATOM_store || a->kind == WEFT_ATOM_state)
        return slot_hint(p, a->kind == WEFT_ATOM_store ? a->in[0]->name : a->name);
    if (a->kind == WEFT_ATOM_distance || a->kind == WEFT_ATOM_visible)
        return weft_atom_name(a->kind);
    if (is_shape(a->kind))
        return weft_torch_hint(p, a->in[0]);
    if (a->kind == WEFT_ATOM_take)
        return weft_torch_hint(p, a->in[0]);
    return op_hint(p, a);
}

const char *weft_torch_hint(struct weft_torch_printer *p, const struct weft_atom *a)
{
    struct weft_torch_value *v = &p->of[a->id];
    if (!v->hint)
        v->hint = weft_torch_identifier(p, find_hint(p, a));
    return v->hint;
}
