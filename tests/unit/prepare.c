/* SPDX-License-Identifier: MIT
 *
 * prepare.c - texts become shards without loss: plain text and JSONL, compressed or not, at any file size. Documents
 * keep their split. Errors name the file and the position, and no output is left behind.
 *
 * run-tests: 1 s, asan 4 s
 */
#include "test.h"
#include "text/tokens/internal.h"

#include <sys/stat.h>
#include <zstd.h>

static struct weft_tokenizer *bytes_tokenizer;

static int set_up(void **state)
{
    return make_scratch(state) == 0 && weft_tokenizer_bytes(&bytes_tokenizer) == WEFT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    weft_tokenizer_free(bytes_tokenizer);
    return remove_scratch(state);
}

static const char *save(const char *name, const void *data, size_t bytes)
{
    const char *path = in_scratch(name);
    write_file(path, data, bytes);
    return path;
}

static enum weft_status prepare(const char *input, const char *field, double val, int64_t shard_tokens,
                                struct weft_prepared *sum)
{
    const char *inputs[] = {input, NULL};
    struct weft_prepare how = {inputs, in_scratch("out"), bytes_tokenizer, field, val, shard_tokens, NULL, NULL};
    remove_all(in_scratch("out"));
    return weft_prepare(&how, sum);
}

static void rejected(const char *input, const char *field, const char *why)
{
    struct weft_prepared sum;
    assert_int_not_equal(prepare(input, field, 0.1, 1000, &sum), WEFT_OK);
    if (!strstr(weft_error(), why))
        print_error("expected \"%s\" in: %s\n", why, weft_error());
    assert_non_null(strstr(weft_error(), why));
    assert_int_equal(access(in_scratch("out"), F_OK), -1);
    assert_int_equal(access(in_scratch("out.partial"), F_OK), -1);
}

/* The text of a split of out/, with end-of-text tokens as `end`; "" if it has no files. The caller frees it. */
static char *text_of(const char *split, char end)
{
    struct weft_shards *s = NULL;
    if (weft_shards_open(&s, in_scratch("out"), split) != WEFT_OK)
        return strdup("");
    int64_t n = weft_shards_tokens(s);
    int32_t *tokens = malloc((size_t)n * sizeof *tokens);
    char *text = malloc((size_t)n + 1);
    int64_t ends = 0;
    assert_int_equal(weft_shards_read(s, 0, n, tokens), WEFT_OK);
    for (int64_t i = 0; i < n; i++) {
        ends += tokens[i] == 256;
        text[i] = tokens[i] == 256 ? end : (char)tokens[i];
    }
    text[n] = 0;
    assert_int_equal(weft_shards_bytes(s), n - ends);
    assert_int_equal(weft_shards_documents(s), ends + 1);
    free(tokens);
    weft_shards_close(s);
    return text;
}

static void split_is(const char *split, const char *expected)
{
    char *text = text_of(split, '|');
    assert_string_equal(text, expected);
    free(text);
}

static void the_tail_of_plain_text_is_for_validation(void **state)
{
    (void)state;
    struct weft_prepared sum;
    static const char text[] = "abcdefghijklmnopqrst"; /* 20 */
    char input[256];
    snprintf(input, sizeof input, "%s", save("a.txt", text, 20));
    static const double shares[] = {0, 0.01, 0.1, 0.25, 0.5, 0.75};
    for (int64_t shard = 1; shard <= 21; shard += 4) /* most cuts are at multiples of 5; 21 gives one file */
        for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
            int cut = 20 - (int)(20 * shares[i]);
            char train[21];
            assert_int_equal(prepare(input, NULL, shares[i], shard, &sum), WEFT_OK);
            snprintf(train, sizeof train, "%.*s", cut, text);
            split_is("train", train);
            split_is("val", text + cut);
            assert_int_equal(sum.documents, 1);
            assert_int_equal(sum.bytes, 20);
            assert_int_equal(sum.train.files, (cut + shard - 1) / shard);
            assert_int_equal(sum.val.tokens, 20 - cut);
        }
}

static void several_texts_are_documents(void **state)
{
    (void)state;
    struct weft_prepared sum;
    char one[256], two[256];
    snprintf(one, sizeof one, "%s", save("1.txt", "0123456789", 10));
    snprintf(two, sizeof two, "%s", save("2.txt", "abcdefghij", 10));
    const char *inputs[] = {one, two, NULL};
    for (int64_t shard = 1; shard < 20; shard += 3) {
        struct weft_prepare how = {inputs, in_scratch("out"), bytes_tokenizer, NULL, 0.2, shard, NULL, NULL};
        remove_all(in_scratch("out"));
        assert_int_equal(weft_prepare(&how, &sum), WEFT_OK);
        assert_int_equal(sum.documents, 2);
        split_is("train", "01234567|abcdefgh");
        split_is("val", "89|ij");
    }
}

