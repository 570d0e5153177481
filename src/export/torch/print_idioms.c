/* SPDX-License-Identifier: MIT
 *
 * print_idioms.c - atoms that PyTorch has a function or a module for, printed as a call of it.
 */
#include "export/torch/print.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

/* ---- finding */

/* The inputs of a rotation [.., heads, width]: x, cosines and sines. */
static bool find_rotation(const struct weft_atom *a, struct weft_idiom *s)
{
    if (a->kind != WEFT_ATOM_concat || !a->from || a->from->op != weft_op(WEFT_OP_rope))
        return false;
    const struct weft_atom *left = a->in[0]->in[0], *right = a->in[0]->in[1];
    if (a->in[0]->kind != WEFT_ATOM_sub || left->kind != WEFT_ATOM_mul || left->in[0]->kind != WEFT_ATOM_slice)
        return false;
    *s = (struct weft_idiom){WEFT_IDIOM_ROTATION, .in = {left->in[0]->in[0], left->in[1], right->in[1]}, .count = 3};
    return true;
}

/* x W^t, and with a bias that nothing else is added to. */
static bool find_linear(struct weft_torch_printer *p, const struct weft_atom *a, struct weft_idiom *s)
{
    const struct weft_atom *y = a, *bias = NULL;
    if (a->kind == WEFT_ATOM_add && a->in[1]->kind == WEFT_ATOM_weight && a->in[1]->type.ndim == 1) {
        y = a->in[0];
        bias = a->in[1];
    }
    bool is = y->kind == WEFT_ATOM_matmul && y->transposed && y->in[1]->kind == WEFT_ATOM_weight &&
              y->in[1]->type.ndim == 2 && (!bias || p->of[y->id].uses == 1);
    if (is)
        *s = (struct weft_idiom){WEFT_IDIOM_LINEAR, .in = {y->in[0], y->in[1], bias}, .count = 2 + (bias != NULL)};
    return is;
}

static bool find_embedding(const struct weft_atom *a, struct weft_idiom *s)
{
    if (a->kind != WEFT_ATOM_take || a->axis != 0 || a->in[0]->kind != WEFT_ATOM_weight || a->in[0]->type.ndim != 2)
        return false;
    *s = (struct weft_idiom){WEFT_IDIOM_EMBEDDING, .in = {a->in[1], a->in[0]}, .count = 2};
    return true;
}

/* Nodes whose result is one call of their first inputs. */
static bool find_node(struct weft_torch_printer *p, const struct weft_atom *a, struct weft_idiom *s)
{
    static const struct {
        enum weft_op_id op;
        enum weft_idiom_kind kind;
        int inputs;
    } list[] = {{WEFT_OP_layernorm, WEFT_IDIOM_NORM, 3},
                {WEFT_OP_rmsnorm, WEFT_IDIOM_NORM, 2},
                {WEFT_OP_gelu, WEFT_IDIOM_GELU, 1},
                {WEFT_OP_silu, WEFT_IDIOM_SILU, 1},
                {WEFT_OP_swiglu, WEFT_IDIOM_SWIGLU, 2}};
    const struct weft_node *node = a->from;
    if (!node || a->kind == WEFT_ATOM_reshape || weft_torch_of(p, node->out[0]) != a)
        return false;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (node->op != weft_op(list[i].op))
            continue;
        *s = (struct weft_idiom){list[i].kind, .node = node, .count = list[i].inputs};
        for (int k = 0; k < s->count; k++)
            s->in[k] = weft_torch_of(p, node->in[k]);
        return true;
    }
    return false;
}

void weft_torch_find_idiom(struct weft_torch_printer *p, const struct weft_atom *a)
{
    struct weft_idiom *s = &p->of[a->id].idiom;
    bool is = find_rotation(a, s) || find_linear(p, a, s) || find_embedding(a, s) || find_node(p, a, s) ||
              weft_torch_find_attention(p, a, s);
    if (!is)
        *s = (struct weft_idiom){WEFT_IDIOM_NONE};
}

/* ---- printing */

static const char *in(struct weft_torch_printer *p, const struct weft_idiom *s, int i)
{
    return weft_torch_operand(p, s->in[i], WEFT_BINDS_COMPARISON);
}

