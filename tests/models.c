/* SPDX-License-Identifier: MIT
 *
 * models.c - combinations in which all pairs of option values occur pass the gates. Runs one in sixty
 * (tests/long/mutants.sh runs all of them).
 *
 * run-tests: 25 s, once
 */
#include "check/check.h"
#include "unit/test.h"

#include <assert.h>

static struct weft_combinations pairs, some;

struct sum {
    int models, checks, failed;
};

static void add(void *context, const struct weft_sweep_result *r)
{
    struct sum *sum = context;
    sum->models++;
    sum->checks += r->checks;
    sum->failed += r->failed;
    if (r->failed)
        print_message("%s: %s: %s\n", weft_dtype_name(r->dtype), r->message, some.rows[r->row]);
}

/* First of all, since it starts processes. */
static void pass(void **state)
{
    (void)state;
    struct sum sum = {0};
    double start = weft_seconds();
    assert_int_equal(weft_combinations_cover(&pairs, 2, 1), WEFT_OK);
    for (int i = 0; i < pairs.count; i += one_of(60))
        some.rows[some.count++] = pairs.rows[i];
    assert_int_equal(weft_sweep(&some, add, &sum), WEFT_OK);
    print_message("%d of %d combinations with %lld pairs (%lld impossible): %d models, %d checks in %.1f s\n",
                  some.count, pairs.count, (long long)pairs.tuples, (long long)pairs.impossible, sum.models, sum.checks,
                  weft_seconds() - start);
    assert_int_equal(sum.models, 2 * some.count);
    assert_int_equal(sum.failed, 0);
}

/* Whether some row has both settings. */
static bool occur(const char *a, const char *b)
{
    for (int i = 0; i < pairs.count; i++) {
        char row[4096], first[64], second[64];
        snprintf(row, sizeof row, " %s ", pairs.rows[i]);
        snprintf(first, sizeof first, " %s ", a);
        snprintf(second, sizeof second, " %s ", b);
        if (strstr(row, first) && strstr(row, second))
            return true;
    }
    return false;
}

static void have_what_is_there(void **state)
{
    (void)state;
    assert_true(occur("m3_tying=per_head_scalar", "norm_place=post"));
    assert_false(occur("pos=alibi", "latent_rope=6"));
    assert_false(occur("m1=no", "m1_mode=token"));
    assert_false(occur("m1=yes", "m1_mode=sequence"));
}

/* Drawn rows have no pair that the array lacks. */
static void have_all_pairs(void **state)
{
    (void)state;
    static struct weft_combinations drawn;
    assert_int_equal(weft_combinations_draw(&drawn, 40, 1), WEFT_OK);
    for (int i = 0; i < drawn.count; i++) {
        char row[4096], *words[64], *rest = row;
        int n = 0;
        snprintf(row, sizeof row, "%s", drawn.rows[i]);
        for (char *word; n < 64 && (word = strsep(&rest, " "));)
            words[n++] = word;
        for (int a = 0; a < n; a++)
            for (int b = 0; b < a; b++)
                if (!occur(words[a], words[b]))
                    fail_msg("no row has %s and %s", words[a], words[b]);
    }
    weft_combinations_release(&drawn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pass),
        cmocka_unit_test(have_what_is_there),
        cmocka_unit_test(have_all_pairs),
    };
    return cmocka_run_group_tests_name("models", tests, NULL, NULL);
}
