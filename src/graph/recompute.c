/* SPDX-License-Identifier: MIT
 *
 * recompute.c - trades time for memory: the backward pass of a layer makes the layer's values again.
 *
 * Nodes carry the label of their layer. Where a backward node reads what a forward node of its own layer made, that
 * forward node is copied to just before the layer's backward nodes, with whatever it needs from the same layer; values
 * from outside (the residual stream that enters, parameters, packed weights) are read as they are. What then lives from
 * the forward to the backward pass is one value a layer instead of all. Kernels and dropout masks are functions of
 * their inputs alone, so the bits do not change.
 */
#include "graph/internal.h"

#include <string.h>

struct pass {
    struct weft_graph *graph;
    struct weft_node **order; /* the new list of nodes */
    int count;
    struct weft_value **again; /* by value id: its copy in the layer being worked on */
    bool *fixed;               /* by value id: depends on parameters alone, made in prepare */
    int values;                /* ids above are copies */
};

static bool is_forward_of(const struct weft_value *v, int label)
{
    return v && v->node && !v->node->backward && v->node->label == label;
}

static struct weft_value *copy_of(struct pass *p, struct weft_value *v, int label);

/* Emits the copy of a forward node behind the copies of what it reads. */
static void copy_node(struct pass *p, const struct weft_node *node)
{
    struct weft_graph *g = p->graph;
    struct weft_node *copy = weft_graph_alloc(g, sizeof *copy);
    if (!copy)
        return;
    *copy = *node;
    for (int i = 0; i < WEFT_MAX_ARGS; i++)
        copy->in[i] = copy_of(p, node->in[i], node->label);
    for (int o = 0; o < WEFT_MAX_ARGS; o++) {
        if (!node->out[o])
            continue;
        struct weft_value *v = weft_graph_value(g, WEFT_VALUE, NULL, node->out[o]->dtype, &node->out[o]->shape);
        if (!v)
            return;
        v->packed_bytes = node->out[o]->packed_bytes;
        v->node = copy;
        copy->out[o] = p->again[node->out[o]->id] = v;
    }
    p->order[p->count++] = copy;
}

static struct weft_value *copy_of(struct pass *p, struct weft_value *v, int label)
{
    if (!v || v->id >= p->values || p->fixed[v->id] || !is_forward_of(v, label))
        return v;
    if (!p->again[v->id])
        copy_node(p, v->node);
    return p->again[v->id] ? p->again[v->id] : v;
}

/* Which values prepare makes: those that depend on parameters alone. */
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

/* The reverse pass begins where the first backward node stands: forward kernels behind it (a product that gives dX)
 * belong to it too, and read the layer's copies like the others. */
static int first_backward(const struct weft_graph *g)
{
    int n = 0;
    while (n < g->node_count && !g->nodes[n]->backward)
        n++;
    return n;
}

enum weft_status weft_graph_recompute(struct weft_graph *g)
{
    TRY(weft_graph_status(g));
    struct pass p = {.graph = g, .values = g->value_count};
    p.order = weft_graph_alloc(g, 2 * (size_t)g->node_count * sizeof *p.order);
    p.again = weft_graph_alloc(g, (size_t)g->value_count * sizeof *p.again);
    p.fixed = weft_graph_alloc(g, (size_t)g->value_count);
    TRY(weft_graph_status(g));
    find_fixed(&p);
    int reverse = first_backward(g);
    for (int n = 0; n < g->node_count; n++) {
        struct weft_node *node = g->nodes[n];
        for (int i = 0; n >= reverse && node->label >= 0 && i < WEFT_MAX_ARGS; i++) {
            bool made_before = node->in[i] && node->in[i]->node && node->in[i]->node->index < reverse;
            if (made_before)
                node->in[i] = copy_of(&p, node->in[i], node->label);
            if (node->backward && !node->op->bwd_yields_out)
                node->out[i] = copy_of(&p, node->out[i], node->label);
        }
        p.order[p.count++] = node;
    }
    struct weft_node **grown = weft_graph_nodes_reserve(g, p.count);
    if (!grown)
        return weft_graph_status(g);
    memcpy(grown, p.order, (size_t)p.count * sizeof *grown);
    g->node_count = p.count;
    for (int n = 0; n < p.count; n++)
        g->nodes[n]->index = n;
    return weft_graph_status(g);
}
