/* SPDX-License-Identifier: MIT
 *
 * geom/overlap - each token is a diagonal Gaussian, and scores are the logarithm of an overlap kernel:
 *
 *     mu~ = mu / sqrt(sigma)    score = -(|mu~_i - mu~_j|^2 + sum log sigma_i + sum log sigma_j) / (2 tau_h)
 *
 * which is a <q, k> - a/2 (|k|^2 + sum log sigma) with k = mu~ and a = 1 / tau_h; terms that depend only on the query
 * cancel. Positions rotate mu~. tau_h = exp(theta_h) is initially 1, which makes the softmax very peaked. A key is not
 * linear in its mean, so decoding expands the latents.
 */
#include "nn/geom/gaussian_inl.h"

static enum weft_status resolve(struct weft_spec *spec, void *opts)
{
    TRY(resolve_widths(spec, opts));
    spec->qk_width = spec->mean;
    return WEFT_OK;
}

/* Returns the initial ln(tau). Scores are sums over the width of a head, so under mup tau is proportional to that
 * width. */
static double start(const struct weft_spec *spec) { return weft_log(spec->head_wider); }

static void params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    temperature_params(p, spec, opts, start(spec));
}

static struct weft_qk qk(struct weft_build *b, const void *opts, const struct weft_qk_raw *r, bool norms)
{
    struct weft_value *x = r->raw ? weft_whiten(b->g, r->mean, weft_build_spread(b, r->raw), r->heads, r->heads)
                                  : weft_whiten(b->g, r->mean, r->spread, r->heads, r->spread_heads);
    struct weft_value *logs = x ? weft_sibling(x, 1) : NULL;
    x = r->rotated ? weft_join_heads(b->g, x, r->heads, r->rotated, r->rotated_heads, r->heads)
                   : weft_build_rotate(b, x, r->heads, r->side);
    return (struct weft_qk){x, norms ? weft_add(b->g, weft_square_sum(b->g, x, r->heads), logs) : NULL};
}

static struct weft_value *scale(struct weft_build *b, const void *opts)
{
    return temperature(b, opts, start(b->spec), 1, 0);
}

const struct weft_geom weft_geom_overlap = {
    .part = {.kind = WEFT_GEOM,
             .name = "overlap",
             .summary = "score = log of the overlap of two diagonal Gaussians / tau",
             .owner = WEFT_OWNER("geom=overlap", options),
             .options_bytes = sizeof(struct gaussian),
             .resolve = resolve,
             .params = params},
    .qk = qk,
    .scale = scale,
    .own_scale = true,
    .normed = true,
};
