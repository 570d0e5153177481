/* SPDX-License-Identifier: MIT
 *
 * form_atoms.c - the builders of sources, elementwise atoms, matmul and reductions: each checks its inputs and sets the
 * type of its result.
 */
#include "graph/form_internal.h"

/* ---- sources */

static struct weft_atom *add_source(struct weft_form *f, enum weft_atom_kind kind, const char *name,
                                    struct weft_type type)
{
    return weft_form_add(f, &(struct weft_atom){.kind = kind, .type = type, .name = name});
}

struct weft_atom *weft_weight_of(struct weft_form *f, const char *name, struct weft_type type)
{
    return add_source(f, WEFT_ATOM_weight, name, type);
}

struct weft_atom *weft_input_of(struct weft_form *f, const char *name, struct weft_type type)
{
    return add_source(f, WEFT_ATOM_input, name, type);
}

struct weft_atom *weft_state_of(struct weft_form *f, const char *name, struct weft_type type)
{
    return add_source(f, WEFT_ATOM_state, name, type);
}

struct weft_atom *weft_number_of(struct weft_form *f, double value, enum weft_kind_of of)
{
    return weft_form_add(f, &(struct weft_atom){.kind = WEFT_ATOM_number, .type = {.of = of}, .value = value});
}

struct weft_atom *weft_array_of(struct weft_form *f, struct weft_type type, const char *recipe, weft_fill_fn *fill,
                                const void *context)
{
    struct weft_atom like = {.kind = WEFT_ATOM_array, .type = type, .name = recipe}, *a;
    size_t bytes = sizeof(double);
    enum weft_status status = WEFT_OK;
    if (f->status != WEFT_OK || !recipe)
        return NULL;
    if ((a = weft_form_find(f, &like)))
        return a;
    for (int i = 0; i < type.ndim && status == WEFT_OK; i++)
        status = type.dim[i].size == WEFT_FIXED ? weft_size_mul(bytes, (size_t)type.dim[i].times, &bytes)
                                                : FAIL(WEFT_INVALID, "an array must have fixed dimensions");
    double *data = status == WEFT_OK ? weft_arena_alloc(&f->arena, bytes) : NULL;
    if (!data) {
        f->status = status == WEFT_OK ? WEFT_NOMEM : status;
        return NULL;
    }
    fill(context, data);
    like.data = data;
    return weft_form_add(f, &like);
}

/* ---- elementwise */

static struct weft_atom *binary(struct weft_form *f, enum weft_atom_kind kind, struct weft_atom *a, struct weft_atom *b)
{
    struct weft_atom like = {.kind = kind, .in = {a, b}};
    bool compares = kind == WEFT_ATOM_less || kind == WEFT_ATOM_equal, truth = kind == WEFT_ATOM_both;
    if (!a || !b)
        return NULL;
    if (a->type.of != b->type.of || truth != (a->type.of == WEFT_TRUTH) ||
        !weft_type_broadcast(&a->type, &b->type, 0, &like.type))
        return weft_form_refuse(f, weft_atom_name(kind), a, b);
    like.type.of = compares ? WEFT_TRUTH : a->type.of;
    return weft_form_add(f, &like);
}

static struct weft_atom *unary(struct weft_form *f, enum weft_atom_kind kind, struct weft_atom *x)
{
    if (!x)
        return NULL;
    if (x->type.of != WEFT_REAL)
        return weft_form_refuse(f, weft_atom_name(kind), x, NULL);
    return weft_form_add(f, &(struct weft_atom){.kind = kind, .type = x->type, .in = {x}});
}

