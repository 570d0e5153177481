/* SPDX-License-Identifier: MIT
 *
 * slice - y [M, W] = columns first to first+W-1 of x [M, C], copied because tensors have no strides.
 *
 * Backward writes dy to these columns and zeros to the others.
 */
#include "ops/columns_inl.h"

struct attr {
    int64_t first, width;
};

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *attr = node->attr;
    const struct weft_value *x = node->in[0];
    int64_t whole = weft_shape_width(&x->shape);
    if (attr->first < 0 || attr->width < 1 || attr->width > whole || attr->first > whole - attr->width)
        return weft_node_fail(node, "%lld columns starting at %lld are out of range: x has %lld columns",
                              (long long)attr->width, (long long)attr->first, (long long)whole);
    struct weft_shape s = x->shape;
    s.dim[s.ndim - 1] = weft_fixed(attr->width);
    return weft_node_output(node, 0, x->dtype, s);
}

static void ref(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    const double *x = call->in[0]->data;
    double *y = call->out[0]->data;
    int64_t rows = weft_tensor_rows(call->in[0]), whole = weft_tensor_width(call->in[0]);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < attr->width; i++)
            y[r * attr->width + i] = x[r * whole + attr->first + i];
}

static void bwd_ref(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    const double *dy = call->gout[0]->data;
    double *dx = call->gin[0]->data;
    int64_t rows = weft_tensor_rows(call->gin[0]), whole = weft_tensor_width(call->gin[0]);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < whole; i++) {
            bool inside = i >= attr->first && i < attr->first + attr->width;
            dx[r * whole + i] = inside ? dy[r * attr->width + i - attr->first] : 0;
        }
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *attr = node->attr;
    weft_form_out(f, 0, weft_slice_of(f, weft_form_in(f, 0), -1, attr->first, attr->width));
}

static void run_row(const struct weft_call *call, int64_t r)
{
    const struct attr *attr = call->attr;
    int64_t whole = weft_tensor_width(call->in[0]);
    copy(call->out[0], r * attr->width, call->in[0], r * whole + attr->first, attr->width);
}

static void bwd_row(const struct weft_call *call, int64_t r)
{
    const struct attr *attr = call->attr;
    const struct weft_tensor *dx = call->gin[0];
    int64_t whole = weft_tensor_width(dx), at = r * whole + attr->first, end = at + attr->width;
    copy(dx, r * whole, NULL, 0, attr->first);
    copy(dx, at, call->gout[0], r * attr->width, attr->width);
    copy(dx, end, NULL, 0, (r + 1) * whole - end);
}

/* Entries of n: rows, width of x, first column, columns, inside */
static const struct weft_case cases[] = {
    {"one", {1, 1, 0, 1}, {0}},
    {"one row", {1, 37, 3, 20}, {0}},
    {"odd", {7, 5, 1, 3}, {0}},
    {"all", {5, 19, 0, 19}, {0}},
    {"start", {9, 48, 0, 17}, {0}},
    {"end", {9, 48, 32, 16}, {0}},
    {"tile-1", {ROWS - 1, 33, 7, 15}, {0}},
    {"tile", {ROWS, 33, 7, 15}, {0}},
    {"tile+1", {ROWS + 1, 33, 7, 15}, {0}},
    {"tiles", {100, 96, 32, 32}, {0}},
    {"inside", {20, 50, 9, 40, 1}, {0}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *x = weft_case_input(g, "x", weft_graph_compute(g), c->n[0], c->n[1]);
    struct weft_value *y = weft_slice(g, x, c->n[2], c->n[3]);
    weft_graph_output(g, c->n[4] ? weft_scale(g, y, 2) : y);
}

const struct weft_op WEFT_OP(slice) = {
    .name = "slice",
    .summary = "y = columns first to first+width-1 of x",
    COLUMNS_FIELDS,
};

struct weft_value *weft_slice(struct weft_graph *g, struct weft_value *x, int64_t first, int64_t width)
{
    struct attr attr = {first, width};
    return weft_emit(g, WEFT_SELF(slice), &attr, 1, &x);
}
