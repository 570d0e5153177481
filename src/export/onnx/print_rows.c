/* SPDX-License-Identifier: MIT
 *
 * print_rows.c - the sources of an ONNX graph, and the atoms that depend on the sequences of rows.
 */
#include "export/onnx/print.h"

#include <math.h>
#include <string.h>

/* Returns the new tokens' part of the mask [batch, length, 1, ..], for x. */
static const char *fresh_mask(struct weft_printer *p, const struct weft_atom *x)
{
    const char *new = weft_print_fresh_columns(p, weft_print_mask(p));
    for (int i = 2; i < x->type.ndim; i++)
        new = NODE(p->g, "Unsqueeze", new, INTS(p->g, i));
    return new;
}

/* ---- sources */

static const char *input(struct weft_printer *p, const struct weft_atom *a)
{
    struct weft_onnx *g = p->g;
    if (strcmp(a->name, "tokens") == 0)
        return "input_ids";
    if (strcmp(a->name, "position") == 0)
        return "position_ids";
    if (strcmp(a->name, "pos") == 0) /* of padding 0 */
        return NODE(g, "Sub", NODE(g, "Max", weft_print_own_rank(p), weft_onnx_int(g, 1)), weft_onnx_int(g, 1));
    weft_onnx_fail(
        g, FAIL(WEFT_INVALID, "ONNX export: an op reads the input %s, which a forward pass does not have", a->name));
    return "";
}

static const char *array(struct weft_printer *p, const struct weft_atom *a)
{
    struct weft_onnx *g = p->g;
    struct weft_onnx_shape shape = {.ndim = a->type.ndim};
    int64_t count = 1;
    if (weft_onnx_has(g, a->name))
        return a->name;
    for (int i = 0; i < a->type.ndim; i++)
        count *= shape.dim[i].size = a->type.dim[i].times;
    bool real = a->type.of == WEFT_REAL;
    void *data = weft_arena_alloc(&g->arena, (size_t)count * (real ? sizeof(float) : sizeof(int64_t)));
    if (!data) {
        weft_onnx_fail(g, WEFT_NOMEM);
        return "";
    }
    for (int64_t i = 0; i < count; i++)
        if (real)
            ((float *)data)[i] = (float)a->data[i];
        else
            ((int64_t *)data)[i] = (int64_t)a->data[i];
    weft_onnx_tensor(g, a->name, real ? WEFT_ONNX_FLOAT : WEFT_ONNX_INT64, &shape, data);
    return a->name;
}

const char *weft_print_source(struct weft_printer *p, const struct weft_atom *a)
{
    switch (a->kind) {
    case WEFT_ATOM_weight:
        return weft_onnx_weight(p->g, a->name);
    case WEFT_ATOM_input:
        return input(p, a);
    case WEFT_ATOM_number:
        return a->type.of == WEFT_REAL ? weft_onnx_real(p->g, a->value) : weft_onnx_int(p->g, (int64_t)a->value);
    case WEFT_ATOM_array:
        return array(p, a);
    default:
        return weft_print_state(p, a);
    }
}

/* ---- atoms */

static const char *cumulate(struct weft_printer *p, const struct weft_atom *a)
{
    struct weft_onnx *g = p->g;
    const char *zero = weft_onnx_real(g, 0), *x = weft_print_in(p, a, 0);
    return NODE(g, "CumSum", NODE(g, "Where", fresh_mask(p, a), x, zero), weft_onnx_int(g, 1));
}

static const char *pool(struct weft_printer *p, const struct weft_atom *a)
{
    struct weft_onnx *g = p->g;
    bool sums = a->pooling == WEFT_POOL_SUM;
    const char *hidden = weft_onnx_real(g, sums ? 0 : -INFINITY);
    const char *x = NODE(g, "Where", fresh_mask(p, a->in[0]), weft_print_in(p, a, 0), hidden);
    return NODE(g, "Squeeze", sums ? NODE(g, "ReduceSum", x, INTS(g, 1)) : NODE_AXES(g, "ReduceMax", 1, x), INTS(g, 1));
}

static const char *spread(struct weft_printer *p, const struct weft_atom *a)
{
    const char *x = NODE(p->g, "Unsqueeze", weft_print_in(p, a, 0), INTS(p->g, 1));
    return NODE(p->g, "Expand", x, weft_print_dims(p, &a->type));
}

const char *weft_print_rows(struct weft_printer *p, const struct weft_atom *a)
{
    switch (a->kind) {
    case WEFT_ATOM_distance:
        return weft_print_distance(p);
    case WEFT_ATOM_visible:
        return weft_print_visible(p);
    case WEFT_ATOM_keys: {
        bool ring = a->in[0]->type.dim[1].size == WEFT_RING;
        return ring ? weft_print_padded(p, weft_print_in(p, a, 0), 1, a->type.ndim) : weft_print_in(p, a, 0);
    }
    case WEFT_ATOM_own:
        return weft_print_fresh_columns(p, weft_print_in(p, a, 0));
    case WEFT_ATOM_store:
        return weft_print_store(p, a);
    case WEFT_ATOM_cumulate:
        return cumulate(p, a);
    case WEFT_ATOM_pool:
        return pool(p, a);
    default:
        return spread(p, a);
    }
}
