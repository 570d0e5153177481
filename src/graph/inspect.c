/* SPDX-License-Identifier: MIT
 *
 * inspect.c - finds, in execution order, the first value that is non-finite or that differs between two executions.
 *
 * By the end of a run, a NaN, an infinity or a difference has spread to nearly everything that depends on it, and the
 * memory of the value in which it arose may have been reused. So the steps are run again one by one, with bit-identical
 * results, and the outputs of each step are inspected before the next one starts. In-place steps need no special care,
 * because their input has already been inspected.
 */
#include "graph/internal.h"

#include <math.h>
#include <string.h>

struct place {
    const struct weft_node *node;
    const struct weft_value *value;
    int64_t element;
};

/* Returns whether v can be inspected: packed weights are opaque, and a state may have rows that were never written. */
static bool is_readable(const struct weft_exec *exec, const struct weft_value *v)
{
    bool opaque = v->packed_bytes && !weft_mode_is_reference(exec->mode);
    return !opaque && weft_dtype_is_float(v->dtype) && weft_value_root(v)->kind != WEFT_STATE;
}

static bool find_in(const struct weft_exec *exec, struct place *first)
{
    const struct weft_tensor *t = &exec->tensors[first->value->id];
    int64_t count = is_readable(exec, first->value) ? weft_tensor_count(t) : 0;
    for (first->element = 0; first->element < count; first->element++)
        if (!isfinite(weft_tensor_get(t, first->element)))
            return true;
    return false;
}

static bool find_after(const struct weft_exec *exec, const struct weft_node *node, struct place *first)
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

/* Returns the first weight that a node reads, directly or through values computed in prepare, or NULL. */
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

static bool is_gradient(const struct place *first)
{
    bool is_output = false;
    for (int o = 0; o < WEFT_MAX_ARGS; o++)
        is_output |= first->node->out[o] == first->value;
    return first->node->backward ? !is_output : first->node->in_backward_pass;
}

static void describe(const struct weft_exec *exec, const struct place *first, const char *what, char *text, size_t size)
{
    const struct weft_node *node = first->node;
    if (first->value->kind == WEFT_GRAD) {
        snprintf(text, size, "the gradient of %s %s at element %lld", first->value->name, what,
                 (long long)first->element);
        return;
    }
    const char *weight = weight_of(node);
    int64_t width = weft_tensor_width(&exec->tensors[first->value->id]);
    char layer[32] = "";
    if (node->label >= 0)
        snprintf(layer, sizeof layer, " in layer %d", node->label);
    snprintf(text, size, "the %s %s%s%s%s %s at row %lld, element %lld",
             is_gradient(first) ? "gradient from" : "output of", node->op->name, weight ? " with " : "",
             weight ? weight : "", layer, what, (long long)(first->element / width),
             (long long)(first->element % width));
}

bool weft_exec_find_nonfinite(struct weft_exec *exec, char *text, size_t size)
{
    struct place first;
    struct weft_threads_scope scope;
    bool found = false;
    weft_threads_enter(&scope, exec->threads);
    for (int s = 0; s < exec->prepare_count + exec->run_count && !found; s++) {
        weft_exec_step(exec, &exec->prepare[s]);
        found = find_after(exec, exec->prepare[s].node, &first);
    }
    (void)weft_deferred(); /* ignored: a failed kernel leaves nothing to inspect */
    weft_threads_leave(&scope);
    if (found)
        describe(exec, &first, "is not finite", text, size);
    return found;
}

/* ---- two executions */

static bool differ_in(const struct weft_exec *a, const struct weft_exec *b, const struct weft_value *other,
                      struct place *first, double value[2])
{
    const struct weft_tensor *x = &a->tensors[first->value->id], *y = &b->tensors[other->id];
    int64_t count = is_readable(a, first->value) ? weft_min(weft_tensor_count(x), weft_tensor_count(y)) : 0;
    for (first->element = 0; first->element < count; first->element++) {
        value[0] = weft_tensor_get(x, first->element);
        value[1] = weft_tensor_get(y, first->element);
        if (memcmp(&value[0], &value[1], sizeof *value) != 0)
            return true;
    }
    return false;
}

static bool differ_after(const struct weft_exec *a, const struct weft_exec *b, const struct weft_node *x,
                         const struct weft_node *y, struct place *first, double value[2])
{
    struct weft_value *list[MAX_TOUCHED], *others[MAX_TOUCHED];
    int n = weft_node_writes(x, list), m = weft_node_writes(y, others);
    first->node = x;
    for (int i = 0; i < weft_min(n, m); i++) {
        first->value = list[i];
        if (differ_in(a, b, others[i], first, value))
            return true;
    }
    return false;
}

/* Runs the steps of both graphs in lockstep. If the graphs themselves differ, the first step without a counterpart is
 * reported. */
static bool compare_steps(struct weft_exec *a, struct weft_exec *b, bool prepare, char *text, size_t size,
                          double value[2])
{
    struct step *x = prepare ? a->prepare : a->run, *y = prepare ? b->prepare : b->run;
    int n = prepare ? a->prepare_count : a->run_count, m = prepare ? b->prepare_count : b->run_count;
    struct place first;
    for (int s = 0; s < weft_max(n, m); s++) {
        const struct weft_op *op = s < n ? x[s].node->op : NULL, *other = s < m ? y[s].node->op : NULL;
        if (!op || op != other || x[s].node->backward != y[s].node->backward) {
            value[0] = value[1] = NAN;
            snprintf(text, size, "A computes %s where B computes %s", op ? op->name : "nothing",
                     other ? other->name : "nothing");
            return true;
        }
        weft_exec_step(a, &x[s]);
        weft_exec_step(b, &y[s]);
        if (differ_after(a, b, x[s].node, y[s].node, &first, value)) {
            describe(a, &first, "differs", text, size);
            return true;
        }
    }
    return false;
}

bool weft_exec_find_difference(struct weft_exec *a, struct weft_exec *b, char *text, size_t size, double value[2])
{
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, (int)weft_min(a->threads, b->threads));
    bool found = compare_steps(a, b, true, text, size, value) || compare_steps(a, b, false, text, size, value);
    (void)weft_deferred();
    weft_threads_leave(&scope);
    return found;
}
