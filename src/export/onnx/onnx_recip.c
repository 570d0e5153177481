/* SPDX-License-Identifier: MIT
 *
 * onnx_recip.c - the mechanisms M1, M2 and M3 in an ONNX file.
 *
 * What is kept of a token: of M2 `u`. Of a sequence: of M1 with the mean over the tokens so far `sum`, [batch, G],
 * which begins with zeros. Padding counts in neither.
 */
#include "export/onnx/onnx.h"
#include "nn/part.h"

#include <float.h>
#include <string.h>

/* Enters the scope of a mechanism in this layer, and leaves it. */
struct scope {
    char text[sizeof((struct weft_onnx *)0)->scope];
};
static struct scope enter(struct weft_onnx *g, const char *name)
{
    struct scope before;
    memcpy(before.text, g->scope, sizeof before.text);
    weft_onnx_scope(g, "blocks.%d.%s", g->layer, name);
    return before;
}
static void leave(struct weft_onnx *g, const struct scope *before)
{
    memcpy(g->scope, before->text, sizeof before->text);
}

static bool is_last(const struct weft_onnx *g) { return g->layer == g->spec->layers - 1; }

static const char *add(struct weft_onnx *g, const char *h, const char *alpha, const char *x)
{
    return OP(g, "Add", h, OP(g, "Mul", x, alpha));
}

/* f32 [batch, length, 1]: how many tokens a mean is of; of padding 1, which nobody reads. */
static const char *count(struct weft_onnx *g)
{
    const char *least = OP(g, "Max", g->own, weft_onnx_int(g, 1));
    return OP(g, "Unsqueeze", OP_INT(g, "Cast", "to", WEFT_ONNX_FLOAT, least), INTS(g, 2));
}

/* ---- M3: the key latent and the hidden activation of the layer before */

const char *weft_onnx_recip_latent(struct weft_onnx *g, const char *x, const char *c)
{
    if (!weft_spec_uses(g->spec, "m3"))
        return c;
    struct scope before = enter(g, "m3");
    c = c ? c : weft_onnx_linear(g, x, "wc");
    if (g->context)
        c = OP(g, "Add", c, g->context);
    leave(g, &before);
    return g->latent = c;
}

const char *weft_onnx_recip_keys(struct weft_onnx *g, const char *k, const char *name)
{
    if (!g->context)
        return k;
    struct scope before = enter(g, "m3");
    k = OP(g, "Add", k, weft_onnx_linear(g, g->context, name));
    leave(g, &before);
    return k;
}

enum { UNTIED, TIED, SCALARS };

/* Tables of m3_tying=per_head_scalar. Hidden element f belongs to latent floor(f L / F), and that to a head: of each
 * element its latent, of each latent its head and one over its number of elements, and its elements, filled up with F.
 */
struct buckets {
    const char *of, *head, *share, *members;
};

static void fill_buckets(struct weft_onnx *g, const struct buckets *b, int64_t F, int64_t L, int64_t most)
{
    int64_t H = g->spec->heads, *of = weft_arena_alloc(&g->arena, (size_t)F * sizeof *of);
    int64_t *head = weft_arena_alloc(&g->arena, (size_t)L * sizeof *head);
    int64_t *members = weft_arena_alloc(&g->arena, (size_t)(L * most) * sizeof *members);
    float *share = weft_arena_alloc(&g->arena, (size_t)L * sizeof *share);
    if (!of || !head || !members || !share) {
        weft_onnx_fail(g, WEFT_NOMEM);
        return;
    }
    for (int64_t l = 0, h = 0; l < L; l++) {
        while ((h + 1) * L / H <= l)
            h++;
        head[l] = h;
        int64_t first = weft_div_up(l * F, L), end = weft_div_up((l + 1) * F, L);
        share[l] = 1 / (float)(end - first);
        for (int64_t i = 0; i < most; i++)
            members[l * most + i] = first + i < end ? first + i : F;
        for (int64_t f = first; f < end; f++)
            of[f] = l;
    }
    struct weft_onnx_shape wide = {1, {{NULL, F}}}, narrow = {1, {{NULL, L}}}, both = {2, {{NULL, L}, {NULL, most}}};
    weft_onnx_tensor(g, b->of, WEFT_ONNX_INT64, &wide, of);
    weft_onnx_tensor(g, b->head, WEFT_ONNX_INT64, &narrow, head);
    weft_onnx_tensor(g, b->share, WEFT_ONNX_FLOAT, &narrow, share);
    weft_onnx_tensor(g, b->members, WEFT_ONNX_INT64, &both, members);
}

