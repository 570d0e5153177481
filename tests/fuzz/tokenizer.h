/* SPDX-License-Identifier: MIT
 *
 * tokenizer.h - checks of a loaded tokenizer: texts round-trip if nothing normalizes them, gaps split them, and saving
 * and loading gives the same tokenizer.
 */
#ifndef WEFT_FUZZ_TOKENIZER_H
#define WEFT_FUZZ_TOKENIZER_H

#include "fuzz.h"

#include "text/tokenizer/bpe.h"

static inline bool lossless(const struct weft_tokenizer *t)
{
    bool plain = !t->normal.steps && t->lead == WEFT_LEAD_NONE && weft_cut_is_gpt2(t->cut);
    return t->kind == WEFT_TOKENIZER_CHAR || (t->kind == WEFT_TOKENIZER_BPE && plain);
}

static inline void round_trip(const struct weft_tokenizer *t, const char *text, size_t size, bool specials)
{
    struct weft_ids ids = {0};
    size_t bytes;
    enum weft_status status = weft_encode(t, text, size, specials, true, &ids);
    MUST(status == WEFT_OK || status == WEFT_INVALID || status == WEFT_UNSUPPORTED);
    MUST(status == WEFT_OK || t->kind == WEFT_TOKENIZER_CHAR || !lossless(t) || t->missing);
    if (status == WEFT_OK) {
        MUST(weft_tokenizer_decode(t, ids.id, ids.count, NULL, 0, &bytes) == WEFT_OK);
        char *back = malloc(bytes + 1);
        MUST(weft_tokenizer_decode(t, ids.id, ids.count, back, bytes, &bytes) == WEFT_OK);
        MUST(!lossless(t) || (bytes == size && (!size || memcmp(back, text, size) == 0)));
        free(back);
    }
    free(ids.id);
}

static inline bool spaced(const struct weft_added *a)
{
    for (int i = 0; i < a->count; i++)
        if (memchr(a->text[i].bytes, ' ', a->text[i].size) || memchr(a->text[i].bytes, '\n', a->text[i].size))
            return true;
    return false;
}

/* If a tokenizer reports that gaps split every text, the tokens of both sides are those of the whole. */
static inline void split_at_gap(const struct weft_tokenizer *t, const char *text, size_t size)
{
    struct weft_ids whole = {0}, parts = {0};
    size_t gap = weft_gap_first(text, size / 2, size);
    if (t->kind == WEFT_TOKENIZER_CHAR || !t->gaps || gap == size || spaced(&t->added))
        return;
    if (weft_encode(t, text, size, true, true, &whole) == WEFT_OK) {
        MUST(weft_encode(t, text, gap, true, true, &parts) == WEFT_OK);
        MUST(weft_encode(t, text + gap, size - gap, true, false, &parts) == WEFT_OK);
        MUST(parts.count == whole.count && memcmp(parts.id, whole.id, whole.count * sizeof *whole.id) == 0);
    }
    free(whole.id);
    free(parts.id);
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
    split_at_gap(t, text, size);
    save_and_load(t);
}

#endif
