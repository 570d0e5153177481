/* SPDX-License-Identifier: MIT
 *
 * clock.c - time, resident memory of the process, free memory of the machine. None ever enters a result.
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

int64_t weft_free_bytes(void)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[128];
    long long kib = -1;
    while (f && kib < 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) != 1)
            kib = -1;
    if (f)
        fclose(f);
    return kib < 0 ? INT64_MAX : kib * 1024;
}
