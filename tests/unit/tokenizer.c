/* SPDX-License-Identifier: MIT
 *
 * tokenizer.c - tokenizers against vectors (own, from golden/tokenizer.py, and GPT-2's), against a plain merge loop, on
 * random bytes, on damaged files, and by time. Data that is not part of the tree is found in the folder WEFT_DATA.
 * WEFT_STRINGS: how many random strings make the round trip.
 */
#include "base/json.h"
#include "text/bpe.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED true
#elif defined __has_feature
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

#define OK(expr) assert_int_equal((expr), WEFT_OK)
#define GOLDEN "tests/golden/tokenizer.json"
#define VECTORS "tests/golden/tokenizer_vectors.jsonl"

/* ---- helpers */

struct text {
    char *bytes;
    size_t size;
};

static struct text slurp(const char *path)
{
    struct text t = {0};
    FILE *f = fopen(path, "rb");
    if (!f)
        return t;
    fseek(f, 0, SEEK_END);
    t.size = (size_t)ftell(f);
    rewind(f);
    t.bytes = malloc(t.size + 1);
    assert_non_null(t.bytes);
    assert_int_equal(fread(t.bytes, 1, t.size, f), t.size);
    t.bytes[t.size] = 0;
    fclose(f);
    return t;
}

/* A file of WEFT_DATA; without the folder the test is skipped. */
static const char *data(const char *name)
{
    static char path[4096];
    const char *folder = getenv("WEFT_DATA");
    if (!folder)
        skip();
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static struct weft_tokenizer *load(const char *path)
{
    struct weft_tokenizer *t = NULL;
    if (weft_tokenizer_load(&t, path) != WEFT_OK)
        fail_msg("%s", weft_error());
    return t;
}

/* A name for a file that is gone when the test is over. */
static const char *scratch_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/weft-tokenizer-%ld.json", (long)getpid());
    return path;
}

static struct weft_tokenizer *save_and_load(const struct weft_tokenizer *t)
{
    OK(weft_tokenizer_save(t, scratch_path()));
    struct weft_tokenizer *again = load(scratch_path());
    remove(scratch_path());
    assert_int_equal(weft_tokenizer_vocab(t), weft_tokenizer_vocab(again));
    assert_int_equal(weft_tokenizer_end(t), weft_tokenizer_end(again));
    return again;
}

static struct weft_tokenizer *train(const char *text, size_t size, int vocab, const char *special)
{
    struct weft_tokenizer *t = NULL;
    FILE *f = size ? fmemopen((void *)text, size, "rb") : fopen("/dev/null", "rb");
    assert_non_null(f);
    if (weft_tokenizer_train(&t, f, vocab, &special, 1) != WEFT_OK)
        fail_msg("%s", weft_error());
    fclose(f);
    return t;
}

static void same_tokenizer(const struct weft_tokenizer *a, const struct weft_tokenizer *b)
{
    assert_int_equal(a->vocab, b->vocab);
    assert_int_equal(a->merges, b->merges);
    for (int i = 0; i < a->vocab; i++) {
        assert_int_equal(a->token[i].size, b->token[i].size);
        assert_memory_equal(a->token[i].bytes, b->token[i].bytes, a->token[i].size);
    }
    if (a->merges)
        assert_memory_equal(a->merge, b->merge, (size_t)a->merges * sizeof *a->merge);
}

static size_t encode(const struct weft_tokenizer *t, const char *text, size_t size, bool specials, int32_t *tokens)
{
    size_t count;
    if (weft_tokenizer_encode(t, text, size, specials, tokens, size, &count) != WEFT_OK)
        fail_msg("%s", weft_error());
    assert_true(count <= size);
    return count;
}

static void round_trip(const struct weft_tokenizer *t, const char *text, size_t size, bool specials)
{
    int32_t *tokens = malloc(size * sizeof *tokens + 1);
    char *back = malloc(size + 1);
    size_t count = encode(t, text, size, specials, tokens), bytes = 0;
    OK(weft_tokenizer_decode(t, tokens, count, back, size, &bytes));
    assert_int_equal(bytes, size);
    assert_memory_equal(back, text, size);
    free(back);
    free(tokens);
}

/* ---- kinds */

