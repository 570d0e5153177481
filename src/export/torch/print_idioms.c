/* SPDX-License-Identifier: MIT
 *
 * print_idioms.c - nodes that PyTorch has a function for, printed as a call of it.
 */
#include "export/torch/print.h"
#include "ops/ops.h"

#include <math.h>

static const char *in(struct weft_torch_printer *p, const struct weft_node *node, int i)
{
    return weft_torch_text(p, weft_torch_of(p, node->in[i]), WEFT_BINDS_COMPARISON);
}

static const char *norm(struct weft_torch_printer *p, const struct weft_node *node)
{
    const struct weft_norm_attr *attr = node->attr;
    long long width = weft_shape_width(&node->in[1]->shape), whole = weft_shape_width(&node->in[0]->shape);
    bool centred = node->op == weft_op(WEFT_OP_layernorm), parts = width < whole;
    const char *x = parts ? weft_torch_text(p, weft_torch_of(p, node->in[0]), WEFT_BINDS_CALL) : in(p, node, 0);
    if (parts)
        x = weft_torch_print(p, "%s.unflatten(-1, (%lld, %lld))", x, whole / width, width);
    return weft_torch_print(p, "F.%s_norm(%s, (%lld,), %s%s%s, %s)%s", centred ? "layer" : "rms", x, width,
                            in(p, node, 1), centred ? ", " : "", centred ? in(p, node, 2) : "",
                            weft_torch_real(p, attr->eps), parts ? ".flatten(-2)" : "");
}

static struct weft_py linear(struct weft_torch_printer *p, const struct weft_node *node)
{
    const struct weft_atom *addend = weft_torch_of(p, node->in[WEFT_LINEAR_ADDEND]);
    const char *bias = node->in[2] ? weft_torch_print(p, ", %s", in(p, node, 2)) : "";
    const char *y = weft_torch_print(p, "F.linear(%s, %s%s)", in(p, node, 0), in(p, node, 4), bias);
    if (!addend)
        return (struct weft_py){y, WEFT_BINDS_CALL};
    return (struct weft_py){weft_torch_print(p, "%s + %s", weft_torch_text(p, addend, WEFT_BINDS_SUM), y),
                            WEFT_BINDS_SUM};
}

static struct weft_py rotate(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_atom *in[WEFT_TORCH_READS];
    weft_torch_reads(p, a, in);
    return (struct weft_py){weft_torch_print(p, "rotate(%s, %s, %s)", weft_torch_text(p, in[0], WEFT_BINDS_COMPARISON),
                                             weft_torch_text(p, in[1], WEFT_BINDS_COMPARISON),
                                             weft_torch_text(p, in[2], WEFT_BINDS_COMPARISON)),
                            WEFT_BINDS_CALL};
}

static const char *attention(struct weft_torch_printer *p, const struct weft_torch_attention *s)
{
    const char *x = "", *more = "";
    const struct weft_atom *in[] = {s->q, s->k, s->v, s->bias};
    for (int i = 0; i < 4 && in[i]; i++)
        x = weft_torch_print(p, "%s%s%s", x, i ? ", " : "", weft_torch_text(p, in[i], WEFT_BINDS_COMPARISON));
    if (s->dropout > 0)
        more = weft_torch_print(p, ", dropout_p=%s * self.training", weft_torch_real(p, s->dropout));
    if (!s->plain)
        return weft_torch_print(p, "attend(%s%s)", x, more);
    if (s->scale != 1 / sqrt((double)weft_last_of(s->q)))
        more = weft_torch_print(p, "%s, scale=%s", more, weft_torch_real(p, s->scale));
    if (s->q->type.dim[1].times != s->k->type.dim[1].times)
        more = weft_torch_print(p, "%s, enable_gqa=True", more);
    return weft_torch_print(p, "F.scaled_dot_product_attention(%s, is_causal=True%s)", x, more);
}

struct weft_py weft_torch_node(struct weft_torch_printer *p, const struct weft_atom *a, const struct weft_node *node)
{
    struct weft_torch_attention s;
    if (weft_torch_find_attention(p, a, &s))
        return (struct weft_py){attention(p, &s), WEFT_BINDS_CALL};
    if (node->op == weft_op(WEFT_OP_rope))
        return rotate(p, a);
    if (node->op == weft_op(WEFT_OP_linear))
        return linear(p, node);
    if (node->op == weft_op(WEFT_OP_gelu))
        return (struct weft_py){weft_torch_print(p, "F.gelu(%s, approximate=\"tanh\")", in(p, node, 0)), 0};
    if (node->op == weft_op(WEFT_OP_silu))
        return (struct weft_py){weft_torch_print(p, "F.silu(%s)", in(p, node, 0)), 0};
    if (node->op == weft_op(WEFT_OP_swiglu))
        return (struct weft_py){weft_torch_print(p, "F.silu(%s) * %s", in(p, node, 0),
                                                 weft_torch_text(p, weft_torch_of(p, node->in[1]), WEFT_BINDS_SIGN)),
                                WEFT_BINDS_PRODUCT};
    return (struct weft_py){norm(p, node), WEFT_BINDS_CALL};
}
