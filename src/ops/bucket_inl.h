/* SPDX-License-Identifier: MIT
 *
 * bucket_inl.h - shared by bucket_mean and bucket_spread: F columns in L buckets, and the buckets divided among heads.
 *
 *     bucket(f) = floor(f L / F)      head(l): floor(head L / heads) <= l < floor((head+1) L / heads)
 *
 * The sizes must satisfy F >= L >= heads >= 1, so that no bucket and no head is empty. Kernels use the inverse maps,
 * from a bucket to its columns and to its head. Gradients of the heads' weights: each block of ROWS rows writes a sum
 * per head to scratch, in double, since a head may have few buckets and many rows; then the blocks are added in order.
 */
#ifndef WEFT_BUCKET_H
#define WEFT_BUCKET_H

#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { ROWS = 16 }; /* rows per tile; determines the order of sums */

struct buckets {
    int64_t columns, count, heads; /* F, L, and the number of heads */
};

static inline enum weft_status check_buckets(const struct weft_node *node, struct buckets b)
{
    const struct weft_value *x = node->in[0], *weight = node->in[1];
    if (!weft_dtype_is_float(x->dtype))
        return weft_node_fail(node, "the rows are %s, not a float type", weft_dtype_name(x->dtype));
    if (weight->dtype != WEFT_F32 || weight->shape.ndim != 1)
        return weft_node_fail(node, "the weights must be f32, one per head");
    if (b.count < b.heads || b.columns < b.count)
        return weft_node_fail(node,
                              "%lld columns, %lld buckets, %lld heads: buckets must not exceed columns, and heads must "
                              "not exceed buckets",
                              (long long)b.columns, (long long)b.count, (long long)b.heads);
    return WEFT_OK;
}

/* Return the bucket of a column and the head of a bucket, by definition, for the reference. */
static inline int64_t exact_bucket(struct buckets b, int64_t f) { return f * b.count / b.columns; }
static inline int64_t exact_head(struct buckets b, int64_t l)
{
    int64_t head = 0;
    while ((head + 1) * b.count / b.heads <= l)
        head++;
    return head;
}

/* Returns a table that depends only on the sizes, for lower. */
static struct weft_atom *bucket_table(struct weft_form *f, const char *name, struct buckets b, struct weft_type type,
                                      weft_fill_fn *fill)
{
    const char *recipe = weft_arena_print(&f->arena, "%s, columns=%lld count=%lld heads=%lld", name,
                                          (long long)b.columns, (long long)b.count, (long long)b.heads);
    return weft_array_of(f, type, recipe, fill, &b);
}

static void fill_heads(const void *context, double *to)
{
    const struct buckets *b = context;
    for (int64_t l = 0; l < b->count; l++)
        to[l] = (double)exact_head(*b, l);
}

/* Returns the weight of each bucket's head, [L]; input 1 has one per head. */
static struct weft_atom *head_weights(struct weft_form *f, struct buckets b)
{
    struct weft_type type = WEFT_FIXED_TYPE(b.count);
    type.of = WEFT_WHOLE;
    return weft_take_of(f, weft_form_in(f, 1), bucket_table(f, "heads of buckets", b, type, fill_heads), 0);
}

/* The inverse maps, for the kernels: bucket l has the columns first_column(l) to first_column(l+1)-1. */
static inline int64_t first_column(struct buckets b, int64_t l) { return weft_div_up(l * b.columns, b.count); }
static inline int64_t head_of(struct buckets b, int64_t l) { return ((l + 1) * b.heads - 1) / b.count; }

/* Returns the sum over bucket l of the row that starts at element `at`. */
static inline float sum_bucket(struct buckets b, const struct weft_tensor *x, int64_t at, int64_t l)
{
    vf sum = vset(0);
    for (int64_t i = at + first_column(b, l), end = at + first_column(b, l + 1); i < end; i += VLANES)
        sum += vload(x->data, x->dtype, i, end);
    return vsum(sum);
}

static inline void fill_bucket(struct buckets b, const struct weft_tensor *x, int64_t at, int64_t l, float value)
{
    for (int64_t i = at + first_column(b, l), end = at + first_column(b, l + 1); i < end; i += VLANES)
        vstore(x->data, x->dtype, i, end, vset(value));
}