static struct buckets buckets(struct weft_onnx *g, int64_t L)
{
    struct buckets b = {"m3.bucket", "m3.head", "m3.share", "m3.members"};
    if (!weft_onnx_has(g, b.of))
        fill_buckets(g, &b, g->spec->ffn_width, L, weft_div_up(g->spec->ffn_width, L));
    return b;
}

static const char *by_head(struct weft_onnx *g, const struct buckets *b, const char *c, const char *name)
{
    return OP(g, "Mul", c, OP(g, "Gather", weft_onnx_weight(g, name), b->head));
}

/* What the next layer's latent gets, of h before it was enriched. */
static const char *context(struct weft_onnx *g, const char *h, int64_t tying, const struct buckets *b)
{
    if (tying == UNTIED)
        return weft_onnx_linear(g, h, "w_back");
    if (tying == TIED) {
        const char *y = OP(g, "MatMul", h, weft_onnx_weight(g, "w"));
        return g->spec->wider == 1 ? y : OP(g, "Mul", y, weft_onnx_real(g, 1 / g->spec->wider));
    }
    const char *padded = OP(g, "Pad", h, INTS(g, 0, 0, 0, 1));
    const char *sums = OP(g, "ReduceSum", OP_INT(g, "Gather", "axis", 1, padded, b->members), INTS(g, 2));
    sums = OP(g, "Squeeze", sums, INTS(g, 2));
    return by_head(g, b, OP(g, "Mul", sums, b->share), "beta");
}

static const char *enrich(struct weft_onnx *g, const char *h)
{
    int64_t tying = weft_onnx_whole(g, "m3_tying");
    int64_t L = g->spec->latent ? g->spec->latent : weft_onnx_whole(g, "m3_width");
    struct buckets b = tying == SCALARS ? buckets(g, L) : (struct buckets){0};
    const char *alpha = weft_onnx_alpha(g, weft_onnx_number(g, "m3_alpha"));
    g->context = is_last(g) ? NULL : OP(g, "Mul", context(g, h, tying, &b), alpha);
    if (tying != SCALARS)
        return add(g, h, alpha, weft_onnx_linear(g, g->latent, "w"));
    return add(g, h, alpha, OP_INT(g, "Gather", "axis", 1, by_head(g, &b, g->latent, "gamma"), b.of));
}

/* ---- M2: what attention's weights gather from other tokens */

enum { TOPK, RMS };

/* The weights [batch, 1, length, total] that are chosen, 0 elsewhere. Those of columns that are not visible are 0, so
 * choosing them changes nothing. */
static const char *chosen(struct weft_onnx *g, const char *R)
{
    int64_t select = weft_onnx_whole(g, "m2_select");
    if (select == TOPK) { /* the operator prefers the smaller index, too */
        static const struct weft_onnx_attr axis = {"axis", WEFT_ATTR_INT, 0, 1, {3}};
        const char *best = weft_onnx_name(g, "%s/best_%d", g->scope, g->values++);
        const char *at = weft_onnx_name(g, "%s/at_%d", g->scope, g->values++);
        const char *k = OP(g, "Min", g->total, INTS(g, weft_onnx_whole(g, "m2_topk")));
        weft_onnx_node(g, "TopK", NULL, WEFT_NAMES(R, k), WEFT_NAMES(best, at));
        return weft_onnx_op(g, "ScatterElements", &axis, WEFT_NAMES(OP(g, "Sub", R, R), at, best));
    }
    if (select != RMS)
        return R;
    const char *square = OP(g, "ReduceSum", OP(g, "Mul", R, R), INTS(g, 3));
    const char *mean = OP(g, "Div", square, OP(g, "Unsqueeze", count(g), INTS(g, 1)));
    const char *least = OP(g, "Mul", OP(g, "Sqrt", mean), weft_onnx_real(g, weft_onnx_number(g, "m2_rms")));
    return OP(g, "Where", OP(g, "GreaterOrEqual", R, least), R, weft_onnx_real(g, 0));
}

