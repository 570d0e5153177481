/* SPDX-License-Identifier: MIT
 *
 * trial.c - reports one check of a gate.
 */
#include "check/probe/gate.h"

#include <stdarg.h>
#include <stdio.h>

void weft_trial_report(const struct weft_trial *t, bool passed, double figure, double limit, const char *name,
                       const char *where, ...)
{
    struct weft_check check = {.gate = t->gate, .passed = passed, .figure = figure, .limit = limit};
    va_list args;
    va_start(args, where);
    snprintf(check.name, sizeof check.name, "%s", name);
    if (!passed)
        vsnprintf(check.where, sizeof check.where, where, args);
    va_end(args);
    t->report->checks++;
    t->report->failed += !passed;
    if (t->report->on_check)
        t->report->on_check(t->report->context, &check);
}
