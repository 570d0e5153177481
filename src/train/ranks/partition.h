/* SPDX-License-Identifier: MIT
 *
 * partition.h - the assignment of spans to ranks: the owner of a span sums its gradients, keeps its moments and updates
 * its weights (partition.c).
 *
 * Spans are assigned bucket by bucket, one piece of every bucket to each rank. A bucket is sent as soon as its
 * gradients are known, and then every rank sends as much as it receives.
 */
#ifndef WEFT_PARTITION_H
#define WEFT_PARTITION_H

#include "base/base.h"

struct weft_partition {
    int ranks;
    int64_t buckets;
    int64_t *at; /* first span of piece (bucket, rank): at[bucket * ranks + rank]; it ends where the next one starts */
};

/* Returns the number of elements in every bucket but the last. */
int64_t weft_partition_bucket(int64_t elements, int64_t ranks);
struct weft_span;
enum weft_status weft_partition_make(struct weft_partition *p, const struct weft_span *spans, int64_t count, int ranks,
                                     struct weft_arena *arena);
int64_t weft_partition_own(const struct weft_partition *p, int rank); /* returns the number of spans of a rank */
int64_t weft_partition_most(const struct weft_partition *p); /* returns the largest number of spans of a rank */

#endif
