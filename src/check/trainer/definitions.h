/* SPDX-License-Identifier: MIT
 *
 * definitions.h - a plain trainer: learning rate and updates written from their definitions, one weight at a time, in
 * double precision. The trainer is compared with it, so they share no arithmetic.
 */
#ifndef WEFT_PLAIN_H
#define WEFT_PLAIN_H

#include "train/recipe.h"

/* Reads a number or choice by its option's name. Returns false if the owner has no such option. */
bool weft_plain_option(const struct weft_owner *owner, const void *options, const char *name, double *value);

/* Returns the learning rate of a step, counted from 1: linear warm-up; then constant, or a cosine or linear decay to a
 * tenth at the last step. */
double weft_plain_lr(const struct weft_recipe *r, int64_t step);

/* Returns whether the weight is decayed: matrices are, except `relative` and matrices that a part declares constant. */
bool weft_plain_decays(const struct weft_param *w);

/* The definition of an optimiser with its options. */
struct weft_plain {
    bool known; /* false: registered from outside; the other members are not valid */
    bool spam;  /* true: adamwspam; false: adamw */
    double beta1, beta2, eps, decay, theta;
    float memory1, memory2; /* beta1 and beta2 rounded to f32, as the moments use them */
    int64_t interval, warmup;
};
void weft_plain_init(struct weft_plain *p, const struct weft_optim *optim, const void *options);

/* The values of one step that are the same for all weights. Steps count from 1. */
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
/* Returns the gradient g after the optimiser's own limit, before the norm of all gradients is computed; v: second
 * moment after the previous step. */
double weft_plain_limit(const struct weft_plain_step *s, double g, double v);
/* Updates an element of w with its clipped gradient g. Returns how far the weight moved, not counting its decay. */
double weft_plain_update(const struct weft_plain_step *s, const struct weft_param *w, double g,
                         struct weft_plain_weight *x);

#endif
