/* SPDX-License-Identifier: MIT
 *
 * roles.c - compares the use of each weight in the training graph with its declared role and group, on which pruning,
 * accounts, optimisers and exports rely.
 *
 * A weight is followed through the ops that only move or convert it to the ops that read it: embed looks up rows, the
 * cross-entropy reads the head, linear multiplies. A matrix whose product is added to the residual stream writes into
 * the stream. All other ops read vectors, or their own tables.
 */
#include "check/probe/gate.h"
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

/* Bit set of the ways in which a weight is read. */
enum { LOOKED_UP = 1, LOGITS = 2, MULTIPLIED = 4, INTO_STREAM = 8, OTHERWISE = 16 };

struct reading {
    const struct weft_net *net;
    struct weft_node *const *nodes;
    int count;
    bool *stream; /* indexed by value id: whether the value is part of the residual stream */
};

static bool is_op(const struct weft_node *node, enum weft_op_id id) { return node->op == weft_op(id); }

/* Returns whether the node is in the forward pass. This includes the loss, although its backward kernel computes it. */
static bool is_forward(const struct weft_node *node)
{
    return !node->in_backward_pass || is_op(node, WEFT_OP_cross_entropy);
}

static bool passes_on(const struct weft_node *node)
{
    static const enum weft_op_id ids[] = {WEFT_OP_pack,   WEFT_OP_cast,  WEFT_OP_view,  WEFT_OP_transpose,
                                          WEFT_OP_concat, WEFT_OP_slice, WEFT_OP_split, WEFT_OP_detach};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (is_op(node, ids[i]))
            return true;
    return false;
}

/* ---- the stream */

static bool in_stream(const struct reading *r, const struct weft_value *v) { return v && r->stream[v->id]; }

/* The stream begins with the embedding of the tokens. Values of the same shape that are computed from the stream belong
 * to it, but the product of a matrix belongs to it only if it is added to the stream. */
static bool continues(const struct reading *r, const struct weft_node *node)
{
    if (is_op(node, WEFT_OP_embed))
        return node->in[1] == r->net->tokens;
    if (is_op(node, WEFT_OP_linear))
        return in_stream(r, node->in[WEFT_LINEAR_ADDEND]);
    bool first = in_stream(r, node->in[0]), second = is_op(node, WEFT_OP_add) && in_stream(r, node->in[1]);
    return first || second ? weft_shape_same(&node->in[0]->shape, &node->out[0]->shape) : false;
}

static void find_stream(const struct reading *r)
{
    for (int i = 0; i < r->count; i++)
        if (is_forward(r->nodes[i]) && r->nodes[i]->out[0])
            r->stream[r->nodes[i]->out[0]->id] = continues(r, r->nodes[i]);
}

/* Returns whether a separate op adds the result to the stream. */
static bool joins_stream(const struct reading *r, const struct weft_value *product)
{
    for (int i = 0; i < r->count; i++) {
        const struct weft_node *n = r->nodes[i];
        bool adds = is_op(n, WEFT_OP_add) && (n->in[0] == product || n->in[1] == product);
        if (is_forward(n) && adds && (in_stream(r, n->in[0]) || in_stream(r, n->in[1])))
            return true;
    }
    return false;
}

/* ---- readers */

static unsigned readers_of(const struct reading *r, const struct weft_value *v);

static unsigned reader(const struct reading *r, const struct weft_node *node, const struct weft_value *v)
{
    unsigned all = 0;
    if (passes_on(node)) {
        for (int o = 0; o < WEFT_MAX_ARGS; o++)
            all |= node->out[o] ? readers_of(r, node->out[o]) : 0;
        return all;
    }
    if (is_op(node, WEFT_OP_embed))
        return LOOKED_UP;
    if (is_op(node, WEFT_OP_cross_entropy))
        return v->shape.ndim > 1 ? LOGITS : OTHERWISE;
    if (!is_op(node, WEFT_OP_linear) || v->shape.ndim == 1)
        return OTHERWISE;
    bool added = in_stream(r, node->in[WEFT_LINEAR_ADDEND]) || joins_stream(r, node->out[0]);
    return added ? INTO_STREAM : MULTIPLIED;
}

