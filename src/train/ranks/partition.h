/* SPDX-License-Identifier: MIT
 *
 * partition.h - which rank owns which spans: it adds up their gradients, has their moments and moves their weights
 * (partition.c).
 *
 * Spans are dealt out bucket by bucket, to each rank a piece of every bucket: a bucket is sent on its way when its
 * gradients are known, and then all ranks have as much to send as to receive.
 */
#ifndef WEFT_PARTITION_H
#define WEFT_PARTITION_H

#include "base/base.h"

struct weft_partition {
    int ranks;
    int64_t buckets;
    int64_t *at; /* spans: piece (bucket, rank) is from at[bucket * ranks + rank] to the next */
};

/* How many elements a bucket has, but for the last. */
int64_t weft_partition_bucket(int64_t elements, int64_t ranks);
struct weft_span;
enum weft_status weft_partition_make(struct weft_partition *p, const struct weft_span *spans, int64_t count, int ranks,
                                     struct weft_arena *arena);
int64_t weft_partition_own(const struct weft_partition *p, int rank); /* spans of a rank */
int64_t weft_partition_most(const struct weft_partition *p);          /* spans of the rank that has most */

#endif
