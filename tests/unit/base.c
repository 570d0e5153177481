/* SPDX-License-Identifier: MIT
 *
 * base.c - errors, checked sizes, arenas, memory limits, fingerprints, suggestions.
 *
 * run-tests: 1 s, aarch64 1 s, asan 1 s
 */
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

static enum weft_status inner(int heads) { return heads ? WEFT_OK : FAIL(WEFT_INVALID, "heads = %d: give 1", heads); }
static enum weft_status outer(int heads)
{
    TRY(inner(heads));
    return WEFT_OK;
}

static void errors_have_a_trace(void **state)
{
    (void)state;
    weft_error_clear();
    assert_int_equal(outer(1), WEFT_OK);
    assert_string_equal(weft_error(), "no error was recorded");
    assert_int_equal(outer(0), WEFT_INVALID);
    assert_non_null(strstr(weft_error(), "heads = 0: give 1"));
    assert_null(strstr(weft_error(), "base.c")); /* source lines are in the trace */
    const char *file = strstr(weft_error_trace(), "base.c:");
    assert_non_null(file);
    assert_non_null(strstr(file + 1, "base.c:")); /* where it failed and where it passed */
    weft_error_clear();
    assert_string_equal(weft_error_trace(), "");
}

/* Quoted text cannot control the terminal: C0, DEL, C1 in UTF-8, and invalid UTF-8 are escaped. */
static void messages_have_no_control_characters(void **state)
{
    (void)state;
    static const struct {
        const char *raw, *shown;
    } rows[] = {
        {"plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"a\x1b[31mb\r\t\x7f\ny", "a\\x1b[31mb\\x0d\\x09\\x7f y"},
        {"\xc2\x9b"
         "31m",
         "\\xc2\\x9b31m"},
        {"\xff\xc3(\xe2\x82", "\\xff\\xc3(\\xe2\\x82"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char cut[6];
        assert_int_equal(FAIL(WEFT_IO, "%s", rows[i].raw), WEFT_IO);
        assert_string_equal(weft_error(), rows[i].shown);
        assert_int_equal(weft_text_printable(rows[i].raw), i == 0);
        weft_text_escape(rows[i].raw, cut, sizeof cut);
        assert_true(strlen(cut) < sizeof cut && strncmp(cut, rows[i].shown, strlen(cut)) == 0);
    }
    weft_error_clear();
}

/* A pipe without a writer must not block the program. */
static void only_regular_files_are_opened(void **state)
{
    (void)state;
    char folder[] = "/tmp/weft-base-XXXXXX", path[64], *text = NULL;
    FILE *file = NULL;
    void *map;
    size_t bytes;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(10); /* ends the test if it blocks */
    assert_int_equal(weft_input_open(path, &file), WEFT_IO);
    assert_int_equal(weft_input_map(path, &map, &bytes), WEFT_IO);
    assert_int_equal(weft_slurp(path, 100, &text, &bytes), WEFT_IO);
    assert_non_null(strstr(weft_error(), "regular file"));
    assert_int_equal(weft_slurp(folder, 100, &text, &bytes), WEFT_IO);
    assert_non_null(strstr(weft_error(), "it is a folder"));
    alarm(0);
    unlink(path);
    rmdir(folder);
}

static void closing_a_file_detects_a_full_disk(void **state)
{
    (void)state;
    for (int flushed = 0; flushed < 2; flushed++) {
        FILE *full = fopen("/dev/full", "w");
        assert_non_null(full);
        fputs("text", full);
        if (flushed)
            fflush(full); /* fails, and leaves nothing for fclose to write */
        assert_false(weft_output_close(full));
    }
}

static void long_messages_are_truncated(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_int_equal(FAIL(WEFT_IO, "%s", text), WEFT_IO);
    for (int i = 0; i < 1000; i++)
        weft_trace("src/base/status.c", i);
    assert_in_range(strlen(weft_error()), 100, sizeof text);
    assert_in_range(strlen(weft_error_trace()), 100, sizeof text);
}

static void receive(void *context, const char *text)
{
    char *all = context;
    snprintf(all + strlen(all), 100 - strlen(all), "[%s]", text);
}

static void notices_are_received_once(void **state)
{
    (void)state;
    char all[100] = "";
    weft_note_once("first", "dropped: there is no receiver yet");
    weft_log_set(receive, all);
    weft_note_once("first", "number %d", 1);
    weft_note_once("first", "number %d", 2);
    weft_note_once("second", "number %d", 3);
    weft_log_set(NULL, NULL);
    assert_string_equal(all, "[number 1][number 3]");
}

static void sizes_do_not_wrap(void **state)
{
    (void)state;
    size_t n = 0;
    assert_int_equal(weft_size_mul(SIZE_MAX / 3, 3, &n), WEFT_OK);
    assert_int_equal(weft_size_mul(SIZE_MAX / 3 + 1, 3, &n), WEFT_NOMEM);
    assert_int_equal(weft_size_mul(0, SIZE_MAX, &n), WEFT_OK);
    assert_int_equal(n, 0);
    assert_int_equal(weft_size_add(SIZE_MAX - 1, 1, &n), WEFT_OK);
    assert_true(n == SIZE_MAX);
    assert_int_equal(weft_size_add(SIZE_MAX, 1, &n), WEFT_NOMEM);
    assert_int_equal(weft_round_up(17, 16), 32);
    assert_int_equal(weft_round_up(32, 16), 32);
    assert_int_equal(weft_div_up(33, 16), 3);
}

static void arena_memory(void **state)
{
    (void)state;
    enum { PIECES = 200 };
    struct weft_arena arena = {0};
    unsigned char *piece[PIECES];
    size_t size[PIECES], total = 0;
    for (int i = 0; i < PIECES; i++) {
        size[i] = weft_below(5, (uint64_t)i, 3000) + (i % 50 == 7 ? 200000 : 0);
        piece[i] = weft_arena_alloc(&arena, size[i]);
        assert_non_null(piece[i]);
        assert_int_equal((uintptr_t)piece[i] % 64, 0);
        for (size_t j = 0; j < size[i]; j++)
            assert_int_equal(piece[i][j], 0);
        memset(piece[i], i + 1, size[i]);
        total += size[i];
    }
    for (int i = 0; i < PIECES; i++) /* the allocations do not overlap */
        for (size_t j = 0; j < size[i]; j++)
            assert_int_equal(piece[i][j], (unsigned char)(i + 1));
    assert_true(arena.bytes >= total);
    assert_string_equal(weft_arena_print(&arena, "block.%d.%s", 3, "attn"), "block.3.attn");
    assert_null(weft_arena_alloc(&arena, SIZE_MAX - 5));
    assert_non_null(strstr(weft_error(), "memory"));
    weft_arena_release(&arena);
    assert_null(arena.head);
    assert_int_equal(arena.bytes, 0);
}

static void pages(void **state)
{
    (void)state;
    size_t bytes = (5 << 20) + 3;
    int64_t before = weft_resident_bytes();
    unsigned char *p = weft_pages_alloc(bytes);
    assert_non_null(p);
    if (before >= 0)
        assert_true(weft_resident_bytes() - before >= 4 << 20);
    for (size_t i = 0; i < bytes; i += 509)
        assert_int_equal(p[i], 0);
    weft_pages_free(p, bytes);
    assert_null(weft_pages_alloc(SIZE_MAX / 2));
    weft_pages_free(NULL, 0);
}

/* If `text` is NULL, there is no such file. */
static void write_figures(const char *group, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s%s/%s", scratch, group, name);
    remove(path);
    if (text)
        write_file(path, text, strlen(text));
}

/* Writes memory.max, memory.current and memory.stat. */
static void write_group(const char *group, const char *const texts[3])
{
    char path[128];
    snprintf(path, sizeof path, "%s%s", scratch, group);
    mkdir(path, 0700);
    write_figures(group, "memory.max", texts[0]);
    write_figures(group, "memory.current", texts[1]);
    write_figures(group, "memory.stat", texts[2]);
}

static void memory_of_control_groups(void **state)
{
    (void)state;
    static const struct {
        const char *leaf[3], *parent[3], *root[3];
        int64_t free;
    } rows[] = {
        {{0}, {0}, {0}, INT64_MAX},
        {{"max\n", "4096\n", "anon 4096\ninactive_file 0\n"}, {"max\n", "8192\n", ""}, {0}, INT64_MAX},
        {{"10000\n", "4000\n", "anon 1\nfile 999\ninactive_file 1000\nactive_file 9\n"}, {"max\n"}, {0}, 7000},
        {{"10000\n", "4000\n"}, {"9000\n", "5000\n", "inactive_file 500\n"}, {0}, 4500},
        {{"5000\n", "4000\n"}, {"90000\n", "5000\n"}, {"80000\n", "10\n"}, 1000},
        {{"max\n", "4000\n"}, {0}, {"5000\n", "10\n"}, 4990}, /* as a container sees it */
        {{"many\n", "4000\n"}, {"9e3\n", "1\n"}, {"-5\n", "1\n"}, INT64_MAX},
        {{"", "4000\n"}, {"99999999999999999999\n", "1\n"}, {"12x\n", "1\n"}, INT64_MAX},
        {{"10000\n", "few\n"}, {0}, {0}, INT64_MAX},
        {{"10000\n", "4000\n", "inactive_file lots\n"}, {0}, {0}, 6000},
        {{"10000\n", "4000\n", "inactive_file 5000\n"}, {0}, {0}, 10000},
        {{"10000\n", "12000\n", "inactive_file 1000\n"}, {"max\n"}, {0}, 0},
        {{"0\n", "0\n"}, {0}, {0}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_group("", rows[i].root);
        write_group("/job", rows[i].parent);
        write_group("/job/step", rows[i].leaf);
        assert_true(weft_cgroup_available_bytes(scratch, "/job/step") == rows[i].free);
    }
    write_group("", (const char *const[3]){"700\n", "200\n"});
    assert_int_equal(weft_cgroup_available_bytes(scratch, "/"), 500);
    assert_int_equal(weft_cgroup_available_bytes(scratch, ""), 500);
    assert_int_equal(weft_cgroup_available_bytes(scratch, "/nowhere/near"), 500);
    assert_true(weft_cgroup_available_bytes("/nowhere", "/near") == INT64_MAX);
    assert_true(weft_available_bytes() > 0);
}

/* The examples of FIPS 180-4, each split at every position. */
static void sha256(void **state)
{
    (void)state;
    static const struct {
        const char *text, *hex;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char hex[65];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t cut = 0; cut <= strlen(rows[i].text); cut++) {
            struct weft_sha256 sha;
            weft_sha256_init(&sha);
            weft_sha256_add(&sha, rows[i].text, cut);
            weft_sha256_add(&sha, rows[i].text + cut, strlen(rows[i].text) - cut);
            weft_sha256_hex(&sha, hex);
            assert_string_equal(hex, rows[i].hex);
        }
    static char million[1000000];
    memset(million, 'a', sizeof million);
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    for (size_t i = 0; i < sizeof million; i += 1000)
        weft_sha256_add(&sha, million + i, 1000);
    weft_sha256_hex(&sha, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void suggestions(void **state)
{
    (void)state;
    static const char *const names[] = {"train", "show", "check", "bench"};
    assert_string_equal(weft_suggest("trian", names, 4), "train");
    assert_string_equal(weft_suggest("chekc", names, 4), "check");
    assert_string_equal(weft_suggest("training", names, 4), "train");
    assert_null(weft_suggest("zzzzzzzz", names, 4));
    assert_null(weft_suggest("train", names, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_have_a_trace),
        cmocka_unit_test(long_messages_are_truncated),
        cmocka_unit_test(notices_are_received_once),
        cmocka_unit_test(messages_have_no_control_characters),
        cmocka_unit_test(only_regular_files_are_opened),
        cmocka_unit_test(closing_a_file_detects_a_full_disk),
        cmocka_unit_test(sizes_do_not_wrap),
        cmocka_unit_test(arena_memory),
        cmocka_unit_test(pages),
        cmocka_unit_test_setup_teardown(memory_of_control_groups, make_scratch, remove_scratch),
        cmocka_unit_test(sha256),
        cmocka_unit_test(suggestions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
