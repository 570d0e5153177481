/* SPDX-License-Identifier: MIT
 *
 * clock.c - elapsed time. Results never depend on it.
 */
#include "base/base.h"

#include <time.h>

double weft_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
