/* SPDX-License-Identifier: MIT
 *
 * onnx_attention.c - attention in an ONNX file, with every geometry, representation of keys and positions.
 *
 *     score = a (<q_i, k_j> - norm(k_j) / 2) + p(i - j)
 *             + ra_alpha a (<q_j, k_i> - (norm(q_j) + norm(k_i)) / 2)     for 0 < i - j <= ra_window
 *
 * Norms are further columns, so that every score is one product: a [q, 1] with [k, -norm(k)/2]; and for the second
 * line, a [q, 1, -norm(q)/2] with [k, -norm(k)/2, 1].
 *
 * What is kept of a token: of attn=full, `key` as it is compared, and `value`. Of attn=latent, `key` is the latent with
 * what is rotated and the spread, for one head, and `value` the other latent, unless one serves both; with geom=w2
 * `norm`, half of the norm of each head's key, negative. Queries are projected into the latent space, and no key or
 * value is expanded but a new token's for its norm; except that geom=overlap, whose keys are not linear in the latent,
 * expands all keys and values in every call. Of reciprocal attention, `query` of the last tokens.
 */
#include "export/onnx/onnx.h"
#include "nn/build.h"

#include <math.h>

/* ---- queries and keys */

/* [batch, heads, tokens, width]; what all heads share has one head. */
struct raw {
    const char *mean, *spread;
    const char *rotated; /* NULL: positions rotate the mean itself */
    int64_t heads;
};
struct vectors {
    const char *x, *norms; /* norms [batch, heads, tokens, 1]; NULL: the geometry has none, or they are not needed */
};

static const char *positive(struct weft_onnx *g, const char *raw)
{
    return OP(g, "Add", OP(g, "Softplus", raw), weft_onnx_real(g, WEFT_SPREAD_LEAST));
}

/* Coordinates i and i + width/2 rotate together. */
static const char *rotate(struct weft_onnx *g, const char *x)
{
    static const struct weft_onnx_attr axis = {"axis", WEFT_ATTR_INT, 0, 1, {3}};
    if (!g->cosine)
        return x;
    const char *a = weft_onnx_name(g, "%s/half_%d", g->scope, g->values++);
    const char *b = weft_onnx_name(g, "%s/half_%d", g->scope, g->values++);
    weft_onnx_node(g, "Split", &axis, WEFT_NAMES(x), WEFT_NAMES(a, b));
    return CONCAT(g, 3, OP(g, "Sub", OP(g, "Mul", a, g->cosine), OP(g, "Mul", b, g->sine)),
                  OP(g, "Add", OP(g, "Mul", b, g->cosine), OP(g, "Mul", a, g->sine)));
}

/* For each of the heads what all of them share. */
static const char *expand(struct weft_onnx *g, const char *x, int64_t heads)
{
    return heads == 1 ? x : OP(g, "Expand", x, INTS(g, 1, heads, 1, 1));
}

static const char *sum(struct weft_onnx *g, const char *x) { return OP(g, "ReduceSum", x, INTS(g, 3)); }

static const char *turn(struct weft_onnx *g, const char *mean, const struct raw *r)
{
    return r->rotated ? CONCAT(g, 3, mean, expand(g, r->rotated, r->heads)) : rotate(g, mean);
}

/* As the geometry makes them; norms when asked for. */
static struct vectors place(struct weft_onnx *g, const struct raw *r, bool norms)
{
    struct vectors v = {0};
    if (weft_onnx_is(g, WEFT_GEOM, "dot")) {
        v.x = turn(g, r->mean, r);
    } else if (weft_onnx_is(g, WEFT_GEOM, "w2")) {
        v.x = CONCAT(g, 3, turn(g, r->mean, r), expand(g, r->spread, r->heads));
        v.norms = norms ? sum(g, OP(g, "Mul", v.x, v.x)) : NULL;
    } else {
        v.x = turn(g, OP(g, "Div", r->mean, OP(g, "Sqrt", r->spread)), r);
        if (norms)
            v.norms = OP(g, "Add", sum(g, OP(g, "Mul", v.x, v.x)), sum(g, OP(g, "Log", r->spread)));
    }
    return v;
}

static const char *half(struct weft_onnx *g, const char *norms) { return OP(g, "Mul", norms, weft_onnx_real(g, -0.5)); }

