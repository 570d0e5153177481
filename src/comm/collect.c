/* SPDX-License-Identifier: MIT
 *
 * collect.c - implements the collective calls with messages between pairs of ranks.
 *
 * Small blocks are forwarded in rounds, and the number of blocks that a rank holds doubles in each round (J. Bruck et
 * al., IEEE TPDS 8(11), 1997), which takes log2 R messages. Large pieces travel around a ring: every byte is sent R - 1
 * times in total, the minimum.
 */
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

/* `all` starts with this rank's block, followed by the next rank's, and so on. */
static enum weft_status double_up(struct weft_comm *c, char *all, size_t bytes)
{
    for (int have = 1; have < c->size; have *= 2) {
        size_t more = (size_t)weft_min(have, c->size - have) * bytes;
        struct weft_message send = {(c->rank - have + c->size) % c->size, all, more};
        struct weft_message receive = {(c->rank + have) % c->size, all + (size_t)have * bytes, more};
        TRY(weft_comm_exchange(c, send, receive));
    }
    return WEFT_OK;
}

enum weft_status weft_comm_gather(struct weft_comm *c, void *blocks, size_t bytes)
{
    size_t before = (size_t)c->rank * bytes, behind = (size_t)(c->size - c->rank) * bytes;
    if (c->size == 1 || !bytes)
        return WEFT_OK;
    char *all = malloc((size_t)c->size * bytes);
    if (!all)
        return FAIL(WEFT_NOMEM, "not enough memory for the messages of %d ranks", c->size);
    memcpy(all, (char *)blocks + before, bytes);
    enum weft_status status = double_up(c, all, bytes);
    memcpy((char *)blocks + before, all, behind);
    memcpy(blocks, all + behind, before);
    free(all);
    return status;
}

enum weft_status weft_comm_spread(struct weft_comm *c, void *array, const int64_t *at)
{
    int next = (c->rank + 1) % c->size, last = (c->rank - 1 + c->size) % c->size;
    for (int round = 0; round + 1 < c->size; round++) {
        int mine = (c->rank - round + c->size) % c->size, theirs = (mine - 1 + c->size) % c->size;
        struct weft_message send = {next, (char *)array + at[mine], (size_t)(at[mine + 1] - at[mine])};
        struct weft_message receive = {last, (char *)array + at[theirs], (size_t)(at[theirs + 1] - at[theirs])};
        TRY(weft_comm_exchange(c, send, receive));
    }
    return WEFT_OK;
}

/* ---- agreeing */

/* Gathers one number from each rank. The caller frees the list, even after a failure. */
static enum weft_status gather_numbers(struct weft_comm *c, int64_t mine, int64_t **list)
{
    *list = calloc((size_t)c->size, sizeof **list);
    if (!*list)
        return FAIL(WEFT_NOMEM, "not enough memory for the messages of %d ranks", c->size);
    (*list)[c->rank] = mine;
    TRY(weft_comm_gather(c, *list, sizeof **list));
    return WEFT_OK;
}

enum weft_status weft_comm_any(struct weft_comm *c, bool mine, bool *any)
{
    int64_t *list;
    enum weft_status status = gather_numbers(c, mine, &list);
    *any = mine;
    for (int r = 0; status == WEFT_OK && r < c->size; r++)
        *any |= list[r] != 0;
    free(list);
    return status;
}

enum weft_status weft_comm_join(struct weft_comm *c, enum weft_status mine)
{
    int64_t *list;
    if (c->size == 1)
        return mine;
    char *said = mine == WEFT_OK ? NULL : strdup(weft_error());
    enum weft_status status = gather_numbers(c, mine, &list);
    c->other_failed = false;
    for (int r = 0; status == WEFT_OK && mine == WEFT_OK && r < c->size; r++)
        if ((c->other_failed = list[r] != WEFT_OK))
            status = FAIL((enum weft_status)list[r], "rank %d of %d failed: see its message", r, c->size);
    if (mine != WEFT_OK)
        status = FAIL(mine, "%s", said ? said : "");
    free(list);
    free(said);
    return status;
}

enum weft_status weft_comm_agree(struct weft_comm *c, const char *what, const char *text)
{
    if (c->size == 1)
        return WEFT_OK;
    char(*all)[64] = calloc((size_t)c->size, sizeof *all);
    if (!all)
        return FAIL(WEFT_NOMEM, "not enough memory for the messages of %d ranks", c->size);
    memcpy(all[c->rank], text, strnlen(text, sizeof *all));
    enum weft_status status = weft_comm_gather(c, all, sizeof *all);
    for (int r = 1; status == WEFT_OK && r < c->size; r++)
        if (memcmp(all[r], all[0], sizeof *all) != 0)
            status = FAIL(WEFT_INVALID, "rank %d of %d: its %s differs from rank 0's: %.16s..., not %.16s...", r,
                          c->size, what, all[r], all[0]);
    free(all);
    return status;
}
