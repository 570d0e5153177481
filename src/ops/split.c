/* SPDX-License-Identifier: MIT
 *
 * split - cuts x [M, W] into columns: y_o [M, w_o], o = 0, 1, .., the w_o adding up to W. The inverse of joining: dx is
 * the rows of all dy_o side by side, zeros where one has no gradient. Nothing is saved.
 */
#include "base/vmath.h"
#include "ops/ops.h"

enum { ROWS = 16 }; /* per tile */

struct attr {
    int count;
    int64_t width[WEFT_MAX_SPLIT];
};

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *a = node->attr;
    const struct weft_value *x = node->in[0];
    struct weft_shape s = x->shape;
    int64_t sum = 0;
    if (!weft_dtype_is_float(x->dtype))
        return weft_node_fail(node, "x is %s, not a float type", weft_dtype_name(x->dtype));
    for (int o = 0; o < a->count; o++) {
        sum += a->width[o];
        s.dim[s.ndim - 1] = weft_fixed(a->width[o]);
        TRY(weft_node_output(node, o, x->dtype, s));
    }
    if (sum != weft_shape_width(&x->shape))
        return weft_node_fail(node, "parts of %lld columns in all are cut from %lld", (long long)sum,
                              (long long)weft_shape_width(&x->shape));
    return WEFT_OK;
}

static void ref(const struct weft_call *call)
{
    const struct attr *a = call->attr;
    int64_t width = weft_tensor_width(call->in[0]), first = 0;
    for (int o = 0; o < a->count; first += a->width[o++])
        for (int64_t r = 0; r < weft_tensor_rows(call->in[0]); r++)
            for (int64_t i = 0; i < a->width[o]; i++)
                ((double *)call->out[o]->data)[r * a->width[o] + i] =
                    ((const double *)call->in[0]->data)[r * width + first + i];
}

static void bwd_ref(const struct weft_call *call)
{
    const struct attr *a = call->attr;
    int64_t width = weft_tensor_width(call->gin[0]), first = 0;
    for (int o = 0; o < a->count; first += a->width[o++])
        for (int64_t r = 0; r < weft_tensor_rows(call->gin[0]); r++)
            for (int64_t i = 0; i < a->width[o]; i++)
                ((double *)call->gin[0]->data)[r * width + first + i] =
                    call->gout[o] ? ((const double *)call->gout[o]->data)[r * a->width[o] + i] : 0;
}

/* Row r of columns [first, first + n) of the wide matrix, and all of the narrow one's, one into the other. */
static void copy(const struct weft_tensor *to, int64_t to_at, const struct weft_tensor *from, int64_t from_at,
                 int64_t n)
{
    for (int64_t i = 0; i < n; i += VLANES) {
        vf x = from ? vload(from->data, from->dtype, from_at + i, from_at + n) : vset(0);
        vstore(to->data, to->dtype, to_at + i, to_at + n, x);
    }
}

static void run_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    const struct attr *a = call->attr;
    const struct weft_tensor *x = call->in[0];
    int64_t width = weft_tensor_width(x), end = weft_min(weft_tensor_rows(x), (tile + 1) * ROWS);
    for (int64_t r = tile * ROWS; r < end; r++) {
        int64_t first = r * width;
        for (int o = 0; o < a->count; first += a->width[o++])
            copy(call->out[o], r * a->width[o], x, first, a->width[o]);
    }
}

static void run(const struct weft_call *call)
{
    weft_parallel(weft_div_up(weft_tensor_rows(call->in[0]), ROWS), run_tile, (void *)call);
}

static void bwd_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    const struct attr *a = call->attr;
    const struct weft_tensor *dx = call->gin[0];
    int64_t width = weft_tensor_width(dx), end = weft_min(weft_tensor_rows(dx), (tile + 1) * ROWS);
    for (int64_t r = tile * ROWS; r < end; r++) {
        int64_t first = r * width;
        for (int o = 0; o < a->count; first += a->width[o++])
            copy(dx, first, call->gout[o], r * a->width[o], a->width[o]);
    }
}

static void bwd(const struct weft_call *call)
{
    weft_parallel(weft_div_up(weft_tensor_rows(call->gin[0]), ROWS), bwd_tile, (void *)call);
}

/* n: rows, three widths (0: one fewer), and whether only the last part is used */
static const struct weft_case cases[] = {
    {.name = "one", .n = {1, 1}},
    {.name = "one part", .n = {5, 7}},
    {.name = "two", .n = {7, 5, 3}},
    {.name = "odd", .n = {37, 17, 1, 33}},
    {.name = "lanes", .n = {3, 16, 32, 16}},
    {.name = "tile", .n = {16, 64, 64, 128}},
    {.name = "tile+1", .n = {17, 8, 9, 10}},
    {.name = "some unused", .n = {21, 12, 20, 9, 1}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    int count = c->n[3] ? 3 : c->n[2] ? 2 : 1;
    int64_t width = c->n[1] + c->n[2] + c->n[3];
    struct weft_value *x = weft_case_input(g, "x", weft_graph_compute(g), c->n[0], width);
    struct weft_value *y = weft_split(g, x, count, c->n + 1);
    for (int o = c->n[4] ? count - 1 : 0; y && o < count; o++)
        weft_graph_output(g, weft_sibling(y, o));
}

const struct weft_op WEFT_OP(split) = {
    .name = "split",
    .summary = "y_o = columns of x",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.run = bwd, .ref = bwd_ref},
    .differentiable = 1,
    .cases = cases,
    .case_count = sizeof cases / sizeof *cases,
    .build = build,
};

struct weft_value *weft_split(struct weft_graph *g, struct weft_value *x, int count, const int64_t *widths)
{
    struct attr attr = {.count = count};
    for (int o = 0; o < count && o < WEFT_MAX_SPLIT; o++)
        attr.width[o] = widths[o];
    struct weft_node *node = weft_graph_emit(g, weft_op(WEFT_OP_split), &attr, 1, &x);
    return node ? node->out[0] : NULL;
}