static void jsonl_fields_are_documents(void **state)
{
    (void)state;
    struct weft_prepared sum;
    static const char lines[] = "{\"text\": \"one\", \"id\": 123456789012345678901234567890}\n"
                                "\n"
                                "{\"meta\": {\"text\": \"no\"}, \"text\": \"tw\\u00f6 \\ud83d\\ude00\"}\r\n"
                                "{\"text\": \"\"}\n"
                                "{\"text\": \"la\\nst\"}";
    assert_int_equal(prepare(save("a.jsonl", lines, sizeof lines - 1), "text", 0, 4, &sum), WEFT_OK);
    assert_int_equal(sum.documents, 4);
    split_is("train", "one|tw\xc3\xb6 \xf0\x9f\x98\x80||la\nst");

    static const char nul[] = "{\"text\": \"a\\u0000b\"}\n";
    assert_int_equal(prepare(save("a.jsonl", nul, sizeof nul - 1), "text", 0, 4, &sum), WEFT_OK);
    assert_int_equal(sum.bytes, 3);
}

static int in_split(const char *split, int document)
{
    char word[32], *text = text_of(split, '|'), *padded = malloc(strlen(text) + 3);
    sprintf(padded, "|%s|", text);
    snprintf(word, sizeof word, "|document %d|", document);
    int found = strstr(padded, word) != NULL;
    free(padded);
    free(text);
    return found;
}

/* The split of a document depends only on its text and the share, and a larger share contains a smaller one. */
static void documents_keep_their_split(void **state)
{
    (void)state;
    enum { DOCUMENTS = 300 };
    struct weft_prepared sum;
    char *text = NULL;
    size_t size = 0;
    int val[2][DOCUMENTS], chosen = 0;
    for (int reverse = 0; reverse < 2; reverse++) {
        FILE *f = open_memstream(&text, &size);
        for (int i = 0; i < DOCUMENTS; i++)
            fprintf(f, "{\"text\": \"document %d\"}\n", reverse ? DOCUMENTS - 1 - i : i);
        fclose(f);
        assert_int_equal(prepare(save("d.jsonl", text, size), "text", reverse ? 0.3 : 0.1, 1000, &sum), WEFT_OK);
        free(text);
        assert_int_equal(sum.train.documents + sum.val.documents, DOCUMENTS);
        for (int i = 0; i < DOCUMENTS; i++) {
            val[reverse][i] = in_split("val", i);
            assert_int_equal(in_split("train", i), !val[reverse][i]);
        }
    }
    for (int i = 0; i < DOCUMENTS; i++) {
        assert_true(val[1][i] >= val[0][i]);
        chosen += val[0][i];
    }
    assert_in_range(chosen, 15, 50);
}

/* ---- compressed */

static char *prose(size_t bytes)
{
    char *text = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        text[i] = weft_below(3, i, 6) ? (char)('a' + weft_below(4, i, 26)) : ' ';
    return text;
}

/* Two frames with checksums, as the zstd command writes them. */
static size_t compress_frames(const char *text, size_t bytes, char *to, size_t room)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    size_t third = bytes / 3, n = ZSTD_compress2(c, to, room, text, third);
    n += ZSTD_compress2(c, to + n, room - n, text + third, bytes - third);
    ZSTD_freeCCtx(c);
    return n;
}

static void compressed_gives_the_same_files(void **state)
{
    (void)state;
    enum { BYTES = 700001 };
    struct weft_prepared sum;
    char *text = prose(BYTES), *packed = malloc(2 * BYTES), command[600];
    size_t n = compress_frames(text, BYTES, packed, 2 * BYTES);
    assert_int_equal(prepare(save("a.txt", text, BYTES), NULL, 0.1, 100000, &sum), WEFT_OK);
    assert_int_equal(rename(in_scratch("out"), in_scratch("plain")), 0);
    assert_int_equal(prepare(save("a.zst", packed, n), NULL, 0.1, 100000, &sum), WEFT_OK);
    snprintf(command, sizeof command, "diff -r %s %s", in_scratch("plain"), in_scratch("out"));
    assert_int_equal(system(command), 0);

    for (size_t cut = n - 1; cut > 10; cut = cut * 2 / 3) /* the file name does not matter */
        rejected(save("a.txt", packed, cut), NULL, "a.txt ends at byte");
    packed[n / 2] ^= 4;
    rejected(save("a.zst", packed, n), NULL, "a.zst, near byte");
    packed[n / 2] ^= 4;
    memcpy(packed + n, "more", 4);
    rejected(save("a.zst", packed, n + 4), NULL, "a.zst, near byte");
    free(text);
    free(packed);
}

/* ---- pieces */

static enum weft_status collect(void *context, const char *text, size_t bytes)
{
    FILE *f = context;
    return fwrite(text, 1, bytes, f) == bytes && bytes <= WEFT_PIECE_BYTES ? WEFT_OK : FAIL(WEFT_IO, "too much");
}

