/* SPDX-License-Identifier: MIT
 *
 * recip/surprise - how much a token's hidden activation differs from the mean so far:
 *
 *     d_t = P h_t - mean of P h_s over s <= t     h_t += alpha Q silu(d_t)
 *     head output of the next layer *= 1 - alpha + alpha sigmoid(W softplus(d_t) + bias)
 *
 * P maps F to r, Q maps r to F, W maps r to H; the last layer has no W. Cache: r values per sequence and layer.
 */
#include "nn/build.h"
#include "ops/ops.h"

#include <stddef.h>

enum { USUAL_RANK = 16 };

struct surprise {
    double alpha;
    int64_t rank;
};

struct gate {
    struct weft_value *value;
};

static const struct weft_opt options[] = {
    {"surprise_alpha", WEFT_OPT_REAL, offsetof(struct surprise, alpha), "0.5", 0, 1, .off = "0",
     .help = "mixing weight of the difference from the mean, and of the gate"},
    {"surprise_rank", WEFT_OPT_INT, offsetof(struct surprise, rank), "16", 1, 1 << 16,
     .help = "r, width of the compared vectors"},
};

static void shrink(const struct weft_spec *spec, void *opts) { ((struct surprise *)opts)->rank = 6; }

static bool is_last(const struct weft_spec *spec, int layer) { return layer == spec->layers - 1; }

static void params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    const struct surprise *o = opts;
    struct weft_fan F = weft_grows(spec, spec->ffn_width), r = weft_stays(spec, o->rank, USUAL_RANK);
    weft_params_matrix(p, "p", r, F, WEFT_DEVIATION);
    weft_params_matrix(p, "q", F, r, WEFT_DEVIATION);
    if (!is_last(spec, p->layer)) {
        weft_params_matrix(p, "w", weft_grows(spec, spec->heads), r, WEFT_DEVIATION);
        weft_params_vector(p, "bias", spec->heads, 0);
    }
}

static struct weft_value *reads(struct weft_build *b, struct weft_instance *m) { return weft_build_weight(b, "p"); }

static void hidden(struct weft_build *b, struct weft_instance *m, struct weft_hidden *h)
{
    const struct surprise *o = m->options;
    struct weft_value *x = weft_cast(b->g, weft_hidden_read(b, h, m), WEFT_F32);
    struct weft_value *mean = weft_cast(b->g, weft_build_mean(b, "mean", x, false), WEFT_F32);
    struct weft_value *d = weft_cast(b->g, weft_add(b->g, x, weft_scale(b->g, mean, -1)), b->spec->compute);
    weft_hidden_add(b, h, weft_silu(b->g, d), weft_build_alpha(b, o->alpha), "q");
    if (is_last(b->spec, b->layer))
        return;
    struct weft_value *w = weft_build_weight(b, "w"), *bias = weft_build_weight(b, "bias");
    struct gate *next = m->state;
    next->value = weft_sigmoid(b->g, weft_linear(b->g, weft_softplus(b->g, d, 0), w, bias, NULL, WEFT_F32));
}

/* Applies the gate of the previous layer; layer 0 gets none. */
static struct weft_value *heads(struct weft_build *b, struct weft_instance *m, struct weft_value *o)
{
    const struct surprise *opts = m->options;
    struct gate *gate = m->state;
    struct weft_value *value = gate->value;
    gate->value = NULL;
    return value ? weft_gate_heads(b->g, o, value, weft_build_alpha(b, opts->alpha)) : o;
}

const struct weft_mechanism weft_recip_surprise = {
    .part = {.kind = WEFT_RECIP,
             .name = "surprise",
             .summary = "h_t + alpha Q silu(P h_t - mean of P h_s), which also gates the heads of the next layer",
             .owner = WEFT_OWNER("surprise=yes", options),
             .options_bytes = sizeof(struct surprise),
             .shrink = shrink,
             .params = params},
    .help = "compare each token's hidden activation with the mean so far",
    .state_bytes = sizeof(struct gate),
    .hidden = hidden,
    .reads = reads,
    .heads = heads,
};
