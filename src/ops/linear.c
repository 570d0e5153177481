/* SPDX-License-Identifier: MIT
 *
 * linear - rows times a weight matrix, plus bias and residual, which are added before the result is stored.
 *
 *     y[m,n] = sum_k x[m,k] W[n,k] + b[n] + addend[m,n]
 *
 * x [M,K] in the compute dtype, W [N,K] f32, a parameter or computed from parameters, read in its packed form p, b [N]
 * f32 and addend [M,N] f32 or bf16 optional, y [M,N] f32 or bf16; y may alias addend. With W [G,N,K], there are G
 * separate matmuls: group g maps the K columns of x from gK to the N columns of y from gN.
 *
 * Backward, with dY rounded to the compute dtype once:
 *     dX = dY W         another node of this op, with W packed transposed; its addend is the gradient that other users
 *                       of x have contributed so far, so the gradients of q, k and v are summed without an extra pass
 *     dW += dY^t X      the backward kernel, into the parameter's own gradient (for a computed W, into its accumulator)
 *     db += sum_m dY    likewise
 *     d addend = dY
 *
 * Only x is saved. W is an input so that grad can find it; no kernel reads it.
 */
#include "base/vmath_inl.h"
#include "ops/dot_inl.h"
#include "ops/ops.h"

enum { X, P, B, ADDEND = WEFT_LINEAR_ADDEND, W, INPUTS };

struct attr {
    enum weft_dtype out;
    bool is_dx; /* this node computes the dX of another node; used only for reporting, see products */
};

/* ---- shape */

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *a = node->attr;
    const struct weft_value *x = node->in[X], *p = node->in[P], *b = node->in[B], *addend = node->in[ADDEND];
    enum weft_dtype compute = weft_graph_compute(node->graph);
    if (x->dtype != compute || p->dtype != compute)
        return weft_node_fail(node, "x and the packed matrix must both be %s", weft_dtype_name(compute));
    if (a->out != WEFT_F32 && a->out != WEFT_BF16)
        return weft_node_fail(node, "the result must be f32 or bf16, not %s", weft_dtype_name(a->out));
    int64_t groups = p->shape.ndim == 3 ? p->shape.dim[0].times : 1;
    int64_t width = groups * p->shape.dim[p->shape.ndim - 2].times, depth = groups * weft_shape_width(&p->shape);
    if (weft_shape_width(&x->shape) != depth)
        return weft_node_fail(node, "x has %lld columns, but the matrix expects %lld",
                              (long long)weft_shape_width(&x->shape), (long long)depth);
    struct weft_shape y = x->shape;
    y.dim[y.ndim - 1] = weft_fixed(width);
    if (b && (b->dtype != WEFT_F32 || !weft_shape_same(&b->shape, &WEFT_SHAPE(weft_fixed(width)))))
        return weft_node_fail(node, "the bias must be f32 [%lld]", (long long)width);
    if (addend && (!weft_shape_same(&addend->shape, &y) || (addend->dtype != WEFT_F32 && addend->dtype != WEFT_BF16)))
        return weft_node_fail(node, "the addend must be f32 or bf16 and have the shape of the result");
    return weft_node_output(node, 0, a->out, y);
}

/* Returns the matmul's sizes, given a matrix [width, depth] or [groups, width, depth]. */
static struct weft_dnn_shape sizes(enum weft_dtype dtype, const struct weft_tensor *matrix, int64_t rows)
{
    return (struct weft_dnn_shape){.dtype = dtype,
                                   .depth = matrix->dim[matrix->ndim - 1],
                                   .width = matrix->dim[matrix->ndim - 2],
                                   .groups = matrix->ndim == 3 ? matrix->dim[0] : 1,
                                   .max_rows = rows};
}

static double product_flops(const struct weft_tensor *matrix, int64_t rows)
{
    return 2.0 * (double)rows * (double)weft_tensor_count(matrix);
}

/* ---- forward */

