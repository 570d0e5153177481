/* SPDX-License-Identifier: MIT
 *
 * autodiff.c - reverse-mode differentiation: visits nodes in reverse order and propagates gradients to their inputs.
 *
 * If several nodes use a value, its gradients from them are summed in f32, in reverse graph order; other gradients have
 * the value's dtype. A param's gradient is a host buffer that every run accumulates into, so micro-batches are summed
 * without an extra pass. Accumulating kernels add to it directly; a gradient that is a separate value (from a view or a
 * matmul) is added by one extra node.
 */
#include "graph/internal.h"

#include <string.h>

struct weft_grads {
    struct weft_graph *graph;
    struct weft_node *node;      /* the node being differentiated */
    struct weft_value **partial; /* by value id: sum of the gradients so far */
    struct weft_value **buffer;  /* by value id: accumulator of its gradient; never an alias of another value */
    bool *needed;                /* by value id: whether it depends on a value with wants_grad */
    int *users;                  /* by value id: number of differentiable uses */
};

static bool has_derivative(const struct weft_op *op) { return op->grad || op->bwd.run; }

static bool differentiable(const struct weft_node *node, int i)
{
    return node->in[i] && node->op->differentiable >> i & 1;
}

/* Forward sweep: finds the values that depend on a value with wants_grad, and counts their differentiable uses. */
static void find_needed(struct weft_grads *grads, int nodes)
{
    struct weft_graph *g = grads->graph;
    for (int v = 0; v < g->value_count; v++)
        grads->needed[v] = g->values[v]->wants_grad;
    for (int n = 0; n < nodes; n++) {
        const struct weft_node *node = g->nodes[n];
        bool needed = false;
        for (int i = 0; i < WEFT_MAX_ARGS; i++)
            if (differentiable(node, i) && grads->needed[node->in[i]->id]) {
                needed = true;
                grads->users[node->in[i]->id]++;
            }
        for (int o = 0; o < WEFT_MAX_ARGS; o++)
            if (node->out[o] && !(node->op->no_grad_out >> o & 1))
                grads->needed[node->out[o]->id] |= needed && has_derivative(node->op);
    }
}

struct weft_value *weft_grad_out(struct weft_grads *grads, int o)
{
    const struct weft_value *out = grads->node->out[o];
    return out ? grads->partial[out->id] : NULL;
}

bool weft_grad_wanted(struct weft_grads *grads, int i)
{
    return differentiable(grads->node, i) && grads->needed[grads->node->in[i]->id];
}

struct weft_value *weft_grad_partial(struct weft_grads *grads, int i)
{
    const struct weft_value *v = grads->node->in[i];
    return v->kind == WEFT_PARAM ? NULL : grads->partial[v->id];
}

/* Emits buffer += gradient, using the backward kernel of a + b. */
static void accumulate(struct weft_graph *g, struct weft_value *buffer, struct weft_value *gradient)
{
    if (!buffer || !gradient || g->status != WEFT_OK)
        return;
    struct weft_node *node = weft_graph_node(g, g->arithmetic.add, NULL, true);
    if (!node)
        return;
    node->gout[0] = gradient;
    node->gin[0] = buffer;
    weft_graph_append(g, node);
}

void weft_grad_set(struct weft_grads *grads, int i, struct weft_value *gradient)
{
    const struct weft_value *v = grads->node->in[i];
    if (v->kind == WEFT_PARAM)
        accumulate(grads->graph, weft_grad_accumulator(grads, i), gradient);
    else
        grads->partial[v->id] = gradient;
}

static struct weft_value *sum(struct weft_graph *g, struct weft_value *a, struct weft_value *b)
{
    if (!a || !b)
        return a ? a : b;
    struct weft_node *node = weft_graph_emit(g, g->arithmetic.add, NULL, 2, (struct weft_value *[]){a, b});
    return node ? node->out[0] : NULL;
}

void weft_grad_add(struct weft_grads *grads, int i, struct weft_value *gradient)
{
    weft_grad_set(grads, i, sum(grads->graph, weft_grad_partial(grads, i), gradient));
}

