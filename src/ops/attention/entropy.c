/* SPDX-License-Identifier: MIT
 *
 * entropy - the entropy of attention's probabilities: f32 [M, H],
 *
 *     y[i,h] = - sum_j P log P,  P = exp(logit[h,i,j] - lse[i,h])                j <= i
 *
 * in nats, for the logits of one attention node before dropout (with the formula and inputs of attention.c); lse f32
 * [M, H] is that node's second output. Since log P = logit - lse, no term is negative, so nothing cancels.
 *
 * P is recomputed tile by tile and never stored. Key tiles are visited in order, so a row's result depends only on its
 * own query and its visible keys. As a diagnostic, it has no derivative.
 */
#include "ops/attention/logits_cases_inl.h"
#include "ops/attention/logits_form_inl.h"
#include "ops/attention/logits_tile_inl.h"

enum { LSE = LOGIT_INPUTS, INPUTS };

struct attr {
    struct geometry logits;
};

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *a = node->attr;
    TRY(check_logits(node));
    if (!node->in[LSE])
        return weft_node_fail(node, "lse is missing");
    struct weft_shape s = WEFT_SHAPE(weft_shape_rows(&node->in[Q]->shape), weft_fixed(a->logits.heads));
    TRY(expect(node, LSE, WEFT_F32, s, "f32 [rows of q, heads]"));
    return weft_node_output(node, 0, WEFT_F32, s);
}

static void ref(const struct weft_call *call)
{
    struct sizes n = logit_sizes(call);
    const double *lse = call->in[LSE]->data;
    double *y = call->out[0]->data;
    for (int64_t row = 0; row < n.rows; row++)
        for (int64_t h = 0; h < n.heads; h++) {
            struct query q = {call, call->attr, n, row, h, ints(call, SEQ)[row], ints(call, POS)[row]};
            double sum = 0;
            for (int64_t j = 0; j <= q.i; j++) {
                double log_p = ref_logit(&q, j) - lse[row * n.heads + h];
                sum -= log_p > -INFINITY ? exp(log_p) * log_p : 0;
            }
            y[row * n.heads + h] = sum;
        }
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    struct weft_atom *log_p = form_log_p(f, node, LSE), *p = weft_exp_of(f, log_p), *zero = weft_real_of(f, 0);
    struct weft_atom *term = weft_choose_of(f, weft_less_of(f, zero, p), weft_mul_of(f, p, log_p), zero);
    weft_form_out(f, 0, form_rows(f, weft_times_of(f, weft_sum_of(f, term, 3), -1)));
}

/* ---- a unit of work is a span of rows and a key head, as in attention */

struct forward {
    float *q;     /* queries, [group][ROW_TILE] rows */
    float *k, *s; /* the key tile, transposed; the tile of scores */
    struct reciprocal ra;
};

static struct forward lay_forward(const struct sizes *n, struct space *s)
{
    return (struct forward){
        .q = take_floats(s, n->group * ROW_TILE, n->k_padded),
        .k = take_floats(s, n->k_padded, WEFT_KEY_TILE),
        .s = take_floats(s, ROW_TILE, WEFT_KEY_TILE),
        .ra = lay_reciprocal(n, n->own_heads / n->kv_heads, s),
    };
}

static enum weft_status plan(const struct weft_call *max, struct weft_booking *booking)
{
    struct sizes n = logit_sizes(max);
    struct space scratch = {0}, local = {0};
    (void)take(&scratch, n.rows, 1, sizeof(struct span));
    (void)lay_forward(&n, &local);
    return book(booking, &scratch, &local);
}

/* Adds the terms of the tile's keys to the rows' entropies. A masked key has P = 0 and adds nothing. */
static void add_tile(const struct job *job, const struct tile *t, const float *s)
{
    int64_t heads = job->n.heads, at = t->row * heads + t->h;
    const float *lse = job->call->in[LSE]->data;
    float *y = job->call->out[0]->data;
    for (int64_t r = 0; r < t->rows; r++, at += heads, s += WEFT_KEY_TILE) {
        vf sum = vset(0);
        for (int64_t c = 0; c < WEFT_KEY_TILE; c += VLANES) {
            vf log_p = logits(t, r, c, vload_f32(s + c, VLANES)) - vset(lse[at]), p = vexp(log_p);
            sum = sum - vpick(p > vset(0), p * log_p, vset(0));
        }
        y[at] = (t->j ? y[at] : 0) + vsum(sum);
    }
}

