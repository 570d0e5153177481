/* SPDX-License-Identifier: MIT
 *
 * shards.c - reads the files of llm.c and nanoGPT, one by one and as folders; errors about damaged files name the file
 * and the position.
 *
 * run-tests: 1 s, asan 1 s
 */
#include "shards.h"

#include <sys/resource.h>
#include <sys/stat.h>

static struct weft_shards *opened(const char *path, const char *split)
{
    struct weft_shards *s = NULL;
    check(weft_shards_open(&s, path, split));
    return s;
}

static void rejected(const char *path, const char *split, const char *why)
{
    struct weft_shards *s = NULL;
    assert_int_not_equal(weft_shards_open(&s, path, split), WEFT_OK);
    assert_null(s);
    if (!strstr(weft_error(), why))
        print_error("expected \"%s\" in: %s\n", why, weft_error());
    assert_non_null(strstr(weft_error(), why));
}

static void reads_llmc_and_nanogpt(void **state)
{
    (void)state;
    static const uint16_t narrow[] = {50256, 0, 7, 65535, 9};
    static const uint32_t wide[] = {128000, 5, 70000};
    int32_t tokens[5];
    save_llmc("a.bin", 2, 5, narrow);
    save_llmc("b.bin", 4, 3, wide);
    save("c.bin", "", 0, narrow, sizeof narrow);
    static const struct {
        const char *name;
        int count;
        int32_t first, last, max;
    } rows[] = {{"a.bin", 5, 50256, 9, 65535}, {"b.bin", 3, 128000, 70000, 128000}, {"c.bin", 5, 50256, 9, 65535}};
    for (int i = 0; i < 3; i++) {
        struct weft_shards *s = opened(in_scratch(rows[i].name), "train");
        assert_int_equal(weft_shards_tokens(s), rows[i].count);
        assert_int_equal(weft_shards_max_token(s), rows[i].max);
        assert_int_equal(weft_shards_bytes(s), 0);
        assert_int_equal(weft_shards_read(s, 0, rows[i].count, tokens), WEFT_OK);
        assert_int_equal(tokens[0], rows[i].first);
        assert_int_equal(tokens[rows[i].count - 1], rows[i].last);
        assert_int_equal(weft_shards_windows(s, 2), rows[i].count / 2);
        assert_int_equal(weft_shards_windows(s, rows[i].count), 0);
        assert_int_equal(weft_shards_windows(s, rows[i].count - 1), 1);
        weft_shards_close(s);
    }
}

/* More files than may be open at once, of different sizes and both widths, one of them empty. */
static void many_files_are_one_stream(void **state)
{
    (void)state;
    enum { FILES = 300 };
    struct rlimit old, few = {64, 64};
    getrlimit(RLIMIT_NOFILE, &old);
    few.rlim_max = old.rlim_max;
    mkdir(in_scratch("many"), 0777);
    int64_t total = 0;
    for (int i = 0; i < FILES; i++) {
        char name[64];
        uint16_t narrow[16];
        uint32_t wide[16];
        int32_t count = i == 5 ? 0 : 1 + i % 13;
        for (int j = 0; j < count; j++)
            narrow[j] = (uint16_t)(wide[j] = (uint32_t)(total + j));
        snprintf(name, sizeof name, "many/fineweb_train_%06d.bin", i);
        save_llmc(name, i % 3 ? 2 : 4, count, i % 3 ? (void *)narrow : wide);
        total += count;
    }
    uint16_t other = 1;
    save_llmc("many/fineweb_val_000000.bin", 2, 1, &other);
    save("many/constrained.txt", "", 0, "x", 1);
    save("many/restrain.bin", "", 0, "xy", 2);
    setrlimit(RLIMIT_NOFILE, &few);
    struct weft_shards *s = opened(in_scratch("many"), "train");
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(weft_shards_files(s), FILES);
    assert_int_equal(weft_shards_tokens(s), total);
    int32_t *tokens = malloc((size_t)total * sizeof *tokens);
    for (int64_t first = 0; first < total; first += 97)
        for (int64_t count = 0; count <= total - first && count < 60; count++) {
            assert_int_equal(weft_shards_read(s, first, count, tokens), WEFT_OK);
            for (int64_t i = 0; i < count; i++)
                assert_int_equal(tokens[i], first + i);
        }
    assert_int_equal(weft_shards_read(s, 0, total, tokens), WEFT_OK);
    assert_int_equal(tokens[total - 1], total - 1);
    free(tokens);
    weft_shards_close(s);
}

