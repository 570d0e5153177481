/* SPDX-License-Identifier: MIT
 *
 * print_atoms.c - one atom of a form as a Python expression.
 */
#include "export/torch/print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct weft_py call(const char *text) { return (struct weft_py){text, WEFT_BINDS_CALL}; }

static const char *in(struct weft_torch_printer *p, const struct weft_atom *a, int i, enum weft_binding binding)
{
    return weft_torch_text(p, a->in[i], binding);
}

/* ---- numbers */

/* Returns a number n with 1 / n = value that is shorter to write than the value; 0 if there is none. */
static double inverse(struct weft_torch_printer *p, double value)
{
    double n = strtod(weft_torch_print(p, "%.6g", 1 / value), NULL);
    bool shorter = strlen(weft_torch_real(p, n)) < strlen(weft_torch_real(p, value));
    return isfinite(n) && 1 / n == value && shorter ? n : 0;
}

/* Returns n if value is 1 / sqrt(n); else 0. */
static double inverse_root(double value)
{
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
    return (struct weft_py){weft_torch_print(p, "%s %s %s", left, sign, right), binding};
}

static struct weft_py difference(struct weft_torch_printer *p, const struct weft_atom *a)
{
    if (a->in[0] == a->in[1])
        return call(weft_torch_print(p, "torch.zeros_like(%s)", in(p, a, 0, WEFT_BINDS_COMPARISON)));
    return infix(p, a, "-", WEFT_BINDS_SUM);
}

/* Numbers are on the right. */
static struct weft_py less(struct weft_torch_printer *p, const struct weft_atom *a)
{
    double value;
    if (!weft_torch_constant(a->in[0], &value))
        return infix(p, a, "<", WEFT_BINDS_COMPARISON);
    return (struct weft_py){weft_torch_print(p, "%s > %s", in(p, a, 1, WEFT_BINDS_AND), in(p, a, 0, WEFT_BINDS_AND)),
                            WEFT_BINDS_COMPARISON};
}

static struct weft_py product(struct weft_torch_printer *p, const struct weft_atom *a)
{
    double n;
    bool scaled = weft_torch_constant(a->in[1], &n);
    const char *x = in(p, a, 0, WEFT_BINDS_PRODUCT);
    if (a->in[0] == a->in[1])
        return call(weft_torch_print(p, "%s.square()", in(p, a, 0, WEFT_BINDS_CALL)));
    if (scaled && n == -1)
        return (struct weft_py){weft_torch_print(p, "-%s", in(p, a, 0, WEFT_BINDS_CALL)), WEFT_BINDS_SIGN};
    const struct weft_atom *sum = a->in[0];
    if (scaled && sum->kind == WEFT_ATOM_sum && !p->of[sum->id].named &&
        sum->in[0]->type.dim[axis_from_start(sum)].times == 1 / n)
        return call(weft_torch_print(p, "%s.mean(%d, keepdim=True)", in(p, sum, 0, WEFT_BINDS_CALL),
                                     axis_of(sum->in[0], sum->axis)));
    if (scaled && inverse(p, n) != 0)
        return (struct weft_py){weft_torch_print(p, "%s / %.6g", x, inverse(p, n)), WEFT_BINDS_PRODUCT};
    if (scaled && inverse_root(n) != 0)
        return (struct weft_py){weft_torch_print(p, "%s / math.sqrt(%.0f)", x, inverse_root(n)), WEFT_BINDS_PRODUCT};
    return infix(p, a, "*", WEFT_BINDS_PRODUCT);
}

/* The larger or smaller of two values; of a value and a number as clamp. */
static struct weft_py extreme(struct weft_torch_printer *p, const struct weft_atom *a)
{
    bool larger = a->kind == WEFT_ATOM_max;
    double value;
    for (int i = 0; i < 2; i++)
        if (weft_torch_constant(a->in[i], &value))
            return call(weft_torch_print(p, "%s.clamp(%s=%s)", in(p, a, !i, WEFT_BINDS_CALL), larger ? "min" : "max",
                                         in(p, a, i, WEFT_BINDS_COMPARISON)));
    return call(weft_torch_print(p, "torch.%simum(%s, %s)", larger ? "max" : "min", in(p, a, 0, WEFT_BINDS_COMPARISON),
                                 in(p, a, 1, WEFT_BINDS_COMPARISON)));
}

static struct weft_py choose(struct weft_torch_printer *p, const struct weft_atom *a)
{
    return call(weft_torch_print(p, "torch.where(%s, %s, %s)", in(p, a, 0, WEFT_BINDS_COMPARISON),
                                 in(p, a, 1, WEFT_BINDS_COMPARISON), in(p, a, 2, WEFT_BINDS_COMPARISON)));
}

static struct weft_py convert(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const char *x = in(p, a, 0, WEFT_BINDS_CALL);
    if (a->type.of == WEFT_REAL)
        return call(weft_torch_print(p, "%s.to(%s.dtype)", x, p->scope == WEFT_TORCH_MODEL ? "self.wte" : "x"));
    return call(weft_torch_print(p, "%s.%s()", x, a->type.of == WEFT_WHOLE ? "long" : "bool"));
}

static struct weft_py method(struct weft_torch_printer *p, const struct weft_atom *a, const char *name)
{
    return call(weft_torch_print(p, "%s.%s()", in(p, a, 0, WEFT_BINDS_CALL), name));
}

/* ---- matrices and reductions */

