/* SPDX-License-Identifier: MIT
 *
 * tokenizer_bytes.c - arbitrary bytes: compared with a simple merge loop, round trips, chunks and threads, and time.
 * WEFT_STRINGS sets the number of random strings for round trips.
 *
 * run-tests: 20 s, asan 44 s
 */
#include "tokenizer.h"

#include <math.h>
#include <time.h>

/* ---- merging */

/* The definition: merges the pair of lowest rank, the leftmost on ties, one at a time. */
static size_t merge_simple(const struct weft_tokenizer *t, const char *text, size_t size, int32_t *tokens)
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

/* Merges in random order, and tokens that can be formed in several ways: training never produces this, but a file can.
 */
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
        for (int i = merges - 1; !known && i > 0 && weft_below(key, draw++, 2); i--) { /* move to a lower rank */
            struct weft_merge m = merge[i];
            merge[i] = merge[i - 1];
            merge[i - 1] = m;
        }
    }
    check(weft_tokenizer_create(&t, WEFT_TOKENIZER_BPE, 254 + tokens, merges));
    for (int i = 0; i < tokens; i++)
        check(weft_tokenizer_set(t, i, text[i], strlen(text[i]), false));
    for (int b = 0, id = tokens; b < 256; b++)
        if (b != 'a' && b != 'b')
            check(weft_tokenizer_set(t, id++, &(char){(char)b}, 1, false));
    memcpy(t->merge, merge, (size_t)merges * sizeof *merge);
    check(weft_tokenizer_finish(t, "test"));
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
            check(weft_bpe_piece(t, &work, text, size, fast, &count));
            assert_int_equal(count, merge_simple(t, text, size, plain));
            assert_memory_equal(fast, plain, count * sizeof *fast);
        }
        weft_bpe_work_release(&work);
        weft_tokenizer_free(t);
    }
}

/* Merges with long-range effects: each symbol is two bytes, and later pairs of adjacent symbols merge first. So the
 * last symbol of a row decides how the first ones are paired. */
static struct weft_tokenizer *dominoes(int symbols)
{
    struct weft_tokenizer *t = NULL;
    int vocab = 256 + 2 * symbols - 1;
    check(weft_tokenizer_create(&t, WEFT_TOKENIZER_BPE, vocab, 2 * symbols - 1));
    for (int b = 0; b < 256; b++)
        check(weft_tokenizer_set(t, b, &(char){(char)b}, 1, false));
    for (int i = 0; i < symbols; i++) {
        char row[] = {(char)(i / 128), (char)(128 + i % 128), (char)((i + 1) / 128), (char)(128 + (i + 1) % 128)};
        check(weft_tokenizer_set(t, 256 + i, row, 2, false));
        t->merge[i] = (struct weft_merge){i / 128, 128 + i % 128, 256 + i};
        if (i + 1 == symbols)
            break;
        check(weft_tokenizer_set(t, 256 + symbols + i, row, 4, false));
        t->merge[2 * symbols - 2 - i] = (struct weft_merge){256 + i, 257 + i, 256 + symbols + i};
    }
    check(weft_tokenizer_finish(t, "test"));
    return t;
}

static void windows_agree(struct weft_tokenizer *t, const char *text, size_t size)
{
    struct weft_bpe_work work = {0};
    int32_t *whole = malloc(size * sizeof *whole), *windows = malloc(size * sizeof *windows);
    size_t count, counted;
    check(weft_bpe_merge(t, &work, text, size, windows, &count));
    check(weft_bpe_merge_list(t, &work, text, size, whole, &counted));
    assert_int_equal(count, counted);
    assert_memory_equal(windows, whole, count * sizeof *whole);
    weft_bpe_work_release(&work);
    free(windows);
    free(whole);
    weft_tokenizer_free(t);
}

static void windows_join(void **state)
{
    (void)state;
    enum { SIZE = 60000, KEYS = 100, SYMBOLS = 20 };
    char *text = malloc(SIZE);
    /* Odd, because the texts of even keys are periodic. */
    int every = one_of(THREADS_SANITIZED ? 21 : SANITIZED ? 15 : 9);
    for (uint64_t key = 1; key <= KEYS; key += (uint64_t)every) {
        size_t period = 1 + weft_below(key, 0, 40);
        for (size_t i = 0; i < SIZE; i++)
            text[i] = (char)('a' + weft_below(key, key % 2 ? i : i % period, 2));
        windows_agree(random_merges(key), text, SIZE);
    }
    for (int symbols = 1800; symbols < 1800 + SYMBOLS; symbols += every) {
        for (int i = 0; i < SIZE; i++)
            text[i] = (char)(i % 2 ? 128 + i / 2 % symbols % 128 : i / 2 % symbols / 128);
        windows_agree(dominoes(symbols), text, SIZE);
    }
    free(text);
}

/* ---- random bytes */

/* Random bytes, or text with invalid UTF-8, few letters, all kinds of white space, complete and partial special tokens.
 */
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

