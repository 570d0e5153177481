/* SPDX-License-Identifier: MIT
 *
 * route - gathers rows of u by where attention looks: cross-token aggregation along the routes of one attention node.
 *
 *     R[t,s] = mean (or maximum) over heads h of exp(logit[h,t,s] - lse[t,h])                      s <= t
 *     S_t    = topk: the k largest, ties to the smaller s (all when t < k)
 *              rms:  R[t,s] >= factor * sqrt(mean over s <= t of R[t,s]^2)
 *              none: all
 *     Z_t    = sum over S_t of R[t,s]     w = R / Z (renormalise) or R     y_t = sum over S_t of w[t,s] u_s
 *
 * The logits are those of attention.c, of q [M, H*Dk], k [N, K*Dk], scale, key_bias, pos_bias, before dropout; lse
 * f32 [M, H] is that node's second output; u [N, r] stands in the rows of the key store. Outputs: y [M, r]; z f32 [M];
 * and what made the choice: the positions i32 [M, k] by falling R, -1 behind the last, or the threshold f32 [M].
 *
 * R is rebuilt tile by tile from q, k and lse, all heads of 64 rows at once, and never stored: one pass over the keys,
 * two for rms. Key tiles begin at absolute multiples of WEFT_KEY_TILE and are visited in order, and values are summed
 * over exactly the keys a row may see: its bits depend on its own query and those keys alone.
 *
 * Backward, S_t being constant and logits and lse separate inputs, with e_s = <dy_t, u_s>:
 *     dR_s = (e_s - <dy_t, y_t>) / Z  (e_s when not renormalised)     du_s += w dy_t
 *     dS[h,t,s] = P_h dR_s / H  (maximum: P_h dR_s for the first head that has it, else 0)     dlse[t,h] = - sum_s dS
 * and dq, dk, dscale, dkey_bias, dpos_bias from dS as in attention.c. That lse depends on the logits too is the
 * attention node's to know: its backward pass takes dlse. Saved: y, z and the choice; y is read back as stored, but for
 * top-k <dy, y> is summed again as w e, which costs nothing there.
 */
#include "ops/route_bwd.h"

static enum weft_status expect(const struct weft_node *node, int i, enum weft_dtype dtype, struct weft_shape s,
                               const char *what)
{
    const struct weft_value *v = node->in[i];
    if (v->dtype != dtype || !weft_shape_same(&v->shape, &s))
        return weft_node_fail(node, "%s must be %s", v->name ? v->name : "an input", what);
    return WEFT_OK;
}

/* Types and shapes of what the logits are made of are attention's to check; here they must only fit each other. */
static enum weft_status check_inputs(const struct weft_node *node)
{
    static const int needed[] = {Q, K, SEQ, POS, TILES, LSE, U};
    const struct attr *a = node->attr;
    struct weft_value *const *in = node->in;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!in[needed[i]])
            return weft_node_fail(node, "input %d is missing", needed[i]);
    if (a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads)
        return weft_node_fail(node, "%lld heads cannot share %lld key heads", (long long)a->heads,
                              (long long)a->kv_heads);
    struct weft_dim rows = weft_shape_rows(&in[Q]->shape), keys = weft_shape_rows(&in[K]->shape);
    int64_t k = weft_shape_width(&in[K]->shape) / a->kv_heads;
    enum weft_dtype compute = weft_graph_compute(node->graph);
    TRY(expect(node, Q, compute, WEFT_SHAPE(rows, weft_fixed(a->heads * k)), "a matrix [rows, heads * width of k]"));
    TRY(expect(node, K, compute, WEFT_SHAPE(keys, weft_fixed(a->kv_heads * k)), "a matrix [keys, key heads * width]"));
    TRY(expect(node, LSE, WEFT_F32, WEFT_SHAPE(rows, weft_fixed(a->heads)), "f32 [rows of q, heads]"));
    return expect(node, U, compute, WEFT_SHAPE(keys, weft_fixed(weft_shape_width(&in[U]->shape))), "as many rows as k");
}