static void damage_is_detected(void **state)
{
    (void)state;
    int32_t header[256] = {20240520, 1, 3};
    static const uint16_t tokens[] = {1, 2, 3};
    rejected(in_scratch("none.bin"), "train", "none.bin cannot be read");
    save("x.bin", "", 0, "", 0);
    rejected(in_scratch("x.bin"), "train", "x.bin is empty");
    save("x.bin", header, 1000, "", 0);
    rejected(in_scratch("x.bin"), "train", "x.bin ends at byte 1000");
    save("x.bin", header, sizeof header, tokens, 5);
    rejected(in_scratch("x.bin"), "train", "x.bin, byte 8");
    save("x.bin", header, sizeof header, tokens, 4);
    rejected(in_scratch("x.bin"), "train", "x.bin, byte 8");
    header[1] = 2;
    save("x.bin", header, sizeof header, tokens, 6);
    rejected(in_scratch("x.bin"), "train", "x.bin, byte 4: version 2");
    header[1] = 1;
    header[2] = -3;
    save("x.bin", header, sizeof header, tokens, 6);
    rejected(in_scratch("x.bin"), "train", "x.bin, byte 8: -3");
    header[2] = 3;
    header[0] ^= 1 << 20;
    save("x.bin", header, sizeof header, tokens, 6);
    rejected(in_scratch("x.bin"), "train", "x.bin, byte 0");
    save("x.bin", "", 0, tokens, 3);
    rejected(in_scratch("x.bin"), "train", "odd number of bytes");
    static const uint32_t huge[] = {1, 0x80000000};
    save_llmc("x.bin", 4, 2, huge);
    rejected(in_scratch("x.bin"), "train", "x.bin contains a token 2147483648");
    mkdir(in_scratch("empty"), 0777);
    rejected(in_scratch("empty"), "train", "no token files for train");
}

static void save_prepared(const char *json, const uint16_t *tokens)
{
    mkdir(in_scratch("made"), 0777);
    save("made/data.json", "", 0, json, strlen(json));
    save_llmc("made/train_000000.bin", 2, 3, tokens);
}

static void data_json_must_match(void **state)
{
    (void)state;
    static const uint16_t tokens[] = {1, 9, 2};
    int32_t read[3];
    save_prepared("{\"version\": 1, \"vocab\": 10, \"train_tokens\": 3, \"train_files\": 1, \"train_bytes\": 12, "
                  "\"train_documents\": 2, \"tokenizer_sha256\": \"ab\"}",
                  tokens);
    struct weft_shards *s = opened(in_scratch("made"), "train");
    assert_int_equal(weft_shards_max_token(s), 9);
    assert_int_equal(weft_shards_bytes(s), 12);
    assert_int_equal(weft_shards_documents(s), 2);
    assert_string_equal(weft_shards_tokenizer(s), "ab");
    assert_int_equal(weft_shards_read(s, 0, 3, read), WEFT_OK);
    weft_shards_close(s);

    save_prepared("{\"version\": 1, \"vocab\": 9, \"train_tokens\": 3, \"train_files\": 1}", tokens);
    s = opened(in_scratch("made"), "train");
    assert_int_equal(weft_shards_read(s, 0, 1, read), WEFT_OK);
    assert_int_equal(weft_shards_read(s, 0, 3, read), WEFT_FORMAT);
    assert_non_null(strstr(weft_error(), "train_000000.bin: token 1 is 9"));
    weft_shards_close(s);

    save_prepared("{\"version\": 1, \"vocab\": 10, \"train_tokens\": 4, \"train_files\": 1}", tokens);
    rejected(in_scratch("made"), "train", "made/data.json lists 4 tokens in 1 files for train, but there are 3 in 1");
    save_prepared("{\"version\": 2, \"vocab\": 10, \"train_tokens\": 3, \"train_files\": 1}", tokens);
    rejected(in_scratch("made"), "train", "out of range");
    save_prepared("{\"version\": 1, ", tokens);
    rejected(in_scratch("made"), "train", "data.json:1");
    save_prepared("{\"version\": 1, \"vocab\": 10, \"train_tokens\": 3, \"train_files\": 1}", tokens);
    save("made/train_000000.bin", "", 0, tokens, sizeof tokens);
    rejected(in_scratch("made"), "train", "train_000000.bin, byte 0: no header");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_llmc_and_nanogpt),
        cmocka_unit_test(many_files_are_one_stream),
        cmocka_unit_test(damage_is_detected),
        cmocka_unit_test(data_json_must_match),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
