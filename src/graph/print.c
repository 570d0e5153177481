/* SPDX-License-Identifier: MIT
 *
 * print.c - prints a graph as text or as Graphviz input.
 */
#include "graph/internal.h"

static void print_value(const struct weft_value *v, FILE *to)
{
    if (v->name)
        fprintf(to, "%s%s", v->kind == WEFT_GRAD ? "d " : "", v->name);
    else
        fprintf(to, "%%%d", v->id);
}

void weft_graph_print(const struct weft_graph *g, FILE *to)
{
    for (int n = 0; n < g->node_count; n++) {
        struct weft_value *list[MAX_TOUCHED];
        const struct weft_node *node = g->nodes[n];
        int count = weft_node_writes(node, list);
        fprintf(to, "%4d ", n);
        if (node->label >= 0)
            fprintf(to, "%3d ", node->label);
        else
            fputs("    ", to);
        for (int i = 0; i < count; i++) {
            fputs(i ? ", " : "", to);
            print_value(list[i], to);
            fputc(' ', to);
            weft_shape_print(g, list[i], to);
        }
        fprintf(to, " = %s%s(", node->op->name, node->backward ? " backward" : "");
        count = weft_node_reads(node, list);
        for (int i = 0; i < count; i++) {
            fputs(i ? ", " : "", to);
            print_value(list[i], to);
        }
        fputs(")\n", to);
    }
}

/* A backward node that also writes the forward outputs is drawn in place of the forward node it replaced. */
static bool is_drawn(const struct weft_node *node)
{
    bool forward = !node->in_backward_pass || (node->backward && node->op->bwd_writes_out);
    return forward && !weft_value_is_fixed(node->out[0]);
}

/* Prints the names of the weights, inputs and states that v depends on, one per line, following values computed in
 * prepare. */
static void print_sources(const struct weft_value *v, FILE *to)
{
    struct weft_value *list[MAX_TOUCHED];
    if (!v->node)
        fprintf(to, "\\n%s", v->name);
    int n = v->node && weft_value_is_fixed(v) ? weft_node_reads(v->node, list) : 0;
    for (int i = 0; i < n; i++)
        print_sources(list[i], to);
}

static bool is_read(const struct weft_node *node, int i) { return node->in[i] && !(node->op->grad_only_in >> i & 1); }

static void print_box(const struct weft_node *node, FILE *to)
{
    bool is_output = false;
    fprintf(to, "    n%d [label=\"%s", node->index, node->op->name);
    for (int i = 0; i < WEFT_MAX_ARGS; i++) {
        if (is_read(node, i))
            print_sources(node->in[i], to);
        is_output |= node->out[i] && node->out[i]->is_output;
    }
    fprintf(to, "\"%s];\n", is_output ? ", penwidth=2" : "");
}

static void print_arrows(const struct weft_node *node, FILE *to)
{
    for (int i = 0; i < WEFT_MAX_ARGS; i++) {
        const struct weft_value *v = node->in[i];
        if (!is_read(node, i) || !v->node || !is_drawn(v->node))
            continue;
        fprintf(to, "  n%d -> n%d [label=\"  ", v->node->index, node->index);
        weft_shape_print(node->graph, v, to);
        fputs("\"];\n", to);
    }
}

/* Prints the forward pass. Nodes are boxes, grouped by layer, with the names of the weights, inputs and states they
 * read. Arrows are the values passed between nodes. Nodes that write an output have a bold frame. */
void weft_graph_print_dot(const struct weft_graph *g, FILE *to)
{
    int last_label = -1, skipped = 0;
    for (int n = 0; n < g->node_count; n++) {
        last_label = (int)weft_max(last_label, g->nodes[n]->label);
        skipped += g->nodes[n]->in_backward_pass && !is_drawn(g->nodes[n]);
    }
    fputs("digraph weft {\n"
          "  node [shape=box, fontname=\"Helvetica\", fontsize=10];\n"
          "  edge [arrowsize=0.6, fontname=\"Helvetica\", fontsize=8];\n"
          "  graph [fontname=\"Helvetica\", fontsize=12];\n",
          to);
    if (skipped)
        fprintf(to, "  label=\"forward pass; %d nodes of the backward pass are not drawn\";\n", skipped);
    for (int label = -1; label <= last_label; label++) {
        if (label >= 0)
            fprintf(to, "  subgraph cluster_%d {\n    label=\"layer %d\"; color=grey;\n", label, label);
        for (int n = 0; n < g->node_count; n++)
            if (g->nodes[n]->label == label && is_drawn(g->nodes[n]))
                print_box(g->nodes[n], to);
        if (label >= 0)
            fputs("  }\n", to);
    }
    for (int n = 0; n < g->node_count; n++)
        if (is_drawn(g->nodes[n]))
            print_arrows(g->nodes[n], to);
    fputs("}\n", to);
}
