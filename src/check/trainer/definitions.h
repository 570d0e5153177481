/* SPDX-License-Identifier: MIT
 *
 * definitions.h - a plain trainer: the learning rate and the updates as they are defined, one weight at a time, in
 * double. The trainer is compared with it, so it shares no arithmetic with it.
 */
#ifndef WEFT_PLAIN_H
#define WEFT_PLAIN_H

#include "train/recipe.h"

/* The value of a number or choice by its option's name; false: the owner has no such option. */
bool weft_plain_option(const struct weft_owner *owner, const void *options, const char *name, double *value);

/* Linear warm-up; then a cosine or a line to a tenth at the last step, or no change. Steps count from 1. */
double weft_plain_lr(const struct weft_recipe *r, int64_t step);

/* Matrices are decayed, except `relative` and what a part declares constant. */
bool weft_plain_decays(const struct weft_param *w);

/* The definition of an optimiser with its options. */
struct weft_plain {
    bool known; /* else it was registered from outside, and nothing else here is valid */
    bool spam;  /* adamwspam, else adamw */
    double beta1, beta2, eps, decay, theta;
    float memory1, memory2; /* beta1 and beta2 as they weigh the moments */
    int64_t interval, warmup;
};
void weft_plain_init(struct weft_plain *p, const struct weft_optim *optim, const void *options);

/* What one step of it has in common for all weights. Steps count from 1. */
struct weft_plain_step {
    const struct weft_plain *optim;
    double lr, share, correct1, correct2;
    bool limits, resets;
};
struct weft_plain_step weft_plain_begin(const struct weft_plain *p, int64_t step, double lr);

/* One weight and its moments. */
struct weft_plain_weight {
    double w, m, v;
};
/* The gradient that is left of g before the norm of all gradients is taken; v: the moment of the steps before. */
double weft_plain_limit(const struct weft_plain_step *s, double g, double v);
/* g: the clipped gradient of an element of w. Returns by how much the weight moved, apart from its decay. */
double weft_plain_update(const struct weft_plain_step *s, const struct weft_param *w, double g,
                         struct weft_plain_weight *x);

#endif
