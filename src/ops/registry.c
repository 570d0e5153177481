/* SPDX-License-Identifier: MIT
 *
 * registry.c - the descriptor of each op on this machine, and helpers that all ops use.
 *
 * Every op is compiled once per instruction-set level. The program uses the highest level that the processor supports
 * for all ops, so the results of a run come from one set of kernels.
 */
#include "ops/ops.h"

#define OP(name, parameters) extern const struct weft_op weft_op_##name;
#include "ops/ops.def"
#undef OP

#if defined(__x86_64__) && !defined(WEFT_BASE_ONLY)
#define OP(name, parameters) extern const struct weft_op weft_op_##name##_v3, weft_op_##name##_v4;
#include "ops/ops.def"
#undef OP
#endif

static const struct weft_op *const levels[][WEFT_OP_COUNT] = {
    {
#define OP(name, parameters) &weft_op_##name,
#include "ops/ops.def"
#undef OP
    },
#if defined(__x86_64__) && !defined(WEFT_BASE_ONLY)
    {
#define OP(name, parameters) &weft_op_##name##_v3,
#include "ops/ops.def"
#undef OP
    },
    {
#define OP(name, parameters) &weft_op_##name##_v4,
#include "ops/ops.def"
#undef OP
    },
#endif
};

static const struct weft_op *replaced[WEFT_OP_COUNT];

const struct weft_op *weft_op(enum weft_op_id id)
{
    int highest = (int)(sizeof levels / sizeof *levels) - 1;
    return replaced[id] ? replaced[id] : levels[weft_min(weft_isa(), highest)][id];
}

const struct weft_op *weft_op_here(const struct weft_op *lowest)
{
    int id = 0;
    while (levels[0][id] != lowest)
        id++;
    return weft_op((enum weft_op_id)id);
}

void weft_op_replace(enum weft_op_id id, const struct weft_op *op) { replaced[id] = op; }

struct weft_graph *weft_graph_new(enum weft_dtype compute)
{
    struct weft_arithmetic arithmetic = {weft_op(WEFT_OP_fill), weft_op(WEFT_OP_add)};
    return weft_graph_create(compute, &arithmetic);
}

struct weft_value *weft_emit(struct weft_graph *g, const struct weft_op *op, const void *attr, int inputs,
                             struct weft_value *const *in)
{
    struct weft_node *node = weft_graph_emit(g, op, attr, inputs, in);
    return node ? node->out[0] : NULL;
}

struct weft_value *weft_sibling(const struct weft_value *v, int o) { return v && v->node ? v->node->out[o] : NULL; }

struct weft_value *weft_case_input(struct weft_graph *g, const char *name, enum weft_dtype dtype, int64_t rows,
                                   int64_t width)
{
    struct weft_shape s = WEFT_SHAPE(weft_times(weft_graph_symbol(g, "rows", rows), 1), weft_fixed(width));
    s.ndim = width ? 2 : 1;
    struct weft_value *v = weft_graph_input(g, name, dtype, s);
    if (v)
        v->wants_grad = weft_dtype_is_float(dtype);
    return v;
}

enum weft_status weft_node_float(const struct weft_node *node, int i, const char *name)
{
    enum weft_dtype dtype = node->in[i]->dtype;
    return weft_dtype_is_float(dtype)
               ? WEFT_OK
               : weft_node_fail(node, "%s is %s, not a float type", name, weft_dtype_name(dtype));
}

enum weft_status weft_node_heads(const struct weft_node *node, int i, const char *name, int64_t heads)
{
    int64_t width = weft_shape_width(&node->in[i]->shape);
    TRY(weft_node_float(node, i, name));
    return heads > 0 && width % heads == 0
               ? WEFT_OK
               : weft_node_fail(node, "the width of %s, %lld, is not a multiple of the %lld heads", name,
                                (long long)width, (long long)heads);
}

struct tiles {
    const struct weft_call *call;
    int64_t count, size;
    weft_span_fn *fn;
};

static void run_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct tiles *t = context;
    t->fn(t->call, tile * t->size, weft_min(t->count, (tile + 1) * t->size));
}

void weft_tiles_run(const struct weft_call *call, int64_t count, int64_t size, weft_span_fn *fn)
{
    weft_parallel(weft_div_up(count, size), run_tile, &(struct tiles){call, count, size, fn});
}

uint64_t weft_dropout_key(const int32_t step_key[4], int32_t sample, int layer, int site)
{
    uint64_t seed = (uint64_t)(uint32_t)step_key[1] << 32 | (uint32_t)step_key[0];
    uint64_t step = (uint64_t)(uint32_t)step_key[3] << 32 | (uint32_t)step_key[2];
    uint64_t key = weft_key_name(seed, "dropout"); /* so that masks are independent of the other uses of the seed */
    key = weft_key(key, step);
    key = weft_key(key, (uint32_t)sample);
    key = weft_key(key, (uint32_t)layer);
    return weft_key(key, (uint32_t)site);
}
