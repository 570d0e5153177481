/* SPDX-License-Identifier: MIT
 *
 * print_attention.c - finds attention that can be printed as scaled_dot_product_attention. The op decides: it has no
 * reciprocal term and no bias by position, and nothing reads the log-sum-exps of its scores.
 */
#include "export/torch/print.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

static bool is_read(const struct weft_graph *g, const struct weft_value *v)
{
    struct weft_node *const *nodes;
    for (int i = weft_graph_nodes(g, &nodes); i-- > 0;)
        for (int k = 0; k < WEFT_MAX_ARGS; k++)
            if (nodes[i]->in[k] == v)
                return true;
    return false;
}

/* Returns whether an atom is the result of a node [BATCH, heads, NEW, width], before its heads are merged. */
static bool is_result(const struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_node *node = a->from;
    if (!node || !weft_attention_is_plain(node))
        return false;
    const struct weft_atom *out = weft_torch_of(p, node->out[0]);
    bool merged = out->kind == WEFT_ATOM_reshape && out->in[0]->kind == WEFT_ATOM_permute;
    return merged && out->in[0]->in[0] == a && !is_read(p->net->g, node->out[1]);
}

/* Query heads that share a key head are more rows of it. */
static const struct weft_atom *ungrouped(const struct weft_atom *a)
{
    return a->kind == WEFT_ATOM_reshape ? a->in[0] : a;
}

/* Finds the factors of the scores; s->in has the values already. */
static bool find_scores(struct weft_idiom *s, const struct weft_atom *x)
{
    const struct weft_atom *v = s->in[2];
    if (x->kind == WEFT_ATOM_add) {
        s->has_bias = true;
        s->in[s->count++] = x->in[1];
        x = x->in[0];
    }
    x = ungrouped(x);
    if (x->kind != WEFT_ATOM_matmul || !x->transposed)
        return false;
    const struct weft_atom *q = ungrouped(x->in[0]), *k = x->in[1];
    s->scale = 1;
    s->plain = !s->has_bias && weft_last_of(k) == weft_last_of(v);
    if (s->plain && q->kind == WEFT_ATOM_mul && weft_torch_constant(q->in[1], &s->scale))
        q = q->in[0];
    s->in[0] = q;
    s->in[1] = k;
    return q->type.ndim == 4 && k->type.ndim == 4;
}

bool weft_torch_find_attention(const struct weft_torch_printer *p, const struct weft_atom *a, struct weft_idiom *s)
{
    *s = (struct weft_idiom){.kind = WEFT_IDIOM_ATTENTION, .node = a->from, .count = 3};
    if (!is_result(p, a))
        return false;
    const struct weft_atom *product = ungrouped(a);
    if (product->kind != WEFT_ATOM_matmul)
        return false;
    const struct weft_atom *probs = ungrouped(product->in[0]);
    s->in[2] = product->in[1];
    if (probs->kind == WEFT_ATOM_drop) {
        s->dropout = probs->drop.p;
        probs = probs->in[0];
    }
    if (probs->kind != WEFT_ATOM_softmax || probs->in[0]->kind != WEFT_ATOM_choose)
        return false;
    const struct weft_atom *choice = probs->in[0], *visible = ungrouped(choice->in[0]);
    if (visible->kind != WEFT_ATOM_visible || !find_scores(s, choice->in[1]))
        return false;
    s->has_visible = p->code == WEFT_TORCH_DECODER;
    if (s->has_visible)
        s->in[s->count++] = visible;
    return true;
}
