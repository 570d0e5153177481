/* SPDX-License-Identifier: MIT
 *
 * print_atoms.c - one atom of a form as a Python expression.
 */
#include "export/torch/print.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct weft_py call(const char *text) { return (struct weft_py){text, WEFT_BINDS_CALL}; }

static const char *in(struct weft_torch_printer *p, const struct weft_atom *a, int i, enum weft_binding binding)
{
    return weft_torch_operand(p, a->in[i], binding);
}

/* ---- numbers */

/* Returns a number n with 1 / n = value that is shorter to write than the value; 0 if there is none. */
static double inverse(struct weft_torch_printer *p, double value)
{
    double n = strtod(weft_torch_text(p, "%.6g", 1 / value), NULL);
    bool shorter = strlen(weft_torch_real(p, n)) < strlen(weft_torch_real(p, value));
    return isfinite(n) && 1 / n == value && shorter ? n : 0;
}

/* Returns n if value is 1 / sqrt(n), and not a short number; else 0. */
static double inverse_root(struct weft_torch_printer *p, double value)
{
    if (strlen(weft_torch_real(p, value)) <= 8)
        return 0;
    double n = round(1 / (value * value));
    return value > 0 && n >= 2 && n < 1e9 && 1 / sqrt(n) == value ? n : 0;
}

/* ---- axes */

/* An axis of x as Python's programmers count it: the last is -1. */
static int axis_of(const struct weft_atom *x, int axis)
{
    axis = axis < 0 ? axis + x->type.ndim : axis;
    return axis == x->type.ndim - 1 ? -1 : axis;
}

static int axis_from_start(const struct weft_atom *a) { return a->axis < 0 ? a->axis + a->in[0]->type.ndim : a->axis; }

/* ---- elementwise */

static struct weft_py infix(struct weft_torch_printer *p, const struct weft_atom *a, const char *sign,
                            enum weft_binding binding)
{
    const char *left = in(p, a, 0, binding), *right = in(p, a, 1, (enum weft_binding)(binding - 1));
    if (binding == WEFT_BINDS_COMPARISON)
        left = in(p, a, 0, WEFT_BINDS_AND);
    return (struct weft_py){weft_torch_text(p, "%s %s %s", left, sign, right), binding};
}

/* A variable is written before what is added to it, the older of two variables first. */
static struct weft_py sum(struct weft_torch_printer *p, const struct weft_atom *a)
{
    bool named = p->of[a->in[0]->id].named;
    if (!p->of[a->in[1]->id].named || (named && a->in[0]->id < a->in[1]->id))
        return infix(p, a, "+", WEFT_BINDS_SUM);
    const char *left = in(p, a, 1, WEFT_BINDS_SUM), *right = in(p, a, 0, WEFT_BINDS_PRODUCT);
    return (struct weft_py){weft_torch_text(p, "%s + %s", left, right), WEFT_BINDS_SUM};
}

static struct weft_py difference(struct weft_torch_printer *p, const struct weft_atom *a)
{
    if (a->in[0] == a->in[1])
        return call(weft_torch_text(p, "torch.zeros_like(%s)", in(p, a, 0, WEFT_BINDS_COMPARISON)));
    return infix(p, a, "-", WEFT_BINDS_SUM);
}

/* Numbers are on the right. */
static struct weft_py less(struct weft_torch_printer *p, const struct weft_atom *a)
{
    double value;
    if (!weft_torch_constant(a->in[0], &value))
        return infix(p, a, "<", WEFT_BINDS_COMPARISON);
    return (struct weft_py){weft_torch_text(p, "%s > %s", in(p, a, 1, WEFT_BINDS_AND), in(p, a, 0, WEFT_BINDS_AND)),
                            WEFT_BINDS_COMPARISON};
}

static struct weft_py product(struct weft_torch_printer *p, const struct weft_atom *a)
{
    double n;
    bool scaled = weft_torch_constant(a->in[1], &n);
    const char *x = in(p, a, 0, WEFT_BINDS_PRODUCT);
    if (a->in[0] == a->in[1])
        return call(weft_torch_text(p, "%s.square()", in(p, a, 0, WEFT_BINDS_CALL)));
    if (scaled && n == -1)
        return (struct weft_py){weft_torch_text(p, "-%s", in(p, a, 0, WEFT_BINDS_CALL)), WEFT_BINDS_SIGN};
    const struct weft_atom *sum = a->in[0];
    if (scaled && sum->kind == WEFT_ATOM_sum && !p->of[sum->id].named &&
        sum->in[0]->type.dim[axis_from_start(sum)].times == 1 / n)
        return call(weft_torch_text(p, "%s.mean(%d, keepdim=True)", in(p, sum, 0, WEFT_BINDS_CALL),
                                    axis_of(sum->in[0], sum->axis)));
    if (scaled && inverse(p, n) != 0)
        return (struct weft_py){weft_torch_text(p, "%s / %.6g", x, inverse(p, n)), WEFT_BINDS_PRODUCT};
    if (scaled && inverse_root(p, n) != 0)
        return (struct weft_py){weft_torch_text(p, "%s / math.sqrt(%.0f)", x, inverse_root(p, n)), WEFT_BINDS_PRODUCT};
    return infix(p, a, "*", WEFT_BINDS_PRODUCT);
}

