/* SPDX-License-Identifier: MIT
 *
 * parity.h - checks that a different program computes the same logits from an exported model.
 */
#ifndef WEFT_PARITY_H
#define WEFT_PARITY_H

#include "nn/net.h"

struct weft_parity {
    char program[64];  /* name and version of the program that ran; "": none */
    char missing[256]; /* the reason why no program ran */
    double difference; /* largest difference at clear tokens, relative to the largest logit if that is above 1 */
    int64_t tokens;    /* number of tokens */
    int64_t unclear;   /* number of tokens whose logits change by more than the limit when the weights are rounded
                          differently: M2 chooses between tokens, and a different program may choose differently */
    int64_t agree;     /* number of clear tokens whose logits are within the limit */
};

/* Runs the Python program that reads the format on an exported model, and compares the logits. $WEFT_PYTHON or python3
 * must have the packages that it needs. Changes the weights during the check, and restores them. */
enum weft_status weft_parity_check(struct weft_nn *model, const char *format, const char *path,
                                   struct weft_parity *parity);

#endif
