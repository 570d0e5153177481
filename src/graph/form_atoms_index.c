/* SPDX-License-Identifier: MIT
 *
 * form_atoms_index.c - the builders of atoms for shapes and indices.
 */
#include "graph/form_internal.h"

#include <string.h>

/* ---- shapes */

/* Computes the product of the fixed factors, and how often each size occurs. */
static int64_t measure(const struct weft_type *t, int sizes[WEFT_SIZES])
{
    int64_t product = 1;
    memset(sizes, 0, WEFT_SIZES * sizeof *sizes);
    for (int i = 0; i < t->ndim; i++) {
        product *= t->dim[i].times;
        sizes[t->dim[i].size] += t->dim[i].size != WEFT_FIXED;
    }
    return product;
}

struct weft_atom *weft_reshape_of(struct weft_form *f, struct weft_atom *x, struct weft_type type)
{
    int before[WEFT_SIZES], after[WEFT_SIZES];
    if (!x)
        return NULL;
    type.of = x->type.of;
    if (measure(&x->type, before) != measure(&type, after) || memcmp(before, after, sizeof before) != 0) {
        weft_form_fail(f, "%s cannot become %s", weft_type_text(&x->type).text, weft_type_text(&type).text);
        return NULL;
    }
    if (weft_type_same(&x->type, &type))
        return x;
    if (x->kind == WEFT_ATOM_reshape) /* only the last shape matters */
        return weft_reshape_of(f, x->in[0], type);
    return weft_form_add(f, &(struct weft_atom){.kind = WEFT_ATOM_reshape, .type = type, .in = {x}});
}

struct weft_atom *weft_permute_of(struct weft_form *f, struct weft_atom *x, const int *axes)
{
    bool moves = false;
    unsigned seen = 0;
    int both[WEFT_FORM_DIMS], last = 0;
    if (!x)
        return NULL;
    struct weft_atom like = {.kind = WEFT_ATOM_permute, .type = x->type, .in = {x}};
    for (int i = 0; i < x->type.ndim; i++) {
        if (axes[i] < 0 || axes[i] >= x->type.ndim || seen >> axes[i] & 1)
            return weft_form_refuse(f, "permute", x, NULL);
        seen |= 1U << axes[i];
        if (!weft_extent_is_one(x->type.dim[axes[i]])) { /* dimensions of size 1 have no order */
            moves |= axes[i] < last;
            last = axes[i];
        }
        like.axes[i] = axes[i];
        like.type.dim[i] = x->type.dim[axes[i]];
    }
    for (int i = 0; x->kind == WEFT_ATOM_permute && i < x->type.ndim; i++)
        both[i] = x->axes[axes[i]];
    if (x->kind == WEFT_ATOM_permute) /* two are one */
        return weft_permute_of(f, x->in[0], both);
    return moves ? weft_form_add(f, &like) : weft_reshape_of(f, x, like.type);
}

struct weft_atom *weft_expand_of(struct weft_form *f, struct weft_atom *x, struct weft_type type)
{
    struct weft_type result;
    if (!x)
        return NULL;
    type.of = x->type.of;
    if (!weft_type_broadcast(&x->type, &type, 0, &result) || !weft_type_same(&result, &type)) {
        weft_form_fail(f, "%s cannot be expanded to %s", weft_type_text(&x->type).text, weft_type_text(&type).text);
        return NULL;
    }
    if (weft_type_same(&x->type, &type))
        return x;
    return weft_form_add(f, &(struct weft_atom){.kind = WEFT_ATOM_expand, .type = type, .in = {x}});
}

struct weft_atom *weft_concat_of(struct weft_form *f, struct weft_atom *a, struct weft_atom *b, int axis)
{
    if (!a || !b)
        return NULL;
    if (!weft_atom_has_axis(a, axis))
        return weft_form_refuse(f, "concat", a, b);
    struct weft_atom like = {.kind = WEFT_ATOM_concat, .type = a->type, .in = {a, b}, .axis = weft_atom_axis(a, axis)};
    struct weft_extent *sum = &like.type.dim[like.axis], more = b->type.dim[like.axis];
    struct weft_type same = b->type;
    same.dim[like.axis] = *sum;
    if (!weft_type_same(&same, &a->type) || sum->size != more.size)
        return weft_form_refuse(f, "concat", a, b);
    sum->times += more.times;
    return weft_form_add(f, &like);
}

