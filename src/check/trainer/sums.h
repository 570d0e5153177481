/* SPDX-License-Identifier: MIT
 *
 * sums.h - gradients and losses of a step, summed plainly.
 */
#ifndef WEFT_SUMS_H
#define WEFT_SUMS_H

#include "check/trainer/rehearsal.h"

struct weft_sums {
    struct weft_probe probe; /* one micro-batch */
    double *grads;           /* laid out as the model's */
    struct weft_losses losses;
};
/* In FAST the same kernels give the same choices between near ties; REFERENCE is f64. Closed even when this fails. */
enum weft_status weft_sums_open(struct weft_sums *s, const struct weft_rehearsal *re, enum weft_mode mode);
void weft_sums_close(struct weft_sums *s);
/* Gradient and losses of the trainer's next step. */
void weft_sums_run(struct weft_sums *s, const struct weft_rehearsal *re);
/* Its parts: takes the weights over and counts the scored tokens of the step; writes a micro-batch; and adds its losses
 * after it has run. */
int64_t weft_sums_begin(struct weft_sums *s, const struct weft_rehearsal *re);
void weft_sums_fill(struct weft_sums *s, const struct weft_rehearsal *re, int64_t micro_batch, double weight,
                    double share);
void weft_sums_add_losses(struct weft_sums *s, const struct weft_rehearsal *re, double weight, double share);
/* Checks bit by bit that the trainer summed its gradient in the order that is defined (sum_order.c). The losses of the
 * step are in `s` afterwards. */
enum weft_status weft_check_sum_order(const struct weft_trial *t, struct weft_sums *s, const struct weft_rehearsal *re,
                                      const char *what);
/* The largest error of a gradient that the trainer summed, relative to its tensor's largest element, and which
 * tensor. */
double weft_sums_error(const struct weft_sums *s, const struct weft_learner *trainer, int *at);
/* The same of the losses. */
double weft_sums_loss_error(const struct weft_sums *s, const struct weft_losses *losses, const char **at);

#endif
