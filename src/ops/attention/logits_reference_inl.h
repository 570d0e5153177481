/* SPDX-License-Identifier: MIT
 *
 * logits_reference_inl.h - attention's logits, for the ops that compute them (attention.c, route.c, entropy.c,
 * reciprocity.c): inputs, sizes, addresses, checks, counts, and the reference of the logits and their gradients, in
 * plain loops and double precision.
 *
 *     logit[h,i,j] = scale[h] <q[i,h], k[j,kv]> + key_bias[j,h] + pos_bias[h, min(i-j, offsets-1)]           j <= i
 *                    + alpha (scale[h] <q_store[j,h], own[i,h]> + q_bias[j,h] + key_bias[i,h])      0 < i-j <= window
 *
 * The second line is the reciprocal term. own[i,h] is the key of position i: its row in k or, if k does not hold keys,
 * in k_own. It is as wide as a head of q_store; without k_own, that is the width of k's heads.
 */
#ifndef WEFT_LOGITS_SPEC_H
#define WEFT_LOGITS_SPEC_H

#include "ops/attention/tiles_inl.h"

/* Indices of the first inputs of an op that computes logits. */
enum { Q, K, K_OWN, SCALE, KEY_BIAS, POS_BIAS, SEQ, POS, TILES, Q_STORE, Q_BIAS, Q_TILES, LOGIT_INPUTS };

/* The first member of struct attr, the attributes of such an op. */
struct geometry {
    int64_t heads, kv_heads;
    double ra_alpha;
    int64_t ra_window; /* 0: no reciprocal term */
};

static struct geometry geometry_of(const struct weft_attention *a)
{
    return (struct geometry){a->heads, a->kv_heads, a->ra_alpha, a->q_store ? a->ra_window : 0};
}

/* Sets only the inputs of the logits; the op adds its other inputs. */
static void set_logit_inputs(const struct weft_attention *a, struct weft_value **in)
{
    in[Q] = a->q, in[K] = a->k, in[K_OWN] = a->k_own;
    in[SCALE] = a->scale, in[KEY_BIAS] = a->key_bias, in[POS_BIAS] = a->pos_bias;
    in[SEQ] = a->rows.seq, in[POS] = a->rows.pos, in[TILES] = a->rows.tiles;
    in[Q_STORE] = a->q_store, in[Q_BIAS] = a->q_bias, in[Q_TILES] = a->q_tiles;
}

struct sizes {
    int64_t rows, heads, kv_heads, group; /* group: query heads per key head */
    int64_t k, k_padded;                  /* width of one head's key, and the same rounded up to whole vectors */
    int64_t offsets;                      /* width of pos_bias; 0: no pos_bias */
    int64_t window;                       /* window of the reciprocal term; 0: no such term */
    int64_t own, own_padded;              /* reciprocal term: width of one head of own keys and stored queries */
    int64_t own_heads, own_group;         /* reciprocal term: heads of own keys, query heads per own key */
    int64_t slots, longest;               /* number of sequences, and the maximum number of positions in one */
    int64_t v, v_padded;                  /* attention: width of one head's value */
    int64_t u, u_padded;                  /* route: width of u */
    int64_t k_tiles, own_tiles;           /* route in bf16: k and own, rounded up to whole steps of tiles; else 0 */
    int64_t topk;                         /* route: k of topk; 0 in the other modes */
};

/* Returns the sizes, except those that only one op uses. */
static struct sizes logit_sizes(const struct weft_call *call)
{
    const struct geometry *a = call->attr;
    const struct weft_tensor *tiles = call->in[TILES], *pos_bias = call->in[POS_BIAS], *k_own = call->in[K_OWN];
    int64_t k = weft_tensor_width(call->in[K]) / a->kv_heads;
    int64_t own = k_own ? weft_tensor_width(call->in[Q_STORE]) / a->heads : k;
    int64_t own_heads = k_own ? weft_tensor_width(k_own) / own : a->kv_heads;
    return (struct sizes){
        .rows = call->in[Q]->dim[0],
        .heads = a->heads,
        .kv_heads = a->kv_heads,
        .group = a->heads / a->kv_heads,
        .k = k,
        .k_padded = weft_round_up(k, VLANES),
        .offsets = pos_bias ? weft_tensor_width(pos_bias) : 0,
        .window = a->ra_window,
        .own = own,
        .own_padded = weft_round_up(own, VLANES),
        .own_heads = own_heads,
        .own_group = a->heads / own_heads,
        .slots = tiles->dim[0],
        .longest = weft_min(call->in[Q]->dim[0], tiles->dim[1] * WEFT_KEY_TILE),
    };
}

static const int32_t *ints(const struct weft_call *call, int i) { return call->in[i]->data; }

