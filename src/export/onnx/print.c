/* SPDX-License-Identifier: MIT
 *
 * print.c - the operators of an ONNX graph: one atom of a model's form after another, in their order.
 *
 * Most atoms are one operator. Some values are printed differently: a matmul by a weight is Gemm on rows [batch *
 * length, width], with a bias if one is added to it; layernorm is LayerNormalization; a constant is an initializer.
 */
#include "export/onnx/print.h"
#include "ops/ops.h"

#include <string.h>

/* ---- shapes */

static bool is_same(struct weft_extent a, struct weft_extent b) { return a.size == b.size && a.times == b.times; }

/* Prints the shape operand of Reshape: 0 copies a dimension, and one unknown dimension is -1. */
static const char *reshape_dims(struct weft_printer *p, const struct weft_type *from, const struct weft_type *to)
{
    int64_t list[WEFT_FORM_DIMS];
    int unknown = 0;
    for (int i = 0; i < to->ndim; i++) {
        bool known = to->dim[i].size == WEFT_FIXED, copied = i < from->ndim && is_same(from->dim[i], to->dim[i]);
        list[i] = known ? to->dim[i].times : copied ? 0 : -1;
        unknown += !known && !copied;
    }
    return unknown > 1 ? weft_print_dims(p, to) : weft_onnx_list(p->g, to->ndim, list);
}

static bool is_one(struct weft_extent e) { return e.size == WEFT_FIXED && e.times == 1; }

/* Finds the dimensions of size 1 that `longer` has and `shorter` does not; returns their number, -1 if they differ
 * otherwise. */
static int find_ones(const struct weft_type *shorter, const struct weft_type *longer, int64_t axes[WEFT_FORM_DIMS])
{
    int count = 0, at = 0;
    for (int i = 0; i < longer->ndim; i++) {
        if (at < shorter->ndim && is_same(shorter->dim[at], longer->dim[i]))
            at++;
        else if (is_one(longer->dim[i]))
            axes[count++] = i;
        else
            return -1;
    }
    return at == shorter->ndim ? count : -1;
}

static const char *reshape(struct weft_printer *p, const struct weft_atom *a)
{
    const struct weft_type *from = &a->in[0]->type, *to = &a->type;
    const char *x = weft_print_in(p, a, 0);
    int64_t axes[WEFT_FORM_DIMS];
    int more = find_ones(from, to, axes);
    if (more > 0)
        return NODE(p->g, "Unsqueeze", x, weft_onnx_list(p->g, more, axes));
    int fewer = find_ones(to, from, axes);
    if (fewer > 0)
        return NODE(p->g, "Squeeze", x, weft_onnx_list(p->g, fewer, axes));
    return NODE(p->g, "Reshape", x, reshape_dims(p, from, to));
}

static const char *permute(struct weft_printer *p, const char *x, int count, const int *axes)
{
    struct weft_onnx_attr attr = {"perm", WEFT_ATTR_INTS, 0, count, {0}};
    for (int i = 0; i < count; i++)
        attr.list[i] = axes[i];
    return weft_onnx_op(p->g, "Transpose", &attr, WEFT_NAMES(x));
}

/* Transposes the last two dimensions. */
static const char *transpose(struct weft_printer *p, const char *x, int count)
{
    int axes[WEFT_FORM_DIMS] = {0, 1, 2, 3, 4, 5};
    axes[count - 1] = count - 2;
    axes[count - 2] = count - 1;
    return permute(p, x, count, axes);
}

/* ---- matmul */

static bool is_weight(const struct weft_atom *a) { return a->kind == WEFT_ATOM_weight; }

static bool transposes(const struct weft_atom *a)
{
    int n = a->type.ndim;
    bool last = a->kind == WEFT_ATOM_permute && a->axes[n - 1] == n - 2 && a->axes[n - 2] == n - 1;
    for (int i = 0; last && i < n - 2; i++)
        last = a->axes[i] == i;
    return last;
}

/* The right-hand matrix of a matmul without transpositions. */
struct factor {
    const struct weft_atom *matrix;
    bool transposed;
};
static struct factor factor_of(const struct weft_atom *a)
{
    struct factor f = {a->in[1], a->transposed};
    for (; transposes(f.matrix); f.matrix = f.matrix->in[0])
        f.transposed = !f.transposed;
    return f;
}