static const char *norm(struct weft_torch_printer *p, const struct weft_idiom *s)
{
    const struct weft_norm_attr *attr = s->node->attr;
    long long width = weft_shape_width(&s->node->in[1]->shape), whole = weft_shape_width(&s->node->in[0]->shape);
    bool centred = s->node->op == weft_op(WEFT_OP_layernorm), parts = width < whole;
    const char *module = weft_torch_norm(p, s->node), *after = parts ? ".flatten(-2)" : "";
    const char *x = parts ? weft_torch_operand(p, s->in[0], WEFT_BINDS_CALL) : in(p, s, 0);
    if (parts)
        x = weft_torch_text(p, "%s.unflatten(-1, (%lld, %lld))", x, whole / width, width);
    if (module)
        return weft_torch_text(p, "%s(%s)%s", module, x, after);
    return weft_torch_text(p, "F.%s_norm(%s, (%lld,), %s%s%s, %s)%s", centred ? "layer" : "rms", x, width, in(p, s, 1),
                           centred ? ", " : "", centred ? in(p, s, 2) : "", weft_torch_real(p, attr->eps), after);
}

static const char *linear(struct weft_torch_printer *p, const struct weft_idiom *s)
{
    const char *module = weft_torch_linear(p, s->in[1], s->in[2]), *x = in(p, s, 0);
    if (module)
        return weft_torch_text(p, "%s(%s)", module, x);
    return weft_torch_text(p, "F.linear(%s, %s%s%s)", x, in(p, s, 1), s->in[2] ? ", " : "",
                           s->in[2] ? in(p, s, 2) : "");
}

static const char *embedding(struct weft_torch_printer *p, const struct weft_idiom *s)
{
    const char *module = weft_torch_embedding(p, s->in[1]);
    return module ? weft_torch_text(p, "%s(%s)", module, in(p, s, 0))
                  : weft_torch_text(p, "F.embedding(%s, %s)", in(p, s, 0), in(p, s, 1));
}

/* Attention of a decoder: a helper adds the columns of a bias, and decides on a mask. */
static const char *masked_attention(struct weft_torch_printer *p, const struct weft_idiom *s)
{
    const char *more = "";
    if (s->has_bias)
        more = weft_torch_text(p, ", %s", in(p, s, 3));
    if (s->scale != 1)
        more = weft_torch_text(p, "%s, scale=%s", more, weft_torch_real(p, s->scale));
    return weft_torch_text(p, "attend(%s, %s, %s, %s%s%s)", in(p, s, 0), in(p, s, 1), in(p, s, 2),
                           in(p, s, s->count - 1), p->masks_attention ? "" : "[:, None]", more);
}

static const char *attention(struct weft_torch_printer *p, const struct weft_idiom *s)
{
    const char *x = weft_torch_text(p, "%s, %s, %s", in(p, s, 0), in(p, s, 1), in(p, s, 2)), *more = "";
    if (s->has_visible)
        return masked_attention(p, s);
    if (s->has_bias)
        x = weft_torch_text(p, "%s, %s", x, in(p, s, 3));
    if (s->dropout > 0)
        more = weft_torch_text(p, ", dropout_p=%s * self.training", weft_torch_real(p, s->dropout));
    if (!s->plain)
        return weft_torch_text(p, "attend(%s%s)", x, more);
    if (s->scale != 1 / sqrt((double)weft_last_of(s->in[0])))
        more = weft_torch_text(p, "%s, scale=%s", more, weft_torch_real(p, s->scale));
    if (s->in[0]->type.dim[1].times != s->in[1]->type.dim[1].times)
        more = weft_torch_text(p, "%s, enable_gqa=True", more);
    return weft_torch_text(p, "F.scaled_dot_product_attention(%s, is_causal=True%s)", x, more);
}

struct weft_py weft_torch_idiom(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_idiom *s = &p->of[a->id].idiom;
    switch (s->kind) {
    case WEFT_IDIOM_ROTATION:
        return (struct weft_py){weft_torch_text(p, "rotate(%s, %s, %s)", in(p, s, 0), in(p, s, 1), in(p, s, 2)), 0};
    case WEFT_IDIOM_ATTENTION:
        return (struct weft_py){attention(p, s), WEFT_BINDS_CALL};
    case WEFT_IDIOM_LINEAR:
        return (struct weft_py){linear(p, s), WEFT_BINDS_CALL};
    case WEFT_IDIOM_EMBEDDING:
        return (struct weft_py){embedding(p, s), WEFT_BINDS_CALL};
    case WEFT_IDIOM_NORM:
        return (struct weft_py){norm(p, s), WEFT_BINDS_CALL};
    case WEFT_IDIOM_GELU:
        return (struct weft_py){weft_torch_text(p, "F.gelu(%s, approximate=\"tanh\")", in(p, s, 0)), 0};
    case WEFT_IDIOM_SILU:
        return (struct weft_py){weft_torch_text(p, "F.silu(%s)", in(p, s, 0)), 0};
    default:
        return (struct weft_py){
            weft_torch_text(p, "F.silu(%s) * %s", in(p, s, 0), weft_torch_operand(p, s->in[1], WEFT_BINDS_SIGN)),
            WEFT_BINDS_PRODUCT};
    }
}