static void bytes_are_tokens(void **state)
{
    (void)state;
    struct weft_tokenizer *t = NULL;
    int32_t tokens[16];
    size_t count;
    OK(weft_tokenizer_bytes(&t));
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
    OK(weft_tokenizer_chars(&t, "織a b\n\"a🧵", strlen("織a b\n\"a🧵")));
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
    OK(weft_tokenizer_encode(t, text, strlen(text), false, some, 2, &few));
    assert_int_equal(few, count);
    assert_memory_equal(some, all, 8);
    assert_int_equal(some[2], 0x77777777);
    OK(weft_tokenizer_encode(t, text, strlen(text), false, NULL, 0, &few));
    assert_int_equal(few, count);
    OK(weft_tokenizer_decode(t, all, count, back, 5, &bytes));
    assert_int_equal(bytes, strlen(text));
    assert_string_equal(back, "the w");
    OK(weft_tokenizer_encode(t, NULL, 0, true, NULL, 0, &few));
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
        fail_msg("\"%.*s\" gives other tokens", (int)size, text);
}

/* Calls `check` on every line of a JSONL file; tells how many there are. */
static int each_line(const char *path, void (*check)(const struct weft_tokenizer *t, const json_t *line),
                     const struct weft_tokenizer *t)
{
    struct text all = slurp(path);
    int lines = 0;
    assert_non_null(all.bytes);
    for (char *line = strtok(all.bytes, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        json_t *object = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(object);
        check(t, object);
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

static void check_stream(const struct weft_tokenizer *t, const json_t *line)
{
    const char *name = json_string_value(json_object_get(line, "file"));
    const char *hash = json_string_value(json_object_get(line, "sha256_u16le"));
    struct text text = hash ? slurp(data(name)) : (struct text){0};
    struct weft_sha256 sha;
    char hex[65];
    if (!text.bytes || (SANITIZED && text.size > 1 << 21)) {
        print_message("# %s: not here, or too large for a sanitizer\n", name);
        free(text.bytes);
        return;
    }
    int32_t *tokens = malloc(text.size * sizeof *tokens);
    size_t count = encode(t, text.bytes, text.size, false, tokens);
    weft_sha256_init(&sha);
    for (size_t i = 0; i < count; i++)
        weft_sha256_add(&sha, (unsigned char[]){(unsigned char)tokens[i], (unsigned char)(tokens[i] >> 8)}, 2);
    weft_sha256_hex(&sha, hex);
    assert_int_equal(count, json_integer_value(json_object_get(line, "tokens")));
    assert_string_equal(hex, hash);
    free(tokens);
    free(text.bytes);
}

static void gpt2_streams(void **state)
{
    (void)state;
    struct weft_tokenizer *t = load(data("gpt2-bpe"));
    each_line(data("gpt2-bpe/golden_token_counts.jsonl"), check_stream, t);
    weft_tokenizer_free(t);
}

/* ---- training */

static void reference_merges(void **state)
{
    (void)state;
    struct text corpus = slurp(data("gpt2-bpe/cs336-corpus.en"));
    struct text reference = slurp(data("gpt2-bpe/cs336-train-bpe-reference-merges.txt"));
    json_t *vocab = json_load_file(data("gpt2-bpe/cs336-train-bpe-reference-vocab.json"), 0, NULL);
    struct weft_tokenizer *t = train(corpus.bytes, corpus.size, 500, WEFT_END_OF_TEXT);
    OK(weft_tokenizer_save(t, scratch_path()));
    json_t *root = json_load_file(scratch_path(), 0, NULL), *model = json_object_get(root, "model");
    remove(scratch_path());
    assert_true(json_equal(json_object_get(model, "vocab"), vocab));
    size_t i = 0;
    for (char *line = strtok(reference.bytes, "\n"); line; line = strtok(NULL, "\n"), i++)
        assert_string_equal(json_string_value(json_array_get(json_object_get(model, "merges"), i)), line);
    assert_int_equal(i, json_array_size(json_object_get(model, "merges")));
    json_decref(root);
    json_decref(vocab);
    weft_tokenizer_free(t);
    free(reference.bytes);
    free(corpus.bytes);
}

/* A text many times over has the same merges as once, whatever blocks it is read in; specials with gaps inside
 * included. */
static void training_in_blocks(void **state)
{
    (void)state;
    static const char once[] = "the shuttle, the warp and the weft; the loom's own song. it's woven <end of text>";
    const size_t size = sizeof once - 1, times = SANITIZED ? 60000 : 120000; /* a block is 4 MiB */
    char *often = malloc(size * times);
    for (size_t i = 0; i < times; i++)
        memcpy(often + i * size, once, size);
    struct weft_tokenizer *a = train(once, size, 290, "<end of text>");
    struct weft_tokenizer *b = train(often, size * times, 290, "<end of text>");
    same_tokenizer(a, b);
    weft_tokenizer_free(b);
    weft_tokenizer_free(a);
    memset(often, 'a', size * times); /* one word, larger than a block */
    a = train(often, size * times, 260, "<end of text>");
    assert_int_equal(a->token[259].size, 8);
    weft_tokenizer_free(a);
    free(often);
}

static void training_refuses(void **state)
{
    (void)state;
    static const struct {
        int vocab;
        const char *specials[2], *says;
    } rows[] = {
        {256, {"<end>"}, "give 257"}, {-1, {"<end>"}, "give 257"},           {300, {"x"}, "2 to 1024"},
        {300, {""}, "2 to 1024"},     {300, {"\xc4\xa0t"}, "visible ASCII"}, {300, {"<end>", "<end>"}, "twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weft_tokenizer *t = NULL;
        FILE *f = fopen("/dev/null", "rb");
        int count = rows[i].specials[1] ? 2 : 1;
        assert_int_equal(weft_tokenizer_train(&t, f, rows[i].vocab, rows[i].specials, count), WEFT_INVALID);
        assert_non_null(strstr(weft_error(), rows[i].says));
        assert_null(t);
        fclose(f);
    }
    struct weft_tokenizer *t = train("", 0, 1000, "<end>"); /* nothing to learn from: the bytes alone */
    assert_int_equal(weft_tokenizer_vocab(t), 257);
    round_trip(t, "any <end> bytes\xff", 16, true);
    weft_tokenizer_free(t);
}

/* ---- merging */

/* The definition: the lowest rank, of equal ones the leftmost, one at a time. */
static size_t merge_plainly(const struct weft_tokenizer *t, const char *text, size_t size, int32_t *tokens)
{
    for (size_t i = 0; i < size; i++)
        tokens[i] = t->byte[(unsigned char)text[i]];
    for (;;) {
        int best = t->merges;
        size_t at = 0;
        for (size_t i = 0; i + 1 < size; i++)
            for (int m = 0; m < best; m++)
                if (t->merge[m].left == tokens[i] && t->merge[m].right == tokens[i + 1]) {
                    best = m;
                    at = i;
                }
        if (best == t->merges)
            return size;
        tokens[at] = t->merge[best].made;
        memmove(tokens + at + 1, tokens + at + 2, (--size - at - 1) * sizeof *tokens);
    }
}

/* Merges in any order, with tokens that can be made in several ways: what training never gives but a file may. */
static struct weft_tokenizer *random_merges(uint64_t key)
{
    enum { MOST = 24 };
    char text[MOST][64];
    struct weft_merge merge[MOST];
    struct weft_tokenizer *t = NULL;
    int tokens = 0, merges = 0;
    uint64_t draw = 0;
    strcpy(text[tokens++], "a");
    strcpy(text[tokens++], "b");
    while (merges < MOST && tokens < MOST) {
        int left = (int)weft_below(key, draw++, (uint64_t)tokens),
            right = (int)weft_below(key, draw++, (uint64_t)tokens);
        int made = 0;
        if (strlen(text[left]) + strlen(text[right]) > 8)
            continue;
        char both[64];
        snprintf(both, sizeof both, "%s%s", text[left], text[right]);
        strcpy(text[tokens], both);
        while (strcmp(text[made], text[tokens]) != 0)
            made++;
        tokens += made == tokens;
        bool known = false;
        for (int i = 0; i < merges; i++)
            known = known || (merge[i].left == left && merge[i].right == right);
        if (!known)
            merge[merges++] = (struct weft_merge){left, right, made};
        for (int i = merges - 1; !known && i > 0 && weft_below(key, draw++, 2); i--) { /* to some earlier rank */
            struct weft_merge m = merge[i];
            merge[i] = merge[i - 1];
            merge[i - 1] = m;
        }
    }
    OK(weft_tokenizer_create(&t, WEFT_TOKENIZER_BPE, 254 + tokens, merges));
    for (int i = 0; i < tokens; i++)
        OK(weft_tokenizer_set(t, i, text[i], strlen(text[i]), false));
    for (int b = 0, id = tokens; b < 256; b++)
        if (b != 'a' && b != 'b')
            OK(weft_tokenizer_set(t, id++, &(char){(char)b}, 1, false));
    memcpy(t->merge, merge, (size_t)merges * sizeof *merge);
    OK(weft_tokenizer_finish(t, "test"));
    return t;
}

static void merges_as_defined(void **state)
{
    (void)state;
    enum { LONGEST = 200 };
    struct weft_bpe_work work;
    for (uint64_t key = 1; key <= 300; key++) {
        struct weft_tokenizer *t = random_merges(key);
        work = (struct weft_bpe_work){0};
        for (uint64_t n = 1; n <= 10; n++) {
            char text[LONGEST];
            int32_t plain[LONGEST], fast[LONGEST];
            size_t size = 1 + weft_below(key, 1000 + n, LONGEST), count;
            for (size_t i = 0; i < size; i++)
                text[i] = (char)('a' + weft_below(key, 10000 * n + i, 2));
            OK(weft_bpe_piece(t, &work, text, size, fast, &count));
            assert_int_equal(count, merge_plainly(t, text, size, plain));
            assert_memory_equal(fast, plain, count * sizeof *fast);
        }
        weft_bpe_work_release(&work);
        weft_tokenizer_free(t);
    }
}

/* ---- random bytes */

/* Bytes of several kinds: any, text with damage, few letters, white space of all sorts, specials whole and in parts. */
static size_t random_text(uint64_t key, char *text, size_t most)
{
    static const char *const parts[] = {
        "a",           "the",  " ",    "  ",   "\n",   "'s",           "'ll",    "é", "織", "🧵",
        "1",           "½",    "\xc3", "\xff", "\x80", "\xed\xa0\x80", "\u3000", ".", "!",  "<|endoftext|>",
        "<|endoftext", "\xf0", "Т",    "\t"};
    size_t size = weft_below(key, 0, most + 1), at = 0;
    uint64_t kind = weft_below(key, 1, 3);
    for (uint64_t i = 0; at < size; i++) {
        if (kind == 0) {
            text[at++] = (char)weft_below(key, 2 + i, 256);
            continue;
        }
        const char *part = parts[weft_below(key, 2 + i, kind == 1 ? 3 : sizeof parts / sizeof *parts)];
        for (; *part && at < size; part++)
            text[at++] = *part;
    }
    return size;
}

static void random_bytes_return(void **state)
{
    (void)state;
    enum { LONGEST = 160 };
    const char *asked = getenv("WEFT_STRINGS"), *folder = getenv("WEFT_DATA");
    long strings = asked ? atol(asked) : 100000;
    struct weft_tokenizer *t[2] = {load(GOLDEN), folder ? load(data("gpt2-bpe")) : NULL};
    weft_threads_use(1);
    for (long i = 0; i < strings; i++) {
        char text[LONGEST], back[LONGEST];
        int32_t tokens[LONGEST];
        const struct weft_tokenizer *one = t[i % 2] ? t[i % 2] : t[0];
        size_t size = random_text(weft_key(7, (uint64_t)i), text, LONGEST), bytes;
        size_t count = encode(one, text, size, i % 3 == 0, tokens);
        OK(weft_tokenizer_decode(one, tokens, count, back, LONGEST, &bytes));
        if (bytes != size || memcmp(text, back, size) != 0)
            fail_msg("random string %ld does not return", i);
    }
    print_message("# %ld strings\n", strings);
    weft_threads_use(weft_threads_limit());
    weft_tokenizer_free(t[0]);
    weft_tokenizer_free(t[1]);
}

/* Piece by piece on the text as a whole, without chunks and without the table of whole pieces. */
static size_t encode_plainly(const struct weft_tokenizer *t, const char *text, size_t size, int32_t *tokens)
{
    struct weft_bpe_work work = {0};
    struct weft_cutter *cutter = NULL;
    const char *piece;
    size_t count = 0, more, bytes;
    OK(weft_cutter_create(&cutter, t->cut));
    weft_cutter_start(cutter, text, size);
    for (;;) {
        OK(weft_cutter_next(cutter, &piece, &bytes));
        if (!bytes)
            break;
        OK(weft_bpe_merge(t, &work, piece, bytes, tokens + count, &more));
        count += more;
    }
    weft_cutter_free(cutter);
    weft_bpe_work_release(&work);
    return count;
}

static void threads_and_chunks(void **state)
{
    (void)state;
    enum { BYTES = 5000000 / (SANITIZED ? 4 : 1) }; /* more than a wave of chunks */
    struct weft_tokenizer *t = load(GOLDEN);
    char *text = malloc(BYTES);
    int32_t *whole = malloc(BYTES * sizeof *whole), *chunked = malloc(BYTES * sizeof *chunked);
    for (size_t at = 0, i = 0; at < BYTES; i++)
        at += random_text(weft_key(9, i), text + at, (size_t)weft_min(300, (int64_t)(BYTES - at)));
    size_t count = encode_plainly(t, text, BYTES, whole);
    for (int threads = 1; threads <= 4; threads++) {
        OK(weft_threads_set(threads));
        assert_int_equal(encode(t, text, BYTES, false, chunked), count);
        assert_memory_equal(whole, chunked, count * sizeof *whole);
        round_trip(t, text, BYTES, true);
    }
    OK(weft_threads_set(0));
    free(chunked);
    free(whole);
    free(text);
    weft_tokenizer_free(t);
}

/* ---- time */

struct runner {
    const char *text;
    size_t size;
    double seconds; /* the best of a few runs, in this process's own time: others may be busy */
};

/* Turn by turn, so that a busy moment slows all. */
static void race(const struct weft_tokenizer *t, struct runner *r, int runners, int32_t *tokens)
{
    for (int turn = 0; turn < 7; turn++)
        for (int i = 0; i < runners; i++) {
            clock_t start = clock();
            encode(t, r[i].text, r[i].size, false, tokens);
            double s = (double)(clock() - start) / CLOCKS_PER_SEC;
            r[i].seconds = turn == 0 || s < r[i].seconds ? s : r[i].seconds;
        }
}

static void fill(char *text, size_t size, const char *const *parts, uint64_t count)
{
    for (size_t at = 0, i = 0; at < size; i++)
        for (const char *c = parts[weft_below(3, i, count)]; *c && at < size; c++)
            text[at++] = *c;
}

/* No text takes much longer than prose of its size, nor a longer one than its length says. */
static void time_is_linear(void **state)
{
    (void)state;
    enum { MEGABYTE = 1000000 };
    static const struct {
        const char *name, *parts[8];
        uint64_t count;
    } kinds[] = {
        {"one letter", {"a"}, 1},
        {"letters", {"a", "e", "t", "s", "n", "o", "r", "i"}, 8},
        {"one sign", {"."}, 1},
        {"punctuation", {".", ",", "!", "-", "=", "*", "#", "/"}, 8},
        {"spaces", {" "}, 1},
        {"white space", {" ", "\n", "\t", "  ", "\u3000"}, 5},
        {"CJK", {"織", "機", "的", "是", "不", "一", "人", "在"}, 8},
        {"broken UTF-8", {"\xe7", "\xb9", "\x94", "\xff"}, 4},
    };
    if (SANITIZED)
        skip();
    struct weft_tokenizer *t = load(data("gpt2-bpe"));
    struct text prose = slurp(data("se-prose/val.txt"));
    char *text = malloc(4 * MEGABYTE);
    int32_t *tokens = malloc(4 * MEGABYTE * sizeof *tokens);
    weft_threads_use(1);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct runner r[] = {{prose.bytes, MEGABYTE, 0}, {text, MEGABYTE, 0}, {text, 4 * MEGABYTE, 0}};
        fill(text, 4 * MEGABYTE, kinds[i].parts, kinds[i].count);
        race(t, r, 3, tokens);
        double to_prose = r[1].seconds / r[0].seconds, to_one = r[2].seconds / r[1].seconds;
        print_message("# %s: %.1f ms, %.2f times prose; 4 MB %.2f times that\n", kinds[i].name, r[1].seconds * 1e3,
                      to_prose, to_one);
        assert_true(to_prose <= 10);
        assert_true(to_one <= 5);
    }
    weft_threads_use(weft_threads_limit());
    free(tokens);
    free(text);
    free(prose.bytes);
    weft_tokenizer_free(t);
}

/* ---- damaged files */

/* Replaces the first `from` in the file; NULL: cuts the file off there. */
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
    struct text json = slurp(GOLDEN);
    static const struct {
        const char *from, *to;
        enum weft_status status;
        const char *says;
    } rows[] = {
        {"\"model\"", NULL, WEFT_FORMAT, "a.json:"},
        {"\"model\"", "\"modell\"", WEFT_UNSUPPORTED, "model (null)"},
        {"\"BPE\"", "\"Uni\\u0007gram\"", WEFT_UNSUPPORTED, "model (Uni?gram)"},
        {"\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}", WEFT_UNSUPPORTED, "normalizer (NFC)"},
        {"\"type\": \"ByteLevel\"", "\"type\": \"Whitespace\"", WEFT_UNSUPPORTED, "pre_tokenizer (Whitespace)"},
        {"\"add_prefix_space\": false", "\"add_prefix_space\": true", WEFT_UNSUPPORTED, "add_prefix_space"},
        {"\"use_regex\": true", "\"use_regex\": false", WEFT_UNSUPPORTED, "pre_tokenizer"},
        {"\"dropout\": null", "\"dropout\": 0.1", WEFT_UNSUPPORTED, "dropout"},
        {"\"dropout\": null", "\"ignore_merges\": true", WEFT_UNSUPPORTED, "ignore_merges"},
        {"\"lstrip\": false", "\"lstrip\": true", WEFT_UNSUPPORTED, "lstrip"},
        {"\"id\": 0", "\"id\": 5", WEFT_FORMAT, "another number"},
        {"\"id\": 0", "\"id\": null", WEFT_FORMAT, "content or id"},
        {"\"!\": 1", "\"!\": 2", WEFT_FORMAT, "number 2 of another"},
        {"\"!\": 1", "\"!\": 400", WEFT_FORMAT, "number 400, but there are 400"},
        {"\"!\": 1", "\"!\": -1", WEFT_FORMAT, "number -1"},
        {"\"!\": 1", "\"!\": 9223372036854775807", WEFT_FORMAT, "but there are"},
        {"\"!\": 1", "\"!\": \"one\"", WEFT_FORMAT, "has no number"},
        {"\"!\": 1", "\"\": 1", WEFT_FORMAT, "is not written in"},
        {"\"~\": ", "\"!~!\": ", WEFT_FORMAT, "no token is the byte 126"},
        {"\"!\": 1", "\"\u7e54\": 1", WEFT_FORMAT, "stand for bytes"},
        {"\"!\": 1", "\"\\\"\": 1", WEFT_FORMAT, "duplicate"},
        {"\"merges\": [", "\"merges\": [3, ", WEFT_FORMAT, "merge 1 is not two tokens"},
        {"\"merges\": [", "\"merges\": [\"!\", ", WEFT_FORMAT, "merge 1 is \"!\""},
        {"\"merges\": [", "\"merges\": [\"~ ~\", ", WEFT_FORMAT, "merge 1 needs the token \"~~\""},
        {"\"merges\": [", "\"merges\": [\"! !\", ", WEFT_FORMAT, "merges 1 and 71 are the same"},
        {"\"merges\": [", "\"merges\": [[\"a\", \"\"], ", WEFT_FORMAT, "merge 1 needs the token \"\""},
        {"\"merges\": [", "\"merges\": [\"<|endoftext|> a\", ", WEFT_FORMAT, "merge 1 needs"},
        {"\"merges\": [", "\"merges\": {}, \"x\": [", WEFT_FORMAT, "no list of merges"},
        {"\"vocab\": {", "\"vocab\": {}, \"x\": {", WEFT_FORMAT, "no vocabulary"},
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
        cmocka_unit_test(bytes_are_tokens),    cmocka_unit_test(characters_are_tokens),
        cmocka_unit_test(little_room),         cmocka_unit_test(own_vectors),
        cmocka_unit_test(gpt2_vectors),        cmocka_unit_test(gpt2_streams),
        cmocka_unit_test(reference_merges),    cmocka_unit_test(training_in_blocks),
        cmocka_unit_test(training_refuses),    cmocka_unit_test(merges_as_defined),
        cmocka_unit_test(random_bytes_return), cmocka_unit_test(threads_and_chunks),
        cmocka_unit_test(time_is_linear),      cmocka_unit_test(damaged_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