static int64_t tile_row(const struct weft_call *call, int tiles, int64_t seq, int64_t j)
{
    return ints(call, tiles)[seq * call->in[tiles]->dim[1] + j / WEFT_KEY_TILE] + j % WEFT_KEY_TILE;
}

/* Return the row of a sequence's position j in the key store, and in the stored queries. */
static int64_t key_row(const struct weft_call *call, int64_t seq, int64_t j) { return tile_row(call, TILES, seq, j); }

static int64_t query_row(const struct weft_call *call, int64_t seq, int64_t j)
{
    return tile_row(call, call->in[Q_TILES] ? Q_TILES : TILES, seq, j);
}

/* ---- checks */

static enum weft_status expect(const struct weft_node *node, int i, enum weft_dtype dtype, struct weft_shape s,
                               const char *what)
{
    const struct weft_value *v = node->in[i];
    if (v->dtype != dtype || !weft_shape_same(&v->shape, &s))
        return weft_node_fail(node, "input %d%s%s%s must be %s", i, v->name ? " (" : "", v->name ? v->name : "",
                              v->name ? ")" : "", what);
    return WEFT_OK;
}

static enum weft_status check_k_own(const struct weft_node *node)
{
    const struct geometry *a = node->attr;
    struct weft_value *const *in = node->in;
    int64_t wide = weft_shape_width(&in[Q_STORE]->shape), own = weft_shape_width(&in[K_OWN]->shape);
    if (!in[SCALE])
        return weft_node_fail(node, "k_own needs a scale: there is no default, because k has a different width");
    if (wide % a->heads || (own != wide && own != wide / a->heads * a->kv_heads))
        return weft_node_fail(node, "k_own is %lld wide, which does not match q_store with %lld heads and width %lld",
                              (long long)own, (long long)a->heads, (long long)wide);
    return expect(node, K_OWN, weft_graph_compute(node->graph),
                  WEFT_SHAPE(weft_shape_rows(&in[Q]->shape), weft_fixed(own)),
                  "a matrix [rows of q, width] of the compute dtype");
}

static enum weft_status check_reciprocal(const struct weft_node *node)
{
    const struct geometry *a = node->attr;
    struct weft_value *const *in = node->in;
    bool extras = in[Q_BIAS] || in[Q_TILES] || in[K_OWN];
    if (a->ra_window < 0 || (a->ra_window > 0) != (in[Q_STORE] != NULL) || (extras && !in[Q_STORE]))
        return weft_node_fail(node,
                              "the reciprocal term needs both q_store and a window of at least 1; q_bias, q_tiles "
                              "and k_own need q_store");
    if (!in[Q_STORE])
        return WEFT_OK;
    struct weft_dim rows = weft_shape_rows(&in[in[Q_TILES] ? Q_STORE : K]->shape);
    struct weft_dim width = weft_fixed(weft_shape_width(&in[in[K_OWN] ? Q_STORE : Q]->shape));
    TRY(expect(node, Q_STORE, weft_graph_compute(node->graph), WEFT_SHAPE(rows, width),
               "a matrix [rows of k, width of q] of the compute dtype"));
    if (in[Q_BIAS])
        TRY(expect(node, Q_BIAS, WEFT_F32, WEFT_SHAPE(rows, weft_fixed(a->heads)), "f32 [rows of q_store, heads]"));
    if (in[Q_TILES])
        TRY(expect(node, Q_TILES, WEFT_I32, in[TILES]->shape, "i32 [sequences, tiles], the shape of tiles"));
    return in[K_OWN] ? check_k_own(node) : WEFT_OK;
}

static enum weft_status check_optional(const struct weft_node *node)
{
    const struct geometry *a = node->attr;
    struct weft_value *const *in = node->in;
    struct weft_dim heads = weft_fixed(a->heads), keys = weft_shape_rows(&in[K]->shape);
    if (in[SCALE])
        TRY(expect(node, SCALE, WEFT_F32, WEFT_SHAPE(heads), "f32 [heads]"));
    if (in[KEY_BIAS])
        TRY(expect(node, KEY_BIAS, WEFT_F32, WEFT_SHAPE(keys, heads), "f32 [rows of k, heads]"));
    if (in[POS_BIAS])
        TRY(expect(node, POS_BIAS, WEFT_F32, WEFT_SHAPE(heads, weft_fixed(weft_shape_width(&in[POS_BIAS]->shape))),
                   "f32 [heads, offsets]"));
    return check_reciprocal(node);
}