#define BINARY(name)                                                                                                   \
    struct weft_atom *weft_##name##_of(struct weft_form *f, struct weft_atom *a, struct weft_atom *b)                  \
    {                                                                                                                  \
        return binary(f, WEFT_ATOM_##name, a, b);                                                                      \
    }
#define UNARY(name)                                                                                                    \
    struct weft_atom *weft_##name##_of(struct weft_form *f, struct weft_atom *x)                                       \
    {                                                                                                                  \
        return unary(f, WEFT_ATOM_##name, x);                                                                          \
    }
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(max)
BINARY(min)
BINARY(less)
BINARY(equal)
BINARY(both)
UNARY(log)
UNARY(sqrt)
UNARY(tanh)
UNARY(sigmoid)
UNARY(softplus)

/* exp(x - logsumexp(x)) is softmax(x): a net whose attention and routes have the same logits computes it once. */
struct weft_atom *weft_exp_of(struct weft_form *f, struct weft_atom *x)
{
    struct weft_atom *sum = x && x->kind == WEFT_ATOM_sub ? x->in[1] : NULL;
    if (sum && sum->kind == WEFT_ATOM_logsumexp && sum->in[0] == x->in[0])
        return weft_softmax_of(f, x->in[0], sum->axis);
    return unary(f, WEFT_ATOM_exp, x);
}

struct weft_atom *weft_choose_of(struct weft_form *f, struct weft_atom *where, struct weft_atom *a, struct weft_atom *b)
{
    struct weft_atom like = {.kind = WEFT_ATOM_choose, .in = {where, a, b}};
    struct weft_type both;
    if (!where || !a || !b)
        return NULL;
    if (where->type.of != WEFT_TRUTH || a->type.of != b->type.of ||
        !weft_type_broadcast(&a->type, &b->type, 0, &both) || !weft_type_broadcast(&both, &where->type, 0, &like.type))
        return weft_form_refuse(f, "choose", a, b);
    like.type.of = a->type.of;
    return weft_form_add(f, &like);
}

struct weft_atom *weft_to_of(struct weft_form *f, struct weft_atom *x, enum weft_kind_of of)
{
    if (!x || x->type.of == of)
        return x;
    struct weft_atom like = {.kind = WEFT_ATOM_to, .type = x->type, .in = {x}};
    like.type.of = of;
    return weft_form_add(f, &like);
}

/* ---- matrices and reductions */

struct weft_atom *weft_matmul_of(struct weft_form *f, struct weft_atom *a, struct weft_atom *b, bool transposed)
{
    struct weft_atom like = {.kind = WEFT_ATOM_matmul, .in = {a, b}, .transposed = transposed};
    if (!a || !b)
        return NULL;
    int an = a->type.ndim, bn = b->type.ndim;
    if (an < 2 || bn < 2 || a->type.of != WEFT_REAL || b->type.of != WEFT_REAL ||
        !weft_extent_same(a->type.dim[an - 1], b->type.dim[transposed ? bn - 1 : bn - 2]) ||
        !weft_type_broadcast(&a->type, &b->type, 2, &like.type) || like.type.ndim + 2 > WEFT_FORM_DIMS)
        return weft_form_refuse(f, "matmul", a, b);
    like.type.dim[like.type.ndim++] = a->type.dim[an - 2];
    like.type.dim[like.type.ndim++] = b->type.dim[transposed ? bn - 2 : bn - 1];
    return weft_form_add(f, &like);
}

/* Reductions keep the axis; softmax also keeps its size. */
static struct weft_atom *along(struct weft_form *f, enum weft_atom_kind kind, struct weft_atom *x, int axis)
{
    if (!x)
        return NULL;
    if (!weft_atom_has_axis(x, axis) || x->type.of != WEFT_REAL)
        return weft_form_refuse(f, weft_atom_name(kind), x, NULL);
    struct weft_atom like = {.kind = kind, .type = x->type, .in = {x}, .axis = weft_atom_axis(x, axis)};
    if (kind != WEFT_ATOM_softmax)
        like.type.dim[like.axis] = (struct weft_extent){WEFT_FIXED, 1};
    like.type.of = kind == WEFT_ATOM_argmax ? WEFT_WHOLE : WEFT_REAL;
    return weft_form_add(f, &like);
}

#define ALONG(name)                                                                                                    \
    struct weft_atom *weft_##name##_of(struct weft_form *f, struct weft_atom *x, int axis)                             \
    {                                                                                                                  \
        return along(f, WEFT_ATOM_##name, x, axis);                                                                    \
    }
ALONG(sum)
ALONG(largest)
ALONG(argmax)
ALONG(logsumexp)
ALONG(softmax)
