/* SPDX-License-Identifier: MIT
 *
 * geom/w2 - each token is a diagonal Gaussian (mu, sigma), and scores decrease with the squared Wasserstein-2 distance:
 *
 *     score = -(|mu_i - mu_j|^2 + |sigma_i - sigma_j|^2) / (tau_h + 1e-6)        tau_h = exp(theta_h)
 *
 * With k = [mu; sigma], this is a <q, k> - a/2 |k|^2 plus a term that depends only on the query, which cancels in the
 * softmax; a = 2 / (tau_h + 1e-6) is initially dot's 1/sqrt(width of k). |k|^2 is computed from the stored k. Positions
 * rotate mu. Parameters: dot's plus H; with spread=full, queries and keys are twice as wide. Cache: dot's plus K
 * values.
 */
#include "nn/geom/gaussian_inl.h"

#include <math.h>

static enum weft_status resolve(struct weft_spec *spec, void *opts)
{
    TRY(resolve_widths(spec, opts));
    spec->qk_width = spec->mean + spec->spread;
    return WEFT_OK;
}

static double start(const struct weft_spec *spec) { return weft_log(2 * weft_spec_divisor(spec)); }

static void params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    temperature_params(p, spec, opts, start(spec));
}

static struct weft_qk qk(struct weft_build *b, const void *opts, const struct weft_qk_raw *r, bool norms)
{
    struct weft_value *mean = r->rotated
                                  ? weft_join_heads(b->g, r->mean, r->heads, r->rotated, r->rotated_heads, r->heads)
                                  : weft_build_rotate(b, r->mean, r->heads, r->side);
    if (r->raw) {
        struct weft_value *x = weft_gaussian(b->g, mean, r->raw, r->heads, WEFT_SPREAD_LEAST);
        return (struct weft_qk){x, norms && x ? weft_sibling(x, 1) : NULL};
    }
    struct weft_value *x = weft_join_heads(b->g, mean, r->heads, r->spread, r->spread_heads, r->heads);
    return (struct weft_qk){x, norms ? weft_square_sum(b->g, x, r->heads) : NULL};
}

static struct weft_value *scale(struct weft_build *b, const void *opts)
{
    return temperature(b, opts, start(b->spec), 2, 1e-6);
}

const struct weft_geom weft_geom_w2 = {
    .part = {.kind = WEFT_GEOM,
             .name = "w2",
             .summary = "score = -W2(q, k)^2 / tau between diagonal Gaussians",
             .owner = WEFT_OWNER("geom=w2", options),
             .options_bytes = sizeof(struct gaussian),
             .resolve = resolve,
             .params = params},
    .qk = qk,
    .scale = scale,
    .linear = true,
    .normed = true,
    .metric = true,
};
