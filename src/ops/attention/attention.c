/* SPDX-License-Identifier: MIT
 *
 * attention - causal softmax attention over a paged key store; all geometries use this op, each with its own inputs.
 *
 *     logit[h,i,j] = scale[h] <q[i,h], k[j,kv]> + key_bias[j,h] + pos_bias[h, min(i-j, offsets-1)]   j <= i, else -inf
 *                    + alpha (scale[h] <q_store[j,h], own[i,h]> + q_bias[j,h] + key_bias[i,h])     0 < i-j <= window
 *     P = softmax_j(logit)     o[i,h] = sum_j keep[h,i,j] P[h,i,j] v[j,kv]     lse[i,h] = log sum_j exp(logit)
 *
 * The term with alpha is the reciprocal term; it is present only if q_store is given. q [M, H*Dk], k [N, K*Dk], v [N,
 * K*Dv], scale [H], key_bias [N, H], pos_bias [H, offsets]; kv = h / (H/K). i and j are positions in one sequence: pos
 * gives the positions of the queries; key j of a sequence is row tiles[seq][j / 64] + j % 64 of the store. Query j is
 * found in q_store in the same way, using q_tiles instead of tiles if given. own[i,h] is k[i,kv] or, if k_own is given,
 * the row's key in k_own. keep is 0 or 1/(1-p), from a counter-based generator keyed by (sample, layer, site, h, i, j).
 *
 * Saved for backward: o and lse. Nothing of size T x T is stored: keys are visited in tiles that start at absolute
 * multiples of WEFT_KEY_TILE, in order, with a running maximum and sum. A row visits only tiles that contain a visible
 * key, and sums values over exactly its visible keys. So its result depends only on its own query and those keys, not
 * on the rows computed with it, on chunks, or on later rows of the store (even if they are NaN).
 *
 * Backward (Dao et al., FlashAttention, 2022), with delta[i] = <do_i, o_i> = sum_j P dP:
 *     P = exp(logit - lse)   dP = keep (do v^t)   dS = P (dP - delta + dlse)
 *     dv = (keep P)^t do   dq = scale dS k   dk = scale dS^t q
 *     dscale = sum dS <q,k>   dkey_bias[j] = sum_i dS   dpos_bias = sums of dS along diagonals
 * and for the reciprocal term, with e = alpha dS in the window:
 *     dq_store = scale e^t own   dk += scale e q_store   dscale += sum e <q_store,own>   dq_bias[j] = sum_i e
 *     dkey_bias[i] += sum_j e
 * The backward pass is for training: the key store consists of the call's own rows, and the rows of each sequence are
 * contiguous and start at position 0. q_tiles and k_own have no derivative.
 */
