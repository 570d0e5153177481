/* SPDX-License-Identifier: MIT
 *
 * bpe.c - merges the bytes of a piece: the pair of lowest rank first, of equal ones the leftmost, until no pair of
 * neighbours has a rank.
 *
 * Words are short, and a plain search for the lowest rank is fastest. A piece may also be a megabyte of one letter.
 * Then tokens are a linked list, and every pair waits in a list of its rank; a heap tells the lowest rank that has any.
 * The pairs of a rank are merged in one go from left to right, so the heap is asked once per rank and not once per
 * pair. A merge makes no pair of its own rank, since what it made is longer than both its parts. It may make pairs of
 * lower rank where a token can be made in several ways: these go first, and the rest of the rank waits again.
 */
#include "text/bpe.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT = 64, NONE = INT_MAX };

static int32_t rank_of(const struct weft_tokenizer *t, int32_t left, int32_t right)
{
    int32_t rank = weft_map_get(&t->rank, weft_pair_key(left, right));
    return rank < 0 ? NONE : rank;
}

/* ---- short pieces */

static size_t merge_short(const struct weft_tokenizer *t, const char *piece, size_t size, int32_t *tokens)
{
    int32_t rank[SHORT];
    for (size_t i = 0; i < size; i++)
        tokens[i] = t->byte[(unsigned char)piece[i]];
    for (size_t i = 0; i + 1 < size; i++)
        rank[i] = rank_of(t, tokens[i], tokens[i + 1]);
    while (size > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < size; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == NONE)
            break;
        tokens[best] = t->merge[rank[best]].made;
        size--;
        memmove(tokens + best + 1, tokens + best + 2, (size - best - 1) * sizeof *tokens);
        memmove(rank + best, rank + best + 1, (size - best) * sizeof *rank);
        if (best + 1 < size)
            rank[best] = rank_of(t, tokens[best], tokens[best + 1]);
        if (best > 0)
            rank[best - 1] = rank_of(t, tokens[best - 1], tokens[best]);
    }
    return size;
}

/* ---- long pieces */

/* Nodes are named by the place of their first byte. A pair is named by its left node. */
struct list {
    const struct weft_tokenizer *t;
    int32_t *token, *prev, *next, *rank; /* of each node; the rank of its pair: NONE when it has none or is gone */
    int32_t *batch;                      /* the pairs of the rank that is being merged */
    int32_t *waiting, *behind;           /* entries: a node, and the next entry of the same rank, -1 at the end */
    int32_t entries;
    int32_t *first; /* of each rank: its newest entry, -1 */
    int32_t *heap, heap_count;
};
enum { NUMBERS_PER_BYTE = 5 + 2 * 3 }; /* every byte begins a pair, and every merge makes two more at most */

static void heap_push(struct list *l, int32_t rank)
{
    int32_t i = l->heap_count++;
    for (; i > 0 && l->heap[(i - 1) / 2] > rank; i = (i - 1) / 2)
        l->heap[i] = l->heap[(i - 1) / 2];
    l->heap[i] = rank;
}

static int32_t heap_pop(struct list *l)
{
    int32_t top = l->heap[0], last = l->heap[--l->heap_count], i = 0;
    for (int32_t child; (child = 2 * i + 1) < l->heap_count; i = child) {
        if (child + 1 < l->heap_count && l->heap[child + 1] < l->heap[child])
            child++;
        if (l->heap[child] >= last)
            break;
        l->heap[i] = l->heap[child];
    }
    l->heap[i] = last;
    return top;
}

static void wait_in_list(struct list *l, int32_t node, int32_t rank)
{
    if (l->first[rank] < 0)
        heap_push(l, rank);
    l->waiting[l->entries] = node;
    l->behind[l->entries] = l->first[rank];
    l->first[rank] = l->entries++;
}

/* The node's token or its neighbour's is new: what it waited for before no longer counts. */
static void pair_up(struct list *l, int32_t node)
{
    int32_t next = l->next[node];
    l->rank[node] = next < 0 ? NONE : rank_of(l->t, l->token[node], l->token[next]);
    if (l->rank[node] != NONE)
        wait_in_list(l, node, l->rank[node]);
}

static void merge_pair(struct list *l, int32_t node)
{
    int32_t gone = l->next[node], next = l->next[gone], prev = l->prev[node];
    l->token[node] = l->t->merge[l->rank[node]].made;
    l->rank[gone] = NONE;
    l->next[node] = next;
    if (next >= 0)
        l->prev[next] = node;
    pair_up(l, node);
    if (prev >= 0)
        pair_up(l, prev);
}