/* The larger or smaller of two values; of a value and a number as clamp. */
static struct weft_py extreme(struct weft_torch_printer *p, const struct weft_atom *a)
{
    bool larger = a->kind == WEFT_ATOM_max;
    double value;
    for (int i = 0; i < 2; i++)
        if (weft_torch_constant(a->in[i], &value))
            return call(weft_torch_text(p, "%s.clamp(%s=%s)", in(p, a, !i, WEFT_BINDS_CALL), larger ? "min" : "max",
                                        in(p, a, i, WEFT_BINDS_COMPARISON)));
    return call(weft_torch_text(p, "torch.%simum(%s, %s)", larger ? "max" : "min", in(p, a, 0, WEFT_BINDS_COMPARISON),
                                in(p, a, 1, WEFT_BINDS_COMPARISON)));
}

static struct weft_py choose(struct weft_torch_printer *p, const struct weft_atom *a)
{
    return call(weft_torch_text(p, "torch.where(%s, %s, %s)", in(p, a, 0, WEFT_BINDS_COMPARISON),
                                in(p, a, 1, WEFT_BINDS_COMPARISON), in(p, a, 2, WEFT_BINDS_COMPARISON)));
}

static struct weft_py convert(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const char *x = in(p, a, 0, WEFT_BINDS_CALL);
    if (a->type.of == WEFT_REAL && p->code == WEFT_TORCH_DECODER)
        return call(weft_torch_text(p, "%s.float()", x));
    if (a->type.of == WEFT_REAL)
        return call(weft_torch_text(p, "%s.to(%s.dtype)", x, p->scope == WEFT_TORCH_MODEL ? "self.wte.weight" : "x"));
    return call(weft_torch_text(p, "%s.%s()", x, a->type.of == WEFT_WHOLE ? "long" : "bool"));
}

static struct weft_py method(struct weft_torch_printer *p, const struct weft_atom *a, const char *name)
{
    return call(weft_torch_text(p, "%s.%s()", in(p, a, 0, WEFT_BINDS_CALL), name));
}

/* ---- matrices and reductions */

static struct weft_py matmul(struct weft_torch_printer *p, const struct weft_atom *a)
{
    if (a->transposed && a->in[1]->type.ndim == 2 && a->in[0]->type.ndim > 1)
        return call(weft_torch_text(p, "F.linear(%s, %s)", in(p, a, 0, WEFT_BINDS_COMPARISON),
                                    in(p, a, 1, WEFT_BINDS_COMPARISON)));
    return (struct weft_py){weft_torch_text(p, "%s @ %s%s", in(p, a, 0, WEFT_BINDS_CALL), in(p, a, 1, WEFT_BINDS_CALL),
                                            a->transposed ? ".mT" : ""),
                            WEFT_BINDS_PRODUCT};
}

static struct weft_py along(struct weft_torch_printer *p, const struct weft_atom *a)
{
    static const char *const names[WEFT_ATOMS] = {[WEFT_ATOM_sum] = "sum",
                                                  [WEFT_ATOM_largest] = "max",
                                                  [WEFT_ATOM_argmax] = "argmax",
                                                  [WEFT_ATOM_logsumexp] = "logsumexp",
                                                  [WEFT_ATOM_softmax] = "softmax"};
    return call(weft_torch_text(p, "%s.%s(%d%s)%s", in(p, a, 0, WEFT_BINDS_CALL), names[a->kind],
                                axis_of(a->in[0], a->axis), a->kind == WEFT_ATOM_softmax ? "" : ", keepdim=True",
                                a->kind == WEFT_ATOM_largest ? ".values" : ""));
}

/* ---- indices */

static struct weft_py take(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_atom *table = a->in[0];
    int axis = a->axis < 0 ? a->axis + table->type.ndim : a->axis;
    const char *x = in(p, a, 0, WEFT_BINDS_CALL), *index = in(p, a, 1, WEFT_BINDS_COMPARISON), *before = "";
    if (axis == 0 && table->type.ndim == 2 && table->kind == WEFT_ATOM_weight)
        return call(weft_torch_text(p, "F.embedding(%s, %s)", index, x));
    if (axis == table->type.ndim - 1 && axis > 1)
        return call(weft_torch_text(p, "%s[..., %s]", x, index));
    for (int i = 0; i < axis; i++)
        before = weft_torch_text(p, "%s:, ", before);
    return call(weft_torch_text(p, "%s[%s%s]", x, before, index));
}

