/* SPDX-License-Identifier: MIT
 *
 * hosts.c - parses and prints the list of hosts of a job.
 */
#include "launch/launch.h"

#include <stdlib.h>
#include <string.h>

static enum weft_status parse_one(struct weft_host *h, const char *text, size_t n)
{
    char part[sizeof h->name + 16], *end = NULL;
    if (!n || n >= sizeof part)
        return FAIL(WEFT_INVALID, "--hosts: expected names separated by commas, such as a:2,b:2");
    memcpy(part, text, n);
    part[n] = 0;
    char *colon = strrchr(part, ':');
    h->slots = 1;
    if (colon) {
        *colon = 0;
        h->slots = (int)strtol(colon + 1, &end, 10);
    }
    if (!*part || strlen(part) >= sizeof h->name || (colon && (*end || h->slots < 1 || h->slots > 65536)))
        return FAIL(WEFT_INVALID, "--hosts: expected NAME or NAME:RANKS, not %.*s", (int)n, text);
    memcpy(h->name, part, strlen(part) + 1);
    return WEFT_OK;
}

enum weft_status weft_hosts_parse(struct weft_hosts *hosts, const char *text)
{
    *hosts = (struct weft_hosts){0};
    if (!text)
        return WEFT_OK;
    hosts->list = calloc(WEFT_MAX_HOSTS, sizeof *hosts->list);
    if (!hosts->list)
        return FAIL(WEFT_NOMEM, "not enough memory for a list of hosts");
    for (const char *at = text; at;) {
        const char *comma = strchr(at, ',');
        if (hosts->count == WEFT_MAX_HOSTS)
            return FAIL(WEFT_INVALID, "--hosts: more than %d hosts", WEFT_MAX_HOSTS);
        struct weft_host *h = &hosts->list[hosts->count++];
        TRY(parse_one(h, at, comma ? (size_t)(comma - at) : strlen(at)));
        hosts->slots += h->slots;
        at = comma ? comma + 1 : NULL;
    }
    return WEFT_OK;
}

void weft_hosts_release(struct weft_hosts *hosts)
{
    free(hosts->list);
    *hosts = (struct weft_hosts){0};
}

char *weft_hosts_print(const struct weft_hosts *hosts)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return NULL;
    for (int i = 0; i < hosts->count; i++)
        fprintf(to, "%s%s:%d", i ? "," : "", hosts->list[i].name, hosts->list[i].slots);
    if (fclose(to) == 0)
        return text;
    free(text);
    return NULL;
}

int weft_hosts_find(const struct weft_hosts *hosts, int rank)
{
    for (int i = 0; rank >= 0 && i < hosts->count; i++) {
        if (rank < hosts->list[i].slots)
            return i;
        rank -= hosts->list[i].slots;
    }
    return -1;
}

void weft_hosts_drop(struct weft_hosts *hosts, int host)
{
    hosts->slots -= hosts->list[host].slots;
    hosts->count--;
    memmove(&hosts->list[host], &hosts->list[host + 1], (size_t)(hosts->count - host) * sizeof *hosts->list);
}
