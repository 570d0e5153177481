/* SPDX-License-Identifier: MIT
 *
 * tokenizer.h - for the tests of tokenizers beside it. Data that is not part of the tree is found in the folder
 * WEFT_DATA.
 */
#ifndef WEFT_TEST_TOKENIZER_H
#define WEFT_TEST_TOKENIZER_H

#include "base/json.h"
#include "text/bpe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
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

struct text {
    char *bytes;
    size_t size;
};

static inline struct text slurp(const char *path)
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
    if (weft_tokenizer_load(&t, path) != WEFT_OK)
        fail_msg("%s", weft_error());
    return t;
}

/* A name for a file that is gone when the test is over. */
static inline const char *scratch_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/weft-tokenizer-%ld.json", (long)getpid());
    return path;
}

static inline struct weft_tokenizer *save_and_load(const struct weft_tokenizer *t)
{
    OK(weft_tokenizer_save(t, scratch_path()));
    struct weft_tokenizer *again = load(scratch_path());
    remove(scratch_path());
    assert_int_equal(weft_tokenizer_vocab(t), weft_tokenizer_vocab(again));
    assert_int_equal(weft_tokenizer_end(t), weft_tokenizer_end(again));
    return again;
}

static inline struct weft_tokenizer *train(const char *text, size_t size, int vocab, const char *special)
{
    struct weft_tokenizer *t = NULL;
    FILE *f = size ? fmemopen((void *)text, size, "rb") : fopen("/dev/null", "rb");
    assert_non_null(f);
    if (weft_tokenizer_train(&t, f, vocab, &special, 1) != WEFT_OK)
        fail_msg("%s", weft_error());
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
    if (weft_tokenizer_encode(t, text, size, specials, tokens, size, &count) != WEFT_OK)
        fail_msg("%s", weft_error());
    assert_true(count <= size);
    return count;
}

static inline void round_trip(const struct weft_tokenizer *t, const char *text, size_t size, bool specials)
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

#endif
