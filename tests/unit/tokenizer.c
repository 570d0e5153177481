/* SPDX-License-Identifier: MIT
 *
 * tokenizer.c - the kinds of tokenizers; test vectors from golden/tokenizer.py and of GPT-2; damaged files.
 *
 * run-tests: 3 s, asan 5 s, tsan 5 s
 */
#include "tokenizer.h"

#include <jansson.h>

#define VECTORS "tests/golden/tokenizer_vectors.jsonl"

/* ---- kinds */

static void bytes_are_tokens(void **state)
{
    (void)state;
    struct weft_tokenizer *t = NULL;
    int32_t tokens[16];
    size_t count;
    check(weft_tokenizer_bytes(&t));
    assert_int_equal(weft_tokenizer_vocab(t), 257);
    assert_int_equal(weft_tokenizer_end(t), 256);
    for (int again = 0; again < 2; again++) {
        count = encode(t, "\0\xff" WEFT_END_OF_TEXT "a", 16, true, tokens);
        assert_int_equal(count, 4);
        assert_memory_equal(tokens, ((int32_t[]){0, 255, 256, 'a'}), 16);
        assert_int_equal(encode(t, WEFT_END_OF_TEXT, 13, false, tokens), 13);
        struct weft_tokenizer *read = save_and_load(t);
        same_tokenizer(t, read);
        weft_tokenizer_free(t);
        t = read;
    }
    weft_tokenizer_free(t);
}

static void characters_are_tokens(void **state)
{
    (void)state;
    struct weft_tokenizer *t = NULL;
    int32_t tokens[8];
    size_t count;
    check(weft_tokenizer_chars(&t, "織a b\n\"a🧵", strlen("織a b\n\"a🧵")));
    assert_int_equal(weft_tokenizer_vocab(t), 7); /* \n space " a b 織 🧵 */
    assert_int_equal(weft_tokenizer_end(t), -1);
    struct weft_tokenizer *read = save_and_load(t);
    same_tokenizer(t, read);
    weft_tokenizer_free(t);
    assert_int_equal(encode(read, "b織🧵\n", strlen("b織🧵\n"), false, tokens), 4);
    assert_memory_equal(tokens, ((int32_t[]){4, 5, 6, 0}), 16);
    assert_int_equal(weft_tokenizer_encode(read, "abc", 3, false, tokens, 8, &count), WEFT_INVALID);
    assert_non_null(strstr(weft_error(), "byte 2"));
    assert_int_equal(weft_tokenizer_encode(read, "a\xff", 2, false, tokens, 8, &count), WEFT_INVALID);
    weft_tokenizer_free(read);
    assert_int_equal(weft_tokenizer_chars(&t, "ab\xc3", 3), WEFT_FORMAT);
    assert_int_equal(weft_tokenizer_chars(&t, "", 0), WEFT_INVALID);
    assert_null(t);
}

static void little_room(void **state)
{
    (void)state;
    struct weft_tokenizer *t = load(GOLDEN);
    const char *text = "the weft remembered";
    int32_t all[32], some[32];
    char back[32] = {0};
    size_t count = encode(t, text, strlen(text), false, all), few, bytes;
    memset(some, 0x77, sizeof some);
    check(weft_tokenizer_encode(t, text, strlen(text), false, some, 2, &few));
    assert_int_equal(few, count);
    assert_memory_equal(some, all, 8);
    assert_int_equal(some[2], 0x77777777);
    check(weft_tokenizer_encode(t, text, strlen(text), false, NULL, 0, &few));
    assert_int_equal(few, count);
    check(weft_tokenizer_decode(t, all, count, back, 5, &bytes));
    assert_int_equal(bytes, strlen(text));
    assert_string_equal(back, "the w");
    check(weft_tokenizer_encode(t, NULL, 0, true, NULL, 0, &few));
    assert_int_equal(few, 0);
    assert_int_equal(weft_tokenizer_decode(t, (int32_t[]){1, 400}, 2, back, 8, &bytes), WEFT_INVALID);
    assert_int_equal(weft_tokenizer_decode(t, (int32_t[]){-1}, 1, back, 8, &bytes), WEFT_INVALID);
    weft_tokenizer_free(t);
}

/* ---- vectors */

static struct text from_hex(const char *hex)
{
    struct text t = {.size = strlen(hex) / 2};
    t.bytes = malloc(t.size + 1);
    for (size_t i = 0; i < t.size; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        t.bytes[i] = (char)byte;
    }
    return t;
}

static void check_vector(const struct weft_tokenizer *t, const char *text, size_t size, bool specials,
                         const json_t *ids)
{
    int32_t *tokens = malloc(size * sizeof *tokens + 1);
    size_t count = encode(t, text, size, specials, tokens);
    bool same = count == json_array_size(ids);
    for (size_t i = 0; same && i < count; i++)
        same = tokens[i] == json_integer_value(json_array_get(ids, i));
    free(tokens);
    if (!same)
        fail_msg("\"%.*s\" gives different tokens", (int)size, text);
}