struct weft_atom *weft_slice_of(struct weft_form *f, struct weft_atom *x, int axis, int64_t first, int64_t count)
{
    if (!x)
        return NULL;
    if (!weft_atom_has_axis(x, axis))
        return weft_form_refuse(f, "slice", x, NULL);
    struct weft_atom like = {.kind = WEFT_ATOM_slice, .type = x->type, .in = {x}, .axis = weft_atom_axis(x, axis)};
    struct weft_extent *e = &like.type.dim[like.axis];
    if (e->size != WEFT_FIXED || first < 0 || count < 1 || first > e->times - count)
        return weft_form_refuse(f, "slice", x, NULL);
    if (count == e->times)
        return x;
    like.first = first;
    like.count = e->times = count;
    return weft_form_add(f, &like);
}

struct weft_atom *weft_pad_of(struct weft_form *f, struct weft_atom *x, int axis, int64_t before, int64_t after)
{
    if (!x)
        return NULL;
    if (!weft_atom_has_axis(x, axis) || before < 0 || after < 0)
        return weft_form_refuse(f, "pad", x, NULL);
    struct weft_atom like = {.kind = WEFT_ATOM_pad,
                             .type = x->type,
                             .in = {x},
                             .axis = weft_atom_axis(x, axis),
                             .first = before,
                             .count = after};
    struct weft_extent *e = &like.type.dim[like.axis];
    e->times += e->size == WEFT_FIXED ? before + after : 0; /* a size that is not fixed grows without a name for it */
    return weft_form_add(f, &like);
}

/* ---- indices */

struct weft_atom *weft_take_of(struct weft_form *f, struct weft_atom *table, struct weft_atom *index, int axis)
{
    if (!table || !index)
        return NULL;
    int rest = table->type.ndim - 1;
    if (!weft_atom_has_axis(table, axis) || index->type.of != WEFT_WHOLE || rest + index->type.ndim > WEFT_FORM_DIMS)
        return weft_form_refuse(f, "take", table, index);
    struct weft_atom like = {.kind = WEFT_ATOM_take, .in = {table, index}, .axis = weft_atom_axis(table, axis)};
    like.type.of = table->type.of;
    for (int i = 0; i < like.axis; i++)
        like.type.dim[like.type.ndim++] = table->type.dim[i];
    for (int i = 0; i < index->type.ndim; i++)
        like.type.dim[like.type.ndim++] = index->type.dim[i];
    for (int i = like.axis + 1; i <= rest; i++)
        like.type.dim[like.type.ndim++] = table->type.dim[i];
    return weft_form_add(f, &like);
}

/* Returns whether an index has x's dimensions except for the axis. */
static bool indexes(const struct weft_atom *x, const struct weft_atom *index, int axis)
{
    if (!weft_atom_has_axis(x, axis) || index->type.of != WEFT_WHOLE || index->type.ndim != x->type.ndim)
        return false;
    for (int i = 0; i < x->type.ndim; i++)
        if (i != weft_atom_axis(x, axis) && !weft_extent_same(x->type.dim[i], index->type.dim[i]))
            return false;
    return true;
}

struct weft_atom *weft_pick_of(struct weft_form *f, struct weft_atom *x, struct weft_atom *index, int axis)
{
    if (!x || !index)
        return NULL;
    if (!indexes(x, index, axis))
        return weft_form_refuse(f, "pick", x, index);
    struct weft_atom like = {
        .kind = WEFT_ATOM_pick, .type = index->type, .in = {x, index}, .axis = weft_atom_axis(x, axis)};
    like.type.of = x->type.of;
    return weft_form_add(f, &like);
}

struct weft_atom *weft_put_of(struct weft_form *f, struct weft_atom *x, struct weft_atom *index, struct weft_atom *by,
                              int axis)
{
    if (!x || !index || !by)
        return NULL;
    struct weft_type expected = index->type;
    expected.of = x->type.of;
    if (!indexes(x, index, axis) || !weft_type_same(&expected, &by->type))
        return weft_form_refuse(f, "put", x, index);
    return weft_form_add(
        f, &(struct weft_atom){
               .kind = WEFT_ATOM_put, .type = x->type, .in = {x, index, by}, .axis = weft_atom_axis(x, axis)});
}

struct weft_atom *weft_top_of(struct weft_form *f, struct weft_atom *x, int axis, int64_t k)
{
    if (!x)
        return NULL;
    if (!weft_atom_has_axis(x, axis) || x->type.of != WEFT_REAL || k < 1)
        return weft_form_refuse(f, "top", x, NULL);
    struct weft_atom like = {
        .kind = WEFT_ATOM_top, .type = x->type, .in = {x}, .axis = weft_atom_axis(x, axis), .count = k};
    struct weft_extent *e = &like.type.dim[like.axis];
    *e = (struct weft_extent){WEFT_FIXED, e->size == WEFT_FIXED ? weft_min(k, e->times) : k};
    like.type.of = WEFT_WHOLE;
    return weft_form_add(f, &like);
}
