/* SPDX-License-Identifier: MIT
 *
 * bucket_mean - c[m,l] = beta[head(l)] * mean of h[m,f] over the f of bucket l. h [M,F], beta f32 [heads], c [M,L] in
 * h's dtype. Buckets and heads are those of bucket.h.
 *
 * Backward: dh[m,f] = beta dc[m,l] / |l|,  dbeta += sum over m and the head's l of dc times the mean, which is made of
 * h again.
 */
#include "ops/bucket.h"

enum { H, BETA };

static struct buckets sizes(const struct weft_call *call)
{
    return (struct buckets){weft_tensor_width(call->in[H]), *(const int64_t *)call->attr,
                            weft_tensor_count(call->in[BETA])};
}

static enum weft_status shape(struct weft_node *node)
{
    const int64_t *count = node->attr;
    struct weft_shape s = node->in[H]->shape;
    TRY(check_buckets(node, (struct buckets){weft_shape_width(&s), *count, weft_shape_width(&node->in[BETA]->shape)}));
    s.dim[s.ndim - 1] = weft_fixed(*count);
    return weft_node_output(node, 0, node->in[H]->dtype, s);
}

/* Columns in the bucket of f, by counting. */
static double exact_size(struct buckets b, int64_t f)
{
    int64_t size = 0;
    for (int64_t other = 0; other < b.columns; other++)
        size += exact_bucket(b, other) == exact_bucket(b, f);
    return (double)size;
}

static void ref(const struct weft_call *call)
{
    struct buckets b = sizes(call);
    const double *h = call->in[H]->data, *beta = call->in[BETA]->data;
    double *c = call->out[0]->data;
    int64_t rows = weft_tensor_rows(call->in[H]);
    for (int64_t i = 0; i < rows * b.count; i++)
        c[i] = 0;
    for (int64_t f = 0; f < b.columns; f++) {
        int64_t l = exact_bucket(b, f);
        double weight = beta[exact_head(b, l)] / exact_size(b, f);
        for (int64_t r = 0; r < rows; r++)
            c[r * b.count + l] += weight * h[r * b.columns + f];
    }
}

static void bwd_ref(const struct weft_call *call)
{
    struct buckets b = sizes(call);
    const double *h = call->in[H]->data, *beta = call->in[BETA]->data, *dc = call->gout[0]->data;
    double *dh = call->gin[H] ? call->gin[H]->data : NULL, *dbeta = call->gin[BETA] ? call->gin[BETA]->data : NULL;
    for (int64_t f = 0; f < b.columns; f++) {
        int64_t l = exact_bucket(b, f), head = exact_head(b, l);
        double size = exact_size(b, f);
        for (int64_t r = 0; r < weft_tensor_rows(call->in[H]); r++) {
            if (dh)
                dh[r * b.columns + f] = beta[head] * dc[r * b.count + l] / size;
            if (dbeta)
                dbeta[head] += dc[r * b.count + l] * h[r * b.columns + f] / size;
        }
    }
}

static float mean(struct buckets b, const struct weft_tensor *h, int64_t r, int64_t l)
{
    return sum_bucket(b, h, r * b.columns, l) / (float)(first_column(b, l + 1) - first_column(b, l));
}

static void run_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    struct buckets b = sizes(call);
    const float *beta = call->in[BETA]->data;
    int64_t rows = weft_min(weft_tensor_rows(call->in[H]), (tile + 1) * ROWS);
    for (int64_t r = tile * ROWS; r < rows; r++)
        for (int64_t l = 0; l < b.count; l++)
            store_one(call->out[0], r * b.count + l, beta[head_of(b, l)] * mean(b, call->in[H], r, l));
}

static void run(const struct weft_call *call)
{
    weft_parallel(weft_div_up(weft_tensor_rows(call->in[H]), ROWS), run_tile, (void *)call);
}

static enum weft_status bwd_plan(const struct weft_call *max, struct weft_booking *booking)
{
    return book_sums(max, weft_tensor_rows(max->in[H]), booking);
}

static void bwd_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    struct buckets b = sizes(call);
    const struct weft_tensor *h = call->in[H], *dh = call->gin[H];
    const float *beta = call->in[BETA]->data;
    double *dbeta = block_sums(call, tile);
    int64_t rows = weft_min(weft_tensor_rows(h), (tile + 1) * ROWS);
    for (int64_t r = tile * ROWS; r < rows; r++)
        for (int64_t l = 0; l < b.count; l++) {
            int64_t head = head_of(b, l), size = first_column(b, l + 1) - first_column(b, l);
            float dc = load_one(call->gout[0], r * b.count + l);
            dbeta[head] += dc * mean(b, h, r, l);
            if (dh)
                fill_bucket(b, dh, r * b.columns, l, beta[head] * dc / (float)size);
        }
}

static void bwd(const struct weft_call *call)
{
    int64_t rows = weft_tensor_rows(call->in[H]);
    weft_parallel(weft_div_up(rows, ROWS), bwd_tile, (void *)call);
    if (call->gin[BETA])
        add_blocks(call, rows);
}

/* n: rows, F, L, heads, whether other ops stand around it, which brings gradients in its own type */
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

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *h = weft_case_input(g, "h", weft_graph_compute(g), c->n[0], c->n[1]);
    struct weft_value *beta = weft_graph_param(g, "beta", WEFT_SHAPE(weft_fixed(c->n[3])));
    struct weft_value *y = weft_bucket_mean(g, c->n[4] ? weft_silu(g, h) : h, beta, c->n[2]);
    weft_graph_output(g, c->n[4] ? weft_scale(g, y, 2) : y);
}

const struct weft_op WEFT_OP(bucket_mean) = {
    .name = "bucket_mean",
    .summary = "c = beta of its head * mean of h over each bucket of columns",
    .attr_bytes = sizeof(int64_t),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.plan = bwd_plan, .run = bwd, .ref = bwd_ref},
    .bwd_reads_in = 1 << H | 1 << BETA,
    .differentiable = 1 << H | 1 << BETA,
    .accumulates = 1 << BETA,
    .cases = cases,
    .case_count = sizeof cases / sizeof *cases,
    .build = build,
};

struct weft_value *weft_bucket_mean(struct weft_graph *g, struct weft_value *h, struct weft_value *beta, int64_t count)
{
    struct weft_value *in[] = {h, beta};
    struct weft_node *node = weft_graph_emit(g, weft_op(WEFT_OP_bucket_mean), &count, 2, in);
    return node ? node->out[0] : NULL;
}
