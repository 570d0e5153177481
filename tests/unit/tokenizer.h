/* SPDX-License-Identifier: MIT
 *
 * tokenizer.h - shared by the tests of tokenizers. Data that is not in the repository is in the folder $WEFT_DATA.
 */
#ifndef WEFT_TEST_TOKENIZER_H
#define WEFT_TEST_TOKENIZER_H

#include "base/json.h"
#include "test.h"
#include "text/tokenizer/bpe.h"

#define GOLDEN "tests/golden/tokenizer.json"

/* The path of a file in WEFT_DATA; skips the test if that is not set. */
static inline const char *data(const char *name)
{
    static char path[4096];
    const char *folder = getenv("WEFT_DATA");
    if (!folder)
        skip();
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static inline struct weft_tokenizer *load(const char *path)
{
    struct weft_tokenizer *t = NULL;
    check(weft_tokenizer_load(&t, path));
    return t;
}

static inline struct weft_tokenizer *save_and_load(const struct weft_tokenizer *t)
{
    check(weft_tokenizer_save(t, in_scratch("tokenizer.json")));
    struct weft_tokenizer *again = load(in_scratch("tokenizer.json"));
    assert_int_equal(weft_tokenizer_vocab(t), weft_tokenizer_vocab(again));
    assert_int_equal(weft_tokenizer_end(t), weft_tokenizer_end(again));
    return again;
}

static inline struct weft_tokenizer *train(const char *text, size_t size, int vocab, const char *special)
{
    struct weft_tokenizer *t = NULL;
    FILE *f = size ? fmemopen((void *)text, size, "rb") : fopen("/dev/null", "rb");
    assert_non_null(f);
    check(weft_tokenizer_train(&t, f, vocab, &special, 1));
    fclose(f);
    return t;
}

static inline void same_tokenizer(const struct weft_tokenizer *a, const struct weft_tokenizer *b)
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

static inline size_t encode(const struct weft_tokenizer *t, const char *text, size_t size, bool specials,
                            int32_t *tokens)
{
    size_t count;
    check(weft_tokenizer_encode(t, text, size, specials, tokens, size, &count));
    assert_true(count <= size);
    return count;
}

static inline void round_trip(const struct weft_tokenizer *t, const char *text, size_t size, bool specials)
{
    int32_t *tokens = malloc(size * sizeof *tokens + 1);
    char *back = malloc(size + 1);
    size_t count = encode(t, text, size, specials, tokens), bytes = 0;
    check(weft_tokenizer_decode(t, tokens, count, back, size, &bytes));
    assert_int_equal(bytes, size);
    assert_memory_equal(back, text, size);
    free(back);
    free(tokens);
}

#endif
