/* SPDX-License-Identifier: MIT
 *
 * attention - causal softmax attention over a paged key store; every geometry is this op with other inputs.
 *
 *     logit[h,i,j] = scale[h] <q[i,h], k[j,kv]> + key_bias[j,h] + pos_bias[h, min(i-j, offsets-1)]   j <= i, else -inf
 *                    + alpha (scale[h] <q_store[j,h], k[i,kv]> + q_bias[j,h] + key_bias[i,h])      0 < i-j <= window
 *     P = softmax_j(logit)     o[i,h] = sum_j keep[h,i,j] P[h,i,j] v[j,kv]     lse[i,h] = log sum_j exp(logit)
 *
 * The last term is reciprocal attention and only there when q_store is; it runs on the vector path.
 * q [M, H*Dk], k [N, K*Dk], v [N, K*Dv], scale [H], key_bias [N, H], pos_bias [H, offsets]; kv = h / (H/K); i and j are
 * positions in one sequence: those of the queries stand beside the rows, key j of a sequence is row
 * tiles[seq][j / 64] + j % 64 of the store. keep is 0 or 1/(1-p), by counter from (sample, layer, site, h, i, j).
 *
 * Saved for backward: o and lse. Nothing of size T x T exists: keys are visited in tiles that begin at absolute
 * multiples of WEFT_KEY_TILE, in order, with a running maximum and sum. A row visits only tiles that hold a key it may
 * see, and sums values over exactly the keys it may see, so its bits depend on its own query and those keys alone: not
 * on the rows computed beside it, on chunks, or on what stands in later rows of the store (be it NaN).
 *
 * Backward (Dao et al., FlashAttention, 2022), with delta[i] = <do_i, o_i> = sum_j P dP:
 *     P = exp(logit - lse)   dP = keep (do v^t)   dS = P (dP - delta + dlse)
 *     dv = (keep P)^t do   dq = scale dS k   dk = scale dS^t q
 *     dscale = sum dS <q,k>   dkey_bias[j] = sum_i dS   dpos_bias = sums of dS along diagonals
 * It is for training: the key store is the call's own rows, and each sequence's rows stand together, from position 0
 * on.
 */
#include "ops/attention_bwd.h"
#include "ops/attention_fwd.h"
#if defined(__AVX512F__)
#include "ops/attention_amx_bwd.h"
#include "ops/attention_amx_fwd.h"
#endif

static enum weft_status expect(const struct weft_node *node, int i, enum weft_dtype dtype, struct weft_shape s,
                               const char *what)
{
    const struct weft_value *v = node->in[i];
    if (v->dtype != dtype || !weft_shape_same(&v->shape, &s))
        return weft_node_fail(node, "%s must be %s", v->name ? v->name : "an input", what);
    return WEFT_OK;
}

