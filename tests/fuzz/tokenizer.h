/* SPDX-License-Identifier: MIT
 *
 * tokenizer.h - checks of a loaded tokenizer: texts round-trip, and so does saving and loading.
 */
#ifndef WEFT_FUZZ_TOKENIZER_H
#define WEFT_FUZZ_TOKENIZER_H

#include "fuzz.h"

#include "text/bpe.h"

static inline void round_trip(const struct weft_tokenizer *t, const char *text, size_t size, bool specials)
{
    int32_t *tokens = malloc(size * sizeof *tokens + 1);
    char *back = malloc(size + 1);
    size_t count, bytes;
    if (weft_tokenizer_encode(t, text, size, specials, tokens, size, &count) == WEFT_OK) {
        MUST(count <= size);
        MUST(weft_tokenizer_decode(t, tokens, count, back, size, &bytes) == WEFT_OK);
        MUST(bytes == size && memcmp(back, text, size) == 0);
    } else {
        MUST(t->kind == WEFT_TOKENIZER_CHAR);
    }
    free(back);
    free(tokens);
}

static inline void save_and_load(const struct weft_tokenizer *t)
{
    struct weft_tokenizer *again = NULL;
    const char *path = fuzz_file("", 0);
    MUST(weft_tokenizer_save(t, path) == WEFT_OK && weft_tokenizer_load(&again, path) == WEFT_OK);
    MUST(again->vocab == t->vocab && again->merges == t->merges && again->end == t->end);
    for (int i = 0; i < t->vocab; i++)
        MUST(t->token[i].size == again->token[i].size &&
             memcmp(t->token[i].bytes, again->token[i].bytes, t->token[i].size) == 0);
    weft_tokenizer_free(again);
}

static inline void check_tokenizer(const struct weft_tokenizer *t, const char *text, size_t size)
{
    round_trip(t, text, size, false);
    round_trip(t, text, size, true);
    save_and_load(t);
}

#endif