#include "ops/attention/backward_inl.h"
#include "ops/attention/bf16_backward_inl.h"
#include "ops/attention/bf16_forward_inl.h"
#include "ops/attention/forward_inl.h"
#include "ops/attention/logits_cases_inl.h"
#include "ops/attention/logits_form_inl.h"

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *a = node->attr;
    struct weft_value *const *in = node->in;
    enum weft_dtype compute = weft_graph_compute(node->graph);
    TRY(check_logits(node));
    if (!in[V] || (a->dropout > 0 && !(in[SAMPLE] && in[STEP_KEY])))
        return weft_node_fail(node, "%s is missing", !in[V] ? "v" : !in[SAMPLE] ? "sample" : "step_key");
    if (!(a->dropout >= 0 && a->dropout < 1))
        return weft_node_fail(node, "dropout = %g; it must be at least 0 and less than 1", a->dropout);
    struct weft_dim rows = weft_shape_rows(&in[Q]->shape), keys = weft_shape_rows(&in[K]->shape);
    int64_t v = weft_shape_width(&in[V]->shape) / a->logits.kv_heads;
    TRY(expect(node, V, compute, WEFT_SHAPE(keys, weft_fixed(v * a->logits.kv_heads)),
               "a matrix [rows of k, key heads * width] of the compute dtype"));
    if (a->dropout > 0) {
        TRY(expect(node, SAMPLE, WEFT_I32, WEFT_SHAPE(in[TILES]->shape.dim[0]), "i32 [sequences]"));
        TRY(expect(node, STEP_KEY, WEFT_I32, WEFT_SHAPE(weft_fixed(4)), "i32 [4]"));
    }
    TRY(weft_node_output(node, O, compute, WEFT_SHAPE(rows, weft_fixed(v * a->logits.heads))));
    return weft_node_output(node, LSE, WEFT_F32, WEFT_SHAPE(rows, weft_fixed(a->logits.heads)));
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *a = node->attr;
    int64_t width = weft_shape_width(&node->in[V]->shape) / a->logits.kv_heads;
    struct weft_atom *logits = form_logits(f, node), *p = weft_softmax_of(f, logits, 3);
    if (a->dropout > 0)
        p = weft_drop_of(f, p, (struct weft_drop){a->dropout, a->layer, a->site, true});
    struct weft_atom *v = form_columns(f, V, a->logits.kv_heads);
    struct weft_atom *o = form_shared(f, &a->logits, p, v, false, (struct weft_extent){WEFT_FIXED, width});
    weft_form_out(f, O, form_rows(f, o));
    weft_form_out(f, LSE, weft_swap_of(f, weft_merge_of(f, weft_logsumexp_of(f, logits, 3), 2), 1, 2));
}

/* ---- the two paths; they round differently, so the choice depends only on the dtype */

struct path {
    enum weft_status (*plan)(const struct weft_call *max, struct weft_booking *booking);
    void (*run)(const struct weft_call *call);
    enum weft_status (*bwd_plan)(const struct weft_call *max, struct weft_booking *booking);
    void (*bwd)(const struct weft_call *call);
};

static const struct path *path_of(const struct weft_call *call)
{
    static const struct path vectors = {vector_plan, vector_run, vector_bwd_plan, vector_bwd};
    static const struct path tiles = {tiles_plan, tiles_run, tiles_bwd_plan, tiles_bwd};
    return call->in[Q]->dtype == WEFT_BF16 ? &tiles : &vectors;
}

static enum weft_status plan(const struct weft_call *max, struct weft_booking *booking)
{
    return path_of(max)->plan(max, booking);
}

static void run(const struct weft_call *call) { path_of(call)->run(call); }

static enum weft_status bwd_plan(const struct weft_call *max, struct weft_booking *booking)
{
    TRY(refuse_decoding(max));
    return path_of(max)->bwd_plan(max, booking);
}

static void bwd(const struct weft_call *call) { path_of(call)->bwd(call); }

/* ---- counts */

static double flops(const struct weft_call *call)
{
    struct sizes n = sizes_of(call);
    return visible_pairs(call) * (double)(n.heads * 2 * (n.k + n.v)) +
           window_pairs(call) * (double)(n.heads * 2 * n.own);
}

static double bwd_flops(const struct weft_call *call)
{
    struct sizes n = sizes_of(call);
    return visible_pairs(call) * (double)(n.heads * 2 * (3 * n.k + 2 * n.v)) +
           window_pairs(call) * (double)(n.heads * 2 * 3 * n.own);
}

/* Returns the matmul of all heads of all sequences. Each is computed in full, although only half of it is needed. */
static struct weft_product bare(const struct weft_call *call, enum weft_bare_product kind, int64_t n, int64_t k)
{
    struct sizes s = sizes_of(call);
    int64_t length = weft_div_up(s.rows, s.slots);
    return (struct weft_product){kind, length, n ? n : length, k ? k : length, s.slots * s.heads, 0.5};
}

static int products(const struct weft_call *call, struct weft_product *list)
{
    struct sizes n = sizes_of(call);
    list[0] = bare(call, WEFT_BARE_Y, 0, n.k); /* q k^t */
    list[1] = bare(call, WEFT_BARE_Y, n.v, 0); /* p v */
    return 2;
}

