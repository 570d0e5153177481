/* SPDX-License-Identifier: MIT
 *
 * order.c - computes a pseudo-random permutation without an array: a Feistel network on integers of 2h bits, for the
 * smallest h with 4^h >= n, with Philox as its round function. A result >= n is permuted again until it is < n (cycle
 * walking). The walk terminates, because the orbit of i returns to i < n, and the result is a permutation of 0..n-1.
 * The domain is smaller than 4n, so a result takes fewer than four passes on average.
 *
 * Any element can be computed directly, so a reader needs no state except an index and can resume anywhere.
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

static uint64_t feistel_back(uint64_t key, int half, uint64_t x)
{
    uint64_t mask = ((uint64_t)1 << half) - 1, left = x >> half, right = x & mask;
    for (int round = ROUNDS - 1; round >= 0; round--) {
        uint64_t mixed = right ^ (weft_rand(key, (uint64_t)round, left).u[0] & mask);
        right = left;
        left = mixed;
    }
    return left << half | right;
}

static int half_bits(uint64_t n)
{
    int half = 0;
    while ((uint64_t)1 << 2 * half < n)
        half++;
    return half;
}

uint64_t weft_order(uint64_t n, uint64_t key, uint64_t i)
{
    assert(i < n && n <= (uint64_t)1 << 62);
    const int half = half_bits(n);
    do
        i = feistel(key, half, i);
    while (i >= n);
    return i;
}

uint64_t weft_order_place(uint64_t n, uint64_t key, uint64_t element)
{
    assert(element < n && n <= (uint64_t)1 << 62);
    const int half = half_bits(n);
    do
        element = feistel_back(key, half, element);
    while (element >= n);
    return element;
}

static uint64_t epoch_key(uint64_t seed, uint64_t epoch) { return weft_key(weft_key_name(seed, "order"), epoch); }

uint64_t weft_order_sample(uint64_t n, uint64_t seed, uint64_t index)
{
    return weft_order(n, epoch_key(seed, index / n), index % n);
}

uint64_t weft_order_first(uint64_t n, uint64_t seed, uint64_t window)
{
    return weft_order_place(n, epoch_key(seed, 0), window);
}