static enum weft_status plan(const struct weft_call *max, struct weft_booking *booking)
{
    struct weft_dnn_shape s = sizes(max->in[X]->dtype, max->in[P], weft_tensor_rows(max->in[X]));
    struct weft_dnn_product *product;
    TRY(weft_dnn_product_plan(&s, max->out[0]->dtype, booking->arena, &product, &booking->scratch, &booking->local));
    booking->plan = product;
    return WEFT_OK;
}

/* Columns per tile of the reference, which runs in parallel because gates run it on whole models. */
enum { REFERENCE_TILE = 16 };

static void ref_tile(const struct weft_call *call, int64_t first, int64_t last)
{
    struct weft_dnn_shape s = sizes(WEFT_F64, call->in[P], weft_tensor_rows(call->in[X]));
    const double *x = call->in[X]->data, *p = call->in[P]->data;
    const double *b = call->in[B] ? call->in[B]->data : NULL;
    const double *addend = call->in[ADDEND] ? call->in[ADDEND]->data : NULL;
    double *y = call->out[0]->data;
    int64_t columns = s.groups * s.width;
    for (int64_t column = first; column < last; column++) /* rows are the inner loop, so that W is read only once */
        for (int64_t row = 0; row < s.max_rows; row++) {
            const double *from = x + (row * s.groups + column / s.width) * s.depth;
            double start = (b ? b[column] : 0) + (addend ? addend[row * columns + column] : 0);
            y[row * columns + column] = start + dot_f64(from, p + column * s.depth, s.depth);
        }
}

static void ref(const struct weft_call *call)
{
    weft_tiles_run(call, weft_tensor_width(call->out[0]), REFERENCE_TILE, ref_tile);
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    struct weft_atom *x = weft_form_in(f, X), *w = weft_form_in(f, W);
    if (!node->in[W])
        weft_form_fail(f, "only the packed matrix is known, because the node belongs to a backward pass");
    bool grouped = node->in[P]->shape.ndim == 3;
    if (grouped) /* the rows of group g, as [.., G, rows, K] */
        x = weft_swap_of(f, weft_heads_of(f, x, node->in[P]->shape.dim[0].times), -3, -2);
    struct weft_atom *y = weft_matmul_of(f, x, w, true);
    if (grouped)
        y = weft_flat_of(f, weft_swap_of(f, y, -3, -2));
    if (node->in[B])
        y = weft_add_of(f, y, weft_form_in(f, B));
    if (node->in[ADDEND])
        y = weft_add_of(f, y, weft_form_in(f, ADDEND));
    weft_form_out(f, 0, y);
}

static void run(const struct weft_call *call)
{
    const struct weft_tensor *x = call->in[X], *b = call->in[B], *addend = call->in[ADDEND];
    weft_dnn_product_run(call->plan, weft_tensor_rows(x), x->data, call->in[P]->data, b ? b->data : NULL,
                         addend ? addend->data : NULL, addend ? addend->dtype : WEFT_F32, call->out[0]->data,
                         call->scratch, call->local, call->local_stride);
}

static double flops(const struct weft_call *call)
{
    double adds = (double)weft_tensor_count(call->out[0]) * ((call->in[B] != NULL) + (call->in[ADDEND] != NULL));
    return product_flops(call->in[P], weft_tensor_rows(call->in[X])) + adds;
}

static int products(const struct weft_call *call, struct weft_product *list)
{
    struct weft_dnn_shape s = sizes(call->in[X]->dtype, call->in[P], weft_tensor_rows(call->in[X]));
    const struct attr *a = call->attr;
    list[0] = a->is_dx ? (struct weft_product){WEFT_BARE_DX, s.max_rows, s.depth, s.width, s.groups, 1}
                       : (struct weft_product){WEFT_BARE_Y, s.max_rows, s.width, s.depth, s.groups, 1};
    return 1;
}

/* ---- backward: the sums over rows */

/* To compute db, threads sum blocks of rows, and then the blocks are added in order. Blocks also keep long sums
 * precise. */
enum { TILE = 4 * VLANES, ROW_BLOCK = 64 };