static int by_place(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Takes the pairs that still have this rank out of its list, in order of place. */
static int32_t take_batch(struct list *l, int32_t rank)
{
    int32_t count = 0;
    bool sorted = true;
    for (int32_t e = l->first[rank]; e >= 0; e = l->behind[e])
        if (l->rank[l->waiting[e]] == rank)
            l->batch[count++] = l->waiting[e];
    l->first[rank] = -1;
    for (int32_t i = 0, j = count - 1; i < j; i++, j--) { /* the newest stood first */
        int32_t node = l->batch[i];
        l->batch[i] = l->batch[j];
        l->batch[j] = node;
    }
    for (int32_t i = 1; i < count; i++)
        sorted = sorted && l->batch[i - 1] <= l->batch[i];
    if (!sorted)
        qsort(l->batch, (size_t)count, sizeof *l->batch, by_place);
    return count;
}

static void merge_rank(struct list *l, int32_t rank)
{
    int32_t count = take_batch(l, rank), i = 0;
    for (; i < count && (!l->heap_count || l->heap[0] > rank); i++)
        if (l->rank[l->batch[i]] == rank)
            merge_pair(l, l->batch[i]);
    for (; i < count; i++)
        if (l->rank[l->batch[i]] == rank)
            wait_in_list(l, l->batch[i], rank);
}

static enum weft_status book(struct weft_bpe_work *work, const struct weft_tokenizer *t, size_t size)
{
    if (size > INT32_MAX / 3)
        return FAIL(WEFT_UNSUPPORTED, "a text has a word of %zu bytes: at most %d are possible", size, INT32_MAX / 3);
    if (!work->first) {
        work->first = malloc((size_t)t->merges * sizeof *work->first);
        work->heap = malloc((size_t)t->merges * sizeof *work->heap);
        for (int i = 0; work->first && i < t->merges; i++)
            work->first[i] = -1;
    }
    if (size > work->room) {
        free(work->memory);
        work->memory = malloc(size * NUMBERS_PER_BYTE * sizeof *work->memory);
        work->room = work->memory ? size : 0;
    }
    if (!work->first || !work->heap || !work->memory)
        return FAIL(WEFT_NOMEM, "no memory to merge a word of %zu bytes", size);
    return WEFT_OK;
}

static size_t merge_long(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece, int32_t size,
                         int32_t *tokens)
{
    int32_t *m = work->memory;
    struct list l = {.t = t, .first = work->first, .heap = work->heap};
    int32_t **const arrays[] = {&l.token, &l.prev, &l.next, &l.rank, &l.batch};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++, m += size)
        *arrays[i] = m;
    l.waiting = m;
    l.behind = m + 3 * (size_t)size;
    for (int32_t i = 0; i < size; i++) {
        l.token[i] = t->byte[(unsigned char)piece[i]];
        l.prev[i] = i - 1;
        l.next[i] = i + 1 < size ? i + 1 : -1;
    }
    for (int32_t i = 0; i < size; i++)
        pair_up(&l, i);
    while (l.heap_count)
        merge_rank(&l, heap_pop(&l));
    size_t count = 0;
    for (int32_t i = 0; i >= 0; i = l.next[i])
        tokens[count++] = l.token[i];
    return count;
}

/* ---- pieces */

void weft_bpe_work_release(struct weft_bpe_work *work)
{
    free(work->memory);
    free(work->first);
    free(work->heap);
    *work = (struct weft_bpe_work){0};
}

enum weft_status weft_bpe_merge(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                size_t size, int32_t *tokens, size_t *count)
{
    if (size <= SHORT) {
        *count = merge_short(t, piece, size, tokens);
        return WEFT_OK;
    }
    TRY(book(work, t, size));
    *count = merge_long(t, work, piece, (int32_t)size, tokens);
    return WEFT_OK;
}

enum weft_status weft_bpe_piece(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                size_t size, int32_t *tokens, size_t *count)
{
    int32_t token = size <= t->longest ? weft_strings_get(&t->whole, piece, size) : -1;
    if (token < 0)
        return weft_bpe_merge(t, work, piece, size, tokens, count);
    tokens[0] = token;
    *count = 1;
    return WEFT_OK;
}
