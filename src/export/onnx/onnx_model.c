/* SPDX-License-Identifier: MIT
 *
 * onnx_model.c - the graph of a model in an ONNX file: which tokens see which, embedding, blocks, logits.
 *
 *     input_ids [batch, length], attention_mask [batch, past + length], position_ids [batch, length],
 *     past_key_values.N.*  ->  logits [batch, length, V], present.N.*
 *
 * Distances are counted in visible tokens, so that padding on the left changes nothing. A token that is padding sees
 * itself alone: its row is a sequence of its own that nobody reads, and no softmax is over nothing.
 */
#include "export/onnx/onnx.h"
#include "nn/part.h"
#include "ops/types.h"

#include <math.h>
#include <string.h>

/* ---- inputs and what follows from them alone */

/* [batch, length] */
static struct weft_onnx_shape of_tokens(const char *columns)
{
    return (struct weft_onnx_shape){2, {{"batch", 0}, {columns, 0}}};
}

static const char *last_size(struct weft_onnx *g, const char *x)
{
    return weft_onnx_slice(g, OP(g, "Shape", x), INTS(g, 1), INTS(g, 2), 0);
}

/* The numbers from first to last - 1, both int64 [1]. */
static const char *range(struct weft_onnx *g, const char *first, const char *end)
{
    const char *axis = INTS(g, 0);
    return OP(g, "Range", OP(g, "Squeeze", first, axis), OP(g, "Squeeze", end, axis), weft_onnx_int(g, 1));
}

static void see(struct weft_onnx *g)
{
    const char *mask = OP_INT(g, "Cast", "to", WEFT_ONNX_BOOL, "attention_mask");
    g->mask = OP_INT(g, "Cast", "to", WEFT_ONNX_INT64, mask);
    g->rows = OP(g, "Shape", "input_ids");
    g->total = last_size(g, "attention_mask");
    g->past = OP(g, "Sub", g->total, last_size(g, "input_ids"));
    const char *rank = OP(g, "CumSum", g->mask, weft_onnx_int(g, 1)); /* visible tokens up to each column */
    g->own = weft_onnx_slice(g, rank, g->past, g->total, 1);
    g->behind = OP(g, "Sub", OP(g, "Unsqueeze", g->own, INTS(g, 1, 3)), OP(g, "Unsqueeze", rank, INTS(g, 1, 2)));
    const char *before = OP(g, "GreaterOrEqual", g->behind, weft_onnx_int(g, 0));
    const char *itself =
        OP(g, "Equal", OP(g, "Unsqueeze", range(g, g->past, g->total), INTS(g, 1)), range(g, INTS(g, 0), g->total));
    g->visible = OP(g, "Or", OP(g, "And", before, OP(g, "Unsqueeze", mask, INTS(g, 1, 2))), itself);
}

/* ---- positions */

/* Cosines or sines of the angles of all positions, [context, width / 2]. */
static void add_angles(struct weft_onnx *g, const char *name, double (*fn)(double))
{
    int64_t half = g->spec->rotated / 2, context = g->spec->context;
    const struct weft_rope_turns *turns = g->spec->part[WEFT_POS].options;
    size_t bytes = sizeof(float);
    weft_onnx_fail(g, weft_size_mul(bytes, (size_t)half, &bytes));
    weft_onnx_fail(g, weft_size_mul(bytes, (size_t)context, &bytes));
    float *table = g->status == WEFT_OK ? weft_arena_alloc(&g->arena, bytes) : NULL;
    if (!table) {
        weft_onnx_fail(g, WEFT_NOMEM);
        return;
    }
    for (int64_t i = 0; i < half; i++) {
        double frequency = weft_rope_frequency(turns, i, g->spec->rotated);
        for (int64_t t = 0; t < context; t++)
            table[t * half + i] = (float)fn((double)t * frequency);
    }
    weft_onnx_tensor(g, name, WEFT_ONNX_FLOAT, &(struct weft_onnx_shape){2, {{NULL, context}, {NULL, half}}}, table);
}

static const char *angles(struct weft_onnx *g, const char *name, double (*fn)(double))
{
    add_angles(g, name, fn);
    return OP(g, "Unsqueeze", OP(g, "Gather", name, "position_ids"), INTS(g, 1));
}

static const char *alibi(struct weft_onnx *g)
{
    int64_t H = g->spec->heads;
    float *slope = weft_arena_alloc(&g->arena, (size_t)H * sizeof *slope);
    for (int64_t h = 0; slope && h < H; h++)
        slope[h] = (float)-weft_alibi_slope(h, H);
    if (slope)
        weft_onnx_tensor(g, "alibi", WEFT_ONNX_FLOAT, &(struct weft_onnx_shape){3, {{NULL, H}, {NULL, 1}, {NULL, 1}}},
                         slope);
    else
        weft_onnx_fail(g, WEFT_NOMEM);
    return OP(g, "Mul", OP_INT(g, "Cast", "to", WEFT_ONNX_FLOAT, g->behind), "alibi");
}