static enum weft_status shape(struct weft_node *node)
{
    TRY(check_inputs(node));
    const struct attr *a = node->attr;
    struct weft_dim rows = weft_shape_rows(&node->in[Q]->shape);
    struct weft_dim width = weft_fixed(weft_shape_width(&node->in[U]->shape));
    if (a->reciprocal)
        return weft_node_fail(node, "routes do not carry attention's reciprocal term yet: use one or the other");
    if (a->mode == WEFT_ROUTE_TOPK && a->topk < 1)
        return weft_node_fail(node, "topk = %lld must be 1 or more", (long long)a->topk);
    TRY(weft_node_output(node, Y, weft_graph_compute(node->graph), WEFT_SHAPE(rows, width)));
    TRY(weft_node_output(node, Z, WEFT_F32, WEFT_SHAPE(rows)));
    if (a->mode == WEFT_ROUTE_TOPK)
        return weft_node_output(node, CUT, WEFT_I32, WEFT_SHAPE(rows, weft_fixed(a->topk)));
    return a->mode == WEFT_ROUTE_RMS ? weft_node_output(node, CUT, WEFT_F32, WEFT_SHAPE(rows)) : WEFT_OK;
}

/* ---- forward: a unit is a span of rows, all heads */

struct forward {
    struct operands operands;
    float *p, *R;       /* a head's probabilities, routes */
    float *u, *sum, *z; /* the tile of u; weighted rows of it, and weights, summed so far */
    float *best;        /* [ROW_TILE][topk]: largest R so far, falling; -1 behind the last */
};

static struct forward lay_forward(const struct sizes *n, struct space *s)
{
    return (struct forward){
        .operands = lay_operands(n, s),
        .p = take_floats(s, 1, TILE),
        .R = take_floats(s, 1, TILE),
        .u = take_floats(s, WEFT_KEY_TILE, n->u_padded),
        .sum = take_floats(s, ROW_TILE, n->u_padded),
        .z = take_floats(s, 1, ROW_TILE),
        .best = take_floats(s, ROW_TILE, n->topk),
    };
}

static enum weft_status plan(const struct weft_call *max, struct weft_booking *booking)
{
    struct sizes n = sizes_of(max);
    struct space scratch = {0}, local = {0};
    (void)take(&scratch, n.rows, 1, sizeof(struct span));
    (void)lay_forward(&n, &local);
    return book(booking, &scratch, &local);
}

/* Puts position s into a row's list, behind equals: they have smaller positions. */
static void insert(float *best, int32_t *position, int64_t topk, float R, int64_t s)
{
    int64_t x = topk - 1;
    for (; x > 0 && best[x - 1] < R; x--) {
        best[x] = best[x - 1];
        position[x] = position[x - 1];
    }
    best[x] = R;
    position[x] = (int32_t)s;
}

static void keep_best(const struct job *job, const struct forward *f, const struct tile *t)
{
    int64_t k = job->n.topk;
    for (int64_t r = 0; r < t->rows; r++) {
        const float *R = f->R + r * WEFT_KEY_TILE;
        float *best = f->best + r * k;
        int32_t *position = (int32_t *)job->call->out[CUT]->data + (t->row + r) * k;
        vf high = vset(0);
        for (int64_t c = 0; c < WEFT_KEY_TILE; c += VLANES)
            high = vmax(high, vload_f32(R + c, VLANES));
        if (vhighest(high) <= best[k - 1]) /* most tiles have nothing for the list */
            continue;
        for (int64_t c = 0; c < weft_min(WEFT_KEY_TILE, t->i + r - t->j + 1); c++)
            if (R[c] > best[k - 1])
                insert(best, position, k, R[c], t->j + c);
    }
}

/* The sum of 64 numbers, or of their squares. */
static float tile_sum(const float *R, bool squares)
{
    vf sum = vset(0);
    for (int64_t c = 0; c < WEFT_KEY_TILE; c += VLANES) {
        vf x = vload_f32(R + c, VLANES);
        sum = sum + (squares ? x * x : x);
    }
    return vsum(sum);
}