static const char *columns(struct weft_onnx *g, const char *x, int64_t first, int64_t count)
{
    return count ? weft_onnx_slice(g, x, INTS(g, first), INTS(g, first + count), 3) : NULL;
}

/* x with a column of ones. */
static const char *with_ones(struct weft_onnx *g, const char *x)
{
    return CONCAT(g, 3, x, OP(g, "Expand", weft_onnx_real(g, 1), OP(g, "Shape", columns(g, x, 0, 1))));
}

/* ---- scores and outputs */

/* What attention works on. */
struct attend {
    struct vectors q;
    const char *k, *v;       /* k with its norms, if it has any */
    const char *apart;       /* or else those, as half() makes them; NULL: none are */
    int64_t kv_heads, width; /* width of q */
};

/* The factor of the scores: a number, or [heads, 1, 1]. */
static const char *scale(struct weft_onnx *g)
{
    const struct weft_spec *s = g->spec;
    bool w2 = weft_onnx_is(g, WEFT_GEOM, "w2");
    double divisor = weft_spec_divisor(s);
    if (weft_onnx_is(g, WEFT_GEOM, "dot"))
        return weft_onnx_real(g, 1 / divisor);
    if (!weft_onnx_whole(g, "learn_tau"))
        return weft_onnx_real(g, w2 ? 2 / (2 * divisor + 1e-6) : 1 / s->head_wider);
    const char *tau = OP(g, "Exp", weft_onnx_reshape(g, weft_onnx_weight(g, "theta"), INTS(g, -1, 1, 1)));
    if (w2)
        tau = OP(g, "Add", tau, weft_onnx_real(g, 1e-6));
    return OP(g, "Div", weft_onnx_real(g, w2 ? 2 : 1), tau);
}

/* The last two axes changed. */
static const char *across(struct weft_onnx *g, const char *x)
{
    static const struct weft_onnx_attr perm = {"perm", WEFT_ATTR_INTS, 0, 4, {0, 1, 3, 2}};
    return weft_onnx_op(g, "Transpose", &perm, WEFT_NAMES(x));
}

/* x [batch, H, m, n] times y [batch, K, n, l]: rows whose heads share one of y stand below each other. */
static const char *product(struct weft_onnx *g, const char *x, const char *y, int64_t kv_heads)
{
    if (kv_heads == g->spec->heads)
        return OP(g, "MatMul", x, y);
    const char *z = OP(g, "MatMul", weft_onnx_reshape(g, x, INTS(g, 0, kv_heads, -1, 0)), y);
    return weft_onnx_reshape(g, z, INTS(g, 0, g->spec->heads, -1, 0));
}

/* What reciprocal attention adds. Queries are kept of the window alone; columns before it get 0. */
static const char *both_ways(struct weft_onnx *g, const struct attend *a, const char *factor)
{
    const char *q = a->q.x, *k = weft_onnx_slice(g, a->k, g->past, g->total, 2);
    int64_t width = a->width, window = g->spec->ra_window;
    if (a->q.norms) {
        q = CONCAT(g, 3, a->apart ? q : with_ones(g, q), half(g, a->q.norms));
        k = with_ones(g, k);
        width += a->apart ? 1 : 2;
    }
    q = weft_onnx_keep(g, "query", g->spec->heads, width, window, OP(g, "Mul", q, factor));
    const char *back = across(g, product(g, q, across(g, k), a->kv_heads));
    if (a->apart)
        back = OP(g, "Add", back, OP(g, "Mul", weft_onnx_slice(g, a->apart, g->past, g->total, 2), factor));
    const char *have = weft_onnx_slice(g, OP(g, "Shape", back), INTS(g, 3), INTS(g, 4), 0);
    const char *pads = CONCAT(g, 0, INTS(g, 0, 0, 0), OP(g, "Sub", g->total, have), INTS(g, 0, 0, 0, 0));
    back = OP(g, "Mul", OP(g, "Pad", back, pads), weft_onnx_real(g, g->spec->ra_alpha));
    const char *near = OP(g, "And", OP(g, "Greater", g->behind, weft_onnx_int(g, 0)),
                          OP(g, "LessOrEqual", g->behind, weft_onnx_int(g, window)));
    return OP(g, "Where", near, back, weft_onnx_real(g, 0));
}

