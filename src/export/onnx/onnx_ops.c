/* SPDX-License-Identifier: MIT
 *
 * onnx_ops.c - what the graph of an ONNX file is built with: names, nodes, constants, weights.
 */
#include "export/onnx/onnx.h"
#include "nn/model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* ---- names and nodes */

void weft_onnx_scope(struct weft_onnx *g, const struct weft_node *node)
{
    if (node && node->label >= 0)
        snprintf(g->scope, sizeof g->scope, "blocks.%d/%s", node->label, node->op->name);
    else
        snprintf(g->scope, sizeof g->scope, "%s", node ? node->op->name : "inputs");
}

const char *weft_onnx_name(struct weft_onnx *g, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *name = weft_arena_print(&g->arena, "%s", text);
    if (!name)
        weft_onnx_fail(g, WEFT_NOMEM);
    return name ? name : "";
}

const char *weft_onnx_fresh(struct weft_onnx *g, const char *name)
{
    return weft_onnx_name(g, "%s/%s_%d", g->scope, name, g->values++);
}

const char *weft_onnx_op(struct weft_onnx *g, const char *type, const struct weft_onnx_attr *attr,
                         const char *const *inputs)
{
    const char *y = weft_onnx_fresh(g, type);
    weft_onnx_node(g, type, attr, inputs, WEFT_NAMES(y));
    return y;
}

/* ---- constants */

bool weft_onnx_has(struct weft_onnx *g, const char *name)
{
    for (const struct weft_onnx_known *k = g->known; k; k = k->next)
        if (strcmp(k->name, name) == 0)
            return true;
    struct weft_onnx_known *k = weft_arena_alloc(&g->arena, sizeof *k);
    if (!k) {
        weft_onnx_fail(g, WEFT_NOMEM);
        return true;
    }
    *k = (struct weft_onnx_known){name, g->known};
    g->known = k;
    return false;
}

const char *weft_onnx_real(struct weft_onnx *g, double x)
{
    float value = (float)x;
    const char *name = weft_onnx_name(g, "real.%.9g", value);
    if (!weft_onnx_has(g, name))
        weft_onnx_tensor(g, name, WEFT_ONNX_FLOAT, &(struct weft_onnx_shape){0}, &value);
    return name;
}

const char *weft_onnx_int(struct weft_onnx *g, int64_t n)
{
    const char *name = weft_onnx_name(g, "int.%" PRId64, n);
    if (!weft_onnx_has(g, name))
        weft_onnx_tensor(g, name, WEFT_ONNX_INT64, &(struct weft_onnx_shape){0}, &n);
    return name;
}

const char *weft_onnx_list(struct weft_onnx *g, int count, const int64_t *list)
{
    const char *name = "ints";
    for (int i = 0; i < count; i++)
        name = weft_onnx_name(g, "%s.%" PRId64, name, list[i]);
    if (!weft_onnx_has(g, name))
        weft_onnx_tensor(g, name, WEFT_ONNX_INT64, &(struct weft_onnx_shape){1, {{NULL, count}}}, list);
    return name;
}

/* ---- weights */

const char *weft_onnx_weight(struct weft_onnx *g, const char *name)
{
    int i = weft_params_find(&g->model->params, name);
    if (i < 0 || g->model->params.list[i].ndim > WEFT_ONNX_DIMS) {
        weft_onnx_fail(g, FAIL(WEFT_INVALID, "the model has no weight %s", name));
        return "";
    }
    const struct weft_param *w = &g->model->params.list[i];
    struct weft_onnx_shape shape = {.ndim = w->ndim};
    for (int d = 0; d < w->ndim; d++)
        shape.dim[d].size = w->dim[d];
    if (!weft_onnx_has(g, w->name))
        weft_onnx_tensor(g, w->name, WEFT_ONNX_FLOAT, &shape, g->model->params.weights + w->offset);
    return w->name;
}

/* ---- shapes */

const char *weft_onnx_slice(struct weft_onnx *g, const char *x, const char *first, const char *end, int64_t axis)
{
    return NODE(g, "Slice", x, first, end, INTS(g, axis));
}