/* Checks the types and shapes of the logits' inputs. */
static enum weft_status check_logits(const struct weft_node *node)
{
    static const struct {
        int input;
        const char *name;
    } needed[] = {{Q, "q"}, {K, "k"}, {SEQ, "seq"}, {POS, "pos"}, {TILES, "tiles"}};
    const struct geometry *a = node->attr;
    struct weft_value *const *in = node->in;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!in[needed[i].input])
            return weft_node_fail(node, "%s is missing", needed[i].name);
    if (a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads)
        return weft_node_fail(node, "%lld heads cannot share %lld key heads: heads must be a multiple of key heads",
                              (long long)a->heads, (long long)a->kv_heads);
    struct weft_dim rows = weft_shape_rows(&in[Q]->shape), keys = weft_shape_rows(&in[K]->shape);
    enum weft_dtype compute = weft_graph_compute(node->graph);
    int64_t k = weft_shape_width(&in[K]->shape) / a->kv_heads;
    TRY(expect(node, Q, compute, WEFT_SHAPE(rows, weft_fixed(a->heads * k)),
               "a matrix [rows, heads * width of k] of the compute dtype"));
    TRY(expect(node, K, compute, WEFT_SHAPE(keys, weft_fixed(a->kv_heads * k)),
               "a matrix [keys, key heads * width] of the compute dtype"));
    TRY(expect(node, SEQ, WEFT_I32, WEFT_SHAPE(rows), "i32 [rows of q]"));
    TRY(expect(node, POS, WEFT_I32, WEFT_SHAPE(rows), "i32 [rows of q]"));
    if (in[TILES]->dtype != WEFT_I32 || in[TILES]->shape.ndim != 2)
        return weft_node_fail(node, "tiles must be i32 [sequences, tiles]");
    return check_optional(node);
}

/* Rejects q_tiles and k_own in the backward pass. They are for decoding and have no gradient, and the other gradients
 * would be wrong without theirs. */
SHARED enum weft_status refuse_decoding(const struct weft_call *call)
{
    if (call->in[Q_TILES] || call->in[K_OWN])
        return FAIL(WEFT_INVALID,
                    "attention with q_tiles or k_own has no derivative: these inputs are for decoding only");
    return WEFT_OK;
}

/* ---- the number of pairs of a query and a visible key; before positions are known, for whole sequences of equal
 * length */

SHARED double visible_pairs(const struct weft_call *call)
{
    int64_t rows = call->in[POS]->dim[0];
    const int32_t *pos = ints(call, POS);
    double keys = pos ? 0 : (double)rows * ((double)rows / (double)call->in[TILES]->dim[0] + 1) / 2;
    for (int64_t r = 0; pos && r < rows; r++)
        keys += pos[r] + 1;
    return keys;
}

/* Returns the number of these pairs that are in the reciprocal term's window. */
static double window_pairs(const struct weft_call *call)
{
    struct sizes n = logit_sizes(call);
    const int32_t *pos = ints(call, POS);
    double length = (double)n.rows / (double)n.slots, reach = fmax(0, fmin((double)n.window, length - 1));
    double keys = pos ? 0 : (double)n.rows * reach - (double)n.slots * reach * (reach + 1) / 2;
    for (int64_t r = 0; pos && r < n.rows; r++)
        keys += (double)weft_min(pos[r], n.window);
    return keys;
}

/* ---- the formulas, for one query row and head at a time */

struct query {
    const struct weft_call *call;
    const struct attr *attr; /* the attributes of the op */
    struct sizes n;
    int64_t row, h, seq, i;
    bool rounds; /* round to bf16 the factors that multiply vectors */
};

static double ref_operand(const struct query *q, double x)
{
    return q->rounds ? weft_f32_from_bf16(weft_bf16_from_f32((float)x)) : x;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; d < n; d++)
        sum += a[d] * b[d];
    return sum;
}

static const double *ref_q(const struct query *q)
{
    return (const double *)q->call->in[Q]->data + (q->row * q->n.heads + q->h) * q->n.k;
}

/* Returns the offset of key j in k (`width` is that of k), in attention's v (`width` is that of v), or in their
 * gradients. */
static int64_t ref_key(const struct query *q, int64_t j, int64_t width)
{
    return (key_row(q->call, q->seq, j) * q->n.kv_heads + q->h / q->n.group) * width;
}

static const double *ref_k(const struct query *q, int64_t j)
{
    return (const double *)q->call->in[K]->data + ref_key(q, j, q->n.k);
}

static int64_t ref_key_bias(const struct query *q, int64_t j)
{
    return key_row(q->call, q->seq, j) * q->n.heads + q->h;
}

static double ref_scale(const struct query *q)
{
    const struct weft_tensor *scale = q->call->in[SCALE];
    return scale ? ((const double *)scale->data)[q->h] : 1 / sqrt((double)q->n.k);
}

static int64_t ref_offset(const struct query *q, int64_t j)
{
    return q->h * q->n.offsets + weft_min(q->i - j, q->n.offsets - 1);
}

