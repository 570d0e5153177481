/* SPDX-License-Identifier: MIT
 *
 * print.c - a graph to read, as text and as a Graphviz picture.
 */
#include "graph/internal.h"

static void print_shape(const struct weft_graph *g, const struct weft_value *v, FILE *to)
{
    fprintf(to, "%s[", weft_dtype_name(v->dtype));
    for (int i = 0; i < v->shape.ndim; i++) {
        struct weft_dim d = v->shape.dim[i];
        if (i)
            fputs(", ", to);
        if (d.symbol && d.times != 1)
            fprintf(to, "%lld*", (long long)d.times);
        if (d.symbol)
            fputs(g->symbols[d.symbol].name, to);
        else
            fprintf(to, "%lld", (long long)d.times);
    }
    fputc(']', to);
}

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
            print_shape(g, list[i], to);
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

/* Nodes are boxes, grouped by layer; parameters are ellipses at the side; the backward pass is grey. */
void weft_graph_print_dot(const struct weft_graph *g, FILE *to)
{
    fputs("digraph weft {\n  rankdir=TB; node [shape=box, fontname=\"Helvetica\", fontsize=10, style=filled, "
          "fillcolor=white];\n  edge [arrowsize=0.6, fontname=\"Helvetica\", fontsize=8];\n",
          to);
    for (int n = 0; n < g->node_count; n++) {
        const struct weft_node *node = g->nodes[n];
        if (node->label >= 0)
            fprintf(to, "  subgraph cluster_%d { label=\"layer %d\"; color=grey; ", node->label, node->label);
        fprintf(to, "  n%d [label=\"%s\"%s];", n, node->op->name, node->backward ? ", fillcolor=grey85" : "");
        fputs(node->label >= 0 ? " }\n" : "\n", to);
    }
    for (int v = 0; v < g->value_count; v++) {
        const struct weft_value *value = g->values[v];
        if (value->kind == WEFT_PARAM || value->kind == WEFT_INPUT) {
            fprintf(to, "  v%d [shape=ellipse, fillcolor=\"%s\", label=\"%s\\n", v,
                    value->kind == WEFT_PARAM ? "lightyellow" : "lightblue", value->name);
            print_shape(g, value, to);
            fputs("\"];\n", to);
        }
    }
    for (int n = 0; n < g->node_count; n++) {
        struct weft_value *list[MAX_TOUCHED];
        int count = weft_node_reads(g->nodes[n], list);
        for (int i = 0; i < count; i++) {
            const struct weft_value *v = list[i];
            if (v->kind == WEFT_PARAM || v->kind == WEFT_INPUT)
                fprintf(to, "  v%d -> n%d;\n", v->id, n);
            else if (v->node && v->node != g->nodes[n]) {
                fprintf(to, "  n%d -> n%d [label=\"", v->node->index, n);
                print_shape(g, v, to);
                fputs("\"];\n", to);
            }
        }
    }
    fputs("}\n", to);
}
