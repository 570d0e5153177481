/* SPDX-License-Identifier: MIT
 *
 * split - splits the columns of x [M, W] into y_o [M, w_o], o = 0, 1, ..., where the widths w_o add up to W. dx
 * concatenates the dy_o, with zeros for outputs without a gradient. Nothing is saved.
 */
#include "ops/columns_inl.h"

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
    TRY(weft_node_float(node, 0, "x"));
    for (int o = 0; o < a->count; o++) {
        sum += a->width[o];
        s.dim[s.ndim - 1] = weft_fixed(a->width[o]);
        TRY(weft_node_output(node, o, x->dtype, s));
    }
    if (sum != weft_shape_width(&x->shape))
        return weft_node_fail(node, "the widths add up to %lld, but x has %lld columns", (long long)sum,
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

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *a = node->attr;
    int64_t first = 0;
    for (int o = 0; o < a->count; first += a->width[o++])
        weft_form_out(f, o, weft_slice_of(f, weft_form_in(f, 0), -1, first, a->width[o]));
}

static void run_row(const struct weft_call *call, int64_t r)
{
    const struct attr *a = call->attr;
    int64_t at = r * weft_tensor_width(call->in[0]);
    for (int o = 0; o < a->count; at += a->width[o++])
        copy(call->out[o], r * a->width[o], call->in[0], at, a->width[o]);
}

static void bwd_row(const struct weft_call *call, int64_t r)
{
    const struct attr *a = call->attr;
    int64_t at = r * weft_tensor_width(call->gin[0]);
    for (int o = 0; o < a->count; at += a->width[o++])
        copy(call->gin[0], at, call->gout[o], r * a->width[o], a->width[o]);
}

/* Entries of n: rows, up to three widths (0: fewer), only the last output is used */
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
    .summary = "y_0, y_1, .. = x split by columns",
    COLUMNS_FIELDS,
};

struct weft_value *weft_split(struct weft_graph *g, struct weft_value *x, int count, const int64_t *widths)
{
    struct attr attr = {.count = count};
    if (count > WEFT_MAX_SPLIT) {
        weft_graph_fail(g,
                        FAIL(WEFT_INVALID, "split cannot have %d outputs: the maximum is %d", count, WEFT_MAX_SPLIT));
        return NULL;
    }
    for (int o = 0; o < count; o++)
        attr.width[o] = widths[o];
    return weft_emit(g, WEFT_SELF(split), &attr, 1, &x);
}
