/* SPDX-License-Identifier: MIT
 *
 * route - gathers rows of u, weighted by the probabilities of one attention node: cross-token aggregation along
 * attention's routes.
 *
 *     R[t,s] = mean (or maximum) over heads h of exp(logit[h,t,s] - lse[t,h])                      s <= t
 *     S_t    = topk: the k largest, ties to the smaller s (all when t < k)
 *              rms:  R[t,s] >= factor * sqrt(mean over s <= t of R[t,s]^2)
 *              none: all
 *     Z_t    = sum over S_t of R[t,s]     w = R / Z (renormalise) or R     y_t = sum over S_t of w[t,s] u_s
 *
 * The logits have the formula and inputs of attention.c, including the reciprocal term, before dropout; lse f32 [M, H]
 * is that node's second output; u [N, r] has the rows of the key store. Outputs: y [M, r]; z f32 [M]; and the
 * selection: for topk, the positions i32 [M, k] in order of descending R, padded with -1; for rms, the threshold f32
 * [M].
 *
 * R is recomputed tile by tile from q, k and lse, all heads of 64 rows at once, and never stored, in one pass over the
 * keys, or two for rms. Key tiles start at absolute multiples of WEFT_KEY_TILE and are visited in order, and values are
 * summed over exactly the visible keys of a row, so its result depends only on its own query and those keys.
 *
 * Backward treats S_t as constant and logits and lse as separate inputs. With e_s = <dy_t, u_s>:
 *     dR_s = (e_s - <dy_t, y_t>) / Z  (e_s when not renormalised)     du_s += w dy_t
 *     dS[h,t,s] = P_h dR_s / H  (maximum: P_h dR_s for the first head that has it, else 0)     dlse[t,h] = - sum_s dS
 * and the gradients of the logits' inputs from dS as in attention.c. lse also depends on the logits; the backward pass
 * of the attention node handles that, from dlse. Saved: y, z and the selection. <dy, y> is computed from y as stored,
 * except that topk sums it as w e at no extra cost.
 */
#include "ops/attention/logits_cases_inl.h"
#include "ops/attention/logits_form_inl.h"
#include "ops/attention/route_backward_inl.h"

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *a = node->attr;
    struct weft_value *const *in = node->in;
    TRY(check_logits(node));
    if (!in[LSE] || !in[U])
        return weft_node_fail(node, "%s is missing", in[LSE] ? "u" : "lse");
    struct weft_dim rows = weft_shape_rows(&in[Q]->shape), keys = weft_shape_rows(&in[K]->shape);
    struct weft_dim width = weft_fixed(weft_shape_width(&in[U]->shape));
    TRY(expect(node, LSE, WEFT_F32, WEFT_SHAPE(rows, weft_fixed(a->logits.heads)), "f32 [rows of q, heads]"));
    TRY(expect(node, U, weft_graph_compute(node->graph), WEFT_SHAPE(keys, width),
               "a matrix [rows of k, width] of the compute dtype"));
    if (a->mode == WEFT_ROUTE_TOPK && a->topk < 1)
        return weft_node_fail(node, "topk = %lld; it must be at least 1", (long long)a->topk);
    TRY(weft_node_output(node, Y, weft_graph_compute(node->graph), WEFT_SHAPE(rows, width)));
    TRY(weft_node_output(node, Z, WEFT_F32, WEFT_SHAPE(rows)));
    if (a->mode == WEFT_ROUTE_TOPK)
        return weft_node_output(node, CUT, WEFT_I32, WEFT_SHAPE(rows, weft_fixed(a->topk)));
    return a->mode == WEFT_ROUTE_RMS ? weft_node_output(node, CUT, WEFT_F32, WEFT_SHAPE(rows)) : WEFT_OK;
}

/* ---- as atoms */

/* Returns R [BATCH, NEW, ALL], 0 for invisible columns. */
static struct weft_atom *form_routes(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *a = node->attr;
    struct weft_atom *p = weft_exp_of(f, form_log_p(f, node, LSE));
    return weft_merge_of(f, a->head_max ? weft_largest_of(f, p, 1) : weft_mean_of(f, p, 1), 0);
}

/* Defines the positions of the k largest of R. There are k further columns, invisible ones, so that there are always k
 * positions. */
