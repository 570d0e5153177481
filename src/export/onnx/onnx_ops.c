/* SPDX-License-Identifier: MIT
 *
 * onnx_ops.c - what the graph of an ONNX file is built with: values, constants, weights, products, states.
 */
#include "export/onnx/onnx.h"
#include "nn/part.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* ---- names and nodes */

void weft_onnx_scope(struct weft_onnx *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(g->scope, sizeof g->scope, format, args);
    va_end(args);
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

const char *weft_onnx_op(struct weft_onnx *g, const char *type, const struct weft_onnx_attr *attr,
                         const char *const *inputs)
{
    const char *y = weft_onnx_name(g, "%s/%s_%d", g->scope, type, g->values++);
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

static int find_weight(const struct weft_onnx *g, const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s%s", g->scope, *g->scope ? "." : "", name);
    return weft_params_find(&g->model->params, full);
}

bool weft_onnx_weighs(const struct weft_onnx *g, const char *name) { return find_weight(g, name) >= 0; }

const char *weft_onnx_weight(struct weft_onnx *g, const char *name)
{
    int i = find_weight(g, name);
    if (i < 0) {
        weft_onnx_fail(g, FAIL(WEFT_INVALID, "the model has no weight %s.%s", g->scope, name));
        return "";
    }
    const struct weft_param *w = &g->model->params.list[i];
    struct weft_onnx_shape shape = {.ndim = w->ndim};
    assert(w->ndim <= WEFT_ONNX_DIMS);
    for (int d = 0; d < w->ndim; d++)
        shape.dim[d].size = w->dim[d];
    if (!g->written[i])
        weft_onnx_tensor(g, w->name, WEFT_ONNX_FLOAT, &shape, g->model->params.weights + w->offset);
    g->written[i] = true;
    return w->name;
}

const char *weft_onnx_linear(struct weft_onnx *g, const char *x, const char *name)
{
    char bias[64];
    snprintf(bias, sizeof bias, "%s_bias", name);
    const char *w = weft_onnx_weight(g, name);
    if (weft_onnx_weighs(g, bias))
        return OP_INT(g, "Gemm", "transB", 1, x, w, weft_onnx_weight(g, bias));
    return OP_INT(g, "Gemm", "transB", 1, x, w);
}

const char *weft_onnx_alpha(struct weft_onnx *g, double alpha)
{
    return g->spec->learn_alpha ? weft_onnx_weight(g, "alpha") : weft_onnx_real(g, alpha);
}

/* ---- shapes */

const char *weft_onnx_reshape(struct weft_onnx *g, const char *x, const char *shape)
{
    return OP(g, "Reshape", x, shape);
}

const char *weft_onnx_swap(struct weft_onnx *g, const char *x)
{
    static const struct weft_onnx_attr attr = {"perm", WEFT_ATTR_INTS, 0, 4, {0, 2, 1, 3}};
    return weft_onnx_op(g, "Transpose", &attr, WEFT_NAMES(x));
}

const char *weft_onnx_heads(struct weft_onnx *g, const char *x, int64_t heads)
{
    return weft_onnx_swap(g, weft_onnx_reshape(g, x, CONCAT(g, 0, g->rows, INTS(g, heads, -1))));
}

const char *weft_onnx_slice(struct weft_onnx *g, const char *x, const char *first, const char *end, int64_t axis)
{
    return OP(g, "Slice", x, first, end, INTS(g, axis));
}

/* ---- norms */

const char *weft_onnx_rms(struct weft_onnx *g, const char *x, const char *gain, double eps)
{
    const char *square = OP_AXES(g, "ReduceMean", -1, OP(g, "Mul", x, x));
    const char *root = OP(g, "Sqrt", OP(g, "Add", square, weft_onnx_real(g, eps)));
    return OP(g, "Mul", OP(g, "Div", x, root), gain);
}

/* ---- states */

const char *weft_onnx_past(struct weft_onnx *g, const char *name)
{
    return weft_onnx_name(g, "past_key_values.%d.%s", g->layer, name);
}

const char *weft_onnx_present(struct weft_onnx *g, const char *name)
{
    return weft_onnx_name(g, "present.%d.%s", g->layer, name);
}

const char *weft_onnx_keep(struct weft_onnx *g, const char *name, int64_t heads, int64_t width, int64_t window,
                           const char *x)
{
    struct weft_onnx_shape shape = {4,
                                    {{"batch", 0}, {NULL, heads}, {window ? "past_window" : "past", 0}, {NULL, width}}};
    const char *past = weft_onnx_past(g, name), *present = weft_onnx_present(g, name);
    weft_onnx_input(g, past, WEFT_ONNX_FLOAT, shape);
    shape.dim[2].symbol = window ? "present_window" : "total";
    weft_onnx_output(g, present, WEFT_ONNX_FLOAT, shape);
    if (!window) {
        static const struct weft_onnx_attr axis = {"axis", WEFT_ATTR_INT, 0, 1, {2}};
        weft_onnx_node(g, "Concat", &axis, WEFT_NAMES(past, x), WEFT_NAMES(present));
        return present;
    }
    const char *all = CONCAT(g, 2, past, x);
    weft_onnx_node(g, "Slice", NULL, WEFT_NAMES(all, INTS(g, -window), INTS(g, INT64_MAX), INTS(g, 2)),
                   WEFT_NAMES(present));
    return all;
}

/* ---- options */

static const void *search(const struct weft_chosen *c, const char *name, const struct weft_opt **opt)
{
    for (int i = 0; i < c->part->owner.count; i++)
        if (strcmp(c->part->owner.options[i].name, name) == 0) {
            *opt = &c->part->owner.options[i];
            return (const char *)c->options + (*opt)->offset;
        }
    return NULL;
}

static const void *find_option(const struct weft_onnx *g, const char *name, const struct weft_opt **opt)
{
    const void *at = NULL;
    for (int kind = 0; !at && kind < WEFT_SINGLE_KINDS; kind++)
        at = search(&g->spec->part[kind], name, opt);
    for (int i = 0; !at && i < g->spec->mechanism_count; i++)
        at = search(&g->spec->mechanism[i], name, opt);
    assert(at);
    return at;
}

int64_t weft_onnx_whole(const struct weft_onnx *g, const char *name)
{
    const struct weft_opt *opt;
    const void *at = find_option(g, name, &opt);
    if (opt->type == WEFT_OPT_BOOL)
        return *(const bool *)at;
    return opt->type == WEFT_OPT_CHOICE ? *(const int *)at : *(const int64_t *)at;
}

double weft_onnx_number(const struct weft_onnx *g, const char *name)
{
    const struct weft_opt *opt;
    return *(const double *)find_option(g, name, &opt);
}

bool weft_onnx_is(const struct weft_onnx *g, enum weft_part_kind kind, const char *name)
{
    return strcmp(g->spec->part[kind].part->name, name) == 0;
}
