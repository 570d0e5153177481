/* SPDX-License-Identifier: MIT
 *
 * attn/latent - keys and values expanded from latents (MLA); only the latents are cached.
 *
 *     c_k = x Wdk,  c_v = x Wdv  [M, L]  (or one c for both)     k_h = c_k A_h     v_h = c_v B_h
 *
 * With rope, queries have R additional columns, and all heads share one rotated key of R columns (decoupled rope). If
 * the geometry has spreads, all heads share one key spread, s = softplus(x Ws) + 1e-4.
 *
 * Training and prefill expand keys and values from the latents. If keys are linear in their means, decoding absorbs the
 * expansion:
 *     <q_h, c A_h> = <q_h A_h^t, c>     sum_j P (c_j B_h) = (sum_j P c_j) B_h
 * so decoding is attention with one key head of width L + R + spread and values of width L. Only the new token's key is
 * expanded, and only if its norm is cached. Cache per token and layer: 2L (shared: L), R with rope, spread and H norms
 * if the geometry has them.
 */
#include "nn/build.h"
#include "ops/ops.h"

#include <math.h>
#include <stddef.h>

enum { USUAL_WIDTH = 32 };
enum { HEADS_OWN, HEADS_SHARED };
enum { SCALE_HEAD, SCALE_LATENT };

struct latent {
    int64_t width, rope;
    bool shared;
    int heads, scale;
};

static const char *const heads_names[] = {"own", "shared", NULL};
static const char *const scale_names[] = {"head", "latent", NULL};

static bool has_one_head(const void *model, const void *own) { return ((const struct weft_spec *)model)->heads == 1; }

static bool scales_alike(const void *model, const void *own)
{
    const struct weft_spec *spec = model;
    return spec->qk_width == spec->latent || weft_spec_geom(spec)->own_scale;
}

#define AT(field) offsetof(struct latent, field)
static const struct weft_opt options[] = {
    {"latent_width", WEFT_OPT_INT, AT(width), "32", 1, 1 << 20, .symbol = "RA_MLA_LATENT_DIM",
     .help = "L, width of the latents that keys and values are expanded from"},
    {"latent_shared", WEFT_OPT_BOOL, AT(shared), "no", .help = "one common latent for keys and values"},
    {"latent_heads", WEFT_OPT_CHOICE, AT(heads), "own", .choices = heads_names, .idle = has_one_head,
     .help = "keys and values expanded from the latents: one of each per head, or one of each for all heads"},
    {"latent_scale", WEFT_OPT_CHOICE, AT(scale), "head", .choices = scale_names, .idle = scales_alike,
     .help = "initial factor of the scores: 1/sqrt(width of k), or 1/sqrt(L)"},
    {"latent_rope", WEFT_OPT_INT, AT(rope), "0", 0, 1 << 16, .needs = "pos=rope",
     .help = "R, number of rotated columns in addition to the latent ones; 0: half the head width, rounded up to even"},
};

static enum weft_status resolve(struct weft_spec *spec, void *opts)
{
    const struct latent *o = opts;
    spec->latent = o->width;
    spec->kv_heads = o->heads == HEADS_OWN ? spec->heads : 1;
    spec->rotated = 0;
    if (weft_spec_pos(spec)->rotate)
        spec->rotated = o->rope ? o->rope : weft_round_up(weft_div_up(spec->head, 2), 2);
    spec->qk_width += spec->rotated;
    /* keys are as wide as a head in both cases, so under mup the divisor grows with the head's width */
    spec->scale_width = o->scale == SCALE_HEAD ? (double)spec->qk_width : (double)spec->latent * spec->head_wider;
    return WEFT_OK;
}

static void shrink(const struct weft_spec *spec, void *opts)
{
    struct latent *o = opts;
    o->width = 12;
    o->rope = o->rope ? 6 : 0;
}

static void params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    const struct latent *o = opts;
    int64_t H = spec->heads, K = spec->kv_heads;
    struct weft_fan C = weft_grows(spec, spec->width), L = weft_stays(spec, o->width, USUAL_WIDTH);
    double up = 1 / sqrt((double)L.size / L.wider); /* gives v the same variance as in multi-head attention */
    weft_params_linear(p, spec, "wq", H * spec->mean, C.size);
    weft_params_matrix(p, "wdk", L, C, WEFT_DEVIATION);
    if (!o->shared)
        weft_params_matrix(p, "wdv", L, C, WEFT_DEVIATION);
    weft_params_matrix(p, "wa", weft_grows(spec, K * spec->mean), L, up);
    weft_params_matrix(p, "wb", weft_grows(spec, K * spec->head), L, up);
    weft_params_units(p, "wb", "heads", NULL);
    if (spec->spread) {
        weft_params_linear(p, spec, "wq_spread", H * spec->spread, C.size);
        weft_params_matrix(p, "ws", weft_grows(spec, spec->spread), C, WEFT_DEVIATION);
    }
    if (spec->rotated) {
        weft_params_matrix(p, "wqr", weft_grows(spec, H * spec->rotated), C, WEFT_DEVIATION);
        weft_params_matrix(p, "wkr", weft_grows(spec, spec->rotated), C, WEFT_DEVIATION);
    }
}

/* The values that keys are computed from, for the new rows or for all rows of the cache. */
struct source {
    struct weft_value *c, *rotated, *spread;
};

