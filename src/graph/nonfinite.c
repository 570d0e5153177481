/* SPDX-License-Identifier: MIT
 *
 * nonfinite.c - finds the first value that is not finite, in execution order.
 *
 * By the end of a run a NaN or infinity has spread to nearly everything that depends on it, and the memory of the first
 * one may have been reused. So the steps run again, one by one, and the outputs of each are checked before the next one
 * starts: the same inputs give the same bits. In-place steps need no special care, since their input was finite.
 */
#include "graph/internal.h"

#include <math.h>

struct nonfinite {
    const struct weft_node *node;
    const struct weft_value *value;
    int64_t element;
};

/* Packed weights are opaque, and a state may have rows that were never written. */
static bool is_readable(const struct weft_exec *exec, const struct weft_value *v)
{
    bool opaque = v->packed_bytes && !weft_mode_is_reference(exec->mode);
    return !opaque && weft_dtype_is_float(v->dtype) && weft_value_root(v)->kind != WEFT_STATE;
}

static bool find_in(const struct weft_exec *exec, struct nonfinite *first)
{
    const struct weft_tensor *t = &exec->tensors[first->value->id];
    int64_t count = is_readable(exec, first->value) ? weft_tensor_count(t) : 0;
    for (first->element = 0; first->element < count; first->element++)
        if (!isfinite(weft_tensor_get(t, first->element)))
            return true;
    return false;
}

static bool find_after(const struct weft_exec *exec, const struct weft_node *node, struct nonfinite *first)
{
    struct weft_value *list[MAX_TOUCHED];
    int n = weft_node_writes(node, list);
    first->node = node;
    for (int i = 0; i < n; i++) {
        first->value = list[i];
        if (find_in(exec, first))
            return true;
    }
    return false;
}

/* ---- the message */

/* The first weight that a node reads, directly or through values computed in prepare; NULL: none. */
static const char *weight_of(const struct weft_node *node)
{
    struct weft_value *list[MAX_TOUCHED];
    const char *name = NULL;
    int n = weft_node_reads(node, list);
    for (int i = 0; i < n && !name; i++)
        if (weft_value_is_fixed(list[i]))
            name = list[i]->node ? weight_of(list[i]->node) : list[i]->name;
    return name;
}

static bool is_gradient(const struct nonfinite *first)
{
    bool is_output = false;
    for (int o = 0; o < WEFT_MAX_ARGS; o++)
        is_output |= first->node->out[o] == first->value;
    return first->node->backward ? !is_output : first->node->in_backward_pass;
}

static void describe(const struct weft_exec *exec, const struct nonfinite *first, char *text, size_t size)
{
    const struct weft_node *node = first->node;
    if (first->value->kind == WEFT_GRAD) {
        snprintf(text, size, "the gradient of %s is not finite at element %lld", first->value->name,
                 (long long)first->element);
        return;
    }
    const char *weight = weight_of(node);
    int64_t width = weft_tensor_width(&exec->tensors[first->value->id]);
    char layer[32] = "";
    if (node->label >= 0)
        snprintf(layer, sizeof layer, " in layer %d", node->label);
    snprintf(text, size, "the %s %s%s%s%s is not finite at row %lld, element %lld",
             is_gradient(first) ? "gradient from" : "output of", node->op->name, weight ? " with " : "",
             weight ? weight : "", layer, (long long)(first->element / width), (long long)(first->element % width));
}

bool weft_exec_find_nonfinite(struct weft_exec *exec, char *text, size_t size)
{
    struct nonfinite first;
    struct weft_threads_scope scope;
    bool found = false;
    weft_threads_enter(&scope, exec->threads);
    for (int s = 0; s < exec->prepare_count + exec->run_count && !found; s++) {
        weft_exec_step(exec, &exec->prepare[s]);
        found = find_after(exec, exec->prepare[s].node, &first);
    }
    (void)weft_deferred(); /* of a kernel that failed: there is nothing to look at */
    weft_threads_leave(&scope);
    if (found)
        describe(exec, &first, text, size);
    return found;
}
