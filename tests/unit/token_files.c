/* SPDX-License-Identifier: MIT
 *
 * token_files.c - the plain reader of token files gives the same tokens as the real one, in files of all formats, and
 * finds files that two splits share.
 *
 * run-tests: 1 s, asan 1 s
 */
#include "check/samples/samples.h"
#include "shards.h"

#include <unistd.h>

enum { TOKENS = 20000, LONGEST = 3000, RANGES = 2000 };

static struct weft_token_files *opened(const char *split)
{
    struct weft_token_files *f = NULL;
    check(weft_token_files_open(&f, in_scratch(""), split));
    return f;
}

static void reads_what_the_real_one_does(void **state)
{
    (void)state;
    static const uint16_t raw[] = {50256, 0, 7, 65535, 9};
    static int32_t real[LONGEST], plain[LONGEST];
    int files = save_counting("train", 1, TOKENS) + 2;
    save("train_zz.bin", "", 0, raw, sizeof raw);
    save_llmc("train_0.bin", 2, 0, raw);
    struct weft_token_files *f = opened("train");
    struct weft_shards *s = NULL;
    check(weft_shards_open(&s, in_scratch(""), "train"));
    assert_int_equal(weft_token_files_count(f), files);
    assert_int_equal(weft_token_files_tokens(f), weft_shards_tokens(s));
    assert_int_equal(weft_token_files_begin(f, files - 1), TOKENS);
    for (uint64_t i = 0; i < RANGES; i++) {
        int64_t count = (int64_t)weft_below(1, i, LONGEST), first = (int64_t)weft_below(2, i, TOKENS + 5);
        count = i < 5 ? 5 : weft_min(count, TOKENS + 5 - first);
        first = i < 5 ? TOKENS - (int64_t)i : first;
        check(weft_shards_read(s, first, count, real));
        assert_true(weft_token_files_read(f, first, count, plain));
        assert_memory_equal(real, plain, (size_t)count * sizeof *real);
    }
    assert_false(weft_token_files_read(f, TOKENS + 4, 2, plain));
    weft_shards_close(s);
    weft_token_files_close(f);
}

static void finds_shared_files(void **state)
{
    (void)state;
    char from[256];
    const char *path = "";
    save_counting("test", 1, 50);
    save_counting("val", 1, 50);
    snprintf(from, sizeof from, "%s", in_scratch("test_000001.bin"));
    struct weft_token_files *test = opened("test"), *val = opened("val");
    assert_int_equal(weft_token_files_shared(test, val, &path), 0);
    weft_token_files_close(val);
    assert_int_equal(link(from, in_scratch("val_000009.bin")), 0);
    val = opened("val");
    assert_int_equal(weft_token_files_shared(test, val, &path), 1);
    assert_non_null(strstr(path, "val_000009.bin"));
    weft_token_files_close(val);
    weft_token_files_close(test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_the_real_one_does),
        cmocka_unit_test(finds_shared_files),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
