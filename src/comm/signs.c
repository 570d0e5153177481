/* SPDX-License-Identifier: MIT
 *
 * signs.c - sends and receives heartbeats between ranks, as UDP datagrams alongside MPI.
 *
 * MPI cannot carry them, because a computing rank makes no calls and a waiting one is inside a call. A rank does not
 * know which of its addresses another rank can reach, so heartbeats are sent to all of them; a rank drops those meant
 * for others.
 */
#define _GNU_SOURCE
#include "comm/watch.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* Exchanged once by all ranks, through MPI. */
enum { ADDRESSES = 7 };
struct place {
    uint64_t key;
    uint32_t address[ADDRESSES]; /* addresses of a rank, in network byte order, like the port; 0: none */
    uint16_t port, unused[5];
};

struct weft_signs {
    int socket; /* -1: none */
    int rank, size;
    uint64_t key;
    struct place *places;
};

static void list_addresses(struct place *p)
{
    struct ifaddrs *all = NULL;
    int n = 0;
    p->address[n++] = htonl(INADDR_LOOPBACK);
    if (getifaddrs(&all))
        return;
    for (const struct ifaddrs *i = all; i && n < ADDRESSES; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) &&
            !(i->ifa_flags & IFF_LOOPBACK))
            p->address[n++] = ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr.s_addr;
    freeifaddrs(all);
}

/* Opens a socket on any free port; returns -1 if there is none. */
static int open_socket(struct place *p)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
                 getsockname(fd, (struct sockaddr *)&at, &bytes) == 0;
    if (fd >= 0 && !bound)
        close(fd);
    if (!bound)
        return -1;
    p->port = at.sin_port;
    list_addresses(p);
    return fd;
}

enum weft_status weft_signs_open(struct weft_signs **signs, struct weft_comm *c)
{
    struct weft_signs *s = calloc(1, sizeof *s);
    struct place *places = calloc((size_t)c->size, sizeof *places);
    *signs = s;
    if (!s || !places) {
        free(places);
        free(s);
        *signs = NULL;
        return FAIL(WEFT_NOMEM, "not enough memory for the addresses of %d ranks", c->size);
    }
    *s = (struct weft_signs){.socket = open_socket(&places[c->rank]), .rank = c->rank, .size = c->size};
    s->places = places;
    if (getrandom(&places[c->rank].key, sizeof places->key, GRND_NONBLOCK) < 0)
        places[c->rank].key = (uint64_t)getpid();
    TRY(weft_comm_gather(c, places, sizeof *places));
    s->key = places[0].key;
    return WEFT_OK;
}

/* Ignores errors: datagrams may be lost anyway. */
static void send_to(const struct weft_signs *s, int rank, const struct weft_sign *sign)
{
    const struct place *p = &s->places[rank];
    struct weft_sign out = *sign;
    out.key = s->key;
    out.from = s->rank;
    out.to = rank;
    for (int i = 0; s->socket >= 0 && i < ADDRESSES && p->address[i]; i++) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = p->port, .sin_addr.s_addr = p->address[i]};
        (void)!sendto(s->socket, &out, sizeof out, MSG_NOSIGNAL, (struct sockaddr *)&at, sizeof at);
    }
}

void weft_signs_send(const struct weft_signs *s, const struct weft_sign *sign)
{
    for (int r = 0; r < s->size; r++)
        if (r != s->rank)
            send_to(s, r, sign);
}

void weft_signs_wake(const struct weft_signs *s)
{
    send_to(s, s->rank, &(struct weft_sign){.lost = WEFT_NOBODY, .waits_for = WEFT_NOBODY});
}

bool weft_signs_receive(const struct weft_signs *s, double seconds, struct weft_sign *sign)
{
    struct pollfd fd = {.fd = s->socket, .events = POLLIN};
    double end = weft_seconds() + seconds;
    for (;;) {
        ssize_t n = s->socket < 0 ? -1 : recv(s->socket, sign, sizeof *sign, 0);
        if (n == sizeof *sign && sign->key == s->key && sign->to == s->rank && sign->from >= 0 && sign->from < s->size)
            return true;
        double left = end - weft_seconds();
        if (n < 0 && left <= 0)
            return false;
        if (n < 0)
            poll(&fd, 1, (int)(1000 * left) + 1);
    }
}

void weft_signs_close(struct weft_signs *s)
{
    if (!s)
        return;
    if (s->socket >= 0)
        close(s->socket);
    free(s->places);
    free(s);
}