enum weft_dtype weft_grad_dtype(struct weft_grads *grads, int i)
{
    const struct weft_value *v = grads->node->in[i];
    return grads->users[v->id] > 1 ? WEFT_F32 : v->dtype;
}

static struct weft_value *zeroed(struct weft_graph *g, const struct weft_shape *shape)
{
    struct weft_node *node = weft_graph_emit(g, g->arithmetic.fill, &(struct weft_fill){0, *shape}, 0, NULL);
    if (!node)
        return NULL;
    node->every_run = true;
    return node->out[0];
}

struct weft_value *weft_grad_accumulator(struct weft_grads *grads, int i)
{
    struct weft_graph *g = grads->graph;
    struct weft_value *v = grads->node->in[i], *so_far = grads->partial[v->id];
    if (so_far && so_far == grads->buffer[v->id])
        return so_far;
    struct weft_value *buffer =
        v->kind == WEFT_PARAM ? weft_graph_value(g, WEFT_GRAD, v->name, WEFT_F32, &v->shape) : zeroed(g, &v->shape);
    accumulate(g, buffer, so_far); /* the buffer starts with the gradients of earlier users */
    grads->partial[v->id] = grads->buffer[v->id] = buffer;
    return buffer;
}

struct weft_node *weft_grad_emit(struct weft_grads *grads, struct weft_value *const *gout,
                                 struct weft_value *const *gin)
{
    struct weft_graph *g = grads->graph;
    struct weft_node *forward = grads->node;
    const struct weft_op *op = forward->op;
    if (g->status != WEFT_OK)
        return NULL;
    struct weft_node *node = weft_graph_node(g, op, forward->attr, true);
    if (!node)
        return NULL;
    node->label = forward->label;
    for (int i = 0; i < WEFT_MAX_ARGS; i++) {
        node->in[i] = op->bwd_reads_in >> i & 1 ? forward->in[i] : NULL;
        node->out[i] = op->bwd_writes_out || op->bwd_reads_out >> i & 1 ? forward->out[i] : NULL;
        node->gout[i] = gout[i];
        node->gin[i] = gin[i];
        if (gin[i] && gin[i]->kind == WEFT_VALUE && !gin[i]->node)
            gin[i]->node = node;
        if (op->bwd_writes_out && node->out[i])
            node->out[i]->node = node;
    }
    return weft_graph_append(g, node) ? node : NULL;
}

/* Handles the usual case: one backward node that writes each gradient to a new value or an accumulator. */
static void emit_backward(struct weft_grads *grads)
{
    struct weft_graph *g = grads->graph;
    const struct weft_node *node = grads->node;
    struct weft_value *gout[WEFT_MAX_ARGS] = {0}, *gin[WEFT_MAX_ARGS] = {0};
    for (int i = 0; i < WEFT_MAX_ARGS; i++) {
        gout[i] = weft_grad_out(grads, i);
        if (!weft_grad_wanted(grads, i))
            continue;
        gin[i] = node->op->accumulates >> i & 1
                     ? weft_grad_accumulator(grads, i)
                     : weft_graph_value(g, WEFT_VALUE, NULL, weft_grad_dtype(grads, i), &node->in[i]->shape);
    }
    if (!weft_grad_emit(grads, gout, gin))
        return;
    for (int i = 0; i < WEFT_MAX_ARGS; i++)
        if (gin[i] && !(node->op->accumulates >> i & 1))
            weft_grad_add(grads, i, gin[i]);
}

static bool anything_to_do(struct weft_grads *grads)
{
    bool arrived = false, wanted = false;
    for (int i = 0; i < WEFT_MAX_ARGS; i++) {
        arrived |= weft_grad_out(grads, i) != NULL;
        wanted |= weft_grad_wanted(grads, i);
    }
    return arrived && wanted;
}

static void differentiate(struct weft_grads *grads, struct weft_node *node)
{
    grads->node = node;
    if (!anything_to_do(grads))
        return;
    weft_graph_label(grads->graph, node->label);
    weft_graph_group(grads->graph, node->group);
    if (node->op->grad)
        node->op->grad(grads->graph, node, grads);
    else if (node->op->bwd.run)
        emit_backward(grads);
}

