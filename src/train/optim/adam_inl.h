/* SPDX-License-Identifier: MIT
 *
 * adam_inl.h - the options and the update shared by optimisers based on Adam with decoupled weight decay.
 *
 *     m = beta1 m + (1 - beta1) g             mhat = m / (1 - beta1^n)
 *     v = beta2 v + (1 - beta2) g^2           vhat = v / (1 - beta2^n)
 *     w = w - lr decay w - share rate lr mhat / (sqrt(vhat) + eps)
 *
 * g is the clipped gradient; rate is the weight's learning rate factor (scaling=mup; else 1); decay is 0 for vectors
 * and for `relative`. Every operation rounds separately and none sums over elements, so vectorising the loop does not
 * change the results.
 */
#ifndef WEFT_ADAM_H
#define WEFT_ADAM_H

#include "train/tasks.h"

#include <math.h>
#include <stddef.h>

struct adam {
    double beta1, beta2, eps, decay;
};

#define ADAM(field) offsetof(struct adam, field)
/* Rows of an option table for an optimiser whose struct begins with struct adam. */
#define ADAM_OPTIONS                                                                                                   \
    {"beta1", WEFT_OPT_REAL, ADAM(beta1), "0.9", 0, 0.9999, .help = "decay rate of the first moment"},                 \
        {"beta2", WEFT_OPT_REAL, ADAM(beta2), "0.95", 0, 0.99999, .help = "decay rate of the second moment"},          \
        {"eps", WEFT_OPT_REAL, ADAM(eps), "1e-8", 1e-30, 1, .help = "epsilon added to the root of the second moment"}, \
        {"decay", WEFT_OPT_REAL, ADAM(decay), "0.1", 0, 10, .help = "weight decay of matrices"},

/* n: step number for the bias correction of the moments. */
static inline void adam_update(const struct adam *o, const struct weft_update *u, const struct weft_span *span,
                               int64_t n, double share)
{
    float *restrict w = u->weights + span->first, *restrict m = u->moments[0] + span->first;
    float *restrict v = u->moments[1] + span->first;
    const float *restrict grads = u->grads + span->first;
    float b1 = (float)o->beta1, b2 = (float)o->beta2, eps = (float)o->eps, scale = u->grad_scale;
    float rate = (float)(share * u->lr * span->rate), keep = (float)(span->decay ? 1 - u->lr * o->decay : 1);
    float unbias1 = (float)(1 / (1 - weft_pow(o->beta1, (double)n)));
    float unbias2 = (float)(1 / (1 - weft_pow(o->beta2, (double)n)));
    for (int64_t i = 0; i < span->count; i++) {
        float g = grads[i] * scale;
        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * (g * g);
        w[i] = w[i] * keep - rate * (m[i] * unbias1 / (sqrtf(v[i] * unbias2) + eps));
    }
}

#endif