/* The matmul and db use the same scratch, one after the other. */
static enum weft_status bwd_plan(const struct weft_call *max, struct weft_booking *booking)
{
    size_t sums = 0;
    if (max->gin[B])
        TRY(weft_size_mul((size_t)weft_div_up(weft_tensor_rows(max->in[X]), ROW_BLOCK),
                          (size_t)weft_tensor_width(max->gout[0]) * sizeof(float), &sums));
    if (max->gin[W]) {
        struct weft_dnn_shape s = sizes(max->in[X]->dtype, max->gin[W], weft_tensor_rows(max->in[X]));
        struct weft_dnn_outer *outer;
        TRY(weft_dnn_outer_plan(&s, booking->arena, &outer, &booking->scratch, &booking->local));
        booking->plan = outer;
    }
    booking->scratch = sums > booking->scratch ? sums : booking->scratch;
    return WEFT_OK;
}

static void bwd_ref_tile(const struct weft_call *call, int64_t first, int64_t last)
{
    const double *x = call->in[X]->data, *dy = call->gout[0]->data;
    int64_t rows = weft_tensor_rows(call->gout[0]), columns = weft_tensor_width(call->gout[0]);
    struct weft_dnn_shape s = sizes(WEFT_F64, call->gin[W], rows);
    double *dw = call->gin[W]->data;
    for (int64_t column = first; column < last; column++)
        for (int64_t row = 0; row < rows; row++) {
            const double *from = x + (row * s.groups + column / s.width) * s.depth;
            for (int64_t k = 0; k < s.depth; k++)
                dw[column * s.depth + k] += dy[row * columns + column] * from[k];
        }
}

static void bwd_ref(const struct weft_call *call)
{
    const double *dy = call->gout[0]->data;
    int64_t rows = weft_tensor_rows(call->gout[0]), columns = weft_tensor_width(call->gout[0]);
    double *db = call->gin[B] ? call->gin[B]->data : NULL;
    for (int64_t i = 0; db && i < rows * columns; i++)
        db[i % columns] += dy[i];
    if (call->gin[W])
        weft_tiles_run(call, columns, REFERENCE_TILE, bwd_ref_tile);
}

static void add_rows(void *context, int64_t block, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    const struct weft_tensor *dy = call->gout[0];
    int64_t n = weft_tensor_width(dy), size = (int64_t)weft_dtype_bytes(dy->dtype);
    int64_t row = block * ROW_BLOCK, end = weft_min(row + ROW_BLOCK, weft_tensor_rows(dy));
    float *sums = (float *)call->scratch + block * n;
    for (int64_t first = 0; first < n; first += TILE) {
        int64_t last = weft_min(first + TILE, n);
        vf sum[TILE / VLANES] = {0};
        for (int64_t r = row; r < end; r++)
            for (int64_t i = first; i < last; i += VLANES)
                sum[(i - first) / VLANES] += vload((const char *)dy->data + r * n * size, dy->dtype, i, last);
        for (int64_t i = first; i < last; i += VLANES)
            vstore_f32(sums + i, last - i, sum[(i - first) / VLANES]);
    }
}

static void add_blocks(const struct weft_call *call, int64_t first, int64_t last)
{
    float *db = call->gin[B]->data;
    int64_t n = weft_tensor_width(call->gout[0]), blocks = weft_div_up(weft_tensor_rows(call->gout[0]), ROW_BLOCK);
    for (int64_t i = first; i < last; i += VLANES) {
        vf total = vset(0);
        for (int64_t b = 0; b < blocks; b++)
            total += vload_f32((const float *)call->scratch + b * n + i, last - i);
        vstore_f32(db + i, last - i, vload_f32(db + i, last - i) + total);
    }
}

static void bwd_run(const struct weft_call *call)
{
    const struct weft_tensor *x = call->in[X], *dy = call->gout[0];
    if (call->gin[W])
        weft_dnn_outer_run(call->plan, weft_tensor_rows(dy), dy->data, x->data, call->gin[W]->data, call->scratch,
                           call->local, call->local_stride);
    if (call->gin[B]) {
        weft_parallel(weft_div_up(weft_tensor_rows(dy), ROW_BLOCK), add_rows, (void *)call);
        weft_tiles_run(call, weft_tensor_width(dy), TILE, add_blocks);
    }
}