static const char *embed(struct weft_onnx *g)
{
    const char *x = OP(g, "Gather", weft_onnx_weight(g, "wte"), "input_ids");
    if (weft_onnx_is(g, WEFT_POS, "learned"))
        x = OP(g, "Add", x, OP(g, "Gather", weft_onnx_weight(g, "wpe"), "position_ids"));
    if (weft_onnx_is(g, WEFT_POS, "rope")) {
        g->cosine = angles(g, "rope.cosine", cos);
        g->sine = angles(g, "rope.sine", sin);
    }
    if (weft_onnx_is(g, WEFT_POS, "alibi"))
        g->alibi = alibi(g);
    return weft_onnx_reshape(g, x, INTS(g, -1, g->spec->width));
}

/* ---- blocks */

static const char *norm(struct weft_onnx *g, const char *x)
{
    const char *gain = weft_onnx_weight(g, "gain");
    if (weft_onnx_is(g, WEFT_NORM, "rmsnorm"))
        return weft_onnx_rms(g, x, gain, weft_spec_norm_eps(g->spec, 1e-6));
    struct weft_onnx_attr eps = {"epsilon", WEFT_ATTR_FLOAT, weft_spec_norm_eps(g->spec, 1e-5), 0, {0}};
    return weft_onnx_op(g, "LayerNormalization", &eps, WEFT_NAMES(x, gain, weft_onnx_weight(g, "bias")));
}

static const char *gelu(struct weft_onnx *g, const char *x)
{
    const char *cube = OP(g, "Mul", OP(g, "Mul", x, x), x);
    const char *inner = OP(g, "Add", x, OP(g, "Mul", cube, weft_onnx_real(g, 0.044715)));
    const char *tanh = OP(g, "Tanh", OP(g, "Mul", inner, weft_onnx_real(g, 0.79788456080286535588)));
    return OP(g, "Mul", OP(g, "Mul", x, weft_onnx_real(g, 0.5)), OP(g, "Add", tanh, weft_onnx_real(g, 1)));
}

static const char *attention(struct weft_onnx *g, const char *x)
{
    return weft_onnx_linear(g, weft_onnx_attention(g, x), "wo");
}

static const char *feed_forward(struct weft_onnx *g, const char *x)
{
    bool plain = weft_onnx_is(g, WEFT_FFN, "gelu");
    const char *h;
    if (plain) {
        h = gelu(g, weft_onnx_linear(g, x, "fc"));
    } else {
        const char *gate = weft_onnx_linear(g, x, "w3");
        h = OP(g, "Mul", OP(g, "Mul", gate, OP(g, "Sigmoid", gate)), weft_onnx_linear(g, x, "w1"));
    }
    return weft_onnx_linear(g, weft_onnx_recip_hidden(g, h), plain ? "proj" : "w2");
}

static const struct {
    const char *name, *norm;
    const char *(*build)(struct weft_onnx *g, const char *x);
} halves[] = {{"attn", "norm1", attention}, {"ffn", "norm2", feed_forward}};

static const char *block(struct weft_onnx *g, const char *x)
{
    for (int i = 0; i < 2; i++) {
        const char *in = x;
        weft_onnx_scope(g, "blocks.%d.%s", g->layer, halves[i].norm);
        if (!g->spec->post)
            in = norm(g, x);
        weft_onnx_scope(g, "blocks.%d.%s", g->layer, halves[i].name);
        x = OP(g, "Add", x, halves[i].build(g, in));
        weft_onnx_scope(g, "blocks.%d.%s", g->layer, halves[i].norm);
        if (g->spec->post)
            x = norm(g, x);
    }
    return x;
}

void weft_onnx_build(struct weft_onnx *g)
{
    struct weft_onnx_shape logits = of_tokens("length");
    logits.dim[logits.ndim++].size = g->spec->vocab;
    weft_onnx_input(g, "input_ids", WEFT_ONNX_INT64, of_tokens("length"));
    weft_onnx_input(g, "attention_mask", WEFT_ONNX_INT64, of_tokens("total"));
    weft_onnx_input(g, "position_ids", WEFT_ONNX_INT64, of_tokens("length"));
    weft_onnx_output(g, "logits", WEFT_ONNX_FLOAT, logits);
    see(g);
    const char *x = embed(g);
    for (g->layer = 0; g->layer < g->spec->layers && g->status == WEFT_OK; g->layer++)
        x = block(g, x);
    weft_onnx_scope(g, "norm");
    if (!g->spec->post)
        x = norm(g, x);
    if (g->spec->wider != 1)
        x = OP(g, "Mul", x, weft_onnx_real(g, 1 / g->spec->wider));
    weft_onnx_scope(g, "%s", "");
    x = OP_INT(g, "Gemm", "transB", 1, x, weft_onnx_weight(g, g->spec->tie ? "wte" : "head"));
    const char *shape = CONCAT(g, 0, g->rows, INTS(g, g->spec->vocab));
    weft_onnx_node(g, "Reshape", NULL, WEFT_NAMES(x, shape), WEFT_NAMES("logits"));
}
