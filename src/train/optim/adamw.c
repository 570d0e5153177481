/* SPDX-License-Identifier: MIT
 *
 * optim/adamw - Adam with decoupled decay (I. Loshchilov, F. Hutter, arXiv:1711.05101): see adam_inl.h.
 */
#include "train/optim/adam_inl.h"

static const struct weft_opt options[] = {ADAM_OPTIONS};

static void update(const void *opts, const struct weft_update *u, const struct weft_span *span)
{
    adam_update(opts, u, span, u->step, 1);
}

const struct weft_optim weft_optim_adamw = {
    .name = "adamw",
    .summary = "Adam with decoupled weight decay",
    .owner = WEFT_OWNER("optim=adamw", options),
    .options_bytes = sizeof(struct adam),
    .update = update,
};