static void random_bytes_round_trip(void **state)
{
    (void)state;
    enum { LONGEST = 160 };
    const char *asked = getenv("WEFT_STRINGS"), *folder = getenv("WEFT_DATA");
    long strings = asked ? atol(asked) : THREADS_SANITIZED ? 5000 : SANITIZED ? 10000 : 30000;
    struct weft_tokenizer *t[2] = {load(GOLDEN), folder ? load(data("gpt2-bpe")) : NULL};
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, 1);
    for (long i = 0; i < strings; i++) {
        char text[LONGEST], back[LONGEST];
        int32_t tokens[LONGEST];
        const struct weft_tokenizer *one = t[i % 2] ? t[i % 2] : t[0];
        size_t size = random_text(weft_key(7, (uint64_t)i), text, LONGEST), bytes;
        size_t count = encode(one, text, size, i % 3 == 0, tokens);
        check(weft_tokenizer_decode(one, tokens, count, back, LONGEST, &bytes));
        if (bytes != size || memcmp(text, back, size) != 0)
            fail_msg("random string %ld changes in a round trip", i);
    }
    print_message("# %ld strings\n", strings);
    weft_threads_leave(&scope);
    weft_tokenizer_free(t[0]);
    weft_tokenizer_free(t[1]);
}

/* Encodes the whole text piece by piece, without chunks and without the table of whole pieces. */
static size_t encode_simple(const struct weft_tokenizer *t, const char *text, size_t size, int32_t *tokens)
{
    struct weft_bpe_work work = {0};
    struct weft_cutter *cutter = NULL;
    const char *piece;
    size_t count = 0, more, bytes;
    check(weft_cutter_create(&cutter, t->cut));
    weft_cutter_start(cutter, text, size);
    for (;;) {
        check(weft_cutter_next(cutter, &piece, &bytes));
        if (!bytes)
            break;
        check(weft_bpe_merge(t, &work, piece, bytes, tokens + count, &more));
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
    size_t count = encode_simple(t, text, BYTES, whole);
    for (int threads = 1; threads <= 4; threads++) {
        check(weft_threads_set(threads));
        assert_int_equal(encode(t, text, BYTES, false, chunked), count);
        assert_memory_equal(whole, chunked, count * sizeof *whole);
        round_trip(t, text, BYTES, true);
    }
    check(weft_threads_set(0));
    free(chunked);
    free(whole);
    free(text);
    weft_tokenizer_free(t);
}

/* ---- time */

struct runner {
    const char *text;
    size_t size;
    double seconds; /* the best of a few runs, in CPU time, since other processes may be busy */
};

/* Alternates between the texts, so that a busy moment slows all of them. */
static void race(const struct weft_tokenizer *t, struct runner *r, int runners, int32_t *tokens)
{
    for (int round = 0; round < 7; round++)
        for (int i = 0; i < runners; i++) {
            clock_t start = clock();
            encode(t, r[i].text, r[i].size, false, tokens);
            double s = (double)(clock() - start) / CLOCKS_PER_SEC;
            r[i].seconds = r[i].seconds == 0 || s < r[i].seconds ? s : r[i].seconds;
        }
}

static void fill(char *text, size_t size, const char *const *parts, uint64_t count)
{
    for (size_t at = 0, i = 0; at < size; i++)
        for (const char *c = parts[weft_below(3, i, count)]; *c && at < size; c++)
            text[at++] = *c;
}

/* No kind of text takes much longer than prose of the same size, and time is proportional to length. */
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
        {"one symbol", {"."}, 1},
        {"punctuation", {".", ",", "!", "-", "=", "*", "#", "/"}, 8},
        {"spaces", {" "}, 1},
        {"white space", {" ", "\n", "\t", "  ", "\u3000"}, 5},
        {"CJK", {"織", "機", "的", "是", "不", "一", "人", "在"}, 8},
        {"broken UTF-8", {"\xe7", "\xb9", "\x94", "\xff"}, 4},
    };
    if (SANITIZED)
        skip();
    struct weft_tokenizer *t = load(data("gpt2-bpe"));
    struct text prose = read_file(data("se-prose/val.txt"));
    char *text = malloc(4 * MEGABYTE);
    int32_t *tokens = malloc(4 * MEGABYTE * sizeof *tokens);
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, 1);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct runner r[] = {{prose.bytes, MEGABYTE, 0}, {text, MEGABYTE, 0}, {text, 4 * MEGABYTE, 0}};
        fill(text, 4 * MEGABYTE, kinds[i].parts, kinds[i].count);
        double to_prose = INFINITY, to_one = INFINITY;
        for (int races = 0; races < 8 && !(to_prose <= 10 && to_one <= 5); races++) { /* a busy machine needs more */
            race(t, r, 3, tokens);
            to_prose = r[1].seconds / r[0].seconds;
            to_one = r[2].seconds / r[1].seconds;
        }
        print_message("# %s: %.1f ms, %.2f times prose; 4 MB %.2f times that\n", kinds[i].name, r[1].seconds * 1e3,
                      to_prose, to_one);
        assert_true(to_prose <= 10);
        assert_true(to_one <= 5);
    }
    weft_threads_leave(&scope);
    free(tokens);
    free(text);
    free(prose.bytes);
    weft_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_as_defined),       cmocka_unit_test(windows_join),
        cmocka_unit_test(random_bytes_round_trip), cmocka_unit_test(threads_and_chunks),
        cmocka_unit_test(time_is_linear),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