static void pieces_end_between_words(void **state)
{
    (void)state;
    static const struct {
        const char *unit;
        size_t cut; /* offset in the unit where it may be cut; 0 means between any two characters */
    } rows[] = {
        {"word ", 4},
        {"dot.\n", 4},
        {"\xe4\xb8\xad\xe6\x96\x87", 0}, /* no spaces */
        {"\xf0\x9f\x98\x80\xf0\x9f\x98\x80", 0},
    };
    enum { BYTES = WEFT_PIECE_BYTES + 40 };
    char *text = malloc(BYTES);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t unit = strlen(rows[i].unit);
        for (size_t j = 0; j < BYTES; j++)
            text[j] = rows[i].unit[j % unit];
        size_t n = weft_piece_bytes(text, BYTES);
        assert_in_range(n, WEFT_PIECE_BYTES - unit, WEFT_PIECE_BYTES);
        assert_true((text[n] & 0xc0) != 0x80);
        if (rows[i].cut)
            assert_int_equal(n % unit, rows[i].cut);
        assert_int_equal(weft_piece_bytes(text, 17), 17);
    }
    free(text);
}

static void pieces_lose_nothing(void **state)
{
    (void)state;
    size_t bytes = 2 * WEFT_PIECE_BYTES + 12345, size = 0;
    char *text = malloc(bytes), *back = NULL;
    memset(text, 'x', bytes);
    for (size_t i = 0; i < bytes; i += 777)
        text[i] = ' ';
    struct weft_source *s;
    FILE *to = open_memstream(&back, &size);
    assert_int_equal(weft_source_open(&s, save("long.txt", text, bytes)), WEFT_OK);
    assert_int_equal(weft_documents_plain(s, collect, to), WEFT_OK);
    weft_source_close(s);
    fclose(to);
    assert_int_equal(size, bytes);
    assert_memory_equal(back, text, bytes);
    free(back);
    free(text);
}

/* ---- errors */

static void invalid_input_is_rejected(void **state)
{
    (void)state;
#define JSONL(text) save("x.jsonl", text, sizeof text - 1), "text"
    rejected(JSONL("{\"text\": \"a\"}\n{\"text\": \"b\"\n{\"text\": \"c\"}\n"), "x.jsonl:2:");
    rejected(JSONL("{\"text\": \"a\"}\n\n{\"txt\": \"b\"}\n"), "x.jsonl:3: no text field \"text\"");
    rejected(JSONL("{\"text\": 5}\n"), "x.jsonl:1: no text field");
    rejected(JSONL("[\"text\"]\n"), "x.jsonl:1: no text field");
    rejected(JSONL("{\"text\": \"\xff\"}\n"), "x.jsonl:1:");
    rejected(JSONL("{\"text\": \"\\ud800\"}\n"), "x.jsonl:1:");
    rejected(JSONL(""), "no text is left to train on");
    rejected(JSONL("{\"text\": \"\"}\n"), "no text is left to train on");
    rejected(in_scratch("none.txt"), NULL, "none.txt cannot be read");
    rejected(scratch, NULL, "cannot be read");

    size_t bytes = WEFT_LINE_BYTES + 2;
    char *line = malloc(bytes);
    memset(line, ' ', bytes);
    line[0] = '\n';
    rejected(save("x.jsonl", line, bytes), "text", "x.jsonl:2: the line has 16777216 bytes or more");
    free(line);
}

static void folders_are_not_overwritten(void **state)
{
    (void)state;
    struct weft_prepared sum;
    char input[256];
    snprintf(input, sizeof input, "%s", save("a.txt", "some text", 9));
    const char *inputs[] = {input, NULL};
    struct weft_prepare how = {inputs, in_scratch("out"), bytes_tokenizer, NULL, 0, 100, NULL, NULL};
    remove_all(in_scratch("out"));
    mkdir(in_scratch("out.partial"), 0777);
    assert_int_equal(weft_prepare(&how, &sum), WEFT_IO);
    assert_non_null(strstr(weft_error(), "out.partial exists"));
    rmdir(in_scratch("out.partial"));
    mkdir(in_scratch("out"), 0777);
    how.out = in_scratch("out");
    assert_int_equal(weft_prepare(&how, &sum), WEFT_INVALID);
    assert_non_null(strstr(weft_error(), "exists already"));
    rmdir(in_scratch("out"));
    how.out = "/proc/no/such/folder";
    assert_int_equal(weft_prepare(&how, &sum), WEFT_IO);
    how.out = in_scratch("out/");
    assert_int_equal(weft_prepare(&how, &sum), WEFT_OK);
    split_is("train", "some text");
    how.out = in_scratch("out/with/parent/folders");
    assert_int_equal(weft_prepare(&how, &sum), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tail_of_plain_text_is_for_validation),
        cmocka_unit_test(several_texts_are_documents),
        cmocka_unit_test(jsonl_fields_are_documents),
        cmocka_unit_test(documents_keep_their_split),
        cmocka_unit_test(compressed_gives_the_same_files),
        cmocka_unit_test(pieces_end_between_words),
        cmocka_unit_test(pieces_lose_nothing),
        cmocka_unit_test(invalid_input_is_rejected),
        cmocka_unit_test(folders_are_not_overwritten),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