/* Types and shapes, when all inputs are there and the heads divide. */
static enum weft_status check_inputs(const struct weft_node *node)
{
    const struct attr *a = node->attr;
    struct weft_value *const *in = node->in;
    struct weft_dim heads = weft_fixed(a->heads);
    struct weft_dim rows = weft_shape_rows(&in[Q]->shape), keys = weft_shape_rows(&in[K]->shape);
    enum weft_dtype compute = weft_graph_compute(node->graph);
    for (int i = Q; i <= V; i++)
        if (in[i]->dtype != compute || in[i]->shape.ndim != 2)
            return weft_node_fail(node, "q, k and v must be matrices of type %s", weft_dtype_name(compute));
    TRY(expect(node, V, compute, WEFT_SHAPE(keys, weft_fixed(weft_shape_width(&in[V]->shape))), "as many rows as k"));
    if (in[SCALE])
        TRY(expect(node, SCALE, WEFT_F32, WEFT_SHAPE(heads), "f32 [heads]"));
    if (in[KEY_BIAS])
        TRY(expect(node, KEY_BIAS, WEFT_F32, WEFT_SHAPE(keys, heads), "f32 [rows of k, heads]"));
    if (in[POS_BIAS])
        TRY(expect(node, POS_BIAS, WEFT_F32, WEFT_SHAPE(heads, weft_fixed(weft_shape_width(&in[POS_BIAS]->shape))),
                   "f32 [heads, offsets]"));
    if (in[Q_STORE])
        TRY(expect(node, Q_STORE, compute, WEFT_SHAPE(keys, weft_fixed(weft_shape_width(&in[Q]->shape))),
                   "as wide as q and have as many rows as k"));
    if (in[Q_BIAS])
        TRY(expect(node, Q_BIAS, WEFT_F32, WEFT_SHAPE(keys, heads), "f32 [rows of k, heads]"));
    TRY(expect(node, SEQ, WEFT_I32, WEFT_SHAPE(rows), "i32 [rows of q]"));
    TRY(expect(node, POS, WEFT_I32, WEFT_SHAPE(rows), "i32 [rows of q]"));
    const struct weft_shape *tiles = &in[TILES]->shape;
    if (in[TILES]->dtype != WEFT_I32 || tiles->ndim != 2)
        return weft_node_fail(node, "tiles must be i32 [sequences, tiles]");
    if (a->dropout > 0) {
        TRY(expect(node, SAMPLE, WEFT_I32, WEFT_SHAPE(tiles->dim[0]), "i32 [sequences]"));
        TRY(expect(node, STAMP, WEFT_I32, WEFT_SHAPE(weft_fixed(4)), "i32 [4]"));
    }
    return WEFT_OK;
}

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *a = node->attr;
    struct weft_value *const *in = node->in;
    int64_t H = a->heads, kv = a->kv_heads;
    for (int i = 0; i < INPUTS; i++) {
        bool random = i == SAMPLE || i == STAMP, stored = i == Q_STORE || i == Q_BIAS;
        bool optional = i == SCALE || i == KEY_BIAS || i == POS_BIAS || stored || (a->dropout == 0 && random);
        if (!in[i] && !optional)
            return weft_node_fail(node, "input %d is missing", i);
    }
    if (H < 1 || kv < 1 || H % kv)
        return weft_node_fail(node, "%lld heads cannot share %lld key heads", (long long)H, (long long)kv);
    if (a->ra_window < 0 || (a->ra_window > 0) != (in[Q_STORE] != NULL))
        return weft_node_fail(node, "the reciprocal term needs stored queries and a window of at least 1, or neither");
    if (!(a->dropout >= 0 && a->dropout < 1))
        return weft_node_fail(node, "dropout is %g: it must be at least 0 and below 1", a->dropout);
    int64_t q = weft_shape_width(&in[Q]->shape), k = weft_shape_width(&in[K]->shape),
            v = weft_shape_width(&in[V]->shape);
    if (q % H || k % kv || v % kv || q / H != k / kv)
        return weft_node_fail(node, "widths q %lld, k %lld, v %lld do not divide into %lld heads and %lld key heads",
                              (long long)q, (long long)k, (long long)v, (long long)H, (long long)kv);
    TRY(check_inputs(node));
    struct weft_dim rows = weft_shape_rows(&in[Q]->shape);
    TRY(weft_node_output(node, O, weft_graph_compute(node->graph), WEFT_SHAPE(rows, weft_fixed(v / kv * H))));
    return weft_node_output(node, LSE, WEFT_F32, WEFT_SHAPE(rows, weft_fixed(H)));
}

/* ---- two paths; which one depends on the machine and the attributes alone, so training and decoding take the same */

struct path {
    enum weft_status (*plan)(const struct weft_call *max, struct weft_booking *booking);
    void (*run)(const struct weft_call *call);
    enum weft_status (*bwd_plan)(const struct weft_call *max, struct weft_booking *booking);
    void (*bwd)(const struct weft_call *call);
};

static const struct path *path_of(const struct weft_call *call)
{
    static const struct path vectors = {vector_plan, vector_run, vector_bwd_plan, vector_bwd};
#if defined(__AVX512F__)
    static const struct path tiles = {tiles_plan, tiles_run, tiles_bwd_plan, tiles_bwd};
    const struct attr *a = call->attr;
    if (weft_isa() >= WEFT_ISA_AMX && call->in[Q]->dtype == WEFT_BF16 && a->dropout == 0 && a->ra_window == 0)
        return &tiles;
#else
    (void)call;
#endif
    return &vectors;
}

static enum weft_status plan(const struct weft_call *max, struct weft_booking *booking)
{
    return path_of(max)->plan(max, booking);
}

static void run(const struct weft_call *call) { path_of(call)->run(call); }

static enum weft_status bwd_plan(const struct weft_call *max, struct weft_booking *booking)
{
    return path_of(max)->bwd_plan(max, booking);
}

static void bwd(const struct weft_call *call) { path_of(call)->bwd(call); }

/* ---- counts: each query against the keys it may see */

