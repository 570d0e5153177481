/* SPDX-License-Identifier: MIT
 *
 * bpe_list.c - merges a long piece. The tokens form a linked list, and each pair is queued by its rank. A heap holds
 * the ranks with a non-empty queue. All pairs of the lowest rank are merged in one pass from left to right, so the heap
 * is used once per rank, not once per pair. A merge never creates a pair of its own rank, since the new token is longer
 * than both its parts. It can create pairs of lower rank if a token can be formed in several ways. These are merged
 * first, and the rest of the rank is queued again.
 */
#define _GNU_SOURCE
#include "text/tokenizer/bpe.h"

#include <stdlib.h>
#include <sys/mman.h>

/* A node is identified by the index of its first byte or character, a pair by its left node. */
struct node {
    int32_t token, prev, next; /* -1 at the ends */
    int32_t rank;              /* rank of its pair; WEFT_NO_RANK if it has none or was merged away */
};

/* A queue of pairs is a list of blocks the size of a cache line. A list of single pairs would be three times slower,
 * since every step waits for memory. */
enum { IN_BLOCK = 14 };
struct block {
    int32_t next, count; /* next: in the same queue or the free list; -1 at the end */
    int32_t node[IN_BLOCK];
};

struct list {
    const struct weft_tokenizer *t;
    struct node *node;
    struct block *block;
    int32_t blocks, unused;       /* blocks in use so far; head of the free list, or -1 */
    int32_t *first, *last, *heap; /* per rank, the blocks of its queue, or -1; ranks with a queue, lowest on top */
    int32_t heap_count;
    int32_t *batch; /* the pairs of the rank being merged */
};

/* Every byte starts a pair and every merge adds at most two. Every rank may have one block that is not full. */
static size_t max_blocks(const struct weft_tokenizer *t, size_t size)
{
    size_t pairs = 3 * size, blocks = pairs / IN_BLOCK + (size_t)t->merges;
    return pairs < blocks ? pairs : blocks;
}

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

static int32_t new_block(struct list *l)
{
    int32_t b = l->unused;
    if (b < 0)
        b = l->blocks++;
    else
        l->unused = l->block[b].next;
    l->block[b].next = -1;
    l->block[b].count = 0;
    return b;
}

static void enqueue(struct list *l, int32_t node, int32_t rank)
{
    if (l->first[rank] < 0) {
        heap_push(l, rank);
        l->first[rank] = l->last[rank] = new_block(l);
    }
    struct block *b = &l->block[l->last[rank]];
    if (b->count == IN_BLOCK) {
        l->last[rank] = b->next = new_block(l);
        b = &l->block[b->next];
    }
    b->node[b->count++] = node;
}

/* Must be called when the token of the node or of the next node has changed, which makes the old queue entry stale. */
static void update_pair(struct list *l, int32_t node)
{
    struct node *n = &l->node[node];
    n->rank = n->next < 0 ? WEFT_NO_RANK : weft_bpe_rank(l->t, n->token, l->node[n->next].token);
    if (n->rank != WEFT_NO_RANK)
        enqueue(l, node, n->rank);
}

static void merge_pair(struct list *l, int32_t node)
{
    struct node *n = &l->node[node], *gone = &l->node[n->next];
    n->token = l->t->merge[n->rank].made;
    n->next = gone->next;
    gone->rank = WEFT_NO_RANK;
    if (n->next >= 0)
        l->node[n->next].prev = node;
    update_pair(l, node);
    if (n->prev >= 0)
        update_pair(l, n->prev);
}

