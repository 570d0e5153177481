/* SPDX-License-Identifier: MIT
 *
 * optim/adamw - Adam with decoupled decay (I. Loshchilov, F. Hutter, arXiv:1711.05101). With g the clipped gradient:
 *
 *     m = beta1 m + (1 - beta1) g             mhat = m / (1 - beta1^n)
 *     v = beta2 v + (1 - beta2) g^2           vhat = v / (1 - beta2^n)
 *     w = w - lr decay w - lr mhat / (sqrt(vhat) + eps)
 *
 * decay is 0 for vectors. Every operation here rounds by itself and none sums over elements, so the compiler may make
 * vectors of the loop as it likes: the bits stay.
 */
#include "train/train.h"

#include <math.h>
#include <stddef.h>

struct adamw {
    double beta1, beta2, eps, decay;
};

#define AT(field) offsetof(struct adamw, field)
static const struct weft_opt options[] = {
    {"beta1", WEFT_OPT_REAL, AT(beta1), "0.9", 0, 0.9999, .help = "memory of the gradient"},
    {"beta2", WEFT_OPT_REAL, AT(beta2), "0.95", 0, 0.99999, .help = "memory of the squared gradient"},
    {"eps", WEFT_OPT_REAL, AT(eps), "1e-8", 1e-30, 1, .help = "added to the root of the squared gradient"},
    {"decay", WEFT_OPT_REAL, AT(decay), "0.1", 0, 10, .help = "weight decay, of matrices"},
};

static void update(const void *opts, const struct weft_update *u, const struct weft_span *span)
{
    const struct adamw *o = opts;
    float *restrict w = u->weights + span->first, *restrict m = u->moments[0] + span->first;
    float *restrict v = u->moments[1] + span->first;
    const float *restrict grads = u->grads + span->first;
    float b1 = (float)o->beta1, b2 = (float)o->beta2, eps = (float)o->eps, lr = (float)u->lr, scale = u->grad_scale;
    float unbias1 = (float)(1 / (1 - pow(o->beta1, (double)u->step)));
    float unbias2 = (float)(1 / (1 - pow(o->beta2, (double)u->step)));
    float keep = (float)(span->decay ? 1 - u->lr * o->decay : 1);
    for (int64_t i = 0; i < span->count; i++) {
        float g = grads[i] * scale;
        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * (g * g);
        w[i] = w[i] * keep - lr * (m[i] * unbias1 / (sqrtf(v[i] * unbias2) + eps));
    }
}

const struct weft_optim weft_optim_adamw = {
    .name = "adamw",
    .summary = "Adam with decoupled weight decay",
    .owner = WEFT_OWNER("optim=adamw", options),
    .options_bytes = sizeof(struct adamw),
    .update = update,
};