/* Returns whether a matmul is of rows by one matrix, and can be Gemm. */
static bool is_gemm(const struct weft_atom *a)
{
    return a->kind == WEFT_ATOM_matmul && a->in[0]->type.ndim <= 3 && is_weight(factor_of(a).matrix) &&
           factor_of(a).matrix->type.ndim == 2;
}

static const char *gemm(struct weft_printer *p, const struct weft_atom *a)
{
    struct factor f = factor_of(a);
    const char *x = weft_print_in(p, a, 0), *w = weft_print_source(p, f.matrix), *bias = NULL, *y;
    int64_t depth = weft_last_of(a->in[0]);
    struct weft_atom *sum = p->of[a->id].bias;
    if (sum)
        bias = weft_print_source(p, sum->in[sum->in[0] == a]);
    struct weft_onnx_attr attr = {"transB", WEFT_ATTR_INT, 0, 1, {f.transposed}};
    if (a->type.ndim == 3)
        x = NODE(p->g, "Reshape", x, INTS(p->g, -1, depth));
    y = weft_onnx_op(p->g, "Gemm", &attr, WEFT_NAMES(x, w, bias));
    if (a->type.ndim < 3)
        return y;
    return NODE(p->g, "Reshape", y, weft_print_dims(p, &a->type));
}

static const char *matmul(struct weft_printer *p, const struct weft_atom *a)
{
    struct factor f = factor_of(a);
    if (is_gemm(a))
        return gemm(p, a);
    const char *matrix = p->of[f.matrix->id].value;
    return NODE(p->g, "MatMul", weft_print_in(p, a, 0),
                f.transposed ? transpose(p, matrix, f.matrix->type.ndim) : matrix);
}

/* ---- the other atoms with operators of their own */

static const char *convert(struct weft_printer *p, const struct weft_atom *a)
{
    static const enum weft_onnx_type type[] = {WEFT_ONNX_FLOAT, WEFT_ONNX_INT64, WEFT_ONNX_BOOL};
    return NODE_INT(p->g, "Cast", "to", type[a->type.of], weft_print_in(p, a, 0));
}

/* Not as ReduceLogSumExp: ONNX Runtime 1.31 returns -inf if the first element is -inf and all others are below -104. */
static const char *logsumexp(struct weft_printer *p, const struct weft_atom *a)
{
    struct weft_onnx *g = p->g;
    const char *x = weft_print_in(p, a, 0), *largest = NODE_AXES(g, "ReduceMax", a->axis, x);
    const char *sum = NODE(g, "ReduceSum", NODE(g, "Exp", NODE(g, "Sub", x, largest)), INTS(g, a->axis));
    return NODE(g, "Add", largest, NODE(g, "Log", sum));
}

static const char *along(struct weft_printer *p, const struct weft_atom *a)
{
    const char *x = weft_print_in(p, a, 0);
    switch (a->kind) {
    case WEFT_ATOM_sum:
        return NODE(p->g, "ReduceSum", x, INTS(p->g, a->axis));
    case WEFT_ATOM_largest:
        return NODE_AXES(p->g, "ReduceMax", a->axis, x);
    case WEFT_ATOM_logsumexp:
        return logsumexp(p, a);
    case WEFT_ATOM_argmax:
        return NODE_INT(p->g, "ArgMax", "axis", a->axis, x);
    default:
        return NODE_INT(p->g, "Softmax", "axis", a->axis, x);
    }
}

static const char *slice(struct weft_printer *p, const struct weft_atom *a)
{
    struct weft_onnx *g = p->g;
    return weft_onnx_slice(g, weft_print_in(p, a, 0), INTS(g, a->first), INTS(g, a->first + a->count), a->axis);
}

static const char *pad(struct weft_printer *p, const struct weft_atom *a)
{
    int64_t list[2 * WEFT_FORM_DIMS] = {0};
    list[a->axis] = a->first;
    list[a->type.ndim + a->axis] = a->count;
    return NODE(p->g, "Pad", weft_print_in(p, a, 0), weft_onnx_list(p->g, 2 * a->type.ndim, list));
}

