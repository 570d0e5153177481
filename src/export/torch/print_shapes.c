/* SPDX-License-Identifier: MIT
 *
 * print_shapes.c - atoms that change the shape of a value, as Python's programmers write them.
 */
#include "export/torch/print.h"

#include <string.h>

static struct weft_py call(const char *text) { return (struct weft_py){text, WEFT_BINDS_CALL}; }

static bool is_one(struct weft_extent e) { return e.size == WEFT_FIXED && e.times == 1; }

/* ---- reshape */

/* Returns text such as [:, None] if `longer` differs from `shorter` only by dimensions of size 1, else NULL. With
 * `added`, these dimensions are added, else removed. */
static const char *ones(struct weft_torch_printer *p, const struct weft_type *shorter, const struct weft_type *longer,
                        bool added)
{
    const char *text = "[", *sign;
    int at = 0, count = 0, axis = 0;
    for (int i = 0; i < longer->ndim; i++) {
        bool same = at < shorter->ndim && weft_torch_is_same(p, shorter->dim[at], longer->dim[i]);
        if (!same && !is_one(longer->dim[i]))
            return NULL;
        at += same;
        sign = same ? ":" : added ? "None" : "0";
        text = weft_torch_text(p, "%s%s%s", text, i ? ", " : "", sign);
        axis = same ? axis : i;
        count += !same;
    }
    if (at < shorter->ndim || count == 0)
        return NULL;
    if (count == 1)
        return weft_torch_text(p, ".%s(%d)", added ? "unsqueeze" : "squeeze", axis == longer->ndim - 1 ? -1 : axis);
    return weft_torch_text(p, "%s]", text);
}

/* Returns the axis that a reshape exchanges with the next one, of which one has size 1; -1: it does something else. */
static int moved_one(const struct weft_torch_printer *p, const struct weft_type *from, const struct weft_type *to)
{
    for (int axis = 0; from->ndim == to->ndim && axis + 1 < from->ndim; axis++) {
        struct weft_type moved = *from;
        moved.dim[axis] = from->dim[axis + 1];
        moved.dim[axis + 1] = from->dim[axis];
        bool same = is_one(from->dim[axis]) != is_one(from->dim[axis + 1]);
        for (int i = 0; same && i < to->ndim; i++)
            same = weft_torch_is_same(p, moved.dim[i], to->dim[i]);
        if (same)
            return axis;
    }
    return -1;
}

/* Writes a reduction that keeps its dimension, followed by a removal of it, as one that does not keep it. */
static const char *shorter(struct weft_torch_printer *p, const struct weft_atom *a, const char *x, const char *text)
{
    static const char keeps[] = ", keepdim=True)", keeps_most[] = ", keepdim=True).values";
    const struct weft_atom *from = a->in[0];
    size_t length = strlen(x), least = sizeof keeps - 1, most = sizeof keeps_most - 1;
    if (!p->of[from->id].named && strncmp(text, ".squeeze", 8) == 0) {
        if (length > least && strcmp(x + length - least, keeps) == 0)
            return weft_torch_text(p, "%.*s)", (int)(length - least), x);
        if (length > most && strcmp(x + length - most, keeps_most) == 0)
            return weft_torch_text(p, "%.*s).values", (int)(length - most), x);
    }
    return weft_torch_text(p, "%s%s", x, text);
}

static struct weft_py reshape(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_type *from = &a->in[0]->type, *to = &a->type;
    const char *x = weft_torch_operand(p, a->in[0], WEFT_BINDS_CALL), *text = ones(p, from, to, true);
    if (!text)
        text = ones(p, to, from, false);
    if (text)
        return call(shorter(p, a, x, text));
    int axis = moved_one(p, from, to);
    if (axis >= 0)
        return call(weft_torch_text(p, "%s.transpose(%d, %d)", x, axis, axis + 1));
    int first = 0, last = 0;
    while (first < from->ndim && first < to->ndim && weft_torch_is_same(p, from->dim[first], to->dim[first]))
        first++;
    while (last < from->ndim - first && last < to->ndim - first &&
           weft_torch_is_same(p, from->dim[from->ndim - 1 - last], to->dim[to->ndim - 1 - last]))
        last++;
    int old = from->ndim - first - last, new = to->ndim - first - last;
    if (old == 1 && new == 2 && last == 0 && p->of[a->in[0]->id].idiom.kind == WEFT_IDIOM_NORM &&
        weft_ends_in(x, ".flatten(-2)"))
        return call(weft_torch_text(p, "%.*s", (int)(strlen(x) - strlen(".flatten(-2)")), x)); /* the norm's heads */
    if (old == 1 && new > 1)
        return call(weft_torch_text(p, "%s.unflatten(%d, (%s))", x, last ? first : -1,
                                    weft_torch_sizes(p, to, first, first + new, true)));
    if (new == 1 && old > 1 && last == 0)
        return call(weft_torch_text(p, "%s.flatten(%d)", x, -old));
    if (new == 1 && old > 1)
        return call(weft_torch_text(p, "%s.flatten(%d, %d)", x, first, first + old - 1));
    if (old == 0 && new == 0)
        return call(x);
    return call(weft_torch_text(p, "%s.reshape(%s)", x, to->ndim ? weft_torch_sizes(p, to, 0, to->ndim, true) : "()"));
}