/* Before there are positions, the rows are taken as whole sequences of equal length. */
static double seen(const struct weft_call *call)
{
    int64_t rows = call->in[POS]->dim[0];
    const int32_t *pos = ints(call, POS);
    double keys = pos ? 0 : (double)rows * ((double)rows / (double)call->in[TILES]->dim[0] + 1) / 2;
    for (int64_t r = 0; pos && r < rows; r++)
        keys += pos[r] + 1;
    return keys;
}

static double flops(const struct weft_call *call)
{
    struct sizes n = sizes_of(call);
    return seen(call) * (double)(n.heads * 2 * (n.k + n.v));
}

static double bwd_flops(const struct weft_call *call)
{
    struct sizes n = sizes_of(call);
    return seen(call) * (double)(n.heads * 2 * (3 * n.k + 2 * n.v));
}

/* Products over all heads of all sequences, each as a whole square of which half is wanted. */
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

enum { SEQUENCES, LONGEST, SHORTER, HEADS, KV_HEADS, WIDTH_K, WIDTH_V, OPTIONS, OFFSETS, LAST, WINDOW };
enum {
    WITH_SCALE = 1,
    WITH_KEY_BIAS = 2,
    WITH_POS_BIAS = 4,
    WITH_ALL = 7,
    ONLY_O = 8,
    ONLY_LSE = 16,
    WITH_Q_BIAS = 32
};

/* n: sequences, positions of the first, how many fewer each next one has, heads, key heads, widths of k and v, options,
 * offsets of pos_bias, and when not 0 only so many last positions are queries, on a store of pages in another order.
 * Last: the window of the reciprocal term. x: dropout, alpha. */
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
    {"decode", {3, 150, 61, 4, 2, 16, 24, WITH_ALL, 90, 1}, {0}},
    {"chunk", {2, 140, 30, 2, 2, 33, 16, WITH_ALL, 90, 37}, {0}},
};

static int64_t case_length(const struct weft_case *c, int64_t seq)
{
    return weft_max(1, c->n[LONGEST] - seq * c->n[SHORTER]);
}

static int64_t case_queries(const struct weft_case *c, int64_t seq)
{
    return c->n[LAST] ? weft_min(c->n[LAST], case_length(c, seq)) : case_length(c, seq);
}

static int64_t case_tiles(const struct weft_case *c) { return weft_div_up(c->n[LONGEST], WEFT_KEY_TILE); }

static void build(struct weft_graph *g, const struct weft_case *c)
{
    const int64_t *n = c->n;
    int64_t rows = 0, keys = n[LAST] ? n[SEQUENCES] * case_tiles(c) * WEFT_KEY_TILE : 0;
    for (int64_t s = 0; s < n[SEQUENCES]; s++)
        rows += case_queries(c, s);
    struct weft_dim M = weft_times(weft_graph_symbol(g, "rows", rows), 1), N = keys ? weft_fixed(keys) : M,
                    S = weft_fixed(n[SEQUENCES]);
    struct weft_dim H = weft_fixed(n[HEADS]);
    enum weft_dtype compute = weft_graph_compute(g);
    struct weft_attention a = {.heads = n[HEADS], .kv_heads = n[KV_HEADS], .dropout = c->x[0], .layer = 3, .site = 1};
    a.q = weft_graph_input(g, "q", compute, WEFT_SHAPE(M, weft_fixed(n[HEADS] * n[WIDTH_K])));
    a.k = weft_graph_input(g, "k", compute, WEFT_SHAPE(N, weft_fixed(n[KV_HEADS] * n[WIDTH_K])));
    a.v = weft_graph_input(g, "v", compute, WEFT_SHAPE(N, weft_fixed(n[KV_HEADS] * n[WIDTH_V])));
    if (n[OPTIONS] & WITH_SCALE)
        a.scale = weft_graph_input(g, "scale", WEFT_F32, WEFT_SHAPE(H));
    if (n[OPTIONS] & WITH_KEY_BIAS)
        a.key_bias = weft_graph_input(g, "key_bias", WEFT_F32, WEFT_SHAPE(N, H));
    if (n[OPTIONS] & WITH_POS_BIAS)
        a.pos_bias = weft_graph_input(g, "pos_bias", WEFT_F32, WEFT_SHAPE(H, weft_fixed(n[OFFSETS])));
    a.ra_window = n[WINDOW];
    a.ra_alpha = c->x[1];
    if (n[WINDOW])
        a.q_store =
            keys ? weft_graph_input(g, "q_store", compute, WEFT_SHAPE(N, weft_fixed(n[HEADS] * n[WIDTH_K]))) : a.q;
    if (n[OPTIONS] & WITH_Q_BIAS)
        a.q_bias = weft_graph_input(g, "q_bias", WEFT_F32, WEFT_SHAPE(N, H));
    struct weft_value *learned[] = {a.q, a.k, a.v, a.scale, a.key_bias, a.pos_bias, a.q_bias};
    for (int i = 0; i < 7 && !n[LAST]; i++)
        if (learned[i])
            learned[i]->wants_grad = true;
    a.rows.seq = weft_graph_input(g, "seq", WEFT_I32, WEFT_SHAPE(M));
    a.rows.pos = weft_graph_input(g, "pos", WEFT_I32, WEFT_SHAPE(M));
    a.rows.tiles = weft_graph_input(g, "tiles", WEFT_I32, WEFT_SHAPE(S, weft_fixed(case_tiles(c))));
    if (c->x[0] > 0) {
        a.rows.sample = weft_graph_input(g, "sample", WEFT_I32, WEFT_SHAPE(S));
        a.rows.stamp = weft_graph_input(g, "stamp", WEFT_I32, WEFT_SHAPE(weft_fixed(4)));
    }
    struct weft_value *o = weft_attention(g, &a);
    if (!(n[OPTIONS] & ONLY_LSE))
        weft_graph_output(g, o);
    if (!(n[OPTIONS] & ONLY_O))
        weft_graph_output(g, weft_sibling(o, LSE));
}