static int bwd_products(const struct weft_call *call, struct weft_product *list)
{
    struct sizes n = sizes_of(call);
    list[0] = bare(call, WEFT_BARE_Y, 0, n.v);  /* do v^t */
    list[1] = bare(call, WEFT_BARE_Y, n.k, 0);  /* ds k */
    list[2] = bare(call, WEFT_BARE_DW, n.k, 0); /* ds^t q */
    list[3] = bare(call, WEFT_BARE_DW, n.v, 0); /* p^t do */
    return 4;
}

/* ---- cases */

enum { ONLY_O = OPTION, ONLY_LSE = 2 * OPTION };

/* n, x: see logits_cases_inl.h */
static const struct weft_case cases[] = {
    {"one row", {1, 1, 0, 1, 1, 16, 16, ONLY_O}, {0}},
    {"single tokens", {3, 1, 0, 2, 2, 16, 16, WITH_ALL, 1}, {0}},
    {"tile-1", {1, 63, 0, 2, 2, 16, 16}, {0}},
    {"tile", {1, 64, 0, 2, 2, 16, 16, WITH_SCALE}, {0}},
    {"tile+1", {1, 65, 0, 2, 2, 16, 16, WITH_KEY_BIAS}, {0}},
    {"two tiles+1", {1, 129, 0, 2, 2, 40, 40, WITH_POS_BIAS, 200}, {0}},
    {"odd", {2, 37, 4, 3, 3, 17, 23, WITH_ALL, 5}, {0}},
    {"long", {1, 200, 0, 1, 1, 64, 64, ONLY_O}, {0}},
    {"packed", {4, 70, 23, 2, 2, 16, 32, WITH_ALL, 40}, {0}},
    {"grouped", {2, 66, 5, 4, 2, 16, 16, WITH_ALL, 70}, {0}},
    {"one key head", {2, 33, 1, 4, 1, 24, 16, ONLY_O}, {0}},
    {"wide", {1, 35, 0, 1, 1, 128, 80, WITH_SCALE | WITH_KEY_BIAS}, {0}},
    {"dropout", {2, 67, 9, 2, 1, 16, 16, 0, 0}, {0.2}},
    {"only lse", {2, 70, 11, 4, 2, 24, 16, ONLY_LSE | WITH_ALL, 30}, {0}},
    {"all", {3, 75, 17, 4, 2, 40, 24, WITH_ALL, 50}, {0.5}},
    {"reciprocal", {1, 70, 0, 2, 2, 16, 16, 0, 0, 0, 5}, {0, 0.5}},
    {"reciprocal, far", {2, 140, 9, 2, 2, 24, 16, WITH_KEY_BIAS, 0, 0, 100}, {0, 0.3}},
    {"reciprocal, all", {3, 75, 17, 4, 2, 17, 24, WITH_ALL | WITH_Q_BIAS, 50, 0, 20}, {0.2, -0.7}},
    {"reciprocal decode", {3, 150, 61, 4, 2, 16, 24, WITH_ALL | WITH_Q_BIAS, 90, 1, 90}, {0, 0.5}},
    {"reciprocal chunk", {2, 140, 30, 2, 1, 33, 16, WITH_KEY_BIAS, 0, 37, 64}, {0, 0.5}},
    {"ring decode", {3, 300, 61, 4, 2, 16, 24, WITH_ALL | WITH_Q_BIAS | WITH_Q_TILES, 90, 1, 70}, {0, 0.5}},
    {"ring chunk", {2, 340, 30, 2, 1, 17, 16, WITH_KEY_BIAS | WITH_Q_TILES, 0, 67, 64}, {0, 0.5}},
    {"own keys decode", {3, 150, 61, 4, 1, 40, 32, WITH_SCALE | WITH_KEY_BIAS | WITH_K_OWNS, 0, 1, 90}, {0, 0.5}},
    {"own keys chunk", {2, 140, 30, 4, 2, 33, 16, WITH_ALL | WITH_Q_BIAS | WITH_K_OWN, 50, 37, 64}, {0, -0.5}},
    {"ring, own keys", {2, 200, 7, 3, 1, 48, 48, WITH_ALL | WITH_Q_TILES | WITH_K_OWNS, 9, 5, 20}, {0, 0.5}},
    {"equal lengths, groups", {3, 9, 0, 6, 2, 8, 5, WITH_ALL, 4}, {0}},
    {"square", {2, 37, 4, 6, 6, 6, 6, WITH_ALL, 5}, {0}},
    {"square, reciprocal", {2, 40, 7, 6, 6, 6, 6, WITH_ALL | WITH_Q_BIAS, 9, 0, 20}, {0, 0.5}},
    {"square, own keys", {2, 40, 7, 6, 6, 6, 6, WITH_ALL | WITH_Q_BIAS | WITH_K_OWNS, 50, 5, 20}, {0, 0.5}},
    {"decode", {3, 150, 61, 4, 2, 16, 24, WITH_ALL, 90, 1}, {0}},
    {"chunk", {2, 140, 30, 2, 2, 33, 16, WITH_ALL, 90, 37}, {0}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    const int64_t *n = c->n;
    struct weft_dim M = case_rows(g, c, true), N = case_keys(g, c, M);
    struct weft_attention a = case_logits(g, c, M);
    a.v = weft_graph_input(g, "v", weft_graph_compute(g), WEFT_SHAPE(N, weft_fixed(n[KV_HEADS] * n[WIDTH_V])));
    if (a.v)
        a.v->wants_grad = !n[LAST];
    a.dropout = c->x[DROPOUT];
    a.layer = 3;
    a.site = 1;
    if (a.dropout > 0) {
        a.rows.sample = weft_graph_input(g, "sample", WEFT_I32, WEFT_SHAPE(case_sequences(g, c)));
        a.rows.step_key = weft_graph_input(g, "step_key", WEFT_I32, WEFT_SHAPE(weft_fixed(4)));
    }
    struct weft_value *o = weft_attention(g, &a);
    if (!(n[OPTIONS] & ONLY_LSE))
        weft_graph_output(g, o);
    if (!(n[OPTIONS] & ONLY_O))
        weft_graph_output(g, weft_sibling(o, LSE));
}

static bool fill(const struct weft_case *c, const char *input, struct weft_tensor *t)
{
    bool random = !strcmp(input, "sample") || !strcmp(input, "step_key");
    for (int64_t i = 0; random && i < weft_tensor_count(t); i++)
        ((int32_t *)t->data)[i] = (int32_t)(7 + 3 * i);
    return random || fill_logits(c, input, t);
}

const struct weft_op WEFT_OP(attention) = {
    .name = "attention",
    .summary = "o = softmax(scale <q,k> + key_bias + pos_bias) v, causal, over a paged key store; lse",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.plan = plan, .run = run, .ref = ref, .flops = flops, .products = products},
    .bwd = {.plan = bwd_plan, .run = bwd, .ref = bwd_ref, .flops = bwd_flops, .products = bwd_products},
    .bwd_reads_in = (1u << INPUTS) - 1,
    .bwd_reads_out = 1u << O | 1u << LSE,
    .differentiable = 1u << Q | 1u << K | 1u << V | 1u << SCALE | 1u << KEY_BIAS | 1u << POS_BIAS | 1u << Q_STORE |
                      1u << Q_BIAS,
    .accumulates = 1u << SCALE | 1u << POS_BIAS,
    .lower = lower,
    WEFT_CASES(cases, build),
    .fill = fill,
};

struct weft_value *weft_attention(struct weft_graph *g, const struct weft_attention *a)
{
    struct attr attr = {geometry_of(a), a->dropout, a->layer, a->site};
    struct weft_value *in[INPUTS] = {[V] = a->v, [SAMPLE] = a->rows.sample, [STEP_KEY] = a->rows.step_key};
    set_logit_inputs(a, in);
    return weft_emit(g, WEFT_SELF(attention), &attr, INPUTS, in);
}

bool weft_attention_is_plain(const struct weft_node *node)
{
    return node->op == WEFT_SELF(attention) && !node->in[POS_BIAS] && !node->in[Q_STORE];
}
