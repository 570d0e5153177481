/* SPDX-License-Identifier: MIT
 *
 * comm.c - exchanges messages between two ranks.
 */
#include "comm/comm.h"

static struct weft_message cut(struct weft_message *m)
{
    struct weft_message piece = *m;
    piece.bytes = (size_t)weft_min((int64_t)m->bytes, WEFT_MESSAGE_BYTES);
    m->bytes -= piece.bytes;
    if (piece.bytes) /* otherwise `data` may be NULL */
        m->data = (char *)m->data + piece.bytes;
    return piece;
}

enum weft_status weft_comm_exchange(struct weft_comm *c, struct weft_message send, struct weft_message receive)
{
    double start = weft_seconds();
    const char *wrong = NULL;
    atomic_store(&c->waits_for, receive.bytes ? receive.rank : send.rank);
    atomic_store(&c->waits_since, start);
    while (!wrong && (send.bytes || receive.bytes)) {
        struct weft_message out = cut(&send), in = cut(&receive);
        wrong = c->backend.exchange(c->state, out, in);
        c->bytes_sent += (int64_t)out.bytes;
        c->messages += out.bytes > 0;
        atomic_fetch_add(&c->calls, 1);
    }
    atomic_store(&c->waits_since, 0);
    c->seconds += weft_seconds() - start;
    if (wrong)
        return FAIL(WEFT_IO, "rank %d of %d, %s: %s", c->rank, c->size, c->phase ? c->phase : "starting", wrong);
    return WEFT_OK;
}
