/* SPDX-License-Identifier: MIT
 *
 * layout.c - chooses the number of ranks per host and the number of threads per rank.
 *
 * The kernel's list of NUMA nodes is sufficient, so no library is needed. Binding is left to the launcher, which knows
 * the same nodes.
 */
#define _GNU_SOURCE
#include "launch/launch.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Counts the processors of a list such as "0-3,8" that this process may use. */
static int count_usable(const char *list, const cpu_set_t *usable)
{
    int count = 0;
    for (const char *at = list; *at >= '0' && *at <= '9';) {
        char *end;
        long first = strtol(at, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            count += CPU_ISSET(cpu, usable) != 0;
        at = *end == ',' ? end + 1 : end;
    }
    return count;
}

/* Counts the NUMA nodes, except for nodes without processors and nodes that this process may not use. */
static int count_nodes(const char *sys, const cpu_set_t *usable)
{
    int nodes = 0;
    for (int i = 0; i < 1024; i++) {
        char path[4200], list[4096];
        snprintf(path, sizeof path, "%s/node%d/cpulist", sys, i);
        FILE *f = fopen(path, "re");
        if (!f)
            continue; /* node numbers may have gaps */
        if (fgets(list, sizeof list, f))
            nodes += count_usable(list, usable) > 0;
        fclose(f);
    }
    return (int)weft_max(nodes, 1);
}

void weft_layout_make(struct weft_layout *l, int ranks, const struct weft_hosts *hosts, const char *sys)
{
    cpu_set_t usable;
    CPU_ZERO(&usable);
    *l = (struct weft_layout){.hosts = (int)weft_max(hosts->count, 1), .cores = 1, .nodes = 1};
    if (sched_getaffinity(0, sizeof usable, &usable) == 0) {
        l->cores = CPU_COUNT(&usable);
        l->nodes = count_nodes(sys, &usable);
    }
    l->ranks = ranks ? ranks : hosts->count ? hosts->slots : l->nodes;
    l->per_host = (int)weft_div_up(l->ranks, l->hosts);
    for (int i = 0; i < hosts->count; i++)
        l->per_host = (int)weft_max(l->per_host, weft_min(hosts->list[i].slots, l->ranks));
    l->threads = (int)weft_max(l->cores / l->per_host, 1);
    if (l->nodes > 1 && l->per_host % l->nodes == 0 && l->cores >= l->per_host)
        l->per_node = l->per_host / l->nodes;
}
