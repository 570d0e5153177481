/* SPDX-License-Identifier: MIT
 *
 * rng.c - the generator matches Random123's published values, and random numbers have the right distributions.
 *
 * run-tests: 1 s, aarch64 2 s, asan 1 s
 */
#include "test.h"

#include <math.h>

enum { DRAWS = 1000000 };

/* The philox4x32-10 rows of kat_vectors, Random123 1.14. */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t key, high, low;
        uint32_t answer[4];
    } rows[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weft_rand4 r = weft_rand(rows[i].key, rows[i].high, rows[i].low);
        assert_memory_equal(r.u, rows[i].answer, sizeof r.u);
    }
}

/* Each bound is five standard deviations of the estimate. */
static void normal_moments(void **state)
{
    (void)state;
    double sum[5] = {0}, far = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x = weft_normal(42, i), power = 1;
        assert_true(isfinite(x));
        for (int k = 1; k <= 4; k++)
            sum[k] += power *= x;
        far += fabs(x) > 1.959963984540054;
    }
    assert_true(fabs(sum[1] / DRAWS) < 5 * sqrt(1.0 / DRAWS));
    assert_true(fabs(sum[2] / DRAWS - 1) < 5 * sqrt(2.0 / DRAWS));
    assert_true(fabs(sum[3] / DRAWS) < 5 * sqrt(15.0 / DRAWS));
    assert_true(fabs(sum[4] / DRAWS - 3) < 5 * sqrt(96.0 / DRAWS));
    assert_true(fabs(far / DRAWS - 0.05) < 5 * sqrt(0.05 * 0.95 / DRAWS));
}

/* A normal number is the quantile of the uniform number with the same key and element: the normal CDF inverts it. */
static void normal_is_the_quantile(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        double u = weft_uniform(3, i), x = weft_normal(3, i);
        assert_true(u > 0 && u < 1);
        assert_true(fabs(0.5 * erfc(-x / sqrt(2)) - u) <= 1e-14 + 1e-13 * fmin(u, 1 - u));
    }
}

static void below_is_uniform(void **state)
{
    (void)state;
    enum { N = 7 };
    double count[N] = {0}, chi = 0, each = (double)DRAWS / N;
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint64_t x = weft_below(9, i, N);
        assert_true(x < N);
        count[x]++;
    }
    for (int i = 0; i < N; i++)
        chi += (count[i] - each) * (count[i] - each) / each;
    assert_true(chi < 32); /* exceeded by 1 in 60,000 keys at six degrees of freedom; the key is fixed */
    assert_int_equal(weft_below(9, 0, 1), 0);
}

static void keys_differ(void **state)
{
    (void)state;
    assert_int_equal(weft_key(1, 2), weft_key(1, 2));
    assert_int_not_equal(weft_key(1, 2), weft_key(2, 1));
    assert_int_not_equal(weft_key_name(1, "block.0.attn.q"), weft_key_name(1, "block.0.attn.k"));
    assert_int_not_equal(weft_key_name(1, "12345678"), weft_key_name(1, "123456780"));
    assert_int_not_equal(weft_key_name(1, ""), weft_key_name(2, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),    cmocka_unit_test(normal_moments), cmocka_unit_test(normal_is_the_quantile),
        cmocka_unit_test(below_is_uniform), cmocka_unit_test(keys_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