static void fill_tiles(const struct weft_case *c, int32_t *tiles)
{
    int64_t pages = c->n[SEQUENCES] * case_tiles(c), row = 0;
    for (int64_t s = 0; s < c->n[SEQUENCES]; row += case_length(c, s++))
        for (int64_t j = 0; j < case_tiles(c); j++) {
            int64_t page = pages - 1 - (s + j * c->n[SEQUENCES]); /* sequences interleaved, backwards */
            int64_t first = c->n[LAST] ? page * WEFT_KEY_TILE : row + j * WEFT_KEY_TILE;
            bool used = j * WEFT_KEY_TILE < case_length(c, s);
            tiles[s * case_tiles(c) + j] = used ? (int32_t)first : -1;
        }
}

static bool fill(const struct weft_case *c, const char *input, struct weft_tensor *t)
{
    if (!strcmp(input, "scale")) {
        for (int64_t h = 0; h < c->n[HEADS]; h++)
            weft_tensor_set(t, h, (float)((1 + 0.25 * (double)h) / sqrt((double)c->n[WIDTH_K])));
        return true;
    }
    if (t->dtype != WEFT_I32)
        return false;
    int32_t *x = t->data;
    if (!strcmp(input, "tiles")) {
        fill_tiles(c, x);
    } else if (!strcmp(input, "seq") || !strcmp(input, "pos")) {
        int64_t row = 0;
        for (int64_t s = 0; s < c->n[SEQUENCES]; s++)
            for (int64_t i = case_length(c, s) - case_queries(c, s); i < case_length(c, s); i++)
                x[row++] = (int32_t)(input[0] == 's' ? s : i);
    } else { /* sample and stamp */
        for (int64_t i = 0; i < weft_tensor_count(t); i++)
            x[i] = (int32_t)(7 + 3 * i);
    }
    return true;
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
    .cases = cases,
    .case_count = sizeof cases / sizeof *cases,
    .build = build,
    .fill = fill,
    .tolerance_bf16 = 1.0 / 32, /* P and dS are rounded as operands, and rows differ much in size */
};

struct weft_value *weft_attention(struct weft_graph *g, const struct weft_attention *a)
{
    struct attr attr = {
        a->heads, a->kv_heads, a->dropout, a->layer, a->site, a->ra_alpha, a->q_store ? a->ra_window : 0};
    const struct weft_rows *r = &a->rows;
    struct weft_value *in[INPUTS] = {a->q,   a->k,     a->v,      a->scale, a->key_bias, a->pos_bias, r->seq,
                                     r->pos, r->tiles, r->sample, r->stamp, a->q_store,  a->q_bias};
    struct weft_node *node = weft_graph_emit(g, weft_op(WEFT_OP_attention), &attr, INPUTS, in);
    return node ? node->out[O] : NULL;
}
