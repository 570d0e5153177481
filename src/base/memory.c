/* SPDX-License-Identifier: MIT
 *
 * memory.c - measures the resident memory of the process and the available memory, on the machine and within the limits
 * of the control groups (cgroup v2) of a container or job. Results never depend on it.
 */
#include "base/base.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ---- files in /proc and /sys */

/* Parses a number of bytes; returns -1 if the text is not a number. */
static int64_t parse(const char *text)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    bool whole = end > text && (*end == '\0' || *end == '\n' || *end == ' ');
    return whole && !errno && n >= 0 ? n : -1;
}

/* Returns the number after the key, on the first line that starts with it; -1 if there is none. */
static int64_t read_number(const char *path, const char *key)
{
    FILE *f = fopen(path, "r");
    char line[128];
    size_t length = strlen(key);
    int64_t n = -1;
    while (f && n < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, key, length) == 0)
            n = parse(line + length);
    if (f)
        fclose(f);
    return n;
}

/* ---- control groups */

static int64_t group_number(const char *folder, const char *file, const char *key)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, file);
    return n < (int)sizeof path ? read_number(path, key) : -1;
}

/* Inactive file pages do not count, because the kernel drops them before an allocation fails. */
static int64_t group_available(const char *folder)
{
    int64_t limit = group_number(folder, "memory.max", ""); /* or "max" */
    int64_t used = group_number(folder, "memory.current", "");
    int64_t files = group_number(folder, "memory.stat", "inactive_file ");
    if (limit < 0 || used < 0)
        return INT64_MAX;
    used = weft_max(0, used - weft_max(0, files));
    return weft_max(0, limit - used);
}

int64_t weft_cgroup_available_bytes(const char *root, const char *group)
{
    char folder[PATH_MAX];
    if (snprintf(folder, sizeof folder, "%s%s", root, group) >= (int)sizeof folder)
        return INT64_MAX;
    int64_t least = group_available(folder);
    for (char *slash; (slash = strrchr(folder + strlen(root), '/'));) {
        *slash = '\0';
        least = weft_min(least, group_available(folder));
    }
    return least;
}

/* In /proc/self/cgroup, version 2 has the line "0::/path". */
static int64_t own_group_available(void)
{
    FILE *f = fopen("/proc/self/cgroup", "r");
    char line[PATH_MAX];
    int64_t bytes = INT64_MAX;
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0)
            bytes = weft_cgroup_available_bytes("/sys/fs/cgroup", line + 3);
    }
    if (f)
        fclose(f);
    return bytes;
}

int64_t weft_available_bytes(void)
{
    int64_t kib = read_number("/proc/meminfo", "MemAvailable:");
    return weft_min(kib < 0 ? INT64_MAX : kib * 1024, own_group_available());
}
