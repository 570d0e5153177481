/* SPDX-License-Identifier: MIT
 *
 * scores.h - scores computed plainly (scored.c), and what the log of a run must hold (logged.c).
 */
#ifndef WEFT_SCORES_H
#define WEFT_SCORES_H

#include "check/trainer/rehearsal.h"

/* Sums over the recipe's held-out samples from `first` on. */
struct weft_plain_score {
    double loss;
    int64_t right, tokens, ties; /* ties: tokens whose best logit is not clearly the best */
};
enum weft_status weft_score_plainly(const struct weft_rehearsal *s, uint64_t first, struct weft_plain_score *sum);
/* How far a mean loss is off, relative to 1 + the plain one; and an accuracy, beyond what near ties allow. */
double weft_score_loss_error(const struct weft_plain_score *plain, double loss);
double weft_score_accuracy_error(const struct weft_plain_score *plain, double accuracy);

/* What plain code says about a step. */
struct weft_expected {
    struct weft_losses losses;
    double lr, norm; /* norm: of the gradient; NAN: an optimiser that limits it first has another */
    int64_t tokens;  /* read so far */
    bool scored, tested;
    struct weft_plain_score val, test;
};
/* Compares the records of all steps, the first in steps[0]; `what` says which run it was. */
enum weft_status weft_check_log(const struct weft_trial *t, const char *folder, const struct weft_expected *steps,
                                int count, const char *what);

#endif
