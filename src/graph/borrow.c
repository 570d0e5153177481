/* SPDX-License-Identifier: MIT
 *
 * borrow.c - lets two executions of one model share prepared values: the first prepares them, and both read them. For
 * example, a graph for many rows and a graph for single rows pack the weights only once.
 */
#include "graph/internal.h"

#include <string.h>

static bool same_shape(const struct weft_value *a, const struct weft_value *b)
{
    bool same = a->dtype == b->dtype && a->packed_bytes == b->packed_bytes && a->shape.ndim == b->shape.ndim;
    for (int i = 0; same && i < a->shape.ndim; i++)
        same = !a->shape.dim[i].symbol && !b->shape.dim[i].symbol && a->shape.dim[i].times == b->shape.dim[i].times;
    return same;
}

/* Returns whether two nodes compute the same result: the same op and attributes, on parameters with the same names. */
static bool same_work(const struct weft_node *a, const struct weft_node *b)
{
    bool same = a->op == b->op && (!a->op->attr_bytes || memcmp(a->attr, b->attr, a->op->attr_bytes) == 0) &&
                !a->backward && !b->backward && !a->out[1] && !b->out[1] && same_shape(a->out[0], b->out[0]);
    for (int i = 0; same && i < WEFT_MAX_ARGS; i++) {
        const struct weft_value *x = a->in[i], *y = b->in[i];
        same = !x == !y && (!x || (x->kind == WEFT_PARAM && y->kind == WEFT_PARAM && strcmp(x->name, y->name) == 0 &&
                                   same_shape(x, y)));
    }
    return same;
}

const struct weft_value *weft_exec_prepared(const struct weft_exec *exec, const struct weft_node *node)
{
    if (!node->in[0] || node->in[0]->kind != WEFT_PARAM || node->op->is_view || node->op->updates)
        return NULL;
    for (int i = 0; i < exec->prepare_count; i++) {
        const struct weft_node *at = exec->prepare[i].node;
        if (same_work(at, node) && exec->kept[at->out[0]->id])
            return at->out[0];
    }
    return NULL;
}
