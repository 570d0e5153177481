/* SPDX-License-Identifier: MIT
 *
 * recip/m1 - the feed-forward of a layer gates the heads of the next layer's attention, token by token:
 *
 *     g_t = sigmoid(W2 W1 m_t + bias) [H]     head output *= 1 - alpha + alpha g
 *
 * m is the hidden activation of the token, its mean over the tokens so far (of W1 m, so that the cache is G values per
 * sequence), or its mean over the whole sequence; this includes the future, so it must fail the gate causal. The last
 * layer has no next layer, so it has no weights. Parameters of a layer: F G + G H + H.
 */
#include "nn/build.h"
#include "ops/ops.h"

#include <stddef.h>

enum { USUAL_WIDTH = 64 };
enum { MODE_TOKEN, MODE_PREFIX, MODE_SEQUENCE };

struct m1 {
    double alpha;
    int mode;
    int64_t width;
};

/* The state that a layer passes to the next one. */
struct gate {
    struct weft_value *value; /* f32 [M, H] */
    struct weft_value *alpha;
};

static const char *const modes[] = {"token", "prefix", "sequence", NULL};

#define AT(field) offsetof(struct m1, field)
static const struct weft_opt options[] = {
    {"m1_alpha", WEFT_OPT_REAL, AT(alpha), "0.1", 0, 1, .off = "0",
     .help = "mixing weight of the gate in each head's factor"},
    {"m1_mode", WEFT_OPT_CHOICE, AT(mode), "token", .choices = modes,
     .help =
         "input of the gate: the token, the mean so far, or the mean of the whole sequence (which leaks the future)"},
    {"m1_width", WEFT_OPT_INT, AT(width), "64", 1, 1 << 16, .help = "G, width of the gate's hidden layer"},
};

static enum weft_status resolve(struct weft_spec *spec, void *opts)
{
    if (spec->layers < 2)
        return FAIL(WEFT_INVALID, "m1=yes gates the next layer, but layers=1: set layers to 2 or more");
    return WEFT_OK;
}

static void shrink(const struct weft_spec *spec, void *opts) { ((struct m1 *)opts)->width = 6; }

static bool is_last(const struct weft_spec *spec, int layer) { return layer == spec->layers - 1; }

static void params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    const struct m1 *o = opts;
    struct weft_fan G = weft_stays(spec, o->width, USUAL_WIDTH);
    if (is_last(spec, p->layer))
        return;
    weft_params_matrix(p, "w1", G, weft_grows(spec, spec->ffn_width), WEFT_DEVIATION);
    weft_params_units(p, "w1", "m1_width", NULL);
    p->rows_layer = p->layer + 1; /* the rows belong to the next layer's heads */
    weft_params_matrix(p, "w2", weft_grows(spec, spec->heads), G, WEFT_DEVIATION);
    weft_params_units(p, "w2", NULL, "m1_width");
    weft_params_vector(p, "bias", spec->heads, 2);
    p->rows_layer = p->layer;
    if (spec->learn_alpha)
        weft_params_vector(p, "alpha", 1, o->alpha);
}

static struct weft_value *reads(struct weft_build *b, struct weft_instance *m)
{
    return is_last(b->spec, b->layer) || b->spec->detach ? NULL : weft_build_weight(b, "w1");
}

static void hidden(struct weft_build *b, struct weft_instance *m, struct weft_hidden *h)
{
    const struct m1 *o = m->options;
    if (is_last(b->spec, b->layer))
        return;
    struct weft_value *x = b->spec->detach ? weft_build_product(b, weft_detach(b->g, weft_hidden_whole(b, h)), "w1")
                                           : weft_hidden_read(b, h, m);
    if (o->mode != MODE_TOKEN)
        x = weft_build_mean(b, "mean", x, o->mode == MODE_SEQUENCE);
    struct weft_value *w2 = weft_build_weight(b, "w2"), *bias = weft_build_weight(b, "bias");
    struct gate *next = m->state;
    next->value = weft_sigmoid(b->g, weft_linear(b->g, x, w2, bias, NULL, WEFT_F32));
    next->alpha = weft_build_alpha(b, o->alpha);
}

/* Applies the gate of the previous layer; layer 0 gets none. */
static struct weft_value *heads(struct weft_build *b, struct weft_instance *m, struct weft_value *o)
{
    struct gate *gate = m->state;
    if (!gate->value)
        return o;
    o = weft_gate_heads(b->g, o, gate->value, gate->alpha);
    weft_graph_mark_recompute(o);
    *gate = (struct gate){0};
    return o;
}

const struct weft_mechanism weft_recip_m1 = {
    .part = {.kind = WEFT_RECIP,
             .name = "m1",
             .summary = "heads of the next layer times 1 - alpha + alpha sigmoid(W2 W1 h + bias)",
             .owner = WEFT_OWNER("m1=yes", options),
             .options_bytes = sizeof(struct m1),
             .resolve = resolve,
             .shrink = shrink,
             .params = params},
    .hidden = hidden,
    .reads = reads,
    .heads = heads,
    .symbol = "RA_MLA_MLP_ATTN_GATE",
    .help = "M1: the feed-forward gates the heads of the next layer's attention",
    .state_bytes = sizeof(struct gate),
};
