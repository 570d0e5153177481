/* SPDX-License-Identifier: MIT
 *
 * effects.h - measures the effect of a switch on the loss of a model at its full context (effects.c).
 */
#ifndef WEFT_EFFECTS_H
#define WEFT_EFFECTS_H

#include "check/probe/gate.h"

enum { WEFT_NOISES = 65521 };

/* Root mean square of the change in cross-entropy per row, in nats: over all rows, and over those in the last quarter
 * of the context. */
struct weft_effect {
    double all, late;
};

struct weft_effects {
    struct weft_spec spec; /* f32 */
    struct weft_nn model;  /* the model with that spec and the learned weights */
    struct weft_net_size size;
    struct weft_losses_of {
        double *nll, limit; /* cross-entropy of each row without a switch (NULL: not run yet); smallest valid effect */
        const float *noise; /* noise added to the weights; NULL: none */
    } plain, shaken;
    double *nll; /* cross-entropy of each row in the last run */
    float noise[WEFT_NOISES];
};

/* Prepares measurements. The model must outlive them. Release them even after a failure. */
enum weft_status weft_effects_init(struct weft_effects *e, const struct weft_nn *learned, int64_t length);
void weft_effects_release(struct weft_effects *e);
/* Returns the first position of the last quarter. */
int64_t weft_effects_late(const struct weft_effects *e);
/* Measures the switch in this layer (-1: in all layers and outside them). The first call also runs the model with
 * nothing switched off. */
enum weft_status weft_effects_measure(struct weft_effects *e, const struct weft_switch *s, int layer,
                                      struct weft_effect *effect);

#endif
