/* SPDX-License-Identifier: MIT
 *
 * boundaries.c - finds the documents from which the windows of a stream are cut.
 *
 * Every document ends with the end-of-text token. Between two windows, it only matters whether there is such a token,
 * so the search runs backwards from the later window and reads little more of a long stream than the windows.
 */
#include "text/text.h"

#include <stdlib.h>

enum { BLOCK = 1024 };

struct place {
    int64_t first;  /* first token of the window */
    int64_t number; /* index in the caller's list */
};

static int by_first(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* Counts the tokens from..to-1 that are `end`. If `any` is true, searches backwards and returns only whether there is
 * one (1 or 0). */
static enum weft_status count(const struct weft_shards *s, int64_t from, int64_t to, int32_t end, bool any,
                              int64_t *found)
{
    int32_t block[BLOCK];
    *found = 0;
    for (int64_t n; to > from && !(any && *found); to -= n) {
        n = weft_min(BLOCK, to - from);
        TRY(weft_shards_read(s, to - n, n, block));
        for (int64_t i = 0; i < n; i++)
            *found += block[i] == end;
    }
    *found = any ? *found > 0 : *found;
    return WEFT_OK;
}

/* A window's targets are the `length` tokens after its first one. Each end-of-text token among them, except as the last
 * target, starts a further document. */
static enum weft_status number(const struct weft_shards *s, int64_t length, const struct place *place, int64_t windows,
                               int64_t *document, int64_t *documents)
{
    int32_t end = weft_shards_end(s);
    int64_t now = 0, known = 0; /* all ends before token `known` are counted */
    for (int64_t i = 0; i < windows; i++) {
        int64_t first = place[i].first, inside, between = 0;
        if (i > 0)
            TRY(count(s, known, first + 1, end, true, &between));
        TRY(count(s, first + 1, first + length, end, false, &inside));
        now += between;
        document[place[i].number] = now;
        now += inside;
        known = first + length;
    }
    *documents = windows ? now + 1 : 0;
    return WEFT_OK;
}

enum weft_status weft_shards_locate(const struct weft_shards *s, int64_t length, const int64_t *window, int64_t windows,
                                    int64_t *document, int64_t *documents)
{
    *documents = 0;
    if (weft_shards_end(s) < 0 || windows < 1)
        return WEFT_OK;
    struct place *place = calloc((size_t)windows, sizeof *place);
    if (!place)
        return FAIL(WEFT_NOMEM, "not enough memory to find the documents of %lld windows", (long long)windows);
    for (int64_t i = 0; i < windows; i++)
        place[i] = (struct place){window[i] * length, i};
    qsort(place, (size_t)windows, sizeof *place, by_first);
    enum weft_status status = number(s, length, place, windows, document, documents);
    free(place);
    return status;
}
