/* SPDX-License-Identifier: MIT
 *
 * dropout.h - checks dropout in the graphs of a model.
 */
#ifndef WEFT_DROPOUT_H
#define WEFT_DROPOUT_H

#include "check/probe/gate.h"

/* Returns how far a count in n trials of probability q is from the expected one, in standard deviations. */
double weft_count_sigmas(int64_t count, int64_t n, double q);
/* Checks dropout in the graphs of a model. */
enum weft_status weft_check_dropout(const struct weft_trial *t, const struct weft_nn *model, double dropout,
                                    int64_t sequences, int64_t length, int runs);
/* Checks dropout of attention's probabilities at all positions. */
enum weft_status weft_check_dropout_scores(const struct weft_trial *t, enum weft_dtype compute, double dropout);

#endif
