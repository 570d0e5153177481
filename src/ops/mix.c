/* SPDX-License-Identifier: MIT
 *
 * mix - z = x + alpha y, elementwise, with a scalar alpha, f32 [1], a parameter or a constant. x, y and z have the same
 * shape and type, f32 or bf16; x is optional, 0 if absent. May run in place on x.
 *
 * Backward: x gets dz unchanged; dy = alpha dz is another node of this op, without x; dalpha += sum dz y is the
 * backward kernel. So y is kept only if alpha is learned. Each block of TILE elements writes its sum to scratch; the
 * sums are then added in order.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { TILE = 8192 }; /* elements per tile; determines the order of the sum */
enum { X, Y, ALPHA, INPUTS };

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_value *x = node->in[X], *y = node->in[Y], *alpha = node->in[ALPHA];
    if (!weft_dtype_is_float(y->dtype) || (x && x->dtype != y->dtype))
        return weft_node_fail(node, "x and y must have the same float type; y is %s", weft_dtype_name(y->dtype));
    if (x && !weft_shape_same(&x->shape, &y->shape))
        return weft_node_fail(node, "x and y have different shapes");
    if (alpha->dtype != WEFT_F32 || !weft_shape_same(&alpha->shape, &WEFT_SHAPE(weft_fixed(1))))
        return weft_node_fail(node, "alpha must be f32 [1]");
    return weft_node_output(node, 0, y->dtype, y->shape);
}

static void ref(const struct weft_call *call)
{
    const double *x = call->in[X] ? call->in[X]->data : NULL, *y = call->in[Y]->data, *alpha = call->in[ALPHA]->data;
    double *z = call->out[0]->data;
    for (int64_t i = 0; i < weft_tensor_count(call->out[0]); i++)
        z[i] = (x ? x[i] : 0) + *alpha * y[i];
}

static void bwd_ref(const struct weft_call *call)
{
    const double *dz = call->gout[0]->data, *y = call->in[Y]->data;
    double *dalpha = call->gin[ALPHA]->data;
    for (int64_t i = 0; i < weft_tensor_count(call->in[Y]); i++)
        *dalpha += dz[i] * y[i];
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    struct weft_atom *scaled = weft_mul_of(f, weft_form_in(f, ALPHA), weft_form_in(f, Y));
    weft_form_out(f, 0, node->in[X] ? weft_add_of(f, weft_form_in(f, X), scaled) : scaled);
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t n)
{
    const struct weft_tensor *x = call->in[X], *y = call->in[Y], *z = call->out[0];
    vf alpha = vset(*(const float *)call->in[ALPHA]->data);
    for (int64_t i = first; i < n; i += VLANES) {
        vf base = x ? vload(x->data, x->dtype, i, n) : vset(0);
        vstore(z->data, z->dtype, i, n, vfma(alpha, vload(y->data, y->dtype, i, n), base));
    }
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_count(call->out[0]), TILE, run_tile); }

/* ---- backward: dalpha; scratch holds one sum per block */

static enum weft_status bwd_plan(const struct weft_call *max, struct weft_booking *booking)
{
    size_t blocks = (size_t)weft_div_up(weft_tensor_count(max->in[Y]), TILE);
    return weft_size_mul(blocks, sizeof(float), &booking->scratch);
}

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t n)
{
    const struct weft_tensor *dz = call->gout[0], *y = call->in[Y];
    vf sum = vset(0);
    for (int64_t i = first; i < n; i += VLANES)
        sum = vfma(vload(dz->data, dz->dtype, i, n), vload(y->data, y->dtype, i, n), sum);
    ((float *)call->scratch)[first / TILE] = vsum(sum);
}

static void bwd(const struct weft_call *call)
{
    weft_tiles_run(call, weft_tensor_count(call->in[Y]), TILE, bwd_tile);
    double sum = 0;
    for (int64_t block = 0; block < weft_div_up(weft_tensor_count(call->in[Y]), TILE); block++)
        sum += ((const float *)call->scratch)[block];
    *(float *)call->gin[ALPHA]->data += (float)sum;
}

static void grad(struct weft_graph *g, struct weft_node *node, struct weft_grads *grads)
{
    struct weft_value *gout[WEFT_MAX_ARGS] = {weft_grad_out(grads, 0)}, *gin[WEFT_MAX_ARGS] = {0};
    if (weft_grad_wanted(grads, X))
        weft_grad_add(grads, X, weft_cast(g, gout[0], weft_grad_dtype(grads, X)));
    if (weft_grad_wanted(grads, Y)) {
        struct weft_value *dy = weft_mix(g, NULL, gout[0], node->in[ALPHA]);
        weft_grad_add(grads, Y, weft_cast(g, dy, weft_grad_dtype(grads, Y)));
    }
    if (weft_grad_wanted(grads, ALPHA)) {
        gin[ALPHA] = weft_grad_accumulator(grads, ALPHA);
        weft_grad_emit(grads, gout, gin);
    }
}

/* Entries of n: rows, width, x is present, alpha is a constant, inside */
enum { ROWS, WIDTH, WITH_X, CONSTANT, INSIDE };

static const struct weft_case cases[] = {
    {.name = "one", .n = {1, 1, 1}},
    {.name = "one row", .n = {1, 37, 1}},
    {.name = "odd", .n = {7, 5, 1}},
    {.name = "lanes", .n = {1, 16, 1}},
    {.name = "lanes+1", .n = {1, 17, 1}},
    {.name = "tile-1", .n = {1, TILE - 1, 1}},
    {.name = "tile", .n = {64, 128, 1}},
    {.name = "tile+1", .n = {1, TILE + 1, 1}},
    {.name = "tiles", .n = {331, 100, 1}},
    {.name = "constant", .n = {20, 30, 1, 1}},
    {.name = "without x", .n = {20, 30}},
    {.name = "inside", .n = {20, 30, 1, 0, 1}},
    {.name = "constant inside", .n = {20, 30, 1, 1, 1}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    enum weft_dtype compute = weft_graph_compute(g);
    struct weft_value *x = c->n[WITH_X] ? weft_case_input(g, "x", compute, c->n[ROWS], c->n[WIDTH]) : NULL;
    struct weft_value *y = weft_case_input(g, "y", compute, c->n[ROWS], c->n[WIDTH]);
    struct weft_shape one = WEFT_SHAPE(weft_fixed(1));
    struct weft_value *alpha = c->n[CONSTANT] ? weft_fill(g, 0.3, one) : weft_graph_param(g, "alpha", one);
    struct weft_value *z = weft_mix(g, c->n[INSIDE] ? weft_silu(g, x) : x, c->n[INSIDE] ? weft_silu(g, y) : y, alpha);
    weft_graph_output(g, c->n[INSIDE] ? weft_scale(g, z, 2) : z);
}

const struct weft_op WEFT_OP(mix) = {
    .name = "mix",
    .summary = "z = x + alpha y, alpha a scalar weight",
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.plan = bwd_plan, .run = bwd, .ref = bwd_ref},
    .grad = grad,
    .bwd_reads_in = 1 << Y,
    .differentiable = 1 << X | 1 << Y | 1 << ALPHA,
    .accumulates = 1 << ALPHA,
    .inplace = 1 + X,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_mix(struct weft_graph *g, struct weft_value *x, struct weft_value *y, struct weft_value *alpha)
{
    struct weft_value *in[INPUTS] = {x, y, alpha};
    return weft_emit(g, WEFT_SELF(mix), NULL, INPUTS, in);
}
