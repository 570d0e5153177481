/* SPDX-License-Identifier: MIT
 *
 * alibi - attention with linear biases (Press, Smith, Lewis, ICLR 2022): a constant f32 [H, offsets] table,
 *
 *     y[h,d] = -slope_h d
 *
 * If H is a power of two, slope_h = 2^(-8(h+1)/H). Otherwise, let P be the largest power of two below H: the first P
 * heads have the slopes of a model with P heads, and the others have every second slope of a model with 2P heads,
 * starting with the first. The table has no inputs, so it is computed once, in prepare.
 */
#include "ops/ops.h"

#include <math.h>

struct attr {
    int64_t heads, offsets;
};

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *attr = node->attr;
    if (attr->heads < 1 || attr->offsets < 1)
        return weft_node_fail(node, "%lld heads and %lld offsets: each must be at least 1", (long long)attr->heads,
                              (long long)attr->offsets);
    return weft_node_output(node, 0, WEFT_F32, WEFT_SHAPE(weft_fixed(attr->heads), weft_fixed(attr->offsets)));
}

double weft_alibi_slope(int64_t h, int64_t heads)
{
    int64_t power = 1;
    while (2 * power <= heads)
        power *= 2;
    double step = h < power ? (double)(h + 1) : (double)(h - power) + 0.5;
    return weft_exp2(-8 * step / (double)power);
}

static void fill_table(const void *context, double *y)
{
    const struct attr *attr = context;
    for (int64_t h = 0; h < attr->heads; h++)
        for (int64_t d = 0; d < attr->offsets; d++)
            y[h * attr->offsets + d] = -weft_alibi_slope(h, attr->heads) * (double)d;
}

static void ref(const struct weft_call *call) { fill_table(call->attr, call->out[0]->data); }

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *attr = node->attr;
    const char *recipe =
        weft_arena_print(&f->arena, "alibi heads=%lld offsets=%lld", (long long)attr->heads, (long long)attr->offsets);
    weft_form_out(f, 0, weft_array_of(f, weft_type_of(f, node->out[0]), recipe, fill_table, attr));
}

/* Each tile of work is one head. The product is computed in double and rounded once. */
static void run_tile(void *context, int64_t h, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    const struct attr *attr = call->attr;
    float *y = (float *)call->out[0]->data + h * attr->offsets;
    double down = -weft_alibi_slope(h, attr->heads);
    for (int64_t d = 0; d < attr->offsets; d++)
        y[d] = (float)(down * (double)d);
}

static void run(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    weft_parallel(attr->heads, run_tile, (void *)call);
}

/* Entries of n: heads, offsets */
static const struct weft_case cases[] = {
    {"one", {1, 1}, {0}},        {"one head", {1, 37}, {0}}, {"two", {2, 17}, {0}},
    {"three", {3, 16}, {0}},     {"eight", {8, 64}, {0}},    {"twelve", {12, 100}, {0}},
    {"one offset", {6, 1}, {0}}, {"many", {33, 15}, {0}},    {"long", {4, 5000}, {0}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    weft_graph_output(g, weft_alibi(g, c->n[0], c->n[1]));
}

const struct weft_op WEFT_OP(alibi) = {
    .name = "alibi",
    .summary = "y = -slope_h d, with ALiBi's published slopes",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_alibi(struct weft_graph *g, int64_t heads, int64_t offsets)
{
    return weft_emit(g, WEFT_SELF(alibi), &(struct attr){heads, offsets}, 0, NULL);
}
