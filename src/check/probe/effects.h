/* SPDX-License-Identifier: MIT
 *
 * effects.h - the effect of a switch on the loss of a model at its full context (effects.c).
 */
#ifndef WEFT_EFFECTS_H
#define WEFT_EFFECTS_H

#include "check/probe/gate.h"

enum { WEFT_NOISES = 65521 };

/* The root mean square over rows of the difference of their cross-entropy, in nats: of all rows, and of those in the
 * last quarter of the context. */
struct weft_effect {
    double all, late;
};

struct weft_effects {
    struct weft_spec spec; /* f32 */
    struct weft_nn model;  /* of that spec, with the weights that were learned */
    struct weft_net_size size;
    struct weft_losses_of {
        double *nll,
            limit; /* of each row of the model as it is (NULL: not run yet), and the least effect that counts */
        const float *noise; /* on the weights; NULL: none */
    } plain, shaken;
    double *nll; /* of each row in the last run */
    float noise[WEFT_NOISES];
};

/* The model must outlive this; to be released even when it fails. */
enum weft_status weft_effects_init(struct weft_effects *e, const struct weft_nn *learned, int64_t length);
void weft_effects_release(struct weft_effects *e);
/* The first late position. */
int64_t weft_effects_late(const struct weft_effects *e);
/* Of the switch in this layer (-1: in all, and around them). The model as it is runs before the first. */
enum weft_status weft_effects_measure(struct weft_effects *e, const struct weft_switch *s, int layer,
                                      struct weft_effect *effect);

#endif