static void form_cut(struct weft_form *f, struct weft_atom *R, int64_t k)
{
    struct weft_atom *none = weft_real_of(f, -1), *seen = weft_to_of(f, weft_visible_of(f), WEFT_REAL);
    seen = weft_less_of(f, weft_real_of(f, 0), weft_pad_of(f, seen, 2, 0, k));
    R = weft_choose_of(f, seen, weft_pad_of(f, R, 2, 0, k), none);
    struct weft_atom *position = weft_top_of(f, R, 2, k);
    struct weft_atom *found = weft_less_of(f, none, weft_pick_of(f, R, position, 2));
    weft_form_out(f, CUT, weft_choose_of(f, found, position, weft_whole_of(f, -1)));
}

/* Returns the k largest of R, and 0 elsewhere. Choosing an invisible column changes nothing: R is 0 there. */
static struct weft_atom *form_topk(struct weft_form *f, struct weft_atom *R, int64_t k)
{
    struct weft_atom *position = weft_top_of(f, R, 2, k);
    form_cut(f, R, k);
    return weft_put_of(f, weft_sub_of(f, R, R), position, weft_pick_of(f, R, position, 2), 2);
}

/* Defines the threshold, and returns R where it is at least that, 0 elsewhere. */
static struct weft_atom *form_rms(struct weft_form *f, const struct weft_node *node, struct weft_atom *R)
{
    const struct attr *a = node->attr;
    struct weft_atom *count = weft_sum_of(f, weft_to_of(f, weft_visible_of(f), WEFT_REAL), 2);
    struct weft_atom *mean = weft_div_of(f, weft_sum_of(f, weft_mul_of(f, R, R), 2), count);
    struct weft_atom *cut = weft_times_of(f, weft_sqrt_of(f, mean), a->rms_factor);
    weft_form_out(f, CUT, cut);
    return weft_choose_of(f, weft_less_of(f, R, cut), weft_real_of(f, 0), R);
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *a = node->attr;
    struct weft_atom *w = form_routes(f, node), *u = weft_keys_of(f, weft_form_in(f, U)), *zero = weft_real_of(f, 0);
    if (a->mode != WEFT_ROUTE_NONE)
        w = a->mode == WEFT_ROUTE_TOPK ? form_topk(f, w, a->topk) : form_rms(f, node, w);
    struct weft_atom *z = weft_sum_of(f, w, 2), *y = weft_matmul_of(f, w, u, false);
    if (a->renormalise)
        y = weft_div_of(f, y, weft_choose_of(f, weft_less_of(f, zero, z), z, weft_real_of(f, 1)));
    weft_form_out(f, Y, y);
    weft_form_out(f, Z, z);
}

/* ---- forward: a unit of work is a span of rows with all heads */

struct forward {
    struct operands operands;
    float *p, *R;       /* the probabilities of one head; R */
    float *u, *sum, *z; /* the tile of u; running sums of weighted rows of u, and of weights */
    float *best;        /* [ROW_TILE][topk]: the largest R so far in descending order, padded with -1 */
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

/* Inserts position s into a row's list, after entries of equal R, because those have smaller positions. */
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
        if (vhighest(high) <= best[k - 1]) /* most tiles add nothing to the list */
            continue;
        for (int64_t c = 0; c < weft_min(WEFT_KEY_TILE, t->i + r - t->j + 1); c++)
            if (R[c] > best[k - 1])
                insert(best, position, k, R[c], t->j + c);
    }
}

/* Returns the sum of 64 values, or of their squares. */
static float tile_sum(const float *R, bool squares)
{
    vf sum = vset(0);
    for (int64_t c = 0; c < WEFT_KEY_TILE; c += VLANES) {
        vf x = vload_f32(R + c, VLANES);
        sum = sum + (squares ? x * x : x);
    }
    return vsum(sum);
}

/* Runs the first pass of rms, which computes the thresholds. */
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

/* Adds a tile's weights to z and its weighted rows of u to sum. On the diagonal tile, each row stops at its own key. */
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

/* Adds the weighted rows of u at the selected positions. */
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
    struct job job = {.call = call, .attr = call->attr, .n = sizes_of(call), .spans = (struct span *)call->scratch};
    job.span_count = cut_spans(call->in[SEQ], call->in[POS], ROW_TILE, job.spans);
    weft_parallel(job.span_count, run_unit, &job);
}