/* ---- the others */

static struct weft_py permute(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const char *x = weft_torch_operand(p, a->in[0], WEFT_BINDS_CALL), *text = "";
    int n = a->type.ndim, moved[WEFT_FORM_DIMS], count = 0;
    for (int i = 0; i < n; i++) {
        text = weft_torch_text(p, "%s%s%d", text, i ? ", " : "", a->axes[i]);
        if (a->axes[i] != i)
            moved[count++] = i;
    }
    if (count == 2 && moved[0] == n - 2)
        return call(weft_torch_text(p, "%s.mT", x));
    if (count == 2)
        return call(weft_torch_text(p, "%s.transpose(%d, %d)", x, moved[0], moved[1]));
    return call(weft_torch_text(p, "%s.permute(%s)", x, text));
}

static struct weft_py expand(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_type *from = &a->in[0]->type, *to = &a->type;
    const char *text = "";
    for (int i = 0; i < to->ndim; i++) {
        int k = i - to->ndim + from->ndim;
        bool kept = k >= 0 && weft_torch_is_same(p, from->dim[k], to->dim[i]);
        text = weft_torch_text(p, "%s%s%s", text, i ? ", " : "", kept ? "-1" : weft_torch_size(p, to->dim[i]));
    }
    return call(weft_torch_text(p, "%s.expand(%s)", weft_torch_operand(p, a->in[0], WEFT_BINDS_CALL), text));
}

/* Lists the items of nested concats along one axis. */
static const char *items(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_atom *x = a->in[0];
    bool nested = x->kind == WEFT_ATOM_concat && x->axis == a->axis && !p->of[x->id].named &&
                  p->of[x->id].idiom.kind == WEFT_IDIOM_NONE;
    return weft_torch_text(p, "%s, %s", nested ? items(p, x) : weft_torch_operand(p, x, WEFT_BINDS_COMPARISON),
                           weft_torch_operand(p, a->in[1], WEFT_BINDS_COMPARISON));
}

static struct weft_py slice(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_type *from = &a->in[0]->type;
    int axis = a->axis < 0 ? a->axis + from->ndim : a->axis;
    int64_t end = a->first + a->count;
    const char *before = axis == from->ndim - 1 && axis > 0 ? "..., " : "", *first = "", *last = "";
    for (int i = 0; i < axis && axis < from->ndim - 1; i++)
        before = weft_torch_text(p, "%s:, ", before);
    if (a->first > 0)
        first = weft_torch_text(p, "%lld", (long long)a->first);
    if (from->dim[axis].size != WEFT_FIXED || end < from->dim[axis].times)
        last = weft_torch_text(p, "%lld", (long long)end);
    return call(
        weft_torch_text(p, "%s[%s%s:%s]", weft_torch_operand(p, a->in[0], WEFT_BINDS_CALL), before, first, last));
}

static struct weft_py pad(struct weft_torch_printer *p, const struct weft_atom *a)
{
    int axis = a->axis < 0 ? a->axis + a->type.ndim : a->axis;
    const char *zeros = "";
    for (int i = a->type.ndim - 1; i > axis; i--)
        zeros = weft_torch_text(p, "%s0, 0, ", zeros);
    return call(weft_torch_text(p, "F.pad(%s, (%s%lld, %lld))", weft_torch_operand(p, a->in[0], WEFT_BINDS_COMPARISON),
                                zeros, (long long)a->first, (long long)a->count));
}

struct weft_py weft_torch_shape(struct weft_torch_printer *p, const struct weft_atom *a)
{
    int axis = a->axis < 0 ? a->axis + a->type.ndim : a->axis;
    switch (a->kind) {
    case WEFT_ATOM_reshape:
        return reshape(p, a);
    case WEFT_ATOM_permute:
        return permute(p, a);
    case WEFT_ATOM_expand:
        return expand(p, a);
    case WEFT_ATOM_concat:
        return call(weft_torch_text(p, "torch.cat((%s), %d)", items(p, a), axis == a->type.ndim - 1 ? -1 : axis));
    case WEFT_ATOM_slice:
        return slice(p, a);
    default:
        return pad(p, a);
    }
}