static double bwd_flops(const struct weft_call *call)
{
    return (call->gin[W] ? product_flops(call->gin[W], weft_tensor_rows(call->gout[0])) : 0) +
           (call->gin[B] ? (double)weft_tensor_count(call->gout[0]) : 0);
}

static int bwd_products(const struct weft_call *call, struct weft_product *list)
{
    if (!call->gin[W])
        return 0;
    struct weft_dnn_shape s = sizes(call->in[X]->dtype, call->gin[W], weft_tensor_rows(call->in[X]));
    list[0] = (struct weft_product){WEFT_BARE_DW, s.max_rows, s.width, s.depth, s.groups, 1};
    return 1;
}

/* ---- derivative */

static struct weft_value *emit(struct weft_graph *g, struct attr attr, struct weft_value *const in[INPUTS])
{
    return weft_emit(g, WEFT_SELF(linear), &attr, INPUTS, in);
}

static void grad(struct weft_graph *g, struct weft_node *node, struct weft_grads *grads)
{
    struct weft_value *gy = weft_grad_out(grads, 0);
    if (!gy)
        return;
    /* Cast only to the addend's own type, even if gradients of other users are added in f32, because add accepts either
     * type. */
    if (weft_grad_wanted(grads, ADDEND))
        weft_grad_add(grads, ADDEND, weft_cast(g, gy, node->in[ADDEND]->dtype));

    struct weft_value *dy = weft_cast(g, gy, weft_graph_compute(g));
    struct weft_value *gout[WEFT_MAX_ARGS] = {dy}, *gin[WEFT_MAX_ARGS] = {0};
    if (weft_grad_wanted(grads, W))
        gin[W] = weft_grad_accumulator(grads, W);
    if (weft_grad_wanted(grads, B))
        gin[B] = weft_grad_accumulator(grads, B);
    if (gin[W] || gin[B])
        weft_grad_emit(grads, gout, gin);
    if (weft_grad_wanted(grads, X)) {
        struct weft_value *in[INPUTS] = {
            [X] = dy, [P] = weft_pack(g, node->in[W], WEFT_PACK_DX), [ADDEND] = weft_grad_partial(grads, X)};
        weft_grad_set(grads, X, emit(g, (struct attr){weft_grad_dtype(grads, X), true}, in));
    }
}

/* ---- cases. Entries of n: rows, N, K, groups (0: W has two dimensions), bias, addend, y is f32, x is f32, kind of W,
 * x is a parameter. Tensors that are not f32 have the graph's compute dtype. */

enum { /* addend */
       NONE,
       F32,
       COMPUTE,
       MADE, /* a computed f32 value that is not read elsewhere, so that y aliases it */
       SAME, /* x itself */
};

enum { PARAM, TRANSPOSED, VIEWED }; /* W is a parameter, or a transpose or view of one */

static const struct weft_case cases[] = {
    {.name = "one", .n = {1, 1, 1, 0, 0, NONE, 1}},
    {.name = "tile", .n = {32, 32, 64, 0, 1, NONE, 1}},
    {.name = "odd", .n = {37, 19, 45, 0, 0, NONE, 1}},
    {.name = "bias", .n = {130, 70, 33, 0, 1, NONE, 1}},
    {.name = "compute out", .n = {17, 50, 24, 0, 1, NONE, 0}},
    {.name = "residual", .n = {19, 48, 80, 0, 1, F32, 1}},
    {.name = "compute residual", .n = {21, 31, 16, 0, 0, COMPUTE, 0}},
    {.name = "compute residual, f32 out", .n = {9, 33, 40, 0, 0, COMPUTE, 1}},
    {.name = "f32 residual, compute out", .n = {9, 33, 40, 0, 0, F32, 0}},
    {.name = "in place", .n = {33, 96, 17, 0, 1, MADE, 1}},
    {.name = "residual of itself", .n = {20, 40, 40, 0, 0, SAME, 1}},
    {.name = "f32 rows", .n = {11, 24, 18, 0, 0, NONE, 1, 1}},
    {.name = "wide", .n = {3, 300, 5, 0, 1, NONE, 1}},
    {.name = "deep", .n = {5, 7, 300, 0, 0, NONE, 0}},
    {.name = "groups", .n = {18, 16, 32, 3, 1, F32, 1}},
    {.name = "square groups", .n = {6, 12, 12, 2, 0, NONE, 1}},
    {.name = "as many groups as columns", .n = {7, 3, 4, 4, 0, NONE, 1}},
    {.name = "odd groups", .n = {5, 17, 9, 2, 1, NONE, 0}},
    {.name = "transposed", .n = {13, 40, 24, 0, 1, NONE, 1, 0, TRANSPOSED}},
    {.name = "transposed groups", .n = {5, 17, 9, 2, 0, NONE, 0, 0, TRANSPOSED}},
    {.name = "square parameters", .n = {12, 12, 12, 0, 0, NONE, 1, 1, 0, 1}},
    {.name = "heads of a matrix", .n = {10, 16, 24, 4, 0, NONE, 1, 0, VIEWED}},
};