/* The first pass of rms: thresholds. */
static void set_thresholds(const struct job *job, const struct forward *f, struct tile *t)
{
    float *cut = (float *)job->call->out[CUT]->data + t->row;
    memset(cut, 0, (size_t)t->rows * sizeof *cut);
    for (int64_t j = 0; j < t->i + t->rows; j += WEFT_KEY_TILE) {
        set_keys(job, t, j);
        set_routes(job, t, &f->operands, f->p, 0, f->R);
        for (int64_t r = 0; r < t->rows; r++)
            cut[r] += tile_sum(f->R + r * WEFT_KEY_TILE, true);
    }
    for (int64_t r = 0; r < t->rows; r++)
        cut[r] = (float)job->attr->rms_factor * sqrtf(cut[r] / (float)(t->i + r + 1));
}

/* Adds a tile's weights and what they weigh. A row on the diagonal stops at its own key. */
static void add_tile(const struct job *job, const struct forward *f, const struct tile *t)
{
    int64_t padded = job->n.u_padded;
    const float *cut = job->attr->mode == WEFT_ROUTE_RMS ? (const float *)job->call->out[CUT]->data + t->row : NULL;
    for (int64_t r = 0; r < t->rows; r++) {
        float *R = f->R + r * WEFT_KEY_TILE;
        for (int64_t c = 0; cut && c < WEFT_KEY_TILE; c += VLANES) {
            vf x = vload_f32(R + c, VLANES);
            vstore_f32(R + c, VLANES, vpick(x >= vset(cut[r]), x, vset(0)));
        }
        f->z[r] += tile_sum(R, false);
    }
    widen(f->u, padded, head_of(job->call->in[U], t->key_row, 0, 1), t->keys);
    bool whole = t->i >= t->j + WEFT_KEY_TILE - 1;
    for (int64_t r = 0; r < t->rows; r += whole ? t->rows : 1)
        product(whole ? t->rows : 1, padded, whole ? WEFT_KEY_TILE : t->i + r - t->j + 1,
                (struct left){f->R + r * WEFT_KEY_TILE, WEFT_KEY_TILE, 1}, f->u, padded, f->sum + r * padded, padded);
}

/* Weighs the rows of u that the lists name. */
static void gather(const struct job *job, const struct forward *f, const struct tile *t)
{
    int64_t k = job->n.topk, padded = job->n.u_padded;
    for (int64_t r = 0; r < t->rows; r++) {
        const int32_t *position = (const int32_t *)job->call->out[CUT]->data + (t->row + r) * k;
        for (int64_t x = 0; x < k && position[x] >= 0; x++) {
            f->z[r] += f->best[r * k + x];
            add_scaled(f->sum + r * padded, padded, f->best[r * k + x],
                       head_of(job->call->in[U], key_row(job->call, t->seq, position[x]), 0, 1));
        }
    }
}

static void start(const struct job *job, const struct forward *f, const struct tile *t)
{
    const struct sizes *n = &job->n;
    set_queries(job, t, &f->operands);
    memset(f->sum, 0, (size_t)(t->rows * n->u_padded) * sizeof(float));
    memset(f->z, 0, ROW_TILE * sizeof(float));
    for (int64_t x = 0; x < t->rows * n->topk; x++) {
        f->best[x] = -1;
        ((int32_t *)job->call->out[CUT]->data)[t->row * n->topk + x] = -1;
    }
}

static void finish(const struct job *job, const struct forward *f, const struct tile *t)
{
    int64_t padded = job->n.u_padded;
    for (int64_t r = 0; r < t->rows; r++) {
        ((float *)job->call->out[Z]->data)[t->row + r] = f->z[r];
        for (int64_t d = r * padded; job->attr->renormalise && d < (r + 1) * padded; d += VLANES)
            vstore_f32(f->sum + d, VLANES, vload_f32(f->sum + d, VLANES) / vset(f->z[r]));
    }
    narrow(head_of(job->call->out[Y], t->row, 0, 1), f->sum, padded, t->rows);
}