static const char *gather(struct weft_onnx *g, const char *h)
{
    bool low = weft_onnx_weighs(g, "p");
    int64_t width = low ? weft_onnx_whole(g, "m2_rank") : g->spec->ffn_width;
    const char *u = weft_onnx_heads(g, low ? weft_onnx_linear(g, h, "p") : h, 1);
    const char *all = weft_onnx_keep(g, "u", 1, width, 0, u);
    const char *join = weft_onnx_whole(g, "m2_head_average") ? "ReduceMean" : "ReduceMax";
    const char *w = chosen(g, OP_AXES(g, join, 1, g->probabilities));
    if (weft_onnx_whole(g, "m2_renormalise")) {
        const char *z = OP(g, "ReduceSum", w, INTS(g, 3));
        w = OP(g, "Div", w, OP(g, "Max", z, weft_onnx_real(g, FLT_MIN))); /* if nothing is chosen, 0 stays 0 */
    }
    const char *y = weft_onnx_reshape(g, OP(g, "MatMul", w, all), INTS(g, -1, width));
    return add(g, h, weft_onnx_alpha(g, weft_onnx_number(g, "m2_alpha")), weft_onnx_linear(g, y, "q"));
}

/* ---- M1: the gate of the next layer's heads */

enum { MODE_PREFIX = 1 };

/* The mean of rows m over the tokens so far. */
static const char *prefix_mean(struct weft_onnx *g, const char *m)
{
    int64_t G = weft_onnx_whole(g, "m1_width");
    struct weft_onnx_shape shape = {2, {{"batch", 0}, {NULL, G}}};
    const char *past = weft_onnx_past(g, "sum"), *present = weft_onnx_present(g, "sum");
    weft_onnx_input(g, past, WEFT_ONNX_FLOAT, shape);
    weft_onnx_output(g, present, WEFT_ONNX_FLOAT, shape);
    const char *x = weft_onnx_reshape(g, m, CONCAT(g, 0, g->rows, INTS(g, -1)));
    const char *fresh = OP_INT(g, "Cast", "to", WEFT_ONNX_FLOAT, weft_onnx_slice(g, g->mask, g->past, g->total, 1));
    x = OP(g, "Mul", x, OP(g, "Unsqueeze", fresh, INTS(g, 2)));
    const char *sums = OP(g, "CumSum", x, weft_onnx_int(g, 1));
    sums = OP(g, "Add", sums, OP(g, "Unsqueeze", past, INTS(g, 1)));
    static const struct weft_onnx_attr axis = {"axis", WEFT_ATTR_INT, 0, 1, {1}};
    weft_onnx_node(g, "Gather", &axis, WEFT_NAMES(sums, weft_onnx_int(g, -1)), WEFT_NAMES(present));
    return weft_onnx_reshape(g, OP(g, "Div", sums, count(g)), INTS(g, -1, G));
}

static const char *gate(struct weft_onnx *g, const char *h)
{
    const char *m = weft_onnx_linear(g, h, "w1");
    if (weft_onnx_whole(g, "m1_mode") == MODE_PREFIX)
        m = prefix_mean(g, m);
    const char *raw = OP_INT(g, "Gemm", "transB", 1, m, weft_onnx_weight(g, "w2"), weft_onnx_weight(g, "bias"));
    const char *alpha = weft_onnx_alpha(g, weft_onnx_number(g, "m1_alpha"));
    const char *rest = OP(g, "Sub", weft_onnx_real(g, 1), alpha);
    return OP(g, "Add", OP(g, "Mul", OP(g, "Sigmoid", raw), alpha), rest);
}

const char *weft_onnx_recip_heads(struct weft_onnx *g, const char *o)
{
    if (!g->gate)
        return o;
    const char *shape = CONCAT(g, 0, g->rows, INTS(g, g->spec->heads, 1));
    o = OP(g, "Mul", o, weft_onnx_reshape(g, g->gate, shape));
    g->gate = NULL;
    return o;
}

/* ---- all of them, in the order in which they work */

const char *weft_onnx_recip_hidden(struct weft_onnx *g, const char *h)
{
    struct scope before = enter(g, "m3");
    if (weft_spec_uses(g->spec, "m3"))
        h = enrich(g, h);
    enter(g, "m2");
    if (weft_spec_uses(g->spec, "m2"))
        h = gather(g, h);
    enter(g, "m1");
    if (weft_spec_uses(g->spec, "m1") && !is_last(g))
        g->gate = gate(g, h);
    leave(g, &before);
    return h;
}
