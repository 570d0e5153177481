/* SPDX-License-Identifier: MIT
 *
 * scores.h - scores computed plainly (scored.c), and the content that the log of a run must have (logged.c).
 */
#ifndef WEFT_SCORES_H
#define WEFT_SCORES_H

#include "check/trainer/rehearsal.h"

/* Sums over the recipe's held-out samples, starting at `first`. */
struct weft_plain_score {
    double loss;
    int64_t right, tokens, ties; /* ties: tokens whose two highest logits are nearly equal */
};
enum weft_status weft_score_plainly(const struct weft_rehearsal *s, uint64_t first, struct weft_plain_score *sum);
/* Return the error of a mean loss, relative to 1 + the plain loss, and the error of an accuracy that near ties do not
 * explain. */
double weft_score_loss_error(const struct weft_plain_score *plain, double loss);
double weft_score_accuracy_error(const struct weft_plain_score *plain, double accuracy);

/* The values of a step, computed by plain code. */
struct weft_expected {
    struct weft_losses losses;
    double lr, norm; /* norm of the gradient; NAN: not compared, because the optimiser limits the gradient first */
    int64_t tokens;  /* number of tokens read so far */
    bool scored, tested;
    struct weft_plain_score val, test;
};
/* Compares the log records of all steps with steps[0], steps[1] and so on; `what` names the run in the checks. */
enum weft_status weft_check_log(const struct weft_trial *t, const char *folder, const struct weft_expected *steps,
                                int count, const char *what);

#endif