/* ---- counts */

static double flops(const struct weft_call *call)
{
    const struct attr *a = call->attr;
    struct sizes n = sizes_of(call);
    double score = 2.0 * (double)n.heads * (visible_pairs(call) * (double)n.k + window_pairs(call) * (double)n.own);
    double add = 2.0 * (double)n.u;
    if (n.topk)
        return score + (double)(n.rows * n.topk) * add;
    return score * (a->mode == WEFT_ROUTE_RMS ? 2 : 1) + visible_pairs(call) * add;
}

/* In topk, each pair costs the score, dq and dk, then e and du; the reciprocal term's window may contain all pairs. In
 * the other modes, which work by tiles, the score and e are computed twice. */
static double bwd_flops(const struct weft_call *call)
{
    struct sizes n = sizes_of(call);
    double head = 2.0 * (double)(n.heads * n.k), row = 2.0 * (double)n.u, pairs = (double)(n.rows * n.topk);
    return n.topk ? pairs * (3 * head + 2 * row) + fmin(pairs, window_pairs(call)) * 3 * head
                  : visible_pairs(call) * (4 * head + 3 * row) + window_pairs(call) * 4 * head;
}

/* ---- cases */

enum { HEAD_MAX = OPTION, PLAIN = 2 * OPTION, CHAINED = 4 * OPTION };
enum { RMS = 0, NONE = -1 };

/* n, x: see logits_cases_inl.h. The last entry of n is k of topk, or selects a different mode. PLAIN: not renormalised.
 * CHAINED: lse is computed by attention instead of being an input. */
