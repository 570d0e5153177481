/* SPDX-License-Identifier: MIT
 *
 * bucket_mean - c[m,l] = beta[head(l)] * mean of h[m,f] over the f of bucket l. h [M,F], beta f32 [heads], c [M,L] in
 * h's dtype. See bucket_inl.h for buckets and heads.
 *
 * Backward: dh[m,f] = beta dc[m,l] / |l|,  dbeta += sum over m and the head's l of dc times the mean, recomputed from
 * h.
 */
#include "ops/bucket_inl.h"

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

/* Returns the number of columns in the bucket of f by counting them. */
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

/* The columns of each bucket, [L, most], followed by F, which is a column of zeros. */
static void fill_members(const void *context, double *to)
{
    struct buckets b = *(const struct buckets *)context;
    int64_t most = weft_div_up(b.columns, b.count);
    for (int64_t l = 0, f = 0; l < b.count; l++)
        for (int64_t i = 0; i < most; i++)
            to[l * most + i] = (double)(f < b.columns && exact_bucket(b, f) == l ? f++ : b.columns);
}

static void fill_shares(const void *context, double *to)
{
    struct buckets b = *(const struct buckets *)context;
    for (int64_t f = 0; f < b.columns; f++)
        to[exact_bucket(b, f)] = 1 / exact_size(b, f);
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    struct buckets b = {weft_shape_width(&node->in[H]->shape), *(const int64_t *)node->attr,
                        weft_shape_width(&node->in[BETA]->shape)};
    struct weft_type members = WEFT_FIXED_TYPE(b.count, weft_div_up(b.columns, b.count)),
                     each = WEFT_FIXED_TYPE(b.count);
    members.of = WEFT_WHOLE;
    struct weft_atom *index = bucket_table(f, "columns of buckets", b, members, fill_members);
    struct weft_atom *h = weft_take_of(f, weft_pad_of(f, weft_form_in(f, H), -1, 0, 1), index, -1); /* [.., L, most] */
    struct weft_atom *sum = weft_flat_of(f, weft_sum_of(f, h, -1));
    struct weft_atom *means = weft_mul_of(f, sum, bucket_table(f, "shares of columns", b, each, fill_shares));
    weft_form_out(f, 0, weft_mul_of(f, means, head_weights(f, b)));
}

static float mean(struct buckets b, const struct weft_tensor *h, int64_t r, int64_t l)
{
    return sum_bucket(b, h, r * b.columns, l) / (float)(first_column(b, l + 1) - first_column(b, l));
}

static void run_bucket(const struct weft_call *call, struct buckets b, int64_t r, int64_t l)
{
    const float *beta = call->in[BETA]->data;
    store_one(call->out[0], r * b.count + l, beta[head_of(b, l)] * mean(b, call->in[H], r, l));
}

static float bwd_bucket(const struct weft_call *call, struct buckets b, int64_t r, int64_t l)
{
    const float *beta = call->in[BETA]->data;
    int64_t size = first_column(b, l + 1) - first_column(b, l);
    float dc = load_one(call->gout[0], r * b.count + l);
    float dbeta = dc * mean(b, call->in[H], r, l);
    if (call->gin[H])
        fill_bucket(b, call->gin[H], r * b.columns, l, beta[head_of(b, l)] * dc / (float)size);
    return dbeta;
}

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *h = weft_case_input(g, "h", weft_graph_compute(g), c->n[0], c->n[1]);
    struct weft_value *beta = weft_graph_param(g, "beta", WEFT_SHAPE(weft_fixed(c->n[3])));
    struct weft_value *y = weft_bucket_mean(g, c->n[4] ? weft_silu(g, h) : h, beta, c->n[2]);
    weft_graph_output(g, c->n[4] ? weft_scale(g, y, 2) : y);
}

const struct weft_op WEFT_OP(bucket_mean) = {
    .name = "bucket_mean",
    .summary = "c = beta[head] * mean of h over each bucket of columns",
    BUCKET_FIELDS,
};

struct weft_value *weft_bucket_mean(struct weft_graph *g, struct weft_value *h, struct weft_value *beta, int64_t count)
{
    struct weft_value *in[] = {h, beta};
    return weft_emit(g, WEFT_SELF(bucket_mean), &count, 2, in);
}
