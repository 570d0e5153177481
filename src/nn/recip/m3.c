/* SPDX-License-Identifier: MIT
 *
 * recip/m3 - the attention's key latent c enriches the feed-forward, and the feed-forward adds to the next layer's key
 * latent:
 *
 *     h_t += alpha W c_t        e_t = alpha W' h_t (h before it was enriched)        next layer: c_t += e_t
 *
 * Latent attention has such a c; otherwise c = x Wc is computed for this purpose, and U e is added to the next layer's
 * raw keys. tied_transpose: W' is W transposed. per_head_scalar: no matrices; c_l and the mean of h over bucket l are
 * coupled by one learned scalar per head and direction (ops/bucket_mean, ops/bucket_spread). Layer 0 receives nothing
 * and the last layer passes nothing on, so both lack the weights for this. All values are per token, so there is no
 * cache. Parameters of a layer: F L (tied), 2 F L (untied), 2 H (scalars).
 */
#include "nn/build.h"
#include "ops/ops.h"

#include <stddef.h>
#include <string.h>

enum { USUAL_WIDTH = 32 };
enum { UNTIED, TIED, SCALARS };

struct m3 {
    double alpha;
    int tying;
    int64_t width;
};

/* The state within a layer, which is also passed to the next layer. */
struct passed {
    struct weft_value *latent;  /* this layer's c */
    struct weft_value *context; /* W' h from the previous layer, [M, L]; NULL in layer 0 */
    struct weft_value *alpha;   /* the factor of `context` */
};

static const char *const tyings[] = {"untied", "tied_transpose", "per_head_scalar", NULL};

#define AT(field) offsetof(struct m3, field)
static const struct weft_opt options[] = {
    {"m3_alpha", WEFT_OPT_REAL, AT(alpha), "0.2", 0, 10, .off = "0", .help = "mixing weight in both directions"},
    {"m3_tying", WEFT_OPT_CHOICE, AT(tying), "tied_transpose", .choices = tyings, .symbol = "RA_MLA_MLP_TYING_MODE",
     .help = "weights of the two directions: two matrices, one and its transpose, or a scalar per head"},
    {"m3_width", WEFT_OPT_INT, AT(width), "32", 1, 1 << 16, .needs = "attn=full",
     .help = "width of the latent if the attention has none"},
};

static int64_t latent_width(const struct weft_spec *spec, const struct m3 *o)
{
    return spec->latent ? spec->latent : o->width;
}

static enum weft_status resolve(struct weft_spec *spec, void *opts)
{
    const struct m3 *o = opts;
    int64_t L = latent_width(spec, o);
    if (o->tying == SCALARS && (L < spec->heads || L > spec->ffn_width))
        return FAIL(
            WEFT_INVALID,
            "m3_tying=per_head_scalar needs heads <= latent width <= ffn_width, but these are %lld, %lld and %lld",
            (long long)spec->heads, (long long)L, (long long)spec->ffn_width);
    return WEFT_OK;
}

static void shrink(const struct weft_spec *spec, void *opts) { ((struct m3 *)opts)->width = 10; }

static bool passes_on(const struct weft_spec *spec, int layer) { return layer < spec->layers - 1; }

static void params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    const struct m3 *o = opts;
    struct weft_fan F = weft_grows(spec, spec->ffn_width), L = weft_stays(spec, latent_width(spec, o), USUAL_WIDTH);
    int64_t K = spec->kv_heads;
    if (o->tying == SCALARS) {
        weft_params_vector(p, "gamma", spec->heads, 1);
        if (passes_on(spec, p->layer))
            weft_params_vector(p, "beta", spec->heads, 1);
    } else
        weft_params_matrix(p, "w", F, L, WEFT_DEVIATION);
    if (o->tying == UNTIED && passes_on(spec, p->layer))
        weft_params_matrix(p, "w_back", L, F, WEFT_DEVIATION);
    if (spec->learn_alpha)
        weft_params_vector(p, "alpha", 1, o->alpha);
    if (spec->latent)
        return;
    weft_params_matrix(p, "wc", L, weft_grows(spec, spec->width), WEFT_DEVIATION);
    weft_params_units(p, "wc", "m3_width", NULL);
    if (o->tying != SCALARS)
        weft_params_units(p, "w", NULL, "m3_width");
    if (p->layer > 0)
        weft_params_matrix(p, "wu", weft_grows(spec, K * spec->mean), L, WEFT_DEVIATION);
    if (p->layer > 0 && spec->spread)
        weft_params_matrix(p, "wu_spread", weft_grows(spec, K * spec->spread), L, WEFT_DEVIATION);
}

