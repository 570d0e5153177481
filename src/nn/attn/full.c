/* SPDX-License-Identifier: MIT
 *
 * attn/full - keys and values cached directly: multi-head (K = H), grouped (K < H), multi-query (K = 1).
 *
 *     q = x Wq  [M, H * mean]     k = x Wk  [M, K * mean]     v = x Wv  [M, K D]
 *
 * The spreads of queries and keys are computed likewise if the geometry has them. With qk_norm, each head of q and k is
 * divided by its root mean square and multiplied by gains that all heads share. The cache holds K (width of k + D)
 * values per token and layer, and K more if the geometry has norms.
 */
#include "nn/build.h"
#include "ops/ops.h"

#include <stddef.h>
#include <string.h>

struct full {
    int64_t kv_heads;
    bool qkv_bias, qk_norm;
};

static const struct weft_opt options[] = {
    {"kv_heads", WEFT_OPT_INT, offsetof(struct full, kv_heads), "0", 0, 4096,
     .help = "K, number of key/value heads, each shared by H/K query heads; 0: H",
     .also = "n_kv_head n_kv_heads num_key_value_heads num_kv_heads"},
    {"qkv_bias", WEFT_OPT_BOOL, offsetof(struct full, qkv_bias), "no", .needs = "bias=no",
     .help = "biases for queries, keys and values only"},
    {"qk_norm", WEFT_OPT_BOOL, offsetof(struct full, qk_norm), "no", .needs = "geom=dot",
     .help = "RMS norm with learned gains for each head's query and key, before rotation"},
};

static enum weft_status resolve(struct weft_spec *spec, void *opts)
{
    const struct full *o = opts;
    spec->kv_heads = o->kv_heads ? o->kv_heads : spec->heads;
    if (spec->kv_heads > spec->heads || spec->heads % spec->kv_heads)
        return FAIL(WEFT_INVALID,
                    "kv_heads=%lld cannot be shared evenly by heads=%lld: heads must be a multiple of kv_heads",
                    (long long)spec->kv_heads, (long long)spec->heads);
    spec->rotated = spec->mean;
    spec->scale_width = (double)spec->qk_width;
    return WEFT_OK;
}

/* Keeps the kind of attention: multi-query, grouped or multi-head. */
static void shrink(const struct weft_spec *spec, void *opts)
{
    struct full *o = opts;
    if (spec->heads > 4 && o->kv_heads > 1)
        o->kv_heads = o->kv_heads < spec->heads ? 2 : 0;
}

static void params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    const struct full *o = opts;
    int64_t H = spec->heads, K = spec->kv_heads;
    bool bias = spec->bias || o->qkv_bias;
    weft_params_biased(p, spec, "wq", H * spec->mean, spec->width, bias);
    weft_params_biased(p, spec, "wk", K * spec->mean, spec->width, bias);
    if (spec->spread) {
        weft_params_biased(p, spec, "wq_spread", H * spec->spread, spec->width, bias);
        weft_params_biased(p, spec, "wk_spread", K * spec->spread, spec->width, bias);
    }
    weft_params_biased(p, spec, "wv", K * spec->head, spec->width, bias);
    weft_params_units(p, "wv", "heads", NULL);
    if (o->qk_norm) {
        weft_params_vector(p, "q_gain", spec->mean, 1);
        weft_params_vector(p, "k_gain", spec->mean, 1);
    }
}

/* Returns whether a weight has no gradient. A key bias b adds <q_i, b> to all scores of row i, which cancels in the
 * softmax unless something else reads the bias. */
static bool idle(const struct weft_spec *spec, const void *opts, const char *name)
{
    return strcmp(name, "wk_bias") == 0 && !((const struct full *)opts)->qk_norm && !weft_spec_geom(spec)->normed &&
           !weft_spec_pos(spec)->rotate && spec->ra_alpha == 0;
}

static struct weft_value *normalise(struct weft_build *b, const struct full *o, struct weft_value *x, const char *gain)
{
    if (!o->qk_norm)
        return x;
    return weft_rmsnorm(b->g, x, weft_build_weight(b, gain), weft_spec_norm_eps(b->spec, 1e-6), b->spec->compute);
}

static struct weft_value *build(struct weft_build *b, const void *opts, struct weft_value *x)
{
    const struct weft_spec *spec = b->spec;
    weft_build_latent(b, x, NULL);
    struct weft_qk_raw q = {.side = WEFT_QUERY, .heads = spec->heads}, k = {.side = WEFT_KEY, .heads = spec->kv_heads};
    q.mean = normalise(b, opts, weft_build_linear(b, x, "wq"), "q_gain");
    k.mean = normalise(b, opts, weft_build_keys(b, weft_build_linear(b, x, "wk"), "wu"), "k_gain");
    if (spec->spread) {
        q.raw = weft_build_linear(b, x, "wq_spread");
        k.raw = weft_build_keys(b, weft_build_linear(b, x, "wk_spread"), "wu_spread");
    }
    struct weft_attend a = {.kv_heads = spec->kv_heads};
    a.q = weft_build_qk(b, &q, weft_build_both_ways(b));
    a.k = weft_build_qk(b, &k, true);
    a.k.vectors = weft_build_keep(b, "k", WEFT_PER_TOKEN, a.k.vectors);
    a.k.norms = weft_build_keep(b, "k_norms", WEFT_PER_TOKEN, a.k.norms);
    a.v = weft_build_keep(b, "v", WEFT_PER_TOKEN, weft_build_linear(b, x, "wv"));
    return weft_build_attend(b, &a);
}

const struct weft_attn weft_attn_full = {
    .part = {.kind = WEFT_ATTN,
             .name = "full",
             .summary = "K <= H key/value heads, cached directly",
             .owner = WEFT_OWNER("attn=full", options),
             .options_bytes = sizeof(struct full),
             .resolve = resolve,
             .shrink = shrink,
             .params = params,
             .idle = idle},
    .build = build,
};
