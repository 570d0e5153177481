/* SPDX-License-Identifier: MIT
 *
 * ranked.h - checks steps of the trainer on several ranks.
 */
#ifndef WEFT_RANKED_H
#define WEFT_RANKED_H

#include "check/probe/gate.h"

enum weft_status weft_check_ranks(const struct weft_trial *t);
/* Checks one step with the recipe's own division into micro-batches and groups. */
enum weft_status weft_check_ranks_division(const struct weft_trial *t);

#endif