/* Load and store element i of an f32 or bf16 tensor with one value per bucket. */
static inline float load_one(const struct weft_tensor *x, int64_t i) { return vload(x->data, x->dtype, i, i + 1)[0]; }
static inline void store_one(const struct weft_tensor *x, int64_t i, float value)
{
    vstore(x->data, x->dtype, i, i + 1, vset(value));
}

/* ---- the op; input 0 has the rows, input 1 the heads' weights. The op's file defines: */

static struct buckets sizes(const struct weft_call *call);
static void ref(const struct weft_call *call), bwd_ref(const struct weft_call *call);
static enum weft_status shape(struct weft_node *node);
static void build(struct weft_graph *g, const struct weft_case *c);
/* Computes the forward pass of bucket l of row r. */
static void run_bucket(const struct weft_call *call, struct buckets b, int64_t r, int64_t l);
/* Computes the backward pass of bucket l of row r; returns its contribution to the gradient of the head's weight. */
static float bwd_bucket(const struct weft_call *call, struct buckets b, int64_t r, int64_t l);

static void run_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    struct buckets b = sizes(call);
    for (int64_t r = first; r < rows; r++)
        for (int64_t l = 0; l < b.count; l++)
            run_bucket(call, b, r, l);
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->in[0]), ROWS, run_tile); }

static enum weft_status bwd_plan(const struct weft_call *max, struct weft_booking *booking)
{
    size_t blocks = (size_t)weft_div_up(weft_tensor_rows(max->in[0]), ROWS);
    return weft_size_mul(blocks, (size_t)weft_tensor_count(max->in[1]) * sizeof(double), &booking->scratch);
}

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    struct buckets b = sizes(call);
    double *sums = (double *)call->scratch + first / ROWS * b.heads;
    memset(sums, 0, (size_t)b.heads * sizeof *sums);
    for (int64_t r = first; r < rows; r++)
        for (int64_t l = 0; l < b.count; l++)
            sums[head_of(b, l)] += bwd_bucket(call, b, r, l);
}

static void bwd(const struct weft_call *call)
{
    int64_t heads = weft_tensor_count(call->in[1]), blocks = weft_div_up(weft_tensor_rows(call->in[0]), ROWS);
    weft_tiles_run(call, weft_tensor_rows(call->in[0]), ROWS, bwd_tile);
    float *to = call->gin[1] ? call->gin[1]->data : NULL;
    for (int64_t head = 0; to && head < heads; head++) {
        double sum = 0;
        for (int64_t block = 0; block < blocks; block++)
            sum += ((const double *)call->scratch)[block * heads + head];
        to[head] += (float)sum;
    }
}

/* Entries of n: rows, F, L, heads, inside */
static const struct weft_case cases[] = {
    {.name = "one", .n = {1, 1, 1, 1}},
    {.name = "one row", .n = {1, 37, 5, 2}},
    {.name = "one bucket", .n = {3, 37, 1, 1}},
    {.name = "one column each", .n = {5, 9, 9, 4}},
    {.name = "one bucket each", .n = {5, 9, 4, 4}},
    {.name = "odd", .n = {7, 17, 5, 3}},
    {.name = "lanes", .n = {4, 64, 4, 2}},
    {.name = "lanes+1", .n = {4, 68, 4, 2}},
    {.name = "tile-1", .n = {ROWS - 1, 24, 8, 4}},
    {.name = "tile", .n = {ROWS, 24, 8, 4}},
    {.name = "tile+1", .n = {ROWS + 1, 25, 8, 3}},
    {.name = "tiles", .n = {100, 200, 33, 7}},
    {.name = "inside", .n = {20, 50, 12, 5, 1}},
};

#define BUCKET_FIELDS                                                                                                  \
    .attr_bytes = sizeof(int64_t), .shape = shape, .fwd = {.run = run, .ref = ref},                                    \
    .bwd = {.plan = bwd_plan, .run = bwd, .ref = bwd_ref}, .bwd_reads_in = 3, .differentiable = 3, .accumulates = 2,   \
    .lower = lower, .cases = cases, .case_count = sizeof cases / sizeof *cases, .build = build

#endif