static struct weft_py matmul(struct weft_torch_printer *p, const struct weft_atom *a)
{
    if (a->transposed && a->in[1]->type.ndim == 2 && a->in[0]->type.ndim > 1)
        return call(weft_torch_print(p, "F.linear(%s, %s)", in(p, a, 0, WEFT_BINDS_COMPARISON),
                                     in(p, a, 1, WEFT_BINDS_COMPARISON)));
    return (struct weft_py){weft_torch_print(p, "%s @ %s%s", in(p, a, 0, WEFT_BINDS_CALL), in(p, a, 1, WEFT_BINDS_CALL),
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
    return call(weft_torch_print(p, "%s.%s(%d%s)%s", in(p, a, 0, WEFT_BINDS_CALL), names[a->kind],
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
        return call(weft_torch_print(p, "F.embedding(%s, %s)", index, x));
    if (axis == table->type.ndim - 1 && axis > 1)
        return call(weft_torch_print(p, "%s[..., %s]", x, index));
    for (int i = 0; i < axis; i++)
        before = weft_torch_print(p, "%s:, ", before);
    return call(weft_torch_print(p, "%s[%s%s]", x, before, index));
}

static struct weft_py pick(struct weft_torch_printer *p, const struct weft_atom *a)
{
    return call(weft_torch_print(p, "%s.gather(%d, %s)", in(p, a, 0, WEFT_BINDS_CALL), axis_of(a->in[0], a->axis),
                                 in(p, a, 1, WEFT_BINDS_COMPARISON)));
}

static struct weft_py put(struct weft_torch_printer *p, const struct weft_atom *a)
{
    return call(weft_torch_print(p, "%s.scatter(%d, %s, %s)", in(p, a, 0, WEFT_BINDS_CALL), axis_of(a->in[0], a->axis),
                                 in(p, a, 1, WEFT_BINDS_COMPARISON), in(p, a, 2, WEFT_BINDS_COMPARISON)));
}

static struct weft_py top(struct weft_torch_printer *p, const struct weft_atom *a)
{
    int axis = axis_of(a->in[0], a->axis);
    const char *all =
        weft_torch_print(p, "%s.argsort(dim=%d, descending=True, stable=True)", in(p, a, 0, WEFT_BINDS_CALL), axis);
    if (axis == -1)
        return call(weft_torch_print(p, "%s[..., :%lld]", all, (long long)a->count));
    const char *before = "";
    for (int i = 0; i < axis; i++)
        before = weft_torch_print(p, "%s:, ", before);
    return call(weft_torch_print(p, "%s[%s:%lld]", all, before, (long long)a->count));
}

/* ---- rows */

static struct weft_py input(struct weft_torch_printer *p, const struct weft_atom *a)
{
    p->sizes = p->sizes || strcmp(a->name, "weight") != 0;
    if (strcmp(a->name, "tokens") == 0 || strcmp(a->name, "targets") == 0)
        return call(a->name);
    if (strcmp(a->name, "pos") == 0 || strcmp(a->name, "position") == 0)
        return call("torch.arange(length, device=tokens.device).expand(batch, length)");
    if (strcmp(a->name, "seq") == 0)
        return call("torch.arange(batch, device=tokens.device)[:, None].expand(batch, length)");
    if (strcmp(a->name, "weight") == 0)
        return (struct weft_py){"1 / (targets >= 0).sum().clamp(min=1)", WEFT_BINDS_PRODUCT};
    if (strcmp(a->name, "share") == 0)
        return call("1.0");
    p->status = FAIL(WEFT_INVALID, "PyTorch export: an op reads the input %s, which has no meaning here", a->name);
    return call("");
}

static struct weft_py rows(struct weft_torch_printer *p, const struct weft_atom *a)
{
    p->sizes = p->sizes || a->kind == WEFT_ATOM_spread;
    switch (a->kind) {
    case WEFT_ATOM_distance:
        return call("distances(tokens)");
    case WEFT_ATOM_visible:
        return (struct weft_py){"distances(tokens) >= 0", WEFT_BINDS_COMPARISON};
    case WEFT_ATOM_cumulate:
        return call(weft_torch_print(p, "%s.cumsum(1)", in(p, a, 0, WEFT_BINDS_CALL)));
    case WEFT_ATOM_pool:
        return call(weft_torch_print(p, "%s.%s(1)", in(p, a, 0, WEFT_BINDS_CALL),
                                     a->pooling == WEFT_POOL_SUM ? "sum" : "amax"));
    case WEFT_ATOM_spread: {
        const char *more = "";
        for (int i = 2; i < a->type.ndim; i++)
            more = weft_torch_print(p, "%s, -1", more);
        return call(weft_torch_print(p, "%s[:, None].expand(-1, length%s)", in(p, a, 0, WEFT_BINDS_CALL), more));
    }
    default:
        p->status = FAIL(WEFT_INVALID, "PyTorch export of %s: not supported", weft_atom_name(a->kind));
        return call("");
    }
}

static struct weft_py drop(struct weft_torch_printer *p, const struct weft_atom *a)
{
    return call(weft_torch_print(p, "F.dropout(%s, %s, self.training)", in(p, a, 0, WEFT_BINDS_COMPARISON),
                                 weft_torch_real(p, a->drop.p)));
}

/* ---- all atoms */

static struct weft_py arithmetic(struct weft_torch_printer *p, const struct weft_atom *a)
{
    switch (a->kind) {
    case WEFT_ATOM_add:
        return infix(p, a, "+", WEFT_BINDS_SUM);
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
        return call(weft_torch_print(p, "F.softplus(%s)", in(p, a, 0, WEFT_BINDS_COMPARISON)));
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

struct weft_py weft_torch_expression(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_node *node = weft_torch_idiom(p, a);
    p->reader = a;
    if (node)
        return weft_torch_node(p, a, node);
    switch (a->kind) {
    case WEFT_ATOM_input:
        return input(p, a);
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
        return a->kind > WEFT_ATOM_drop ? rows(p, a) : arithmetic(p, a);
    }
}