/* Drops forward nodes whose outputs are written by their backward node. Then moves each node after the nodes it depends
 * on: the few users of such an output (sums of losses) move after the backward node. All other nodes keep their order,
 * and nodes that read states also keep theirs relative to each other. */
static void reorder_nodes(struct weft_graph *g, int forward_nodes)
{
    struct weft_node **old = weft_graph_alloc(g, (size_t)g->node_count * sizeof *old);
    bool *made = weft_graph_alloc(g, (size_t)g->value_count);
    if (!old || !made)
        return;
    int count = 0, waiting = 0;
    for (int n = 0; n < g->node_count; n++) {
        struct weft_node *node = g->nodes[n];
        bool replaced = n < forward_nodes && node->op->bwd_writes_out && node->out[0]->node != node;
        if (!replaced)
            old[waiting++] = node;
    }
    for (bool moved = true; moved && waiting;) {
        moved = false;
        bool states_wait = false;
        int kept = 0;
        for (int n = 0; n < waiting; n++) {
            struct weft_value *reads[MAX_TOUCHED], *writes[MAX_TOUCHED];
            int r = weft_node_reads(old[n], reads), w = weft_node_writes(old[n], writes);
            bool reads_state = weft_node_reads_state(old[n]), ready = !(reads_state && states_wait);
            for (int i = 0; i < r; i++)
                ready &= reads[i]->kind != WEFT_VALUE || made[reads[i]->id] || reads[i]->node == old[n];
            if (!ready) {
                states_wait |= reads_state;
                old[kept++] = old[n];
                continue;
            }
            for (int i = 0; i < w; i++)
                made[writes[i]->id] = true;
            old[n]->index = count;
            g->nodes[count++] = old[n];
            moved = true;
        }
        waiting = kept;
    }
    g->node_count = count;
    if (waiting)
        weft_graph_fail(
            g, FAIL(WEFT_INVALID, "%s (node %d) reads a value that no node computes", old[0]->op->name, old[0]->index));
}

enum weft_status weft_graph_backward_from(struct weft_graph *g, int count, struct weft_value *const *values,
                                          struct weft_value *const *seeds)
{
    TRY(weft_graph_status(g));
    g->in_backward_pass = true;
    int forward_nodes = g->node_count, forward_values = g->value_count;
    size_t room = (size_t)forward_values;
    struct weft_grads grads = {.graph = g,
                               .partial = weft_graph_alloc(g, room * sizeof(struct weft_value *)),
                               .buffer = weft_graph_alloc(g, room * sizeof(struct weft_value *)),
                               .needed = weft_graph_alloc(g, room * sizeof(bool)),
                               .users = weft_graph_alloc(g, room * sizeof(int))};
    TRY(weft_graph_status(g));
    find_needed(&grads, forward_nodes);
    for (int o = 0; o < count; o++)
        grads.partial[values[o]->id] = sum(g, grads.partial[values[o]->id], seeds[o]);
    for (int n = forward_nodes - 1; n >= 0; n--)
        differentiate(&grads, g->nodes[n]);
    weft_graph_label(g, -1);
    weft_graph_group(g, 0);
    g->in_backward_pass = false;
    for (int v = 0; v < forward_values; v++)
        if (g->values[v]->wants_grad && grads.partial[v]) {
            g->values[v]->grad = grads.partial[v];
            grads.partial[v]->is_output = true;
        }
    reorder_nodes(g, forward_nodes);
    return weft_graph_status(g);
}

enum weft_status weft_graph_backward(struct weft_graph *g, struct weft_value *loss)
{
    TRY(weft_graph_status(g));
    if (!loss)
        return FAIL(WEFT_INVALID, "there is no loss to differentiate");
    g->in_backward_pass = true;
    struct weft_node *one = weft_graph_emit(g, g->arithmetic.fill, &(struct weft_fill){1, loss->shape}, 0, NULL);
    TRY(weft_graph_status(g));
    return weft_graph_backward_from(g, 1, &loss, one->out);
}

struct weft_value *weft_graph_gradient(const struct weft_value *v) { return v->grad; }
