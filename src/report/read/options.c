/* SPDX-License-Identifier: MIT
 *
 * options.c - looks up and compares the options in the arms' configs.
 */
#include "report/read/results.h"

#include <stdlib.h>
#include <string.h>

const char *weft_result_option(const struct weft_result_arm *arm, const char *name)
{
    for (int i = 0; i < arm->entry_count; i++)
        if (strcmp(arm->entry[i].name, name) == 0)
            return arm->entry[i].value;
    return NULL;
}

bool weft_results_differ(const struct weft_results *r, const char *option)
{
    const char *first = weft_result_option(&r->arm[0], option);
    for (int i = 1; i < r->arm_count; i++) {
        const char *value = weft_result_option(&r->arm[i], option);
        if (!first != !value || (first && strcmp(first, value) != 0))
            return true;
    }
    return false;
}

int64_t weft_result_steps(const struct weft_results *r, const struct weft_result_arm *arm)
{
    const char *own = weft_result_option(arm, "steps");
    return own ? strtoll(own, NULL, 10) : r->steps;
}

bool weft_option_is_per_run(const char *option) { return strcmp(option, "seed") == 0 || strcmp(option, "lr") == 0; }
