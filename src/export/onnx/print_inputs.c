/* SPDX-License-Identifier: MIT
 *
 * print_inputs.c - sizes, masks and distances in an ONNX graph, from its inputs
 *
 *     input_ids [batch, length], attention_mask [batch, past + length], position_ids [batch, length]
 *
 * Each is printed when it is first needed. Distances are counted in visible tokens, so padding on the left changes
 * nothing. A token that is padding sees only itself: its row is a sequence of its own that nobody reads, and no softmax
 * is over nothing.
 */
#include "export/onnx/print.h"

/* Returns the size of an axis of x, int64 [1]. */
static const char *size_of(struct weft_printer *p, const char *x, int64_t axis)
{
    return weft_onnx_slice(p->g, NODE(p->g, "Shape", x), INTS(p->g, axis), INTS(p->g, axis + 1), 0);
}

static const char *past(struct weft_printer *p)
{
    const char **known = &p->past;
    if (!*known)
        *known = NODE(p->g, "Sub", weft_print_size(p, WEFT_ALL), weft_print_size(p, WEFT_NEW));
    return *known;
}

const char *weft_print_size(struct weft_printer *p, enum weft_size size)
{
    const char **known = &p->size[size == WEFT_SEQUENCES ? WEFT_BATCH : size];
    if (*known)
        return *known;
    if (size == WEFT_ALL)
        *known = size_of(p, "attention_mask", 1);
    else if (size == WEFT_NEW)
        *known = size_of(p, "input_ids", 1);
    else if (size != WEFT_RING)
        *known = size_of(p, "input_ids", 0);
    else
        weft_onnx_fail(p->g, FAIL(WEFT_INVALID, "ONNX export: the size of a ring is not known"));
    return *known ? *known : "";
}

/* Returns one dimension, int64 [1]. */
static const char *extent(struct weft_printer *p, struct weft_extent e)
{
    if (e.size == WEFT_FIXED)
        return INTS(p->g, e.times);
    const char *size = weft_print_size(p, e.size);
    return e.times == 1 ? size : NODE(p->g, "Mul", size, INTS(p->g, e.times));
}

/* Equal dimensions are one node, which is named after them. */
const char *weft_print_dims(struct weft_printer *p, const struct weft_type *type)
{
    static const char *const names[WEFT_SIZES] = {"", "b", "n", "a", "r", "b"};
    const char *dims[WEFT_FORM_DIMS + 1] = {NULL}, *name = "dims";
    bool fixed = true;
    int64_t list[WEFT_FORM_DIMS];
    for (int i = 0; i < type->ndim; i++) {
        name = weft_onnx_name(p->g, "%s.%s%lld", name, names[type->dim[i].size], (long long)type->dim[i].times);
        fixed = fixed && type->dim[i].size == WEFT_FIXED;
        list[i] = type->dim[i].times;
    }
    if (fixed)
        return weft_onnx_list(p->g, type->ndim, list);
    if (weft_onnx_has(p->g, name))
        return name;
    static const struct weft_onnx_attr axis = {"axis", WEFT_ATTR_INT, 0, 1, {0}};
    for (int i = 0; i < type->ndim; i++)
        dims[i] = extent(p, type->dim[i]);
    weft_onnx_node(p->g, "Concat", &axis, dims, WEFT_NAMES(name));
    return name;
}

const char *weft_print_mask(struct weft_printer *p)
{
    if (!p->mask)
        p->mask = NODE_INT(p->g, "Cast", "to", WEFT_ONNX_BOOL, "attention_mask");
    return p->mask;
}

const char *weft_print_fresh_columns(struct weft_printer *p, const char *x)
{
    return weft_onnx_slice(p->g, x, past(p), weft_print_size(p, WEFT_ALL), 1);
}

/* Returns the number of visible tokens up to each column [batch, total]. */
static const char *rank(struct weft_printer *p)
{
    if (!p->rank)
        p->rank = NODE(p->g, "CumSum", NODE_INT(p->g, "Cast", "to", WEFT_ONNX_INT64, weft_print_mask(p)),
                       weft_onnx_int(p->g, 1));
    return p->rank;
}

const char *weft_print_own_rank(struct weft_printer *p)
{
    if (!p->own_rank)
        p->own_rank = weft_print_fresh_columns(p, rank(p));
    return p->own_rank;
}

const char *weft_print_distance(struct weft_printer *p)
{
    struct weft_onnx *g = p->g;
    if (!p->distance)
        p->distance = NODE(g, "Sub", NODE(g, "Unsqueeze", weft_print_own_rank(p), INTS(g, 2)),
                           NODE(g, "Unsqueeze", rank(p), INTS(g, 1)));
    return p->distance;
}

/* Returns the integers from first to end - 1, both int64 [1]. */
static const char *range(struct weft_onnx *g, const char *first, const char *end)
{
    const char *axis = INTS(g, 0);
    return NODE(g, "Range", NODE(g, "Squeeze", first, axis), NODE(g, "Squeeze", end, axis), weft_onnx_int(g, 1));
}

const char *weft_print_visible(struct weft_printer *p)
{
    struct weft_onnx *g = p->g;
    const char *total = weft_print_size(p, WEFT_ALL),
               *before = NODE(g, "GreaterOrEqual", weft_print_distance(p), weft_onnx_int(g, 0));
    const char *own = NODE(g, "Unsqueeze", range(g, past(p), total), INTS(g, 1));
    const char *itself = NODE(g, "Equal", own, range(g, INTS(g, 0), total));
    return NODE(g, "Or", NODE(g, "And", before, NODE(g, "Unsqueeze", weft_print_mask(p), INTS(g, 1))), itself);
}
