/* SPDX-License-Identifier: MIT
 *
 * sums.h - sums the gradients and losses of a step in plain code.
 */
#ifndef WEFT_SUMS_H
#define WEFT_SUMS_H

#include "check/trainer/rehearsal.h"

struct weft_sums {
    struct weft_probe probe; /* one micro-batch */
    double *grads;           /* laid out like the model's */
    struct weft_losses losses;
};
/* Opens the probe. FAST uses the trainer's kernels, so choices between near ties are the same; REFERENCE is f64. Close
 * it even after a failure. */
enum weft_status weft_sums_open(struct weft_sums *s, const struct weft_rehearsal *re, enum weft_mode mode);
void weft_sums_close(struct weft_sums *s);
/* Computes gradient and losses of the trainer's next step. */
void weft_sums_run(struct weft_sums *s, const struct weft_rehearsal *re);
/* The parts of weft_sums_run: copy the weights and return the number of scored tokens of the step; write a micro-batch;
 * add its losses after it has run. */
int64_t weft_sums_begin(struct weft_sums *s, const struct weft_rehearsal *re);
void weft_sums_fill(struct weft_sums *s, const struct weft_rehearsal *re, int64_t micro_batch, double weight,
                    double share);
void weft_sums_add_losses(struct weft_sums *s, const struct weft_rehearsal *re, double weight, double share);
/* Checks bit by bit that the trainer summed its gradient in the defined order (sum_order.c). Leaves the losses of the
 * step in `s`. */
enum weft_status weft_check_sum_order(const struct weft_trial *t, struct weft_sums *s, const struct weft_rehearsal *re,
                                      const char *what);
/* Returns the largest error of a gradient that the trainer summed, relative to the largest element of its tensor, and
 * sets *at to the tensor. */
double weft_sums_error(const struct weft_sums *s, const struct weft_learner *trainer, int *at);
/* Returns the largest error of the losses and sets *at to the name of the loss. */
double weft_sums_loss_error(const struct weft_sums *s, const struct weft_losses *losses, const char **at);

#endif