static unsigned readers_of(const struct reading *r, const struct weft_value *v)
{
    unsigned all = 0;
    for (int i = 0; i < r->count; i++)
        for (int k = 0; is_forward(r->nodes[i]) && k < WEFT_MAX_ARGS; k++)
            if (r->nodes[i]->in[k] == v)
                all |= reader(r, r->nodes[i], v);
    return all;
}

/* ---- the comparison */

struct found {
    enum weft_role role;
    bool tied, own_table; /* own_table: read by an op other than embed */
};

static struct found role_of(unsigned how, const struct weft_param *w)
{
    struct found f = {.role = w->ndim == 1 ? WEFT_VECTOR : WEFT_TABLE, .own_table = true};
    if (how & LOOKED_UP)
        f = (struct found){.role = WEFT_TABLE, .tied = how & LOGITS};
    else if (how & LOGITS)
        f = (struct found){.role = WEFT_HEAD};
    else if (how & (MULTIPLIED | INTO_STREAM))
        f = (struct found){.role = how & INTO_STREAM ? WEFT_INTO_STREAM : WEFT_MATRIX};
    return f;
}

/* A table that an op other than embed reads may be trained as a vector, for example a bias per distance, which is not
 * an embedding. */
static bool is_trained_so(const struct weft_param *w, const struct found *f)
{
    static const enum weft_trained_as usual[] = {[WEFT_TABLE] = WEFT_TRAINED_EMBEDDING,
                                                 [WEFT_HEAD] = WEFT_TRAINED_HEAD,
                                                 [WEFT_MATRIX] = WEFT_TRAINED_MATRIX,
                                                 [WEFT_INTO_STREAM] = WEFT_TRAINED_MATRIX,
                                                 [WEFT_TAPS] = WEFT_TRAINED_MATRIX};
    if (f->role == WEFT_VECTOR)
        return w->group == (w->count == 1 ? WEFT_TRAINED_SCALAR : WEFT_TRAINED_VECTOR);
    return w->group == usual[f->role] || (f->own_table && w->group == WEFT_TRAINED_VECTOR);
}

static void compare(const struct weft_trial *t, const struct reading *r)
{
    const struct weft_params *p = &t->model->params;
    int wrong = 0, first = 0, wrong_group = 0, first_group = 0;
    struct found found = {0};
    for (int i = 0; i < p->count; i++) {
        const struct weft_param *w = &p->list[i];
        unsigned how = r->net->weights[i] ? readers_of(r, r->net->weights[i]) : 0;
        struct found f = role_of(how, w);
        if (how == 0) /* nothing reads it, which a different check reports */
            continue;
        if ((f.role != w->role || f.tied != w->tied) && wrong++ == 0) {
            first = i;
            found = f;
        }
        if (f.role == w->role && !is_trained_so(w, &f) && wrong_group++ == 0)
            first_group = i;
    }
    weft_trial_report(t, wrong == 0, wrong, 0, "weights whose declared role is not what the graph does with them",
                      "%s is declared as %s%s, but the graph reads it as %s%s", p->list[first].name,
                      p->list[first].tied ? "tied " : "", weft_role_name(p->list[first].role),
                      found.tied ? "tied " : "", weft_role_name(found.role));
    weft_trial_report(t, wrong_group == 0, wrong_group, 0, "weights that are trained in the group of another role",
                      "%s, %s: do not set its group, which follows from its role", p->list[first_group].name,
                      weft_role_name(p->list[first_group].role));
}

enum weft_status weft_check_roles(const struct weft_trial *t, const struct weft_net *train)
{
    struct weft_value *const *values;
    struct reading r = {.net = train};
    int n = weft_graph_values(train->g, &values);
    r.count = weft_graph_nodes(train->g, &r.nodes);
    r.stream = calloc((size_t)n + 1, sizeof *r.stream);
    if (!r.stream)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    find_stream(&r);
    compare(t, &r);
    free(r.stream);
    return WEFT_OK;
}
