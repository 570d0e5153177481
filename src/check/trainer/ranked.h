/* SPDX-License-Identifier: MIT
 *
 * ranked.h - steps of the trainer on several ranks.
 */
#ifndef WEFT_RANKED_H
#define WEFT_RANKED_H

#include "check/probe/gate.h"

enum weft_status weft_check_ranks(const struct weft_trial *t);
/* One step divided as the recipe has it. */
enum weft_status weft_check_ranks_division(const struct weft_trial *t);

#endif