/* p(i - j), [batch or 1, H, length, total]; NULL: none. */
static const char *distance_bias(struct weft_onnx *g)
{
    if (!weft_onnx_is(g, WEFT_POS, "relative"))
        return g->alibi;
    const char *table = weft_onnx_weight(g, "relative");
    int64_t last = g->model->params.list[weft_params_find(&g->model->params, table)].dim[1] - 1;
    const char *at = OP(g, "Min", OP(g, "Max", g->behind, weft_onnx_int(g, 0)), weft_onnx_int(g, last));
    /* [H, batch, 1, length, total] */
    const char *y = OP(g, "Squeeze", OP_INT(g, "Gather", "axis", 1, table, at), INTS(g, 2));
    static const struct weft_onnx_attr perm = {"perm", WEFT_ATTR_INTS, 0, 4, {1, 0, 2, 3}};
    return weft_onnx_op(g, "Transpose", &perm, WEFT_NAMES(y));
}

/* [batch, H, length, width of v] */
static const char *attend(struct weft_onnx *g, const struct attend *a)
{
    const char *factor = scale(g), *q = a->q.x, *bias = distance_bias(g);
    if (weft_spec_geom(g->spec)->normed && !a->apart)
        q = with_ones(g, q);
    const char *score = product(g, OP(g, "Mul", q, factor), across(g, a->k), a->kv_heads);
    if (a->apart)
        score = OP(g, "Add", score, OP(g, "Mul", across(g, a->apart), factor));
    if (bias)
        score = OP(g, "Add", score, bias);
    if (g->spec->ra_alpha != 0)
        score = OP(g, "Add", score, both_ways(g, a, factor));
    score = OP(g, "Where", g->visible, score, weft_onnx_real(g, -INFINITY));
    g->probabilities = OP_INT(g, "Softmax", "axis", -1, score);
    return product(g, g->probabilities, a->v, a->kv_heads);
}

/* ---- attn=full */

static const char *normalise(struct weft_onnx *g, const char *x, const char *gain)
{
    if (!weft_onnx_whole(g, "qk_norm"))
        return x;
    return weft_onnx_rms(g, x, weft_onnx_weight(g, gain), weft_spec_norm_eps(g->spec, 1e-6));
}

/* Keys with their norms, as they are kept. */
static const char *joined(struct weft_onnx *g, const struct vectors *k)
{
    return k->norms ? CONCAT(g, 3, k->x, half(g, k->norms)) : k->x;
}

static const char *full(struct weft_onnx *g, const char *x)
{
    const struct weft_spec *s = g->spec;
    int64_t H = s->heads, K = s->kv_heads;
    weft_onnx_recip_latent(g, x, NULL);
    struct raw q = {.heads = H}, k = {.heads = K};
    q.mean = normalise(g, weft_onnx_heads(g, weft_onnx_linear(g, x, "wq"), H), "q_gain");
    const char *mean = weft_onnx_recip_keys(g, weft_onnx_linear(g, x, "wk"), "wu");
    k.mean = normalise(g, weft_onnx_heads(g, mean, K), "k_gain");
    if (s->spread) {
        const char *spread = weft_onnx_recip_keys(g, weft_onnx_linear(g, x, "wk_spread"), "wu_spread");
        q.spread = positive(g, weft_onnx_heads(g, weft_onnx_linear(g, x, "wq_spread"), H));
        k.spread = positive(g, weft_onnx_heads(g, spread, K));
    }
    struct vectors keys = place(g, &k, true);
    struct attend a = {.q = place(g, &q, s->ra_alpha != 0), .kv_heads = K, .width = s->qk_width};
    a.k = weft_onnx_keep(g, "key", K, s->qk_width + (keys.norms != NULL), 0, joined(g, &keys));
    a.v = weft_onnx_keep(g, "value", K, s->head, 0, weft_onnx_heads(g, weft_onnx_linear(g, x, "wv"), K));
    return attend(g, &a);
}

/* ---- attn=latent */

/* Rows [K * width, L] as blocks [K, width, L], or [K, L, width]. */
static const char *blocks(struct weft_onnx *g, const char *name, int64_t width, bool turned)
{
    static const struct weft_onnx_attr perm = {"perm", WEFT_ATTR_INTS, 0, 3, {0, 2, 1}};
    const char *w = weft_onnx_reshape(g, weft_onnx_weight(g, name), INTS(g, g->spec->kv_heads, width, g->spec->latent));
    return turned ? weft_onnx_op(g, "Transpose", &perm, WEFT_NAMES(w)) : w;
}

