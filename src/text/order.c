/* SPDX-License-Identifier: MIT
 *
 * order.c - a pseudo-random permutation without an array: a Feistel network on integers of 2h bits, for the smallest h
 * with 4^h >= n, with Philox as its round function. A result >= n is permuted again until it is < n (cycle walking).
 * This terminates, since the orbit of i returns to i < n, and is a permutation of 0..n-1. The domain is smaller than
 * 4n, so it takes less than four passes on average.
 *
 * Any element can be computed directly: a reader needs no state except an index, and can resume anywhere.
 */
#include "text/text.h"

#include <assert.h>

enum { ROUNDS = 6 };

static uint64_t feistel(uint64_t key, int half, uint64_t x)
{
    uint64_t mask = ((uint64_t)1 << half) - 1, left = x >> half, right = x & mask;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t mixed = left ^ (weft_rand(key, (uint64_t)round, right).u[0] & mask);
        left = right;
        right = mixed;
    }
    return left << half | right;
}

uint64_t weft_order(uint64_t n, uint64_t key, uint64_t i)
{
    assert(i < n && n <= (uint64_t)1 << 62);
    int half = 0;
    while ((uint64_t)1 << 2 * half < n)
        half++;
    do
        i = feistel(key, half, i);
    while (i >= n);
    return i;
}

uint64_t weft_order_sample(uint64_t n, uint64_t seed, uint64_t index)
{
    return weft_order(n, weft_key(weft_key_name(seed, "order"), index / n), index % n);
}
