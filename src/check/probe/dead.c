/* SPDX-License-Identifier: MIT
 *
 * dead.c - explains why a weight has no gradient, by examining the op that computes the gradient in a graph that keeps
 * all values.
 */
#include "check/probe/gate.h"

#include <stdio.h>

enum { TOKENS_KEY = 11 };

static bool is_zero(const struct weft_probe *p, const struct weft_value *v)
{
    const struct weft_tensor *x = weft_exec_tensor(p->exec, v);
    return v->dtype != WEFT_I32 && weft_tensor_rms(x) == 0;
}

/* Returns the first op that adds to the gradient of a weight. */
static const struct weft_node *find_source(const struct weft_graph *g, const struct weft_value *grad)
{
    struct weft_node *const *nodes;
    int n = weft_graph_nodes(g, &nodes);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < WEFT_MAX_ARGS; k++)
            if (nodes[i]->gin[k] == grad)
                return nodes[i];
    return NULL;
}

/* Writes "the output of gelu in layer 1". */
static void describe(const struct weft_value *v, char text[96])
{
    const struct weft_node *made = v->node;
    if (!made)
        snprintf(text, 96, "%s", v->name ? v->name : "an input of the graph");
    else if (made->label >= 0)
        snprintf(text, 96, "the output of %s in layer %d", made->op->name, made->label);
    else
        snprintf(text, 96, "the output of %s", made->op->name);
}

static void explain(const struct weft_probe *p, const struct weft_value *w, char text[160])
{
    const struct weft_value *grad = weft_graph_gradient(w);
    const struct weft_node *source = grad ? find_source(p->net.g, grad) : NULL;
    char what[96];
    if (!source) {
        snprintf(text, 160, "has no gradient: no op on the way to the loss reads it");
        return;
    }
    snprintf(text, 160, "has no gradient: the gradient from its %s is 0", source->op->name);
    for (int k = 0; k < WEFT_MAX_ARGS; k++)
        if (source->gout[k] && is_zero(p, source->gout[k])) {
            snprintf(text, 160, "has no gradient: none reaches the output of its %s", source->op->name);
            return;
        }
    for (int k = 0; k < WEFT_MAX_ARGS; k++)
        if (source->in[k] && is_zero(p, source->in[k])) {
            describe(source->in[k], what);
            snprintf(text, 160, "has no gradient: an input of its %s is 0, %s", source->op->name, what);
            return;
        }
}

void weft_dead_explain(const struct weft_nn *model, struct weft_net_size size, int weight, char text[160])
{
    struct weft_probe p;
    snprintf(text, 160, "has no gradient");
    enum weft_status status = weft_probe_open(&p, model, WEFT_TRAIN, size, WEFT_GUARDED);
    if (status == WEFT_OK && !p.net.weights[weight])
        snprintf(text, 160, "is not in the graph");
    else if (status == WEFT_OK) {
        weft_probe_rows(&p, size.sequences, size.length, NULL);
        weft_probe_fill(&p, TOKENS_KEY);
        weft_probe_run(&p);
        explain(&p, p.net.weights[weight], text);
    } else
        weft_error_clear();
    weft_probe_close(&p);
}
