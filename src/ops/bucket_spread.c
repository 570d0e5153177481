/* SPDX-License-Identifier: MIT
 *
 * bucket_spread - h[m,f] = gamma[head(l)] * c[m,l], l = bucket(f): copies each bucket's value back to its columns.
 * c [M,L], gamma f32 [heads], h [M,F] in c's dtype. See bucket_inl.h for buckets and heads.
 *
 * Backward, with s[m,l] = sum of dh[m,f] over the f of bucket l:  dc = gamma s,  dgamma += sum over m and the head's l
 * of c s. Reads both inputs.
 */
#include "ops/bucket_inl.h"

enum { C, GAMMA };

static struct buckets sizes(const struct weft_call *call)
{
    return (struct buckets){*(const int64_t *)call->attr, weft_tensor_width(call->in[C]),
                            weft_tensor_count(call->in[GAMMA])};
}

static enum weft_status shape(struct weft_node *node)
{
    const int64_t *columns = node->attr;
    struct weft_shape s = node->in[C]->shape;
    TRY(check_buckets(node,
                      (struct buckets){*columns, weft_shape_width(&s), weft_shape_width(&node->in[GAMMA]->shape)}));
    s.dim[s.ndim - 1] = weft_fixed(*columns);
    return weft_node_output(node, 0, node->in[C]->dtype, s);
}

static void ref(const struct weft_call *call)
{
    struct buckets b = sizes(call);
    const double *c = call->in[C]->data, *gamma = call->in[GAMMA]->data;
    double *h = call->out[0]->data;
    for (int64_t f = 0; f < b.columns; f++) {
        int64_t l = exact_bucket(b, f), head = exact_head(b, l);
        for (int64_t r = 0; r < weft_tensor_rows(call->in[C]); r++)
            h[r * b.columns + f] = gamma[head] * c[r * b.count + l];
    }
}

static void bwd_ref(const struct weft_call *call)
{
    struct buckets b = sizes(call);
    const double *c = call->in[C]->data, *gamma = call->in[GAMMA]->data, *dh = call->gout[0]->data;
    double *dc = call->gin[C] ? call->gin[C]->data : NULL, *dgamma = call->gin[GAMMA] ? call->gin[GAMMA]->data : NULL;
    int64_t rows = weft_tensor_rows(call->in[C]);
    for (int64_t i = 0; dc && i < rows * b.count; i++)
        dc[i] = 0;
    for (int64_t f = 0; f < b.columns; f++) {
        int64_t l = exact_bucket(b, f), head = exact_head(b, l);
        for (int64_t r = 0; r < rows; r++) {
            if (dc)
                dc[r * b.count + l] += gamma[head] * dh[r * b.columns + f];
            if (dgamma)
                dgamma[head] += c[r * b.count + l] * dh[r * b.columns + f];
        }
    }
}

static void fill_columns(const void *context, double *to)
{
    struct buckets b = *(const struct buckets *)context;
    for (int64_t f = 0; f < b.columns; f++)
        to[f] = (double)exact_bucket(b, f);
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    struct buckets b = {*(const int64_t *)node->attr, weft_shape_width(&node->in[C]->shape),
                        weft_shape_width(&node->in[GAMMA]->shape)};
    struct weft_type type = WEFT_FIXED_TYPE(b.columns);
    type.of = WEFT_WHOLE;
    struct weft_atom *c = weft_mul_of(f, weft_form_in(f, C), head_weights(f, b));
    weft_form_out(f, 0, weft_take_of(f, c, bucket_table(f, "buckets of columns", b, type, fill_columns), -1));
}

static void run_bucket(const struct weft_call *call, struct buckets b, int64_t r, int64_t l)
{
    const float *gamma = call->in[GAMMA]->data;
    float c = load_one(call->in[C], r * b.count + l);
    fill_bucket(b, call->out[0], r * b.columns, l, gamma[head_of(b, l)] * c);
}

static float bwd_bucket(const struct weft_call *call, struct buckets b, int64_t r, int64_t l)
{
    const float *gamma = call->in[GAMMA]->data;
    int64_t at = r * b.count + l;
    float sum = sum_bucket(b, call->gout[0], r * b.columns, l), dgamma = load_one(call->in[C], at) * sum;
    if (call->gin[C])
        store_one(call->gin[C], at, gamma[head_of(b, l)] * sum);
    return dgamma;
}

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *x = weft_case_input(g, "c", weft_graph_compute(g), c->n[0], c->n[2]);
    struct weft_value *gamma = weft_graph_param(g, "gamma", WEFT_SHAPE(weft_fixed(c->n[3])));
    struct weft_value *h = weft_bucket_spread(g, c->n[4] ? weft_silu(g, x) : x, gamma, c->n[1]);
    weft_graph_output(g, c->n[4] ? weft_scale(g, h, 2) : h);
}

const struct weft_op WEFT_OP(bucket_spread) = {
    .name = "bucket_spread",
    .summary = "h = gamma[head] * c, the same value in all columns of a bucket",
    BUCKET_FIELDS,
};

struct weft_value *weft_bucket_spread(struct weft_graph *g, struct weft_value *c, struct weft_value *gamma,
                                      int64_t columns)
{
    struct weft_value *in[] = {c, gamma};
    return weft_emit(g, WEFT_SELF(bucket_spread), &columns, 2, in);
}
