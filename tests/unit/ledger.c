/* SPDX-License-Identifier: MIT
 *
 * ledger.c - lines of the ledger read back bit by bit, whichever process adds them and after a truncated line; a
 * modified line is an error with its number.
 *
 * run-tests: 1 s, asan 1 s
 */
#include "study/study.h"
#include "test.h"

#include <math.h>
#include <sys/wait.h>

static char path[128];
static struct weft_arena arena;

static int begin(void **state)
{
    int status = make_scratch(state);
    snprintf(path, sizeof path, "%s", in_scratch("runs.jsonl"));
    return status;
}

static int end(void **state)
{
    weft_arena_release(&arena);
    return remove_scratch(state);
}

static struct weft_finished run_of(int64_t seed)
{
    struct weft_finished f = {.arm = "w2_full-1",
                              .isa = "amx",
                              .lr = 3e-4,
                              .seed = seed,
                              .steps = 300,
                              .params = INT64_C(9007199254740993),
                              .threads = 2,
                              .train_loss = 1.0 / 3,
                              .val_loss = 0.1 + (double)seed,
                              .val_accuracy = 0,
                              .test_loss = 2e-17,
                              .test_accuracy = 1,
                              .tokens_per_s = 12345.678,
                              .seconds = 5e-324};
    memset(f.config_sha256, 'a', 64);
    memset(f.program_sha256, '0', 64);
    memset(f.weights_sha256, 'f', 64);
    if (seed % 2) /* else it is not recorded */
        memset(f.stream_sha256, 'e', 64);
    return f;
}

static void append(const char *text)
{
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static int64_t count_lines(void)
{
    struct weft_finished *list;
    int64_t count;
    assert_int_equal(weft_ledger_read(scratch, &arena, &list, &count), WEFT_OK);
    return count;
}

static void returns(void **state)
{
    (void)state;
    struct weft_finished *list;
    int64_t count;
    assert_int_equal(count_lines(), 0); /* no file yet */
    for (int64_t i = 0; i < 200; i++) {
        struct weft_finished f = run_of(i);
        assert_int_equal(weft_ledger_add(scratch, &f), WEFT_OK);
    }
    assert_int_equal(weft_ledger_read(scratch, &arena, &list, &count), WEFT_OK);
    assert_int_equal(count, 200);
    for (int64_t i = 0; i < 200; i++) {
        struct weft_finished f = run_of(i);
        assert_string_equal(list[i].arm, f.arm);
        assert_string_equal(list[i].weights_sha256, f.weights_sha256);
        assert_string_equal(list[i].stream_sha256, f.stream_sha256);
        assert_true(list[i].lr == f.lr && list[i].seed == i && list[i].params == f.params && list[i].threads == 2);
        assert_true(list[i].val_loss == f.val_loss && list[i].train_loss == f.train_loss);
        assert_true(list[i].test_loss == f.test_loss && list[i].seconds == f.seconds);
    }
}

static void cut_off(void **state)
{
    (void)state;
    struct weft_finished f = run_of(1);
    append("{\"arm\": \"w2");
    assert_int_equal(count_lines(), 0);
    assert_int_equal(weft_ledger_add(scratch, &f), WEFT_OK);
    assert_int_equal(count_lines(), 1);
    for (int i = 0; i < 1000; i++)
        append("a long piece that was cut off");
    assert_int_equal(count_lines(), 1);
    assert_int_equal(weft_ledger_add(scratch, &f), WEFT_OK);
    assert_int_equal(count_lines(), 2);
}

static void refused(void **state)
{
    (void)state;
    static const char *const lines[] = {"\n",    "[]\n", "{}\n", "{\"arm\": 1}\n", "{\"arm\": \"a\", \"arm\": \"b\"}\n",
                                        "\x80\n"};
    struct weft_finished f = run_of(1), *list;
    int64_t count;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        unlink(path);
        assert_int_equal(weft_ledger_add(scratch, &f), WEFT_OK);
        append(lines[i]);
        assert_int_equal(weft_ledger_read(scratch, &arena, &list, &count), WEFT_FORMAT);
        assert_non_null(strstr(weft_error(), "runs.jsonl:2"));
    }
    unlink(path);
    f.test_loss = NAN;
    assert_int_equal(weft_ledger_add(scratch, &f), WEFT_INVALID);
    f = run_of(1);
    strcpy(f.arm, "../x");
    assert_int_equal(weft_ledger_add(scratch, &f), WEFT_INVALID);
    assert_int_equal(count_lines(), 0);
}

static void many_writers(void **state)
{
    (void)state;
    enum { WRITERS = 4, EACH = 25 };
    for (int w = 0; w < WRITERS; w++)
        if (fork() == 0) {
            bool good = true;
            for (int i = 0; i < EACH; i++) {
                struct weft_finished f = run_of(w * EACH + i);
                good &= weft_ledger_add(scratch, &f) == WEFT_OK;
            }
            _exit(!good);
        }
    for (int w = 0, status; w < WRITERS; w++)
        assert_true(wait(&status) > 0 && status == 0);
    assert_int_equal(count_lines(), WRITERS * EACH);
}

static void folders(void **state)
{
    (void)state;
    char text[256];
    weft_run_folder("dot", 3e-4, 12, text);
    assert_string_equal(text, "runs/dot/lr-0.0003-seed-12");
    weft_run_folder("dot", 1, 0, text);
    assert_string_equal(text, "runs/dot/lr-1.0-seed-0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(returns, begin, end),
        cmocka_unit_test_setup_teardown(cut_off, begin, end),
        cmocka_unit_test_setup_teardown(refused, begin, end),
        cmocka_unit_test_setup_teardown(many_writers, begin, end),
        cmocka_unit_test(folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