/* Returns the offset of stored query j. */
static int64_t ref_stored(const struct query *q, int64_t j, int64_t width)
{
    return (query_row(q->call, q->seq, j) * q->n.heads + q->h) * width;
}

static const double *ref_own(const struct query *q)
{
    const struct weft_tensor *own = q->call->in[K_OWN];
    int64_t at = (q->row * q->n.own_heads + q->h / q->n.own_group) * q->n.own;
    return own ? (const double *)own->data + at : ref_k(q, q->i);
}

static bool ref_in_window(const struct query *q, int64_t j) { return j < q->i && q->i - j <= q->n.window; }

static double ref_alpha(const struct query *q) { return ((const struct geometry *)q->call->attr)->ra_alpha; }

static double ref_reciprocal(const struct query *q, int64_t j)
{
    const struct weft_call *call = q->call;
    const double *stored = (const double *)call->in[Q_STORE]->data + ref_stored(q, j, q->n.own);
    double x = ref_scale(q) * dot(stored, ref_own(q), q->n.own);
    if (call->in[Q_BIAS])
        x += ((const double *)call->in[Q_BIAS]->data)[ref_stored(q, j, 1)];
    if (call->in[KEY_BIAS])
        x += ((const double *)call->in[KEY_BIAS]->data)[ref_key_bias(q, q->i)];
    return ref_alpha(q) * x;
}

SHARED double ref_logit(const struct query *q, int64_t j)
{
    const struct weft_call *call = q->call;
    double x = ref_scale(q) * dot(ref_q(q), ref_k(q, j), q->n.k);
    if (call->in[KEY_BIAS])
        x += ((const double *)call->in[KEY_BIAS]->data)[ref_key_bias(q, j)];
    if (call->in[POS_BIAS])
        x += ((const double *)call->in[POS_BIAS]->data)[ref_offset(q, j)];
    return ref_in_window(q, j) ? x + ref_reciprocal(q, j) : x;
}

/* Adds factor times x to t, starting at element `at`, if the gradient is needed. */
static void ref_add(const struct weft_tensor *t, int64_t at, double factor, const double *x, int64_t n)
{
    for (int64_t d = 0; t && d < n; d++)
        ((double *)t->data)[at + d] += factor * x[d];
}

/* Adds the contribution of the reciprocal term to the gradients, from the gradient ds of one logit in its window. */
static void bwd_ref_reciprocal(const struct query *q, int64_t j, double ds)
{
    const struct weft_call *call = q->call;
    const double *stored = (const double *)call->in[Q_STORE]->data + ref_stored(q, j, q->n.k), one = 1;
    double d = ref_alpha(q) * ds, operand = ref_operand(q, ref_scale(q) * d);
    ref_add(call->gin[Q_STORE], ref_stored(q, j, q->n.k), operand, ref_k(q, q->i), q->n.k);
    ref_add(call->gin[K], ref_key(q, q->i, q->n.k), operand, stored, q->n.k);
    ref_add(call->gin[SCALE], q->h, d * dot(stored, ref_k(q, q->i), q->n.k), &one, 1);
    ref_add(call->gin[Q_BIAS], ref_stored(q, j, 1), d, &one, 1);
    ref_add(call->gin[KEY_BIAS], ref_key_bias(q, q->i), d, &one, 1);
}

/* Adds to the gradients of a logit's inputs, given the logit's gradient ds. */
SHARED void bwd_ref_logit(const struct query *q, int64_t j, double ds)
{
    const struct weft_call *call = q->call;
    double one = 1, operand = ref_operand(q, ref_scale(q) * ds);
    ref_add(call->gin[Q], (q->row * q->n.heads + q->h) * q->n.k, operand, ref_k(q, j), q->n.k);
    ref_add(call->gin[K], ref_key(q, j, q->n.k), operand, ref_q(q), q->n.k);
    ref_add(call->gin[SCALE], q->h, ds * dot(ref_q(q), ref_k(q, j), q->n.k), &one, 1);
    ref_add(call->gin[KEY_BIAS], ref_key_bias(q, j), ds, &one, 1);
    ref_add(call->gin[POS_BIAS], ref_offset(q, j), ds, &one, 1);
    if (ref_in_window(q, j))
        bwd_ref_reciprocal(q, j, ds);
}

/* Zeroes a gradient that the backward pass overwrites instead of adding to it. */
static void ref_clear(struct weft_tensor *t)
{
    if (t)
        memset(t->data, 0, (size_t)weft_tensor_count(t) * sizeof(double));
}

SHARED void bwd_ref_clear(const struct weft_call *call)
{
    static const int written[] = {Q, K, KEY_BIAS, Q_STORE, Q_BIAS};
    for (size_t w = 0; w < sizeof written / sizeof *written; w++)
        ref_clear(call->gin[written[w]]);
}

#endif
