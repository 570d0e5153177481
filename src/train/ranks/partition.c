/* SPDX-License-Identifier: MIT
 *
 * partition.c - see partition.h. Buckets are large enough for messages to use the network's full bandwidth, and small
 * enough for most of a model to be in transit before the backward pass ends.
 */
#include "train/ranks/partition.h"
#include "train/tasks.h"

enum { LARGEST = 1 << 23, SMALLEST = 1 << 18, PARTS = 16 }; /* number of elements in 32 MiB, in 1 MiB */

int64_t weft_partition_bucket(int64_t elements, int64_t ranks)
{
    int64_t part = weft_max(SMALLEST, weft_min(LARGEST, elements / PARTS));
    return weft_max(part, 4 * ranks * WEFT_SPAN);
}

/* Returns the end of a bucket that begins at a span. */
static int64_t end_of_bucket(const struct weft_span *spans, int64_t count, int64_t first, int64_t bucket)
{
    int64_t end = first, elements = 0;
    for (; end < count && elements < bucket; end++)
        elements += spans[end].count;
    return end;
}

/* Divides the spans from `first` to `end` - 1 into a piece for each rank, with about the same number of elements each.
 */
static void cut(const struct weft_span *spans, int64_t first, int64_t end, int ranks, int64_t *at)
{
    int64_t elements = 0, done = 0;
    for (int64_t s = first; s < end; s++)
        elements += spans[s].count;
    for (int r = 0; r < ranks; r++) {
        while (first < end && done + spans[first].count / 2 < elements / ranks * r)
            done += spans[first++].count;
        at[r] = first;
    }
    at[ranks] = end;
}

enum weft_status weft_partition_make(struct weft_partition *p, const struct weft_span *spans, int64_t count, int ranks,
                                     struct weft_arena *arena)
{
    int64_t elements = 0;
    *p = (struct weft_partition){.ranks = ranks};
    for (int64_t s = 0; s < count; s++)
        elements += spans[s].count;
    int64_t bucket = weft_partition_bucket(elements, ranks);
    for (int64_t s = 0; s < count; s = end_of_bucket(spans, count, s, bucket))
        p->buckets++;
    p->at = weft_arena_alloc(arena, (size_t)(p->buckets * ranks + 1) * sizeof *p->at);
    if (!p->at)
        return FAIL(WEFT_NOMEM, "not enough memory for training");
    for (int64_t b = 0, s = 0, end; b < p->buckets; b++, s = end) {
        end = end_of_bucket(spans, count, s, bucket);
        cut(spans, s, end, ranks, p->at + b * ranks);
    }
    return WEFT_OK;
}

int64_t weft_partition_own(const struct weft_partition *p, int rank)
{
    int64_t count = 0;
    for (int64_t b = 0; b < p->buckets; b++)
        count += p->at[b * p->ranks + rank + 1] - p->at[b * p->ranks + rank];
    return count;
}

int64_t weft_partition_most(const struct weft_partition *p)
{
    int64_t most = 0;
    for (int r = 0; r < p->ranks; r++)
        most = weft_max(most, weft_partition_own(p, r));
    return most;
}
