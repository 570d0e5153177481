/* SPDX-License-Identifier: MIT
 *
 * parity.h - whether another program computes the same logits with what was exported.
 */
#ifndef WEFT_PARITY_H
#define WEFT_PARITY_H

#include "nn/net.h"

struct weft_parity {
    char program[64];  /* that was run, with its version; "": none */
    char missing[256]; /* why none was */
    double difference; /* the largest at clear tokens, as a part of the largest logit if that is above 1 */
    int64_t tokens;    /* number of tokens */
    int64_t unclear;   /* those whose logits change by more than the limit when the weights are rounded differently:
                          M2 chooses between tokens, and its choice can fall otherwise in another program */
    int64_t agree;     /* clear tokens whose logits are within the limit */
};

/* Runs the program that reads the format on an exported model, and compares. The program is one of Python's:
 * $WEFT_PYTHON or python3 must have it. The weights are changed meanwhile, and then restored. */
enum weft_status weft_parity_check(struct weft_nn *model, const char *format, const char *path,
                                   struct weft_parity *parity);

#endif
