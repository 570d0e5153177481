/* SPDX-License-Identifier: MIT
 *
 * network.c - measures the bandwidth between ranks and the overhead of a message, for the predictions of scale.h.
 *
 * All ranks simultaneously send to the next rank and receive from the previous one, as they do with gradients and
 * weights.
 */
#include "bench/bench.h"
#include "comm/comm.h"

#include <string.h>

enum { LARGE = 1 << 25, SMALL = 8, LEAST = 5, MOST = 200 };

/* Measures the median time of messages of `bytes` bytes, for at most `limit` seconds. All ranks send the same number of
 * messages. */
static enum weft_status time_messages(struct weft_comm *c, char *memory, size_t bytes, double limit, double *median,
                                      int *rounds)
{
    double times[MOST], start = weft_seconds();
    struct weft_message send = {(c->rank + 1) % c->size, memory, bytes};
    struct weft_message receive = {(c->rank + c->size - 1) % c->size, memory + LARGE, bytes};
    bool over = false;
    TRY(weft_comm_exchange(c, send, receive)); /* warm up */
    for (*rounds = 0; *rounds < LEAST || (*rounds < MOST && !over); ++*rounds) {
        double before = weft_seconds();
        TRY(weft_comm_exchange(c, send, receive));
        times[*rounds] = weft_seconds() - before;
        TRY(weft_comm_any(c, weft_seconds() - start > limit, &over));
    }
    *median = weft_median(times, *rounds);
    return WEFT_OK;
}

enum weft_status weft_bench_network(struct weft_comm *c, double seconds, struct weft_network_bench *b)
{
    double small = 0, large = 0;
    int rounds;
    char *memory = weft_pages_alloc(2 * (size_t)LARGE);
    if (!memory)
        return FAIL(WEFT_NOMEM, "not enough memory for messages");
    memset(memory, 1, 2 * (size_t)LARGE);
    enum weft_status status = time_messages(c, memory, SMALL, seconds / 2, &small, &rounds);
    if (status == WEFT_OK)
        status = time_messages(c, memory, LARGE, seconds / 2, &large, &b->rounds);
    weft_pages_free(memory, 2 * (size_t)LARGE);
    TRY(status);
    b->message_us = 1e6 * small;
    b->gb_per_s = 1e-9 * LARGE / (large - small);
    return WEFT_OK;
}