static const char *put(struct weft_printer *p, const struct weft_atom *a)
{
    return NODE_INT(p->g, "ScatterElements", "axis", a->axis, weft_print_in(p, a, 0), weft_print_in(p, a, 1),
                    weft_print_in(p, a, 2));
}

/* TopK also prefers the smaller of equal indices. */
static const char *top(struct weft_printer *p, const struct weft_atom *a)
{
    struct weft_onnx *g = p->g;
    struct weft_onnx_attr attr = {"axis", WEFT_ATTR_INT, 0, 1, {a->axis}};
    const char *x = weft_print_in(p, a, 0),
               *size = weft_onnx_slice(g, NODE(g, "Shape", x), INTS(g, a->axis), INTS(g, a->axis + 1), 0);
    const char *best = weft_onnx_fresh(g, "best"), *at = weft_onnx_fresh(g, "at");
    weft_onnx_node(g, "TopK", &attr, WEFT_NAMES(x, NODE(g, "Min", size, INTS(g, a->count))), WEFT_NAMES(best, at));
    return at;
}

static const char *simple(struct weft_printer *p, const struct weft_atom *a)
{
    static const char *const types[WEFT_ATOMS] = {
        [WEFT_ATOM_add] = "Add",           [WEFT_ATOM_sub] = "Sub",     [WEFT_ATOM_mul] = "Mul",
        [WEFT_ATOM_div] = "Div",           [WEFT_ATOM_max] = "Max",     [WEFT_ATOM_min] = "Min",
        [WEFT_ATOM_exp] = "Exp",           [WEFT_ATOM_log] = "Log",     [WEFT_ATOM_sqrt] = "Sqrt",
        [WEFT_ATOM_tanh] = "Tanh",         [WEFT_ATOM_less] = "Less",   [WEFT_ATOM_sigmoid] = "Sigmoid",
        [WEFT_ATOM_softplus] = "Softplus", [WEFT_ATOM_equal] = "Equal", [WEFT_ATOM_both] = "And",
        [WEFT_ATOM_choose] = "Where",
    };
    const char *in[4] = {NULL};
    for (int i = 0; i < 3 && a->in[i]; i++)
        in[i] = weft_print_in(p, a, i);
    if (!types[a->kind]) {
        weft_onnx_fail(
            p->g, FAIL(WEFT_INVALID, "ONNX export of %s: not supported in a forward pass", weft_atom_name(a->kind)));
        return "";
    }
    return weft_onnx_op(p->g, types[a->kind], NULL, in);
}

static const char *print_atom(struct weft_printer *p, const struct weft_atom *a)
{
    struct weft_onnx *g = p->g;
    switch (a->kind) {
    case WEFT_ATOM_weight:
    case WEFT_ATOM_input:
    case WEFT_ATOM_state:
    case WEFT_ATOM_number:
    case WEFT_ATOM_array:
        return weft_print_source(p, a);
    case WEFT_ATOM_to:
        return convert(p, a);
    case WEFT_ATOM_matmul:
        return matmul(p, a);
    case WEFT_ATOM_sum:
    case WEFT_ATOM_largest:
    case WEFT_ATOM_argmax:
    case WEFT_ATOM_logsumexp:
    case WEFT_ATOM_softmax:
        return along(p, a);
    case WEFT_ATOM_reshape:
        return reshape(p, a);
    case WEFT_ATOM_permute:
        return permute(p, weft_print_in(p, a, 0), a->type.ndim, a->axes);
    case WEFT_ATOM_expand:
        return NODE(g, "Expand", weft_print_in(p, a, 0), weft_print_dims(p, &a->type));
    case WEFT_ATOM_concat:
        return CONCAT(g, a->axis, weft_print_in(p, a, 0), weft_print_in(p, a, 1));
    case WEFT_ATOM_slice:
        return slice(p, a);
    case WEFT_ATOM_pad:
        return pad(p, a);
    case WEFT_ATOM_take:
        return NODE_INT(g, "Gather", "axis", a->axis, weft_print_in(p, a, 0), weft_print_in(p, a, 1));
    case WEFT_ATOM_pick:
        return NODE_INT(g, "GatherElements", "axis", a->axis, weft_print_in(p, a, 0), weft_print_in(p, a, 1));
    case WEFT_ATOM_put:
        return put(p, a);
    case WEFT_ATOM_top:
        return top(p, a);
    default:
        return a->kind > WEFT_ATOM_drop ? weft_print_rows(p, a) : simple(p, a);
    }
}