/* Calls `look` on every line of a JSONL file; returns the number of lines. */
static int each_line(const char *path, void (*look)(const struct weft_tokenizer *t, const json_t *line),
                     const struct weft_tokenizer *t)
{
    struct text all = read_file(path);
    int lines = 0;
    assert_non_null(all.bytes);
    for (char *line = strtok(all.bytes, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        json_t *object = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(object);
        look(t, object);
        json_decref(object);
    }
    free(all.bytes);
    return lines;
}

static void check_own(const struct weft_tokenizer *t, const json_t *line)
{
    const char *hex = json_string_value(json_object_get(line, "train"));
    if (hex) {
        struct text text = from_hex(hex);
        struct weft_tokenizer *trained = train(text.bytes, text.size, 400, WEFT_END_OF_TEXT);
        same_tokenizer(t, trained);
        weft_tokenizer_free(trained);
        free(text.bytes);
        return;
    }
    struct text text = from_hex(json_string_value(json_object_get(line, "hex")));
    const json_t *ids = json_object_get(line, "ids"), *special = json_object_get(line, "ids_special");
    check_vector(t, text.bytes, text.size, false, ids);
    check_vector(t, text.bytes, text.size, true, special ? special : ids);
    free(text.bytes);
}

static void own_vectors(void **state)
{
    (void)state;
    struct weft_tokenizer *t = load(GOLDEN), *again = save_and_load(t);
    same_tokenizer(t, again);
    assert_true(each_line(VECTORS, check_own, again) > 150);
    weft_tokenizer_free(again);
    weft_tokenizer_free(t);
}

static void check_gpt2(const struct weft_tokenizer *t, const json_t *line)
{
    const json_t *text = json_object_get(line, "text");
    check_vector(t, json_string_value(text), json_string_length(text), false, json_object_get(line, "ids"));
}

static void gpt2_vectors(void **state)
{
    (void)state;
    struct weft_tokenizer *t = load(data("gpt2-bpe")), *again = save_and_load(t);
    assert_int_equal(weft_tokenizer_vocab(t), 50257);
    assert_int_equal(weft_tokenizer_end(t), 50256);
    same_tokenizer(t, again);
    weft_tokenizer_free(again);
    assert_true(each_line(data("gpt2-bpe/gpt2_vectors.jsonl"), check_gpt2, t) >= 71);
    weft_tokenizer_free(t);
}

static void same_stream(const struct weft_tokenizer *t, struct text text, int64_t expected, const char *hash)
{
    struct weft_sha256 sha;
    char hex[65];
    int32_t *tokens = malloc(text.size * sizeof *tokens + 1);
    size_t count = encode(t, text.bytes, text.size, false, tokens);
    weft_sha256_init(&sha);
    for (size_t i = 0; i < count; i++)
        weft_sha256_add(&sha, (unsigned char[]){(unsigned char)tokens[i], (unsigned char)(tokens[i] >> 8)}, 2);
    weft_sha256_hex(&sha, hex);
    assert_int_equal(count, expected);
    assert_string_equal(hex, hash);
    free(tokens);
}

static int streams, streams_checked;

static void check_stream(const struct weft_tokenizer *t, const json_t *line)
{
    const char *name = json_string_value(json_object_get(line, "file"));
    const char *hash = json_string_value(json_object_get(line, "sha256_u16le"));
    if (!hash) /* such lines have counts of parts of a stream */
        return;
    struct text text = read_file(data(name));
    bool large = SANITIZED && text.size > 1 << 21;
    streams++;
    if (text.bytes && !large) {
        same_stream(t, text, json_integer_value(json_object_get(line, "tokens")), hash);
        streams_checked++;
    } else {
        print_message("# %s: %s\n", name, large ? "too large for a sanitizer" : "not found");
    }
    free(text.bytes);
}

/* One of the streams is stored with the list itself, so at least one is always found. */
static void gpt2_streams(void **state)
{
    (void)state;
    struct weft_tokenizer *t = load(data("gpt2-bpe"));
    streams = streams_checked = 0;
    each_line(data("gpt2-bpe/golden_token_counts.jsonl"), check_stream, t);
    print_message("# %d of %d streams match\n", streams_checked, streams);
    assert_true(streams_checked > 0);
    weft_tokenizer_free(t);
}

/* ---- damaged files */

/* Replaces the first `from` in the file with `to`; if `to` is NULL, truncates the file there. */
static void damaged(const char *json, const char *from, const char *to, enum weft_status expected, const char *says)
{
    const char *at = strstr(json, from);
    struct weft_tokenizer *t = NULL;
    char *text = NULL;
    size_t size = 0;
    assert_non_null(at);
    FILE *f = open_memstream(&text, &size);
    fprintf(f, "%.*s%s%s", (int)(at - json), json, to ? to : "", to ? at + strlen(from) : "");
    fclose(f);
    enum weft_status status = weft_tokenizer_parse(&t, "a.json", text, size);
    if (status != expected || !strstr(weft_error(), says) || !strstr(weft_error(), "a.json"))
        fail_msg("%s -> %s: status %d, %s", from, to, status, weft_error());
    assert_null(t);
    free(text);
}

static void damaged_files(void **state)
{
    (void)state;
    struct text json = read_file(GOLDEN);
    static const struct {
        const char *from, *to;
        enum weft_status status;
        const char *says;
    } rows[] = {
        {"\"model\"", NULL, WEFT_FORMAT, "a.json:"},
        {"\"model\"", "\"modell\"", WEFT_UNSUPPORTED, "model (null)"},
        {"\"BPE\"", "\"Uni\\u0007gram\"", WEFT_UNSUPPORTED, "model (Uni\\x07gram)"},
        {"\"normalizer\": null", "\"normalizer\": {\"type\": \"NFKC\"}", WEFT_UNSUPPORTED, "normalizer (NFKC)"},
        {"\"truncation\": null", "\"truncation\": {\"max_length\": 8}", WEFT_UNSUPPORTED, "truncation"},
        {"\"type\": \"ByteLevel\"", "\"type\": \"Whitespace\"", WEFT_UNSUPPORTED, "pre_tokenizer (Whitespace)"},
        {"\"add_prefix_space\": false", "\"add_prefix_spaces\": false", WEFT_UNSUPPORTED, "add_prefix_space"},
        {"\"dropout\": null", "\"dropout\": 0.1", WEFT_UNSUPPORTED, "dropout"},
        {"\"dropout\": null", "\"end_of_word_suffix\": \"x\"", WEFT_UNSUPPORTED, "end_of_word_suffix"},
        {"\"lstrip\": false", "\"lstrip\": true", WEFT_UNSUPPORTED, "lstrip"},
        {"\"id\": 0", "\"id\": 5", WEFT_FORMAT, "a different id"},
        {"\"id\": 0", "\"id\": null", WEFT_FORMAT, "content or id"},
        {"\"!\": 1", "\"!\": 2", WEFT_FORMAT, "same id as another token, 2"},
        {"\"!\": 1", "\"!\": 400", WEFT_FORMAT, "id 400, but there are 400"},
        {"\"!\": 1", "\"!\": -1", WEFT_FORMAT, "id -1"},
        {"\"!\": 1", "\"!\": 9223372036854775807", WEFT_FORMAT, "but there are"},
        {"\"!\": 1", "\"!\": \"one\"", WEFT_FORMAT, "is not an integer"},
        {"\"!\": 1", "\"\": 1", WEFT_FORMAT, "is not written in"},
        {"\"~\": ", "\"!~!\": ", WEFT_FORMAT, "no token for byte 126"},
        {"\"!\": 1", "\"\u7e54\": 1", WEFT_FORMAT, "characters for bytes"},
        {"\"!\": 1", "\"\\\"\": 1", WEFT_FORMAT, "duplicate"},
        {"\"merges\": [", "\"merges\": [3, ", WEFT_FORMAT, "merge 1 is not two tokens"},
        {"\"merges\": [", "\"merges\": [\"!\", ", WEFT_FORMAT, "merge 1 is \"!\""},
        {"\"merges\": [", "\"merges\": [\"~ ~\", ", WEFT_FORMAT, "merge 1 needs the token \"~~\""},
        {"\"merges\": [", "\"merges\": [\"! !\", ", WEFT_FORMAT, "merges 1 and 71 are the same"},
        {"\"merges\": [", "\"merges\": [[\"a\", \"\"], ", WEFT_FORMAT, "merge 1 needs the token \"\""},
        {"\"merges\": [", "\"merges\": [\"<|endoftext|> a\", ", WEFT_FORMAT, "merge 1 needs"},
        {"\"merges\": [", "\"merges\": {}, \"x\": [", WEFT_FORMAT, "list of merges is missing"},
        {"\"vocab\": {", "\"vocab\": {}, \"x\": {", WEFT_FORMAT, "vocabulary is missing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        damaged(json.bytes, rows[i].from, rows[i].to, rows[i].status, rows[i].says);
    free(json.bytes);
    struct weft_tokenizer *t = NULL;
    assert_int_equal(weft_tokenizer_load(&t, "/no/such/file"), WEFT_IO);
    assert_int_equal(weft_tokenizer_load(&t, "tests/golden"), WEFT_OK); /* a folder */
    weft_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_tokens), cmocka_unit_test(characters_are_tokens), cmocka_unit_test(little_room),
        cmocka_unit_test(own_vectors),      cmocka_unit_test(gpt2_vectors),          cmocka_unit_test(gpt2_streams),
        cmocka_unit_test(damaged_files),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
