/* SPDX-License-Identifier: MIT
 *
 * bias - y [M, C] = x [M, C] + b [C]. May run in place on x.
 *
 * x gets y's gradient unchanged. For db += sum over rows of dy, each column is summed over blocks of BLOCK rows, and
 * the blocks are then added in order. So the order does not depend on the number of threads, and long sums lose little
 * precision.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum {
    ROWS = 16,
    COLUMNS = 128,
    BLOCK = 32
}; /* rows per forward tile, columns per backward tile, rows per block of a sum */

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_value *x = node->in[0], *b = node->in[1];
    TRY(weft_node_float(node, 0, "x"));
    if (b->dtype != WEFT_F32 || b->shape.ndim != 1 || weft_shape_width(&b->shape) != weft_shape_width(&x->shape))
        return weft_node_fail(node, "the bias must be f32 [%lld], as wide as x",
                              (long long)weft_shape_width(&x->shape));
    return weft_node_output(node, 0, x->dtype, x->shape);
}

static void ref(const struct weft_call *call)
{
    const double *x = call->in[0]->data, *b = call->in[1]->data;
    double *y = call->out[0]->data;
    int64_t rows = weft_tensor_rows(call->out[0]), width = weft_tensor_width(call->out[0]);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++)
            y[r * width + i] = x[r * width + i] + b[i];
}

static void bwd_ref(const struct weft_call *call)
{
    const double *dy = call->gout[0]->data;
    double *db = call->gin[1]->data;
    int64_t rows = weft_tensor_rows(call->gout[0]), width = weft_tensor_width(call->gout[0]);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++)
            db[i] += dy[r * width + i];
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    (void)node;
    weft_form_out(f, 0, weft_add_of(f, weft_form_in(f, 0), weft_form_in(f, 1)));
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const struct weft_tensor *x = call->in[0], *y = call->out[0];
    const float *b = call->in[1]->data;
    int64_t width = weft_tensor_width(x);
    for (int64_t r = first; r < rows; r++)
        for (int64_t i = 0, at = r * width, end = at + width; i < width; i += VLANES)
            vstore(y->data, y->dtype, at + i, end, vload(x->data, x->dtype, at + i, end) + vload_f32(b + i, width - i));
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->in[0]), ROWS, run_tile); }

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t last)
{
    const struct weft_tensor *dy = call->gout[0];
    float *db = call->gin[1]->data;
    int64_t rows = weft_tensor_rows(dy), width = weft_tensor_width(dy);
    for (int64_t block = 0; block < rows; block += BLOCK)
        for (int64_t i = first; i < last; i += VLANES) {
            vf sum = vset(0);
            for (int64_t r = block; r < weft_min(rows, block + BLOCK); r++)
                sum += vload(dy->data, dy->dtype, r * width + i, r * width + last);
            vstore_f32(db + i, last - i, vload_f32(db + i, last - i) + sum);
        }
}

static void bwd(const struct weft_call *call)
{
    weft_tiles_run(call, weft_tensor_width(call->gout[0]), COLUMNS, bwd_tile);
}

static void grad(struct weft_graph *g, struct weft_node *node, struct weft_grads *grads)
{
    (void)node;
    struct weft_value *gout[WEFT_MAX_ARGS] = {weft_grad_out(grads, 0)}, *gin[WEFT_MAX_ARGS] = {0};
    if (weft_grad_wanted(grads, 0))
        weft_grad_add(grads, 0, weft_cast(g, gout[0], weft_grad_dtype(grads, 0)));
    if (weft_grad_wanted(grads, 1)) {
        gin[1] = weft_grad_accumulator(grads, 1);
        weft_grad_emit(grads, gout, gin);
    }
}

/* Entries of n: rows, width, inside */
static const struct weft_case cases[] = {
    {"one", {1, 1}, {0}},
    {"one row", {1, 37}, {0}},
    {"odd", {7, 5}, {0}},
    {"lanes+1", {3, 17}, {0}},
    {"tile-1", {ROWS - 1, COLUMNS - 1}, {0}},
    {"tile", {ROWS, COLUMNS}, {0}},
    {"tile+1", {ROWS + 1, COLUMNS + 1}, {0}},
    {"block", {BLOCK, 33}, {0}},
    {"block+1", {BLOCK + 1, 33}, {0}},
    {"tiles", {100, 300}, {0}},
    {"inside", {100, 50, 1}, {0}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *x = weft_case_input(g, "x", weft_graph_compute(g), c->n[0], c->n[1]);
    struct weft_value *b = weft_graph_param(g, "b", WEFT_SHAPE(weft_fixed(c->n[1])));
    struct weft_value *y = weft_bias(g, c->n[2] ? weft_scale(g, x, 2) : x, b);
    weft_graph_output(g, c->n[2] ? weft_scale(g, y, 2) : y);
}

const struct weft_op WEFT_OP(bias) = {
    .name = "bias",
    .summary = "y = x + b, the same b for every row",
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.run = bwd, .ref = bwd_ref},
    .grad = grad,
    .differentiable = 3,
    .accumulates = 2,
    .inplace = 1,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_bias(struct weft_graph *g, struct weft_value *x, struct weft_value *b)
{
    return weft_emit(g, WEFT_SELF(bias), NULL, 2, (struct weft_value *[]){x, b});
}