static struct weft_value *case_matrix(struct weft_graph *g, const struct weft_case *c)
{
    int64_t groups = weft_max(c->n[3], 1);
    struct weft_dim n = weft_fixed(c->n[1]), k = weft_fixed(c->n[2]), of = weft_fixed(groups);
    struct weft_shape s = c->n[3] ? WEFT_SHAPE(of, n, k) : WEFT_SHAPE(n, k);
    if (c->n[8] == TRANSPOSED)
        return weft_transpose(g, weft_graph_param(g, "w", c->n[3] ? WEFT_SHAPE(of, k, n) : WEFT_SHAPE(k, n)));
    if (c->n[8] == VIEWED)
        return weft_view(g, weft_graph_param(g, "w", WEFT_SHAPE(weft_fixed(groups * c->n[1]), k)), s);
    return weft_graph_param(g, "w", s);
}

static void build(struct weft_graph *g, const struct weft_case *c)
{
    int64_t rows = c->n[0], groups = weft_max(c->n[3], 1);
    enum weft_dtype compute = weft_graph_compute(g), out = c->n[6] ? WEFT_F32 : compute;
    struct weft_value *x = c->n[9] ? weft_graph_param(g, "x", WEFT_SHAPE(weft_fixed(rows), weft_fixed(c->n[2])))
                                   : weft_case_input(g, "x", c->n[7] ? WEFT_F32 : compute, rows, groups * c->n[2]);
    struct weft_value *w = case_matrix(g, c);
    struct weft_value *b = c->n[4] ? weft_graph_param(g, "b", WEFT_SHAPE(weft_fixed(groups * c->n[1]))) : NULL;
    struct weft_value *addend = NULL;
    if (c->n[5] == SAME)
        addend = x = weft_scale(g, x, 0.5);
    else if (c->n[5] != NONE)
        addend = weft_case_input(g, "addend", c->n[5] == COMPUTE ? compute : WEFT_F32, rows, groups * c->n[1]);
    if (c->n[5] == MADE)
        addend = weft_scale(g, addend, 0.5);
    weft_graph_output(g, weft_linear(g, x, w, b, addend, out));
}

const struct weft_op WEFT_OP(linear) = {
    .name = "linear",
    .summary = "y = x W^t + b + addend",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.plan = plan, .run = run, .ref = ref, .flops = flops, .products = products},
    .bwd = {.plan = bwd_plan, .run = bwd_run, .ref = bwd_ref, .flops = bwd_flops, .products = bwd_products},
    .grad = grad,
    .grad_only_in = 1u << W,
    .bwd_reads_in = 1u << X,
    .differentiable = 1u << X | 1u << B | 1u << ADDEND | 1u << W,
    .accumulates = 1u << B | 1u << W,
    .inplace = 1 + ADDEND,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_linear(struct weft_graph *g, struct weft_value *x, struct weft_value *w, struct weft_value *b,
                               struct weft_value *addend, enum weft_dtype out)
{
    struct weft_value *in[INPUTS] = {weft_cast(g, x, weft_graph_compute(g)), weft_pack(g, w, WEFT_PACK_Y), b, addend,
                                     w};
    return emit(g, (struct attr){out, false}, in);
}