static void run_unit(void *context, int64_t unit, int thread)
{
    const struct job *job = context;
    struct space local = {.base = job->call->local + (size_t)thread * job->call->local_stride};
    struct forward f = lay_forward(&job->n, &local);
    struct tile t = {0};
    set_rows(job, &t, job->spans[unit]);
    start(job, &f, &t);
    if (job->attr->mode == WEFT_ROUTE_RMS)
        set_thresholds(job, &f, &t);
    for (int64_t j = 0; j < t.i + t.rows; j += WEFT_KEY_TILE) {
        set_keys(job, &t, j);
        set_routes(job, &t, &f.operands, f.p, 0, f.R);
        (job->n.topk ? keep_best : add_tile)(job, &f, &t);
    }
    if (job->n.topk)
        gather(job, &f, &t);
    finish(job, &f, &t);
}

static void run(const struct weft_call *call)
{
    struct job job = {call, call->attr, sizes_of(call), (struct span *)call->scratch, 0};
    job.span_count = cut_spans(call->in[SEQ], call->in[POS], ROW_TILE, job.spans);
    weft_parallel(job.span_count, run_unit, &job);
}

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
    double score = 2.0 * (double)(n.heads * n.k), add = 2.0 * (double)n.u;
    if (n.topk)
        return seen(call) * score + (double)(n.rows * n.topk) * add;
    return seen(call) * (score * (((const struct attr *)call->attr)->mode == WEFT_ROUTE_RMS ? 2 : 1) + add);
}

/* By pair: score, dq, dk; e and du. By tile the score and e are made twice. */
static double bwd_flops(const struct weft_call *call)
{
    struct sizes n = sizes_of(call);
    double head = 2.0 * (double)(n.heads * n.k), row = 2.0 * (double)n.u;
    return n.topk ? (double)(n.rows * n.topk) * (3 * head + 2 * row) : seen(call) * (4 * head + 3 * row);
}

/* ---- cases */

enum { SEQUENCES, LONGEST, SHORTER, HEADS, KV_HEADS, WIDTH_K, RANK, MODE, TOPK, OPTIONS, OFFSETS, LAST };
enum { WITH_SCALE = 1, WITH_KEY_BIAS = 2, WITH_POS_BIAS = 4, WITH_ALL = 7, HEAD_MAX = 8, PLAIN = 16, CHAINED = 32 };
enum { TOP = WEFT_ROUTE_TOPK, RMS = WEFT_ROUTE_RMS, NONE = WEFT_ROUTE_NONE };

/* n: sequences, positions of the first, how many fewer each next one has, heads, key heads, widths of k and u, mode, k,
 * options (PLAIN: not renormalised; CHAINED: lse is attention's, else an input of its own), offsets of pos_bias, and
 * when not 0 only so many last positions are queries, on a store of pages in another order. */