static int by_offset(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Removes the pairs of a rank from its queue, sorted by offset. A node is queued at most once per rank, since tokens
 * only grow, so a batch has at most as many entries as there are nodes. Some entries may be stale. */
static int32_t take_batch(struct list *l, int32_t rank)
{
    int32_t count = 0;
    bool sorted = true;
    for (int32_t i = l->first[rank], next; i >= 0; i = next) {
        struct block *b = &l->block[i];
        if ((next = b->next) >= 0)
            __builtin_prefetch(&l->block[next]);
        for (int32_t k = 0; k < b->count; k++) {
            sorted = sorted && (!count || l->batch[count - 1] < b->node[k]);
            l->batch[count++] = b->node[k];
        }
        b->next = l->unused;
        l->unused = i;
    }
    l->first[rank] = -1;
    if (!sorted)
        qsort(l->batch, (size_t)count, sizeof *l->batch, by_offset);
    return count;
}

static void merge_rank(struct list *l, int32_t rank)
{
    enum { AHEAD = 16 }; /* the hardware prefetcher cannot predict where the next pair is */
    int32_t count = take_batch(l, rank), i = 0;
    for (; i < count && (!l->heap_count || l->heap[0] > rank); i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(&l->node[l->batch[i + AHEAD]]);
        if (l->node[l->batch[i]].rank == rank)
            merge_pair(l, l->batch[i]);
    }
    for (; i < count; i++)
        if (l->node[l->batch[i]].rank == rank)
            enqueue(l, l->batch[i], rank);
}

size_t weft_bpe_units(const struct weft_tokenizer *t, const char *piece, size_t size, int32_t *tokens)
{
    uint32_t code = 0;
    size_t count = 0;
    if (t->kind != WEFT_TOKENIZER_TEXT)
        for (; count < size; count++)
            tokens[count] = t->byte[(unsigned char)piece[count]];
    else
        for (size_t at = 0; at < size; tokens[count++] = weft_char_token(t, code))
            at += weft_utf8_read(piece + at, size - at, &code);
    return count;
}

/* Uses huge pages: access is random, so they save page faults and TLB misses. */
static void *alloc_huge(size_t bytes)
{
    enum { PAGE = 1 << 21 };
    if (bytes < PAGE)
        return malloc(bytes);
    bytes = (size_t)weft_round_up((int64_t)bytes, PAGE);
    void *memory = aligned_alloc(PAGE, bytes);
    if (memory)
        madvise(memory, bytes, MADV_HUGEPAGE); /* best effort */
    return memory;
}

static enum weft_status reserve(struct weft_bpe_work *work, const struct weft_tokenizer *t, size_t size)
{
    size_t blocks = max_blocks(t, size) * sizeof(struct block);
    if (size > INT32_MAX / 3)
        return FAIL(WEFT_UNSUPPORTED, "the text has a word of %zu bytes; the limit is %d", size, INT32_MAX / 3);
    if (!work->ranks) {
        work->ranks = malloc(3 * (size_t)t->merges * sizeof *work->ranks);
        for (int i = 0; work->ranks && i < t->merges; i++)
            work->ranks[i] = -1;
    }
    if (size > work->room) {
        free(work->memory);
        work->memory = alloc_huge(blocks + size * (sizeof(struct node) + sizeof(int32_t)));
        work->room = work->memory ? size : 0;
    }
    if (!work->ranks || !work->memory)
        return FAIL(WEFT_NOMEM, "not enough memory to merge a word of %zu bytes", size);
    return WEFT_OK;
}

static size_t merge(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece, int32_t size,
                    int32_t *tokens)
{
    struct list l = {.t = t, .unused = -1, .block = work->memory, .first = work->ranks};
    l.node = (struct node *)(l.block + max_blocks(t, (size_t)size));
    l.batch = (int32_t *)(l.node + size);
    l.last = l.first + t->merges; /* undefined while first is -1 */
    l.heap = l.last + t->merges;
    int32_t units = (int32_t)weft_bpe_units(t, piece, (size_t)size, tokens);
    for (int32_t i = 0; i < units; i++)
        l.node[i] = (struct node){tokens[i], i - 1, i + 1 < units ? i + 1 : -1, WEFT_NO_RANK};
    for (int32_t i = 0; i < units; i++)
        update_pair(&l, i);
    while (l.heap_count)
        merge_rank(&l, heap_pop(&l));
    size_t count = 0;
    for (int32_t i = 0; i >= 0; i = l.node[i].next)
        tokens[count++] = l.node[i].token;
    return count;
}

void weft_bpe_work_release(struct weft_bpe_work *work)
{
    free(work->memory);
    free(work->ranks);
    *work = (struct weft_bpe_work){0};
}

enum weft_status weft_bpe_merge_list(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                     size_t size, int32_t *tokens, size_t *count)
{
    TRY(reserve(work, t, size));
    *count = merge(t, work, piece, (int32_t)size, tokens);
    return WEFT_OK;
}
