/* SPDX-License-Identifier: MIT
 *
 * clock.c - time and resident memory of the process. Neither ever enters a result.
 */
#include "base/base.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

double weft_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int64_t weft_resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f)
        return -1;
    long long total, resident;
    int got = fscanf(f, "%lld %lld", &total, &resident);
    fclose(f);
    return got == 2 ? resident * sysconf(_SC_PAGESIZE) : -1;
}