static const struct weft_case cases[] = {
    {"one row", {1, 1, 0, 1, 1, 16, 16, TOP, 1}, {0}},
    {"single tokens", {3, 1, 0, 2, 2, 16, 16, NONE, 0, WITH_ALL | PLAIN, 1}, {0}},
    {"topk, tile-1", {1, 63, 0, 2, 2, 16, 16, TOP, 8}, {0}},
    {"topk, tile", {1, 64, 0, 2, 2, 16, 16, TOP, 1, WITH_SCALE | PLAIN}, {0}},
    {"topk, tile+1", {1, 65, 0, 2, 2, 16, 16, TOP, 4, WITH_KEY_BIAS | PLAIN}, {0}},
    {"topk, two tiles+1", {1, 129, 0, 2, 2, 40, 40, TOP, 8, WITH_POS_BIAS, 200}, {0}},
    {"topk, odd", {2, 37, 4, 3, 3, 17, 23, TOP, 5, WITH_ALL, 5}, {0}},
    {"topk, maximum", {2, 70, 9, 3, 1, 24, 16, TOP, 8, WITH_ALL | HEAD_MAX, 30}, {0}},
    {"topk, all positions", {2, 19, 2, 2, 2, 16, 8, TOP, 40}, {0}},
    {"topk, packed", {4, 70, 23, 4, 2, 16, 33, TOP, 8, WITH_ALL, 40}, {0}},
    {"rms, tile-1", {1, 63, 0, 2, 2, 16, 16, RMS}, {0}},
    {"rms, two tiles+1", {1, 129, 0, 2, 1, 16, 24, RMS, 0, WITH_ALL, 100}, {0}},
    {"rms, plain", {2, 65, 4, 2, 2, 17, 16, RMS, 0, WITH_SCALE | PLAIN}, {0}},
    {"rms, maximum", {3, 66, 30, 4, 2, 16, 19, RMS, 0, WITH_ALL | HEAD_MAX, 90}, {0}},
    {"none, tile", {1, 64, 0, 2, 2, 64, 64, NONE}, {0}},
    {"none, two tiles+1", {2, 129, 64, 4, 2, 16, 40, NONE, 0, WITH_ALL, 70}, {0}},
    {"none, maximum", {2, 37, 3, 3, 1, 16, 16, NONE, 0, WITH_KEY_BIAS | HEAD_MAX | PLAIN}, {0}},
    {"topk, chained", {2, 70, 33, 4, 2, 16, 24, TOP, 6, WITH_ALL | CHAINED, 50}, {0}},
    {"rms, chained", {2, 66, 33, 2, 1, 16, 24, RMS, 0, WITH_ALL | CHAINED, 50}, {0}},
    {"none, chained", {1, 67, 0, 2, 2, 16, 16, NONE, 0, HEAD_MAX | CHAINED}, {0}},
    {"topk, decode", {3, 150, 61, 4, 2, 16, 24, TOP, 8, WITH_ALL, 90, 1}, {0}},
    {"rms, chunk", {2, 140, 30, 2, 2, 33, 16, RMS, 0, WITH_ALL, 90, 37}, {0}},
    {"none, chunk", {2, 140, 30, 2, 1, 16, 16, NONE, 0, HEAD_MAX, 0, 65}, {0}},
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
    bool counted = !(n[OPTIONS] & CHAINED); /* a chain's gradients are sums: rows of them depend on later rows */
    struct weft_dim M = counted ? weft_times(weft_graph_symbol(g, "rows", rows), 1) : weft_fixed(rows);
    struct weft_dim N = keys ? weft_fixed(keys) : M;
    struct weft_dim S = weft_fixed(n[SEQUENCES]), H = weft_fixed(n[HEADS]);
    enum weft_dtype compute = weft_graph_compute(g);
    struct weft_attention a = {.heads = n[HEADS], .kv_heads = n[KV_HEADS]};
    struct weft_route route = {&a, NULL, NULL, (enum weft_route_mode)n[MODE], n[TOPK], 0.5, false, false};
    route.head_max = n[OPTIONS] & HEAD_MAX;
    route.renormalise = !(n[OPTIONS] & PLAIN);
    a.q = weft_graph_input(g, "q", compute, WEFT_SHAPE(M, weft_fixed(n[HEADS] * n[WIDTH_K])));
    a.k = weft_graph_input(g, "k", compute, WEFT_SHAPE(N, weft_fixed(n[KV_HEADS] * n[WIDTH_K])));
    route.u = weft_graph_input(g, "u", compute, WEFT_SHAPE(N, weft_fixed(n[RANK])));
    if (n[OPTIONS] & WITH_SCALE)
        a.scale = weft_graph_input(g, "scale", WEFT_F32, WEFT_SHAPE(H));
    if (n[OPTIONS] & WITH_KEY_BIAS)
        a.key_bias = weft_graph_input(g, "key_bias", WEFT_F32, WEFT_SHAPE(N, H));
    if (n[OPTIONS] & WITH_POS_BIAS)
        a.pos_bias = weft_graph_input(g, "pos_bias", WEFT_F32, WEFT_SHAPE(H, weft_fixed(n[OFFSETS])));
    a.rows.seq = weft_graph_input(g, "seq", WEFT_I32, WEFT_SHAPE(M));
    a.rows.pos = weft_graph_input(g, "pos", WEFT_I32, WEFT_SHAPE(M));
    a.rows.tiles = weft_graph_input(g, "tiles", WEFT_I32, WEFT_SHAPE(S, weft_fixed(case_tiles(c))));
    if (n[OPTIONS] & CHAINED)
        a.v = weft_graph_input(g, "v", compute, WEFT_SHAPE(N, weft_fixed(n[KV_HEADS] * n[WIDTH_K])));
    else
        route.lse = weft_graph_input(g, "lse", WEFT_F32, WEFT_SHAPE(M, H));
    struct weft_value *learned[] = {a.q, a.k, a.scale, a.key_bias, a.pos_bias, route.lse, route.u};
    for (int i = 0; i < 7 && !n[LAST]; i++)
        if (learned[i])
            learned[i]->wants_grad = true;
    if (n[OPTIONS] & CHAINED)
        route.lse = weft_sibling(weft_attention(g, &a), 1);
    struct weft_value *y = weft_route(g, &route);
    for (int i = Y; y && i <= CUT; i++)
        if (weft_sibling(y, i))
            weft_graph_output(g, weft_sibling(y, i));
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

/* About what the log-sum-exp of normal logits is, so that R is about a probability. */
static void fill_lse(const struct weft_case *c, struct weft_tensor *t)
{
    int64_t row = 0, H = c->n[HEADS];
    for (int64_t s = 0; s < c->n[SEQUENCES]; s++)
        for (int64_t i = case_length(c, s) - case_queries(c, s); i < case_length(c, s); i++, row++)
            for (int64_t h = 0; h < H; h++)
                weft_tensor_set(t, row * H + h, (float)(log((double)(i + 1)) + 0.5 + 0.25 * (double)(h % 3)));
}

static bool fill(const struct weft_case *c, const char *input, struct weft_tensor *t)
{
    if (!strcmp(input, "scale")) {
        for (int64_t h = 0; h < c->n[HEADS]; h++)
            weft_tensor_set(t, h, (float)((1 + 0.25 * (double)h) / sqrt((double)c->n[WIDTH_K])));
    } else if (!strcmp(input, "lse")) {
        fill_lse(c, t);
    } else if (!strcmp(input, "tiles")) {
        fill_tiles(c, t->data);
    } else if (!strcmp(input, "seq") || !strcmp(input, "pos")) {
        int64_t row = 0;
        for (int64_t s = 0; s < c->n[SEQUENCES]; s++)
            for (int64_t i = case_length(c, s) - case_queries(c, s); i < case_length(c, s); i++)
                ((int32_t *)t->data)[row++] = (int32_t)(input[0] == 's' ? s : i);
    } else {
        return false;
    }
    return true;
}

const struct weft_op WEFT_OP(route) = {
    .name = "route",
    .summary = "y = sum over chosen s of R u_s / Z, R the head mean (maximum) of exp(logit - lse); topk, rms or all",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.plan = plan, .run = run, .ref = ref, .flops = flops},
    .bwd = {.plan = bwd_plan, .run = bwd, .ref = bwd_ref, .flops = bwd_flops},
    .bwd_reads_in = (1u << INPUTS) - 1,
    .bwd_reads_out = 1u << Y | 1u << Z | 1u << CUT,
    .differentiable = 1u << Q | 1u << K | 1u << SCALE | 1u << KEY_BIAS | 1u << POS_BIAS | 1u << LSE | 1u << U,
    .accumulates = 1u << SCALE | 1u << POS_BIAS,
    .silent_out = 1u << Z | 1u << CUT,
    .cases = cases,
    .case_count = sizeof cases / sizeof *cases,
    .build = build,
    .fill = fill,
    .tolerance_bf16 = 1.0 / 32, /* attention's, through which the chained cases go; the others need a tenth of it */
};

struct weft_value *weft_route(struct weft_graph *g, const struct weft_route *r)
{
    const struct weft_attention *a = r->attention;
    struct attr attr = {a->heads,      a->kv_heads, r->mode,        r->topk,
                        r->rms_factor, r->head_max, r->renormalise, a->q_store != NULL};
    struct weft_value *in[INPUTS] = {a->q,        a->k,        a->scale,      a->key_bias, a->pos_bias,
                                     a->rows.seq, a->rows.pos, a->rows.tiles, r->lse,      r->u};
    struct weft_node *node = weft_graph_emit(g, weft_op(WEFT_OP_route), &attr, INPUTS, in);
    return node ? node->out[Y] : NULL;
}