static const struct weft_case cases[] = {
    {"one row", {1, 1, 0, 1, 1, 16, 16, 0, 0, 0, 0, 1}, {0}},
    {"single tokens", {3, 1, 0, 2, 2, 16, 16, WITH_ALL | PLAIN, 1, 0, 0, NONE}, {0}},
    {"topk, tile-1", {1, 63, 0, 2, 2, 16, 16, 0, 0, 0, 0, 8}, {0}},
    {"topk, tile", {1, 64, 0, 2, 2, 16, 16, WITH_SCALE | PLAIN, 0, 0, 0, 1}, {0}},
    {"topk, tile+1", {1, 65, 0, 2, 2, 16, 16, WITH_KEY_BIAS | PLAIN, 0, 0, 0, 4}, {0}},
    {"topk, two tiles+1", {1, 129, 0, 2, 2, 40, 40, WITH_POS_BIAS, 200, 0, 0, 8}, {0}},
    {"topk, odd", {2, 37, 4, 3, 3, 17, 23, WITH_ALL, 5, 0, 0, 5}, {0}},
    {"topk, maximum", {2, 70, 9, 3, 1, 24, 16, WITH_ALL | HEAD_MAX, 30, 0, 0, 8}, {0}},
    {"topk, all positions", {2, 19, 2, 2, 2, 16, 8, 0, 0, 0, 0, 40}, {0}},
    {"topk, packed", {4, 70, 23, 4, 2, 16, 33, WITH_ALL, 40, 0, 0, 8}, {0}},
    {"rms, tile-1", {1, 63, 0, 2, 2, 16, 16, 0, 0, 0, 0, RMS}, {0}},
    {"rms, two tiles+1", {1, 129, 0, 2, 1, 16, 24, WITH_ALL, 100, 0, 0, RMS}, {0}},
    {"rms, plain", {2, 65, 4, 2, 2, 17, 16, WITH_SCALE | PLAIN, 0, 0, 0, RMS}, {0}},
    {"rms, maximum", {3, 66, 30, 4, 2, 16, 19, WITH_ALL | HEAD_MAX, 90, 0, 0, RMS}, {0}},
    {"none, tile", {1, 64, 0, 2, 2, 64, 64, 0, 0, 0, 0, NONE}, {0}},
    {"none, two tiles+1", {2, 129, 64, 4, 2, 16, 40, WITH_ALL, 70, 0, 0, NONE}, {0}},
    {"none, maximum", {2, 37, 3, 3, 1, 16, 16, WITH_KEY_BIAS | HEAD_MAX | PLAIN, 0, 0, 0, NONE}, {0}},
    {"topk, chained", {2, 70, 33, 4, 2, 16, 24, WITH_ALL | CHAINED, 50, 0, 0, 6}, {0}},
    {"rms, chained", {2, 66, 33, 2, 1, 16, 24, WITH_ALL | CHAINED, 50, 0, 0, RMS}, {0}},
    {"none, chained", {1, 67, 0, 2, 2, 16, 16, HEAD_MAX | CHAINED, 0, 0, 0, NONE}, {0}},
    {"topk, square", {2, 37, 4, 6, 6, 6, 6, WITH_ALL, 5, 0, 0, 3}, {0}},
    {"rms, square, reciprocal", {2, 40, 7, 6, 6, 6, 6, WITH_ALL | WITH_Q_BIAS, 9, 0, 20, RMS}, {0, 0.5}},
    {"none, square, own keys", {2, 40, 7, 6, 6, 6, 6, WITH_ALL | WITH_Q_BIAS | WITH_K_OWNS, 50, 5, 20, NONE}, {0, 0.5}},
    {"topk, decode", {3, 150, 61, 4, 2, 16, 24, WITH_ALL, 90, 1, 0, 8}, {0}},
    {"rms, chunk", {2, 140, 30, 2, 2, 33, 16, WITH_ALL, 90, 37, 0, RMS}, {0}},
    {"none, chunk", {2, 140, 30, 2, 1, 16, 16, HEAD_MAX, 0, 65, 0, NONE}, {0}},
    {"topk, reciprocal", {2, 70, 9, 2, 2, 16, 16, 0, 0, 0, 5, 4}, {0, 0.5}},
    {"topk, reciprocal far", {1, 140, 0, 2, 1, 17, 24, WITH_ALL | WITH_Q_BIAS | PLAIN, 50, 0, 100, 8}, {0, 0.3}},
    {"topk, reciprocal maximum", {2, 66, 5, 4, 2, 24, 16, WITH_ALL | WITH_Q_BIAS | HEAD_MAX, 30, 0, 20, 6}, {0, -0.7}},
    {"rms, reciprocal", {2, 70, 9, 4, 2, 16, 16, WITH_ALL | WITH_Q_BIAS, 40, 0, 65, RMS}, {0, 0.5}},
    {"rms, reciprocal maximum", {1, 70, 0, 2, 2, 17, 19, WITH_SCALE | HEAD_MAX | PLAIN, 0, 0, 30, RMS}, {0, 0.3}},
    {"none, reciprocal", {2, 140, 71, 2, 1, 16, 24, WITH_ALL | WITH_Q_BIAS, 40, 0, 63, NONE}, {0, -0.5}},
    {"none, reciprocal maximum", {2, 67, 3, 3, 3, 16, 16, WITH_KEY_BIAS | HEAD_MAX, 0, 0, 1, NONE}, {0, 0.5}},
    {"topk, reciprocal chained", {2, 70, 33, 4, 2, 16, 24, WITH_ALL | WITH_Q_BIAS | CHAINED, 50, 0, 20, 6}, {0, 0.5}},
    {"rms, reciprocal chained", {2, 66, 33, 2, 1, 16, 24, WITH_ALL | CHAINED, 50, 0, 64, RMS}, {0, 0.5}},
    {"none, reciprocal chained", {1, 67, 0, 2, 2, 16, 16, WITH_Q_BIAS | HEAD_MAX | CHAINED, 0, 0, 9, NONE}, {0, 0.5}},
    {"topk, reciprocal decode", {3, 150, 61, 4, 2, 16, 24, WITH_ALL | WITH_Q_BIAS, 90, 1, 90, 8}, {0, 0.5}},
    {"rms, reciprocal chunk", {2, 140, 30, 2, 2, 33, 16, WITH_ALL, 90, 37, 64, RMS}, {0, 0.5}},
    {"topk, ring decode", {3, 300, 61, 4, 2, 16, 24, WITH_ALL | WITH_Q_BIAS | WITH_Q_TILES, 90, 1, 70, 8}, {0, 0.5}},
    {"rms, own keys", {2, 150, 61, 4, 1, 40, 16, WITH_SCALE | WITH_KEY_BIAS | WITH_K_OWNS, 0, 3, 90, RMS}, {0, 0.5}},
    {"none, own keys", {2, 140, 30, 4, 2, 33, 16, WITH_ALL | WITH_K_OWN | HEAD_MAX, 50, 37, 64, NONE}, {0, -0.5}},
    {"topk, ring, own keys",
     {2, 200, 7, 3, 1, 48, 24, WITH_ALL | WITH_Q_BIAS | WITH_Q_TILES | WITH_K_OWNS, 9, 67, 20, 5},
     {0, 0.5}},
};