static struct raw latent_queries(struct weft_onnx *g, const char *x)
{
    int64_t H = g->spec->heads;
    struct raw q = {.heads = H, .mean = weft_onnx_heads(g, weft_onnx_linear(g, x, "wq"), H)};
    if (g->spec->spread)
        q.spread = positive(g, weft_onnx_heads(g, weft_onnx_linear(g, x, "wq_spread"), H));
    if (g->spec->rotated)
        q.rotated = rotate(g, weft_onnx_heads(g, weft_onnx_linear(g, x, "wqr"), H));
    return q;
}

/* Side by side, where there are such: the latent or what was projected into its space, what is rotated, the spread. */
static const char *beside(struct weft_onnx *g, const char *c, const char *rotated, const char *spread)
{
    c = rotated ? CONCAT(g, 3, c, rotated) : c;
    return spread ? CONCAT(g, 3, c, spread) : c;
}

static const char *latent_key(struct weft_onnx *g, const char *x)
{
    const char *c = weft_onnx_recip_latent(g, x, weft_onnx_linear(g, x, "wdk")), *rotated = NULL, *spread = NULL;
    if (g->spec->rotated)
        rotated = rotate(g, weft_onnx_heads(g, weft_onnx_linear(g, x, "wkr"), 1));
    if (g->spec->spread)
        spread = positive(g, weft_onnx_heads(g, weft_onnx_linear(g, x, "ws"), 1));
    return beside(g, weft_onnx_heads(g, c, 1), rotated, spread);
}

/* The keys that are made of such rows. */
static struct vectors expanded(struct weft_onnx *g, const char *key)
{
    const struct weft_spec *s = g->spec;
    struct raw k = {.heads = s->kv_heads, .rotated = columns(g, key, s->latent, s->rotated)};
    k.mean = OP(g, "MatMul", columns(g, key, 0, s->latent), blocks(g, "wa", s->mean, true));
    k.spread = columns(g, key, s->latent + s->rotated, s->spread);
    return place(g, &k, true);
}

static const char *latent(struct weft_onnx *g, const char *x)
{
    const struct weft_spec *s = g->spec;
    const struct weft_geom *geom = weft_spec_geom(s);
    int64_t L = s->latent, wide = L + s->rotated + s->spread;
    struct raw q = latent_queries(g, x);
    struct attend a = {.kv_heads = s->kv_heads, .width = s->qk_width};
    const char *fresh = latent_key(g, x), *key = weft_onnx_keep(g, "key", 1, wide, 0, fresh);
    const char *value, *up = blocks(g, "wb", s->head, true);
    if (weft_onnx_whole(g, "latent_shared"))
        value = columns(g, key, 0, L);
    else
        value = weft_onnx_keep(g, "value", 1, L, 0, weft_onnx_heads(g, weft_onnx_linear(g, x, "wdv"), 1));
    if (!geom->linear) {
        struct vectors k = expanded(g, key);
        a.q = place(g, &q, s->ra_alpha != 0);
        a.k = joined(g, &k);
        a.v = OP(g, "MatMul", value, up);
        return attend(g, &a);
    }
    if (geom->normed)
        a.apart = weft_onnx_keep(g, "norm", s->kv_heads, 1, 0, half(g, expanded(g, fresh).norms));
    if (geom->normed && s->ra_alpha != 0)
        a.q.norms = place(g, &q, true).norms;
    a.q.x = beside(g, OP(g, "MatMul", q.mean, blocks(g, "wa", s->mean, false)), q.rotated, q.spread);
    a.k = key;
    a.v = value;
    a.kv_heads = 1;
    a.width = wide;
    return OP(g, "MatMul", attend(g, &a), up);
}

const char *weft_onnx_attention(struct weft_onnx *g, const char *x)
{
    const char *o = weft_onnx_is(g, WEFT_ATTN, "full") ? full(g, x) : latent(g, x);
    o = weft_onnx_recip_heads(g, weft_onnx_swap(g, o));
    o = weft_onnx_reshape(g, o, INTS(g, -1, g->spec->heads * g->spec->head));
    if (g->spec->output_gate)
        o = OP(g, "Mul", o, OP(g, "Sigmoid", weft_onnx_linear(g, x, "wg")));
    return o;
}
