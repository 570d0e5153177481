/* SPDX-License-Identifier: MIT
 *
 * recompute.c - trades time for memory: the reverse pass makes values again instead of keeping them.
 *
 * Nodes are marked, one by one (weft_graph_remake) or all of every layer but what other layers read. Where a node of
 * the reverse pass reads what a marked node made, that node is copied to just before it, with whatever marked nodes it
 * needs itself; everything else (the residual stream that enters a layer, parameters, packed weights) is read as it
 * was kept. The reverse nodes of one layer share their copies, other layers make their own, so that no copy lives
 * longer than a layer. Kernels and dropout masks are functions of their inputs alone, so the bits do not change.
 */
#include "graph/internal.h"

#include <string.h>

struct pass {
    struct weft_graph *graph;
    int label;                 /* of the reverse nodes that share copies now */
    struct weft_value **again; /* by value id: its copy for them */
    bool *fixed;               /* by value id: depends on parameters alone, made in prepare */
    size_t values;             /* that the two know */
};

/* A view is no work and keeps what it looks at, so it follows it. */
static bool is_remade(const struct pass *p, const struct weft_value *v)
{
    const struct weft_node *node = v->node;
    if (!node || node->backward || node->reverse || v->is_output || p->fixed[v->id] || weft_node_reads_state(node))
        return false;
    return node->op->is_view ? is_remade(p, node->in[0]) : node->remake;
}

static struct weft_value *copy_of(struct pass *p, struct weft_value *v);

/* Emits the copy of a forward node behind the copies of what it reads. */
static void copy_node(struct pass *p, const struct weft_node *node)
{
    struct weft_graph *g = p->graph;
    struct weft_node *copy = weft_graph_alloc(g, sizeof *copy);
    if (!copy)
        return;
    *copy = *node;
    copy->reverse = true;
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
        copy->out[o] = p->again[node->out[o]->id] = v;
    }
    weft_graph_list(g, copy);
}

static struct weft_value *copy_of(struct pass *p, struct weft_value *v)
{
    if (!v || !is_remade(p, v))
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

/* Lets a node of the reverse pass read copies. */
static void redirect(struct pass *p, struct weft_node *node)
{
    if (node->label != p->label)
        memset(p->again, 0, p->values * sizeof *p->again);
    p->label = node->label;
    for (int i = 0; i < WEFT_MAX_ARGS; i++) {
        node->in[i] = copy_of(p, node->in[i]);
        if (node->backward && !node->op->bwd_yields_out)
            node->out[i] = copy_of(p, node->out[i]);
    }
}

enum weft_status weft_graph_recompute_marked(struct weft_graph *g)
{
    TRY(weft_graph_status(g));
    int count = g->node_count;
    struct pass p = {.graph = g, .label = -1, .values = (size_t)g->value_count};
    struct weft_node **old = weft_graph_alloc(g, (size_t)count * sizeof *old);
    p.again = weft_graph_alloc(g, p.values * sizeof(struct weft_value *));
    p.fixed = weft_graph_alloc(g, p.values);
    TRY(weft_graph_status(g));
    find_fixed(&p);
    memcpy(old, g->nodes, (size_t)count * sizeof *old);
    g->node_count = 0;
    for (int n = 0; n < count; n++) {
        if (old[n]->reverse)
            redirect(&p, old[n]);
        weft_graph_list(g, old[n]);
    }
    for (int n = 0; n < g->node_count; n++)
        g->nodes[n]->index = n;
    return weft_graph_status(g);
}

void weft_graph_remake(struct weft_value *v)
{
    while (v && v->node && v->node->op->is_view)
        v = v->node->in[0];
    if (v && v->node)
        v->node->remake = true;
}

enum weft_status weft_graph_recompute(struct weft_graph *g)
{
    TRY(weft_graph_status(g));
    bool *crosses = weft_graph_alloc(g, (size_t)g->value_count); /* by value id: another layer reads it */
    TRY(weft_graph_status(g));
    for (int n = g->node_count - 1; n >= 0; n--) {
        struct weft_node *node = g->nodes[n];
        struct weft_value *list[MAX_TOUCHED];
        bool seen_outside = false;
        int w = weft_node_writes(node, list);
        for (int i = 0; i < w; i++)
            seen_outside |= crosses[list[i]->id];
        node->remake |= node->label >= 0 && !seen_outside;
        int r = weft_node_reads(node, list);
        for (int i = 0; i < r; i++)
            crosses[list[i]->id] |=
                !list[i]->node || list[i]->node->label != node->label || (seen_outside && node->op->is_view);
    }
    return weft_graph_recompute_marked(g);
}