/* Returns why units cannot be removed: scalars per head couple heads, channels and ranks by their indices. */
static const char *keeps_all(const struct weft_spec *spec, const void *opts, const char *unit)
{
    bool joined = strcmp(unit, "heads") == 0 || strcmp(unit, "ffn_width") == 0;
    if (((const struct m3 *)opts)->tying != SCALARS)
        return NULL;
    if (strcmp(unit, "m3_width") == 0)
        return "m3_tying=per_head_scalar has no ranks";
    return joined ? "m3_tying=per_head_scalar couples heads and channels by their indices: neither can be removed"
                  : NULL;
}

/* Returns whether a weight has no gradient: with `detach`, M3's own latent has none. */
static bool idle(const struct weft_spec *spec, const void *opts, const char *name)
{
    return strcmp(name, "wc") == 0 && spec->detach;
}

static void latent(struct weft_build *b, struct weft_instance *m, struct weft_value *x, struct weft_value **c)
{
    struct passed *s = m->state;
    s->latent = c ? *c : weft_build_product(b, x, "wc");
    if (s->context)
        s->latent = weft_mix(b->g, s->latent, s->context, s->alpha);
    if (c)
        *c = s->latent;
}

static struct weft_value *keys(struct weft_build *b, struct weft_instance *m, struct weft_value *k, const char *name)
{
    const struct passed *s = m->state;
    return s->context ? weft_mix(b->g, k, weft_build_product(b, s->context, name), s->alpha) : k;
}

static struct weft_value *reads(struct weft_build *b, struct weft_instance *m)
{
    const struct m3 *o = m->options;
    if (o->tying == SCALARS || !passes_on(b->spec, b->layer))
        return NULL;
    return o->tying == UNTIED ? weft_build_weight(b, "w_back") : weft_transpose(b->g, weft_build_weight(b, "w"));
}

static void hidden(struct weft_build *b, struct weft_instance *m, struct weft_hidden *h)
{
    const struct m3 *o = m->options;
    struct passed *s = m->state;
    if (!s->latent) /* attention is left out, to find the cause of a failure */
        return;
    struct weft_value *c = weft_build_detach(b, s->latent), *alpha = weft_build_alpha(b, o->alpha), *back = NULL;
    if (passes_on(b->spec, b->layer))
        back = o->tying == SCALARS
                   ? weft_bucket_mean(b->g, h->base, weft_build_weight(b, "beta"), latent_width(b->spec, o))
                   : weft_hidden_read(b, h, m);
    if (o->tying == TIED)
        back = weft_build_narrow(b, back);
    s->context = back;
    s->alpha = alpha;
    if (o->tying != SCALARS) {
        weft_hidden_add(b, h, c, alpha, "w");
        return;
    }
    struct weft_value *spread = weft_bucket_spread(b->g, c, weft_build_weight(b, "gamma"), b->spec->ffn_width);
    weft_graph_mark_recompute(spread);
    weft_hidden_change(b, h, weft_mix(b->g, h->base, spread, alpha));
}

const struct weft_mechanism weft_recip_m3 = {
    .part = {.kind = WEFT_RECIP,
             .name = "m3",
             .summary = "h + alpha W c, and the next layer's key latent c + alpha W' h",
             .owner = WEFT_OWNER("m3=yes", options),
             .options_bytes = sizeof(struct m3),
             .resolve = resolve,
             .shrink = shrink,
             .params = params,
             .idle = idle,
             .keeps_all = keeps_all},
    .hidden = hidden,
    .reads = reads,
    .symbol = "RA_MLA_MLP_LATENT_RECIP",
    .help = "M3: the key latent enriches the feed-forward, which adds to the next layer's key latent",
    .state_bytes = sizeof(struct passed),
    .latent = latent,
    .keys = keys,
};