/* ---- layernorm as one operator */

/* Returns the node that computes an atom, if it is a layernorm of whole rows and the atom is its result. */
static const struct weft_node *layernorm_of(const struct weft_printer *p, const struct weft_atom *a)
{
    const struct weft_node *node = a->from;
    bool is = node && node->op == weft_op(WEFT_OP_layernorm) && p->form->of_value[node->out[0]->id] == a;
    return is && weft_shape_width(&node->in[0]->shape) == weft_shape_width(&node->in[1]->shape) ? node : NULL;
}

static const char *layernorm(struct weft_printer *p, const struct weft_node *node)
{
    struct weft_onnx_attr eps = {"epsilon", WEFT_ATTR_FLOAT, ((const struct weft_norm_attr *)node->attr)->eps, 0, {0}};
    const char *in[4] = {NULL};
    for (int i = 0; i < 3 && node->in[i]; i++) {
        in[i] = p->of[p->form->of_value[node->in[i]->id]->id].value;
    }
    return weft_onnx_op(p->g, "LayerNormalization", &eps, in);
}

/* ---- all atoms */

/* Counts an atom as a reader of what its operator reads. */
static void count_inputs(struct weft_printer *p, const struct weft_atom *a)
{
    const struct weft_node *norm = layernorm_of(p, a);
    for (int i = 0; i < 3; i++) {
        const struct weft_atom *in = norm && norm->in[i] ? p->form->of_value[norm->in[i]->id] : norm ? NULL : a->in[i];
        if (i == 1 && a->kind == WEFT_ATOM_matmul)
            in = factor_of(a).matrix;
        if (in)
            p->of[in->id].readers++;
    }
}

static void count_readers(struct weft_printer *p)
{
    const struct weft_form *f = p->form;
    p->of[f->of_value[p->net->logits->id]->id].readers++;
    for (int i = f->count - 1; i >= 0; i--) {
        p->of[i].readers += f->list[i]->kind == WEFT_ATOM_store;
        if (p->of[i].readers)
            count_inputs(p, f->list[i]);
    }
}

/* Finds the additions of a weight [N] to a matmul that nothing else reads. */
static void find_biases(struct weft_printer *p)
{
    for (int i = 0; i < p->form->count; i++) {
        struct weft_atom *a = p->form->list[i];
        for (int k = 0; a->kind == WEFT_ATOM_add && p->of[i].readers && k < 2; k++)
            if (is_gemm(a->in[k]) && p->of[a->in[k]->id].readers == 1 && is_weight(a->in[1 - k]) &&
                a->in[1 - k]->type.ndim == 1) {
                p->of[a->in[k]->id].bias = a;
                p->of[i].skipped = true;
            }
    }
}

void weft_print_nodes(struct weft_printer *p)
{
    count_readers(p);
    find_biases(p);
    weft_print_find_heads(p);
    for (int i = 0; i < p->form->count && p->g->status == WEFT_OK; i++) {
        const struct weft_atom *a = p->form->list[i];
        struct weft_printed *to = &p->of[i];
        const struct weft_node *norm = layernorm_of(p, a);
        weft_onnx_scope(p->g, a->from);
        if (!to->readers || to->by_heads)
            continue;
        if (to->skipped) /* a bias: the matmul has it */
            to->value = p->of[a->in[is_weight(a->in[0])]->id].value;
        else
            to->value = norm ? layernorm(p, norm) : print_atom(p, a);
    }
    const char *logits = p->of[p->form->of_value[p->net->logits->id]->id].value;
    weft_onnx_node(p->g, "Identity", NULL, WEFT_NAMES(logits), WEFT_NAMES("logits"));
}
