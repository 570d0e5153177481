/* SPDX-License-Identifier: MIT
 *
 * recompute.c - trades time for memory: the backward pass recomputes values instead of keeping them.
 *
 * Nodes are marked one by one (weft_graph_mark_recompute), or all nodes of every layer except those that other layers
 * read. If a node of the backward pass reads the output of a marked node, a copy of the marked node, and of the marked
 * nodes it depends on, is inserted before the reader. All other values (the residual stream that enters a layer,
 * parameters, packed weights) are kept. Nodes of the backward pass share copies within a layer but not across layers,
 * so no copy lives longer than a layer. Kernels and dropout masks are functions of their inputs, so results are
 * bit-identical.
 */
#include "graph/internal.h"

#include <string.h>

struct pass {
    struct weft_graph *graph;
    int label;                  /* layer of the backward nodes that share the current copies */
    struct weft_value **copies; /* by value id: the value's copy for that layer */
    bool *fixed;                /* by value id: whether it depends only on parameters and is computed in prepare */
    size_t values;              /* length of both arrays */
};

/* Returns whether v is recomputed. A view costs nothing and keeps its input alive, so it is recomputed if its input
 * is. */
static bool is_recomputed(const struct pass *p, const struct weft_value *v)
{
    const struct weft_node *node = v->node;
    if (!node || node->backward || node->in_backward_pass || v->is_output || p->fixed[v->id] ||
        weft_node_reads_state(node))
        return false;
    return node->op->is_view ? is_recomputed(p, node->in[0]) : node->recompute;
}

static struct weft_value *copy_of(struct pass *p, struct weft_value *v);

/* Emits a copy of a forward node after the copies of its inputs. */
static void copy_node(struct pass *p, const struct weft_node *node)
{
    struct weft_graph *g = p->graph;
    struct weft_node *copy = weft_graph_alloc(g, sizeof *copy);
    if (!copy)
        return;
    *copy = *node;
    copy->in_backward_pass = true;
    copy->label = p->label;
    for (int i = 0; i < WEFT_MAX_ARGS; i++)
        copy->in[i] = copy_of(p, node->in[i]);
    for (int o = 0; o < WEFT_MAX_ARGS; o++) {
        if (!node->out[o])
            continue;
        struct weft_value *v = weft_graph_value(g, WEFT_VALUE, NULL, node->out[o]->dtype, &node->out[o]->shape);
        if (!v)
            return;
        v->packed_bytes = node->out[o]->packed_bytes;
        v->node = copy;
        copy->out[o] = p->copies[node->out[o]->id] = v;
    }
    weft_graph_append_unchecked(g, copy);
}

static struct weft_value *copy_of(struct pass *p, struct weft_value *v)
{
    if (!v || !is_recomputed(p, v))
        return v;
    if (!p->copies[v->id])
        copy_node(p, v->node);
    return p->copies[v->id] ? p->copies[v->id] : v;
}

/* Finds the values that depend only on parameters, which are computed in prepare. */
static void find_fixed(struct pass *p)
{
    const struct weft_graph *g = p->graph;
    for (int n = 0; n < g->node_count; n++) {
        struct weft_value *list[MAX_TOUCHED];
        int r = weft_node_reads(g->nodes[n], list);
        bool fixed = !g->nodes[n]->backward && !g->nodes[n]->every_run;
        for (int i = 0; i < r; i++)
            fixed &= list[i]->kind == WEFT_PARAM || p->fixed[list[i]->id];
        int w = fixed ? weft_node_writes(g->nodes[n], list) : 0;
        for (int i = 0; i < w; i++)
            p->fixed[list[i]->id] = true;
    }
}

/* Makes a node of the backward pass read copies of the recomputed values. */
static void redirect(struct pass *p, struct weft_node *node)
{
    if (node->label != p->label)
        memset(p->copies, 0, p->values * sizeof *p->copies);
    p->label = node->label;
    for (int i = 0; i < WEFT_MAX_ARGS; i++) {
        node->in[i] = copy_of(p, node->in[i]);
        if (node->backward && !node->op->bwd_writes_out)
            node->out[i] = copy_of(p, node->out[i]);
    }
}

enum weft_status weft_graph_recompute_marked(struct weft_graph *g)
{
    TRY(weft_graph_status(g));
    int count = g->node_count;
    struct pass p = {.graph = g, .label = -1, .values = (size_t)g->value_count};
    struct weft_node **old = weft_graph_alloc(g, (size_t)count * sizeof *old);
    p.copies = weft_graph_alloc(g, p.values * sizeof(struct weft_value *));
    p.fixed = weft_graph_alloc(g, p.values);
    TRY(weft_graph_status(g));
    find_fixed(&p);
    memcpy(old, g->nodes, (size_t)count * sizeof *old);
    g->node_count = 0;
    for (int n = 0; n < count; n++) {
        if (old[n]->in_backward_pass)
            redirect(&p, old[n]);
        weft_graph_append_unchecked(g, old[n]);
    }
    for (int n = 0; n < g->node_count; n++)
        g->nodes[n]->index = n;
    return weft_graph_status(g);
}

void weft_graph_mark_recompute(struct weft_value *v)
{
    while (v && v->node && v->node->op->is_view)
        v = v->node->in[0];
    if (v && v->node)
        v->node->recompute = true;
}

enum weft_status weft_graph_recompute(struct weft_graph *g)
{
    TRY(weft_graph_status(g));
    bool *crosses = weft_graph_alloc(g, (size_t)g->value_count); /* by value id: whether another layer reads it */
    TRY(weft_graph_status(g));
    for (int n = g->node_count - 1; n >= 0; n--) {
        struct weft_node *node = g->nodes[n];
        struct weft_value *list[MAX_TOUCHED];
        bool seen_outside = false;
        int w = weft_node_writes(node, list);
        for (int i = 0; i < w; i++)
            seen_outside |= crosses[list[i]->id];
        node->recompute |= node->label >= 0 && !seen_outside;
        int r = weft_node_reads(node, list);
        for (int i = 0; i < r; i++)
            crosses[list[i]->id] |=
                !list[i]->node || list[i]->node->label != node->label || (seen_outside && node->op->is_view);
    }
    return weft_graph_recompute_marked(g);
}
