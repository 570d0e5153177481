/* SPDX-License-Identifier: MIT
 *
 * attn/full - attention with K key/value heads kept as they are: multi-head (K = H), grouped (K < H), multi-query (K =
 * 1).
 *
 *     q = x Wq  [M, H D]     k = x Wk  [M, K D]     v = x Wv  [M, K D]     D = C/H
 *     y = residual + softmax(q k^t / sqrt(D), causal) v Wo
 *
 * Parameters: 2 C^2 + 2 C K D. Cache: 2 K D numbers per token and layer.
 */
#include "nn/nn.h"

#include <stddef.h>

struct full {
    int64_t kv_heads;
};

static const struct weft_opt options[] = {
    {"kv_heads", WEFT_OPT_INT, offsetof(struct full, kv_heads), "0", 0, 4096,
     .help = "K, key/value heads, each shared by H/K query heads; 0: as many as heads"},
};

static enum weft_status resolve(const struct weft_spec *spec, void *opts)
{
    struct full *o = opts;
    if (o->kv_heads == 0)
        o->kv_heads = spec->heads;
    if (o->kv_heads > spec->heads || spec->heads % o->kv_heads)
        return FAIL(WEFT_INVALID, "kv_heads=%lld cannot be shared evenly by heads=%lld: heads must be a multiple of it",
                    (long long)o->kv_heads, (long long)spec->heads);
    return WEFT_OK;
}

static void params(struct weft_params *p, const struct weft_spec *spec)
{
    const struct full *o = spec->options[WEFT_ATTN];
    int64_t kv = spec->width / spec->heads * o->kv_heads;
    weft_params_linear(p, spec, "wq", spec->width, spec->width);
    weft_params_linear(p, spec, "wk", kv, spec->width);
    weft_params_linear(p, spec, "wv", kv, spec->width);
    weft_params_project(p, spec, "wo", spec->width, spec->width);
}

static struct weft_value *build(struct weft_build *b, struct weft_value *x)
{
    const struct full *o = b->spec->options[WEFT_ATTN];
    struct weft_attention a = {.rows = b->rows,
                               .heads = b->spec->heads,
                               .kv_heads = o->kv_heads,
                               .dropout = b->dropout,
                               .layer = b->layer,
                               .site = WEFT_SITE_SCORES};
    a.q = weft_build_turn(b, weft_build_linear(b, x, "wq"), a.heads);
    a.k = weft_build_turn(b, weft_build_linear(b, x, "wk"), a.kv_heads);
    a.v = weft_build_linear(b, x, "wv");
    return weft_build_project(b, weft_attention(b->g, &a), "wo");
}

const struct weft_variant weft_attn_full = {
    .name = "full",
    .summary = "softmax(q k^t / sqrt(D)) v with K <= H key/value heads",
    .owner = WEFT_OWNER("attn=full", options),
    .options_bytes = sizeof(struct full),
    .resolve = resolve,
    .params = params,
    .build = build,
};