static void run_unit(void *context, int64_t unit, int thread)
{
    const struct job *job = context;
    const struct weft_call *call = job->call;
    const struct sizes *n = &job->n;
    struct space local = {.base = call->local + (size_t)thread * call->local_stride};
    struct forward f = lay_forward(n, &local);
    int64_t kv = unit % n->kv_heads, first = kv * n->group;
    struct tile t = {0};
    set_rows(job, &t, job->spans[unit / n->kv_heads]);
    for (int64_t g = 0; g < n->group; g++)
        widen(f.q + g * ROW_TILE * n->k_padded, n->k_padded, head_of(call->in[Q], t.row, first + g, n->heads), t.rows);
    start_reciprocal(job, &t, &f.ra, first, n->group);
    for (int64_t j = 0; j < t.i + t.rows; j += WEFT_KEY_TILE) {
        set_keys(job, &t, j);
        widen_transposed(f.k, head_of(call->in[K], t.key_row, kv, n->kv_heads), t.keys);
        for (int64_t g = 0; g < n->group; g++) {
            set_head(job, &t, first + g);
            set_pos_bias(job, &t);
            load_reciprocal(job, &t, &f.ra, g);
            scores(&t, f.q + g * ROW_TILE * n->k_padded, n->k, n->k_padded, f.k, f.s);
            add_tile(job, &t, f.s);
        }
    }
}

static void run(const struct weft_call *call)
{
    struct job job = {.call = call, .attr = call->attr, .n = logit_sizes(call), .spans = (struct span *)call->scratch};
    job.span_count = cut_spans(call->in[SEQ], call->in[POS], ROW_TILE, job.spans);
    weft_parallel(job.span_count * job.n.kv_heads, run_unit, &job);
}

static double flops(const struct weft_call *call)
{
    struct sizes n = logit_sizes(call);
    return 2.0 * (double)n.heads * (visible_pairs(call) * (double)n.k + window_pairs(call) * (double)n.own);
}

/* n, x: see logits_cases_inl.h. The graph computes lse with an attention node that has v = k. */
static const struct weft_case cases[] = {
    {"one row", {1, 1, 0, 1, 1, 16}, {0}},
    {"tile-1", {1, 63, 0, 2, 2, 16}, {0}},
    {"tile", {1, 64, 0, 2, 2, 16, 0, WITH_SCALE}, {0}},
    {"tile+1", {1, 65, 0, 2, 2, 16, 0, WITH_KEY_BIAS}, {0}},
    {"two tiles+1", {1, 129, 0, 2, 2, 40, 0, WITH_POS_BIAS, 200}, {0}},
    {"odd", {2, 37, 4, 3, 3, 17, 0, WITH_ALL, 5}, {0}},
    {"grouped", {4, 70, 23, 4, 2, 16, 0, WITH_ALL, 40}, {0}},
    {"one key head", {2, 33, 1, 4, 1, 24}, {0}},
    {"reciprocal", {1, 70, 0, 2, 2, 16, 0, 0, 0, 0, 5}, {0, 0.5}},
    {"reciprocal, all", {3, 75, 17, 4, 2, 17, 0, WITH_ALL | WITH_Q_BIAS, 50, 0, 20}, {0, -0.7}},
    {"reciprocal, far", {2, 140, 9, 2, 2, 24, 0, WITH_KEY_BIAS, 0, 0, 100}, {0, 0.3}},
    {"square", {2, 40, 7, 6, 6, 6, 0, WITH_ALL | WITH_Q_BIAS | WITH_K_OWNS, 50, 5, 20}, {0, 0.5}},
    {"chunk", {2, 140, 30, 2, 2, 33, 0, WITH_ALL, 90, 37}, {0}},
    {"ring, own keys", {2, 200, 7, 3, 1, 48, 0, WITH_ALL | WITH_Q_TILES | WITH_K_OWNS, 9, 5, 20}, {0, 0.5}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_attention a = case_logits(g, c, case_rows(g, c, true));
    a.v = a.k;
    struct weft_value *o = weft_attention(g, &a);
    weft_graph_output(g, weft_entropy(g, &a, o ? weft_sibling(o, 1) : NULL));
}

const struct weft_op WEFT_OP(entropy) = {
    .name = "entropy",
    .summary = "y = -sum_j P log P, the entropy of attention's P per row and head, in nats",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.plan = plan, .run = run, .ref = ref, .flops = flops},
    .lower = lower,
    WEFT_CASES(cases, build),
    .fill = fill_logits,
};

struct weft_value *weft_entropy(struct weft_graph *g, const struct weft_attention *a, struct weft_value *lse)
{
    struct attr attr = {geometry_of(a)};
    struct weft_value *in[INPUTS] = {[LSE] = lse};
    set_logit_inputs(a, in);
    return weft_emit(g, WEFT_SELF(entropy), &attr, INPUTS, in);
}
