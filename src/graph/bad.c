/* SPDX-License-Identifier: MIT
 *
 * bad.c - which value is the first that is not finite, in the order in which a run makes them.
 *
 * By the end of a run nearly everything that depends on a bad value is bad too, and its memory may have another tenant.
 * So the steps run again, one by one, and what each wrote is looked at before the next begins: with the same inputs it
 * is the same bits. Work in place is seen as any other, for its input was good.
 */
#include "graph/internal.h"

#include <math.h>

struct bad {
    const struct weft_node *node;
    const struct weft_value *value;
    int64_t element;
};

/* Packed weights are opaque; of a state only some rows were ever written. */
static bool is_readable(const struct weft_exec *exec, const struct weft_value *v)
{
    bool opaque = v->packed_bytes && !weft_mode_is_reference(exec->mode);
    return !opaque && weft_dtype_is_float(v->dtype) && weft_value_root(v)->kind != WEFT_STATE;
}

static bool find_in(const struct weft_exec *exec, struct bad *bad)
{
    const struct weft_tensor *t = &exec->tensors[bad->value->id];
    int64_t count = is_readable(exec, bad->value) ? weft_tensor_count(t) : 0;
    for (bad->element = 0; bad->element < count; bad->element++)
        if (!isfinite(weft_tensor_get(t, bad->element)))
            return true;
    return false;
}

static bool find_after(const struct weft_exec *exec, const struct weft_node *node, struct bad *bad)
{
    struct weft_value *list[MAX_TOUCHED];
    int n = weft_node_writes(node, list);
    bad->node = node;
    for (int i = 0; i < n; i++) {
        bad->value = list[i];
        if (find_in(exec, bad))
            return true;
    }
    return false;
}

/* ---- in words */

/* The first weight that a node reads, through whatever prepare made of it; NULL: none. */
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

static bool is_gradient(const struct bad *bad)
{
    bool is_output = false;
    for (int o = 0; o < WEFT_MAX_ARGS; o++)
        is_output |= bad->node->out[o] == bad->value;
    return bad->node->backward ? !is_output : bad->node->reverse;
}

static void tell(const struct weft_exec *exec, const struct bad *bad, char *text, size_t size)
{
    const struct weft_node *node = bad->node;
    if (bad->value->kind == WEFT_GRAD) {
        snprintf(text, size, "the gradient of %s is not finite at element %lld", bad->value->name,
                 (long long)bad->element);
        return;
    }
    const char *weight = weight_of(node);
    int64_t width = weft_tensor_width(&exec->tensors[bad->value->id]);
    char layer[32] = "";
    if (node->label >= 0)
        snprintf(layer, sizeof layer, " in layer %d", node->label);
    snprintf(text, size, "the %s %s%s%s%s is not finite at row %lld, element %lld",
             is_gradient(bad) ? "gradient from" : "output of", node->op->name, weight ? " with " : "",
             weight ? weight : "", layer, (long long)(bad->element / width), (long long)(bad->element % width));
}

bool weft_exec_find_bad(struct weft_exec *exec, char *text, size_t size)
{
    struct bad bad;
    for (int s = 0; s < exec->prepare_count + exec->run_count; s++) {
        weft_exec_step(exec, &exec->prepare[s]);
        if (find_after(exec, exec->prepare[s].node, &bad)) {
            tell(exec, &bad, text, size);
            return true;
        }
    }
    return false;
}
