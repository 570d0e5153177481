/* SPDX-License-Identifier: MIT
 *
 * order.c - the order is a permutation for any n, with a new one each epoch; any number of readers together see every
 * window once.
 *
 * run-tests: 1 s, asan 3 s
 */
#include "shards.h"

static void is_permutation(uint64_t n, uint64_t key)
{
    unsigned char *seen = calloc(n, 1);
    assert_non_null(seen);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t x = weft_order(n, key, i);
        assert_true(x < n);
        assert_int_equal(seen[x], 0);
        seen[x] = 1;
    }
    free(seen);
}

static void small_are_permutations(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 600; n++)
        is_permutation(n, 7 * n);
    for (uint64_t n = 1; n <= 17; n++)
        for (uint64_t key = 0; key < 50; key++)
            is_permutation(n, key);
    static const uint64_t larger[] = {4095, 4096, 4097, 16383, 16385, 65536, 65537, 99991, 262145};
    for (size_t i = 0; i < sizeof larger / sizeof *larger; i++)
        is_permutation(larger[i], i);
}

/* The inverse: the rounds in reverse, with cycle walking. */
static uint64_t inverse(uint64_t n, uint64_t key, uint64_t x)
{
    int half = 0;
    while ((uint64_t)1 << 2 * half < n)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (int round = 5; round >= 0; round--) {
            uint64_t before = right ^ (weft_rand(key, (uint64_t)round, left).u[0] & mask);
            right = left;
            left = before;
        }
        x = left << half | right;
    } while (x >= n);
    return x;
}

static void large_have_an_inverse(void **state)
{
    (void)state;
    static const int bits[] = {20, 25, 30, 31, 32, 33, 47, 61, 62};
    for (size_t b = 0; b < sizeof bits / sizeof *bits; b++)
        for (int near = -1; near <= (bits[b] < 62); near++) {
            uint64_t n = ((uint64_t)1 << bits[b]) + (uint64_t)near;
            for (uint64_t i = 0; i < 5000; i++) {
                uint64_t from = i < 1000 ? i : i < 2000 ? n - i : weft_below(b, i, n), to = weft_order(n, b, from);
                assert_true(to < n);
                assert_true(inverse(n, b, to) == from);
                assert_true(weft_order_place(n, b, to) == from);
            }
        }
}

/* Over many keys, every position takes every value about equally often: chi-squared over n cells is near n-1. */
static void looks_random(void **state)
{
    (void)state;
    enum { N = 10, KEYS = 20000 };
    int count[N][N] = {{0}};
    for (uint64_t key = 0; key < KEYS; key++)
        for (uint64_t i = 0; i < N; i++)
            count[i][weft_order(N, key, i)]++;
    for (int i = 0; i < N; i++) {
        double chi = 0, expected = (double)KEYS / N;
        for (int j = 0; j < N; j++)
            chi += (count[i][j] - expected) * (count[i][j] - expected) / expected;
        assert_true(chi < 34); /* p = 1e-4 at 9 degrees of freedom */
    }
}

static void epochs_differ_and_seeds_too(void **state)
{
    (void)state;
    enum { N = 1000 };
    int same_epoch = 0, same_seed = 0;
    for (uint64_t i = 0; i < N; i++) {
        same_epoch += weft_order_sample(N, 1, i) == weft_order_sample(N, 1, N + i);
        same_seed += weft_order_sample(N, 1, i) == weft_order_sample(N, 2, i);
    }
    assert_true(same_epoch < 10);
    assert_true(same_seed < 10);
}

enum { LENGTH = 3, EPOCHS = 3, MAX_READERS = 7 };

/* Reader r of R reads samples r, r+R, .. from its own open shards and counts the windows that it sees. */
static void read_share(const struct weft_shards *own, uint64_t reader, uint64_t readers, unsigned char *visits)
{
    uint64_t n = (uint64_t)weft_shards_windows(own, LENGTH);
    int32_t tokens[LENGTH + 1];
    for (uint64_t i = reader; i < n * EPOCHS; i += readers) {
        int64_t first = (int64_t)weft_order_sample(n, 42, i) * LENGTH;
        assert_int_equal(weft_shards_read(own, first, LENGTH + 1, tokens), WEFT_OK);
        assert_int_equal(tokens[LENGTH], tokens[0] + LENGTH);
        visits[i / n * n + (uint64_t)window_of(tokens, LENGTH, 0)]++;
    }
}

/* All readers have the shards open at once, as several processes would. */
static void read_together(uint64_t readers, uint64_t windows)
{
    struct weft_shards *own[MAX_READERS];
    unsigned char *visits = calloc(windows * EPOCHS, 1);
    assert_non_null(visits);
    for (uint64_t r = 0; r < readers; r++) {
        assert_int_equal(weft_shards_open(&own[r], scratch, "train"), WEFT_OK);
        assert_int_equal(weft_shards_windows(own[r], LENGTH), windows);
    }
    for (uint64_t r = 0; r < readers; r++)
        read_share(own[r], r, readers, visits);
    for (uint64_t i = 0; i < windows * EPOCHS; i++)
        assert_int_equal(visits[i], 1);
    for (uint64_t r = 0; r < readers; r++)
        weft_shards_close(own[r]);
    free(visits);
}

/* Together the readers see every window once per epoch, over several epochs. */
static void readers_cover_an_epoch(void **state)
{
    (void)state;
    static const uint64_t readers[] = {1, 2, 4, MAX_READERS}, windows[] = {1, 6, 7, 1000, 4097};
    for (size_t w = 0; w < sizeof windows / sizeof *windows;
         w++) { /* ascending, so that all old files are overwritten */
        save_counting("train", 0, (int32_t)windows[w] * LENGTH + 1);
        for (size_t r = 0; r < sizeof readers / sizeof *readers; r++)
            read_together(readers[r], windows[w]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_are_permutations), cmocka_unit_test(large_have_an_inverse),
        cmocka_unit_test(looks_random),           cmocka_unit_test(epochs_differ_and_seeds_too),
        cmocka_unit_test(readers_cover_an_epoch),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