static struct weft_qk_raw raw_key(const struct source *s, struct weft_value *mean, int64_t heads)
{
    return (struct weft_qk_raw){.side = WEFT_KEY,
                                .heads = heads,
                                .mean = mean,
                                .spread = s->spread,
                                .rotated = s->rotated,
                                .spread_heads = 1,
                                .rotated_heads = 1};
}

static struct weft_qk expand(struct weft_build *b, const struct source *s, bool norms)
{
    struct weft_qk_raw r = raw_key(s, weft_build_product(b, s->c, "wa"), b->spec->kv_heads);
    return weft_build_qk(b, &r, norms);
}

/* Returns x [M, H * from] times the transposed (or plain) blocks of a weight [K * rows, L], head by head. */
static struct weft_value *by_head(struct weft_build *b, struct weft_value *x, const char *name, int64_t rows,
                                  bool transposed)
{
    int64_t H = b->spec->heads, K = b->spec->kv_heads, L = b->spec->latent;
    int64_t from = transposed ? rows : L, to = transposed ? L : rows;
    struct weft_value *w = weft_build_weight(b, name);
    struct weft_dim M = weft_times(b->net->rows, 1), each = weft_times(b->net->rows, H);
    if (K > 1)
        w = weft_view(b->g, w, WEFT_SHAPE(weft_fixed(K), weft_fixed(rows), weft_fixed(L)));
    else
        x = weft_view(b->g, x, WEFT_SHAPE(each, weft_fixed(from)));
    struct weft_value *y = weft_linear(b->g, x, transposed ? weft_transpose(b->g, w) : w, NULL, NULL, b->spec->compute);
    return K > 1 ? y : weft_view(b->g, y, WEFT_SHAPE(M, weft_fixed(H * to)));
}

/* Projects the queries into the latent space instead of expanding the keys. */
static struct weft_value *absorb(struct weft_build *b, struct weft_attend *a, struct weft_qk_raw q,
                                 const struct source *all, struct weft_value *c_v)
{
    struct weft_qk_raw k = raw_key(all, all->c, 1);
    q.mean = by_head(b, q.mean, "wa", b->spec->mean, true);
    a->q = weft_build_qk(b, &q, false);
    a->k.vectors = weft_build_qk(b, &k, false).vectors;
    a->v = c_v;
    a->kv_heads = 1;
    return by_head(b, weft_build_attend(b, a), "wb", b->spec->head, false);
}

static struct weft_qk_raw queries(struct weft_build *b, struct weft_value *x)
{
    const struct weft_spec *spec = b->spec;
    struct weft_qk_raw q = {.side = WEFT_QUERY, .heads = spec->heads, .mean = weft_build_linear(b, x, "wq")};
    q.spread_heads = q.rotated_heads = q.heads;
    if (spec->spread)
        q.spread = weft_build_spread(b, weft_build_linear(b, x, "wq_spread"));
    if (spec->rotated)
        q.rotated = weft_build_rotate(b, weft_build_product(b, x, "wqr"), q.heads, WEFT_QUERY);
    return q;
}

static struct weft_value *build(struct weft_build *b, const void *opts, struct weft_value *x)
{
    const struct weft_spec *spec = b->spec;
    const struct latent *o = opts;
    const struct weft_geom *geom = weft_spec_geom(spec);
    bool absorbs = geom->linear && weft_build_decodes(b), both = weft_build_both_ways(b);
    struct weft_qk_raw q = queries(b, x);
    struct source fresh = {.c = weft_build_product(b, x, "wdk")};
    weft_build_latent(b, x, &fresh.c);
    if (spec->rotated)
        fresh.rotated = weft_build_rotate(b, weft_build_product(b, x, "wkr"), 1, WEFT_KEY);
    if (spec->spread)
        fresh.spread = weft_build_spread(b, weft_build_product(b, x, "ws"));
    struct source all = {weft_build_keep(b, "c_k", WEFT_PER_TOKEN, fresh.c),
                         weft_build_keep(b, "k_rotated", WEFT_PER_TOKEN, fresh.rotated),
                         weft_build_keep(b, "k_spread", WEFT_PER_TOKEN, fresh.spread)};
    struct weft_value *c_v =
        o->shared ? all.c : weft_build_keep(b, "c_v", WEFT_PER_TOKEN, weft_build_product(b, x, "wdv"));

    struct weft_attend a = {.q = weft_build_qk(b, &q, both), .kv_heads = spec->kv_heads};
    bool keeps_norms = weft_build_cached(b) && geom->normed && geom->linear;
    a.k = expand(b, &all, !keeps_norms);
    if (keeps_norms || absorbs) {
        struct weft_qk own = expand(b, &fresh, keeps_norms);
        a.k.norms = weft_build_keep(b, "k_norms", WEFT_PER_TOKEN, own.norms);
        a.back_k = absorbs && both ? own.vectors : NULL;
    }
    if (absorbs) {
        a.back_q = a.q;
        return absorb(b, &a, q, &all, c_v);
    }
    a.v = weft_build_product(b, c_v, "wb");
    return weft_build_attend(b, &a);
}

const struct weft_attn weft_attn_latent = {
    .part = {.kind = WEFT_ATTN,
             .name = "latent",
             .summary = "keys and values expanded from cached latents, absorbed when decoding",
             .owner = WEFT_OWNER("attn=latent", options),
             .options_bytes = sizeof(struct latent),
             .resolve = resolve,
             .shrink = shrink,
             .params = params},
    .build = build,
};