static struct weft_py pick(struct weft_torch_printer *p, const struct weft_atom *a)
{
    return call(weft_torch_text(p, "%s.gather(%d, %s)", in(p, a, 0, WEFT_BINDS_CALL), axis_of(a->in[0], a->axis),
                                in(p, a, 1, WEFT_BINDS_COMPARISON)));
}

static struct weft_py put(struct weft_torch_printer *p, const struct weft_atom *a)
{
    return call(weft_torch_text(p, "%s.scatter(%d, %s, %s)", in(p, a, 0, WEFT_BINDS_CALL), axis_of(a->in[0], a->axis),
                                in(p, a, 1, WEFT_BINDS_COMPARISON), in(p, a, 2, WEFT_BINDS_COMPARISON)));
}

static struct weft_py top(struct weft_torch_printer *p, const struct weft_atom *a)
{
    int axis = axis_of(a->in[0], a->axis);
    const char *all =
        weft_torch_text(p, "%s.argsort(dim=%d, descending=True, stable=True)", in(p, a, 0, WEFT_BINDS_CALL), axis);
    if (axis == -1)
        return call(weft_torch_text(p, "%s[..., :%lld]", all, (long long)a->count));
    const char *before = "";
    for (int i = 0; i < axis; i++)
        before = weft_torch_text(p, "%s:, ", before);
    return call(weft_torch_text(p, "%s[%s:%lld]", all, before, (long long)a->count));
}

/* ---- training */

static struct weft_py drop(struct weft_torch_printer *p, const struct weft_atom *a)
{
    return call(weft_torch_text(p, "F.dropout(%s, %s, self.training)", in(p, a, 0, WEFT_BINDS_COMPARISON),
                                weft_torch_real(p, a->drop.p)));
}

/* ---- all atoms */

static struct weft_py arithmetic(struct weft_torch_printer *p, const struct weft_atom *a)
{
    switch (a->kind) {
    case WEFT_ATOM_add:
        return sum(p, a);
    case WEFT_ATOM_sub:
        return difference(p, a);
    case WEFT_ATOM_mul:
        return product(p, a);
    case WEFT_ATOM_div:
        return infix(p, a, "/", WEFT_BINDS_PRODUCT);
    case WEFT_ATOM_max:
    case WEFT_ATOM_min:
        return extreme(p, a);
    case WEFT_ATOM_softplus:
        return call(weft_torch_text(p, "F.softplus(%s)", in(p, a, 0, WEFT_BINDS_COMPARISON)));
    case WEFT_ATOM_less:
        return less(p, a);
    case WEFT_ATOM_equal:
        return infix(p, a, "==", WEFT_BINDS_COMPARISON);
    case WEFT_ATOM_both:
        return infix(p, a, "&", WEFT_BINDS_AND);
    case WEFT_ATOM_choose:
        return choose(p, a);
    case WEFT_ATOM_to:
        return convert(p, a);
    default:
        return method(p, a, weft_atom_name(a->kind));
    }
}

static struct weft_py expression(struct weft_torch_printer *p, const struct weft_atom *a)
{
    p->reader = a;
    if (p->of[a->id].idiom.kind != WEFT_IDIOM_NONE)
        return weft_torch_idiom(p, a);
    switch (a->kind) {
    case WEFT_ATOM_input:
        return weft_torch_input(p, a);
    case WEFT_ATOM_matmul:
        return matmul(p, a);
    case WEFT_ATOM_sum:
    case WEFT_ATOM_largest:
    case WEFT_ATOM_argmax:
    case WEFT_ATOM_logsumexp:
    case WEFT_ATOM_softmax:
        return along(p, a);
    case WEFT_ATOM_take:
        return take(p, a);
    case WEFT_ATOM_pick:
        return pick(p, a);
    case WEFT_ATOM_put:
        return put(p, a);
    case WEFT_ATOM_top:
        return top(p, a);
    case WEFT_ATOM_stop:
        return method(p, a, "detach");
    case WEFT_ATOM_drop:
        return drop(p, a);
    default:
        if (a->kind >= WEFT_ATOM_reshape && a->kind <= WEFT_ATOM_pad)
            return weft_torch_shape(p, a);
        return a->kind > WEFT_ATOM_drop || a->kind == WEFT_ATOM_state ? weft_torch_rows(p, a) : arithmetic(p, a);
    }
}

/* Sums and counts of tokens are f32 in a decoder whose weights are bf16; the mean over a sequence gets their dtype. */
static bool ends_f32(const struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_node *node = p->code == WEFT_TORCH_DECODER ? a->from : NULL;
    return node && node->op == weft_op(WEFT_OP_prefix_mean) && weft_torch_of(p, node->out[0]) == a;
}

struct weft_py weft_torch_expression(struct weft_torch_printer *p, const struct weft_atom *a)
{
    struct weft_py py = expression(p, a);
    if (!ends_f32(p, a))
        return py;
    return call(weft_torch_text(p, py.binding > WEFT_BINDS_CALL ? "(%s).to(x.dtype)" : "%s.to(x.dtype)", py.text));
}
