/* SPDX-License-Identifier: MIT
 *
 * form_combine.c - combinations of atoms that the forms of many ops use.
 */
#include "graph/form_internal.h"

struct weft_atom *weft_real_of(struct weft_form *f, double value) { return weft_number_of(f, value, WEFT_REAL); }

struct weft_atom *weft_whole_of(struct weft_form *f, int64_t value)
{
    return weft_number_of(f, (double)value, WEFT_WHOLE);
}

struct weft_atom *weft_plus_of(struct weft_form *f, struct weft_atom *x, double value)
{
    return x && value == 0 ? x : weft_add_of(f, x, x ? weft_number_of(f, value, x->type.of) : NULL);
}

struct weft_atom *weft_times_of(struct weft_form *f, struct weft_atom *x, double value)
{
    return x && value == 1 ? x : weft_mul_of(f, x, x ? weft_number_of(f, value, x->type.of) : NULL);
}

struct weft_atom *weft_mean_of(struct weft_form *f, struct weft_atom *x, int axis)
{
    if (!x)
        return NULL;
    return weft_times_of(f, weft_sum_of(f, x, axis), 1 / (double)x->type.dim[weft_atom_axis(x, axis)].times);
}

/* Returns x with an extent inserted before dimension `axis`. */
static struct weft_type inserted(const struct weft_atom *x, int axis, struct weft_extent extent)
{
    struct weft_type t = x->type;
    for (int i = t.ndim++; i > axis; i--)
        t.dim[i] = t.dim[i - 1];
    t.dim[axis] = extent;
    return t;
}

static bool has_room(struct weft_form *f, const struct weft_atom *x)
{
    if (x && x->type.ndim == WEFT_FORM_DIMS)
        weft_form_fail(f, "%s has no room for one more dimension", weft_type_text(&x->type).text);
    return x && x->type.ndim < WEFT_FORM_DIMS;
}

struct weft_atom *weft_split_of(struct weft_form *f, struct weft_atom *x, int axis, int64_t inner)
{
    if (!has_room(f, x))
        return NULL;
    axis = weft_atom_axis(x, axis);
    if (inner < 1 || x->type.dim[axis].times % inner) {
        weft_form_fail(f, "dimension %d of %s cannot be divided by %lld", axis, weft_type_text(&x->type).text,
                       (long long)inner);
        return NULL;
    }
    struct weft_type t = inserted(x, axis + 1, (struct weft_extent){WEFT_FIXED, inner});
    t.dim[axis].times /= inner;
    return weft_reshape_of(f, x, t);
}

struct weft_atom *weft_merge_of(struct weft_form *f, struct weft_atom *x, int axis)
{
    if (!x)
        return NULL;
    struct weft_type t = x->type;
    axis = weft_atom_axis(x, axis);
    if (axis < 0 || axis + 1 >= t.ndim || (t.dim[axis].size && t.dim[axis + 1].size)) {
        weft_form_fail(f, "dimensions %d and %d of %s cannot be merged", axis, axis + 1, weft_type_text(&t).text);
        return NULL;
    }
    t.dim[axis].size = t.dim[axis].size ? t.dim[axis].size : t.dim[axis + 1].size;
    t.dim[axis].times *= t.dim[axis + 1].times;
    t.ndim--;
    for (int i = axis + 1; i < t.ndim; i++)
        t.dim[i] = t.dim[i + 1];
    return weft_reshape_of(f, x, t);
}

struct weft_atom *weft_unit_of(struct weft_form *f, struct weft_atom *x, int axis)
{
    if (!has_room(f, x))
        return NULL;
    int at = axis < 0 ? axis + x->type.ndim + 1 : axis;
    return weft_reshape_of(f, x, inserted(x, at, (struct weft_extent){WEFT_FIXED, 1}));
}

struct weft_atom *weft_swap_of(struct weft_form *f, struct weft_atom *x, int a, int b)
{
    int axes[WEFT_FORM_DIMS];
    if (!x)
        return NULL;
    for (int i = 0; i < WEFT_FORM_DIMS; i++)
        axes[i] = i;
    axes[weft_atom_axis(x, a)] = weft_atom_axis(x, b);
    axes[weft_atom_axis(x, b)] = weft_atom_axis(x, a);
    return weft_permute_of(f, x, axes);
}

struct weft_atom *weft_repeat_of(struct weft_form *f, struct weft_atom *x, int axis, int64_t times)
{
    if (!x)
        return NULL;
    return weft_expand_of(f, x, weft_type_with(x, axis, (struct weft_extent){WEFT_FIXED, times}));
}

struct weft_atom *weft_heads_of(struct weft_form *f, struct weft_atom *x, int64_t heads)
{
    return weft_split_of(f, x, -1, heads > 0 ? weft_last_of(x) / heads : 0);
}

struct weft_atom *weft_flat_of(struct weft_form *f, struct weft_atom *x) { return weft_merge_of(f, x, -2); }

struct weft_atom *weft_constant_of(struct weft_form *f, double value, struct weft_type type)
{
    return weft_expand_of(f, weft_number_of(f, value, type.of), type);
}