static struct weft_value *case_values(struct weft_graph *g, const char *name, struct weft_dim rows, int64_t width)
{
    return weft_graph_input(g, name, weft_graph_compute(g), WEFT_SHAPE(rows, weft_fixed(width)));
}

static void build(struct weft_graph *g, const struct weft_case *c)
{
    const int64_t *n = c->n;
    bool chained = n[OPTIONS] & CHAINED;
    struct weft_dim M = case_rows(g, c, !chained); /* the gradients of chained cases depend on later rows */
    struct weft_dim N = case_keys(g, c, M);
    struct weft_attention a = case_logits(g, c, M);
    struct weft_route route = {
        .attention = &a,
        .u = case_values(g, "u", N, n[WIDTH_V]),
        .mode = n[CHOICE] > 0      ? WEFT_ROUTE_TOPK
                : n[CHOICE] == RMS ? WEFT_ROUTE_RMS
                                   : WEFT_ROUTE_NONE,
        .topk = n[CHOICE],
        .rms_factor = 0.5,
        .head_max = n[OPTIONS] & HEAD_MAX,
        .renormalise = !(n[OPTIONS] & PLAIN),
    };
    if (chained) {
        a.v = case_values(g, "v", N, n[KV_HEADS] * n[WIDTH_K]);
        route.lse = weft_sibling(weft_attention(g, &a), 1);
    } else {
        route.lse = weft_graph_input(g, "lse", WEFT_F32, WEFT_SHAPE(M, weft_fixed(n[HEADS])));
    }
    if (route.u && !n[LAST])
        route.u->wants_grad = true;
    if (route.lse && !n[LAST])
        route.lse->wants_grad = !chained;
    struct weft_value *y = weft_route(g, &route);
    for (int i = Y; y && i <= CUT; i++)
        if (weft_sibling(y, i))
            weft_graph_output(g, weft_sibling(y, i));
}

/* Close to the log-sum-exp of normally distributed logits, so that R is close to a probability. */
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
    if (strcmp(input, "lse") != 0)
        return fill_logits(c, input, t);
    fill_lse(c, t);
    return true;
}

const struct weft_op WEFT_OP(route) = {
    .name = "route",
    .summary = "y = sum over selected s of R u_s / Z, R = mean (or maximum) over heads of exp(logit - lse); selection "
               "by topk, rms or none",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.plan = plan, .run = run, .ref = ref, .flops = flops},
    .bwd = {.plan = bwd_plan, .run = bwd, .ref = bwd_ref, .flops = bwd_flops},
    .bwd_reads_in = (1u << INPUTS) - 1,
    .bwd_reads_out = 1u << Y | 1u << Z | 1u << CUT,
    .differentiable = 1u << Q | 1u << K | 1u << SCALE | 1u << KEY_BIAS | 1u << POS_BIAS | 1u << Q_STORE | 1u << Q_BIAS |
                      1u << LSE | 1u << U,
    .accumulates = 1u << SCALE | 1u << POS_BIAS,
    .no_grad_out = 1u << Z | 1u << CUT,
    .lower = lower,
    WEFT_CASES(cases, build),
    .fill = fill,
};

struct weft_value *weft_route(struct weft_graph *g, const struct weft_route *r)
{
    const struct weft_attention *a = r->attention;
    struct attr attr = {geometry_of(a), r->mode, r->topk, r->rms_factor, r->head_max, r->renormalise};
    struct weft_value *in[INPUTS] = {[LSE] = r->lse, [U] = r->u};
    set_logit_inputs(a, in);
    return weft_emit(g, WEFT_SELF(route), &attr, INPUTS, in);
}
