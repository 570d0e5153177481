/* SPDX-License-Identifier: MIT
 *
 * tokenizer.c - builds and validates tokenizers.
 *
 * The byte tokenizer is byte-level BPE without merges. BPE tokenizers accept any bytes, character tokenizers only
 * characters of their vocabulary.
 */
#include "text/tokenizer/bpe.h"

#include "base/json.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum weft_status weft_tokenizer_create(struct weft_tokenizer **out, enum weft_tokenizer_kind kind, int vocab,
                                       int merges)
{
    struct weft_tokenizer *t = *out = calloc(1, sizeof *t);
    if (!t)
        return FAIL(WEFT_NOMEM, "not enough memory for a tokenizer");
    t->kind = kind;
    t->vocab = vocab;
    t->merges = merges;
    t->begin = t->end = t->unknown = -1;
    t->token = weft_arena_alloc(&t->arena, (size_t)vocab * sizeof *t->token);
    t->merge = weft_arena_alloc(&t->arena, (size_t)merges * sizeof *t->merge);
    return t->token && t->merge ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a vocabulary of %d", vocab);
}

void weft_tokenizer_free(struct weft_tokenizer *t)
{
    if (!t)
        return;
    weft_cut_free(t->cut);
    weft_map_release(&t->rank);
    weft_map_release(&t->chars);
    weft_map_release(&t->joins);
    weft_strings_release(&t->whole);
    weft_arena_release(&t->arena);
    free(t);
}

enum weft_status weft_tokenizer_set(struct weft_tokenizer *t, int32_t id, const char *bytes, size_t size, bool special)
{
    assert(id >= 0 && id < t->vocab && !t->token[id].size && size > 0 && size <= INT32_MAX);
    char *copy = weft_arena_alloc(&t->arena, size);
    if (!copy)
        return WEFT_NOMEM;
    memcpy(copy, bytes, size);
    t->token[id] = (struct weft_token){.bytes = copy, .size = (uint32_t)size, .special = special, .added = special};
    return WEFT_OK;
}

/* ---- finishing */

/* Bytes that do not occur in UTF-8 may be missing; encoding a text that contains one is then an error. */
static enum weft_status finish_bytes(struct weft_tokenizer *t, const char *name)
{
    for (int i = 0; i < t->vocab; i++)
        if (t->token[i].size == 1 && !t->token[i].added)
            t->byte[(unsigned char)t->token[i].bytes[0]] = i;
    for (int i = 0; i < 256; i++) {
        t->missing = t->missing || t->byte[i] < 0;
        if (t->byte[i] < 0 && i < 0xf5 && i != 0xc0 && i != 0xc1)
            return FAIL(WEFT_FORMAT, "%s: there is no token for byte %d, so texts that contain it cannot be encoded",
                        name, i);
    }
    return WEFT_OK;
}

/* A tokenizer that is not from a tokenizer.json searches for its special tokens. */
static enum weft_status finish_added(struct weft_tokenizer *t)
{
    int specials = 0;
    for (int i = 0; i < t->vocab; i++)
        specials += t->token[i].special;
    TRY(weft_added_create(t, &t->added, specials));
    for (int i = 0; i < t->vocab; i++)
        if (t->token[i].special)
            weft_added_put(&t->added, t->token[i], i);
    return WEFT_OK;
}

/* Sets the end-of-text token: the token that the template adds at the end of a text, else the special token with one of
 * these names, else the only special token. */
static void finish_end(struct weft_tokenizer *t)
{
    static const char *const names[] = {WEFT_END_OF_TEXT, "<|end_of_text|>", "</s>"};
    int32_t specials = 0, last = -1;
    for (int i = 0; i < t->vocab; i++)
        if (t->token[i].special) {
            specials++;
            last = i;
        }
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (int i = 0; i < t->vocab && t->end < 0; i++) {
            const struct weft_token *token = &t->token[i];
            if (token->special && token->size == strlen(names[k]) && memcmp(token->bytes, names[k], token->size) == 0)
                t->end = i;
        }
    if (t->end < 0 && specials == 1)
        t->end = last;
}

static enum weft_status finish_merges(struct weft_tokenizer *t, const char *name)
{
    for (int i = 0; i < t->merges; i++) {
        const struct weft_merge *m = &t->merge[i];
        uint64_t key = weft_pair_key(m->left, m->right);
        if (weft_map_get(&t->rank, key) >= 0)
            return FAIL(WEFT_FORMAT, "%s: merges %d and %d are the same", name, weft_map_get(&t->rank, key) + 1, i + 1);
        TRY(weft_map_put(&t->rank, key, i));
    }
    return WEFT_OK;
}

/* Determines whether a token can be the encoding of a piece: merging the token's bytes must give the token. */
static enum weft_status is_whole(struct weft_tokenizer *t, int i, struct weft_bpe_work *work, int32_t *tokens,
                                 bool *whole)
{
    const struct weft_token *token = &t->token[i];
    size_t count = 1;
    *whole = !token->added && !token->byte;
    for (uint32_t k = 0; t->kind == WEFT_TOKENIZER_BPE && k < token->size; k++)
        *whole = *whole && t->byte[(unsigned char)token->bytes[k]] >= 0;
    if (!*whole || t->kind == WEFT_TOKENIZER_CHAR || t->ignore_merges)
        return WEFT_OK;
    if (t->kind == WEFT_TOKENIZER_TEXT)
        TRY(weft_bpe_chars(t, work, token->bytes, token->size, tokens, &count));
    else
        TRY(weft_bpe_merge(t, work, token->bytes, token->size, tokens, &count));
    *whole = count == 1 && tokens[0] == i;
    return WEFT_OK;
}

static enum weft_status finish_whole(struct weft_tokenizer *t, struct weft_bpe_work *work, int32_t *tokens)
{
    for (int i = 0; i < t->vocab; i++) {
        const struct weft_token *token = &t->token[i];
        bool whole;
        TRY(is_whole(t, i, work, tokens, &whole));
        if (!whole)
            continue;
        TRY(weft_strings_put(&t->whole, token->bytes, token->size, i));
        t->longest = token->size > t->longest ? token->size : t->longest;
    }
    return WEFT_OK;
}

enum weft_status weft_tokenizer_finish(struct weft_tokenizer *t, const char *name)
{
    struct weft_bpe_work work = {0};
    size_t longest = 1;
    for (int i = 0; i < 256; i++)
        t->byte[i] = -1;
    for (int i = 0; i < t->vocab; i++) {
        assert(t->token[i].size);
        longest = t->token[i].size > longest ? t->token[i].size : longest;
    }
    TRY(finish_merges(t, name));
    if (t->kind == WEFT_TOKENIZER_BPE)
        TRY(finish_bytes(t, name));
    if (t->kind == WEFT_TOKENIZER_TEXT)
        TRY(weft_bpe_chars_finish(t, name));
    if (!t->source)
        TRY(finish_added(t));
    finish_end(t);
    int32_t *tokens = malloc(longest * sizeof *tokens);
    enum weft_status status =
        tokens ? finish_whole(t, &work, tokens) : FAIL(WEFT_NOMEM, "not enough memory for a tokenizer");
    free(tokens);
    weft_bpe_work_release(&work);
    TRY(status);
    if (!t->cut) { /* the tokenizer is not from a tokenizer.json */
        TRY(weft_cut_create(&t->cut));
        TRY(weft_cut_add_gpt2(t->cut));
        t->gaps = true;
    }
    t->bytes = t->kind == WEFT_TOKENIZER_BPE && !t->merges && !t->ignore_merges && !t->normal.steps &&
               t->lead == WEFT_LEAD_NONE && !t->normalized.count && !t->missing && weft_cut_is_gpt2(t->cut);
    return weft_decoder_finish(t);
}

/* ---- kinds */

enum weft_status weft_tokenizer_hand_over(struct weft_tokenizer **out, struct weft_tokenizer *t,
                                          enum weft_status status)
{
    *out = status == WEFT_OK ? t : NULL;
    if (status != WEFT_OK)
        weft_tokenizer_free(t);
    return status;
}

static enum weft_status make_bytes(struct weft_tokenizer **t)
{
    TRY(weft_tokenizer_create(t, WEFT_TOKENIZER_BPE, 257, 0));
    for (int i = 0; i < 256; i++)
        TRY(weft_tokenizer_set(*t, i, &(char){(char)i}, 1, false));
    TRY(weft_tokenizer_set(*t, 256, WEFT_END_OF_TEXT, strlen(WEFT_END_OF_TEXT), true));
    return weft_tokenizer_finish(*t, "bytes");
}

enum weft_status weft_tokenizer_bytes(struct weft_tokenizer **out)
{
    GIVEN(out);
    struct weft_tokenizer *t = NULL;
    enum weft_status status = make_bytes(&t);
    return weft_tokenizer_hand_over(out, t, status);
}

enum { CODES = 0x110000 };

static enum weft_status make_chars(struct weft_tokenizer **t, bool *seen, const char *text, size_t bytes)
{
    int vocab = 0, id = 0;
    uint32_t code;
    for (size_t at = 0, size; at < bytes; at += size) {
        if (!(size = weft_utf8_read(text + at, bytes - at, &code)) || !code)
            return FAIL(WEFT_FORMAT, "byte %zu of the text is zero or not valid UTF-8: use the byte tokenizer", at);
        vocab += !seen[code];
        seen[code] = true;
    }
    if (!vocab)
        return FAIL(WEFT_INVALID, "cannot build a character tokenizer from an empty text");
    TRY(weft_tokenizer_create(t, WEFT_TOKENIZER_CHAR, vocab, 0));
    for (code = 0; code < CODES; code++) {
        char utf8[4];
        if (seen[code])
            TRY(weft_tokenizer_set(*t, id++, utf8, weft_utf8_write(code, utf8), false));
    }
    return weft_tokenizer_finish(*t, "characters");
}

enum weft_status weft_tokenizer_chars(struct weft_tokenizer **out, const char *text, size_t bytes)
{
    struct weft_tokenizer *t = NULL;
    bool *seen = calloc(CODES, sizeof *seen);
    enum weft_status status =
        seen ? make_chars(&t, seen, text, bytes) : FAIL(WEFT_NOMEM, "not enough memory for characters");
    free(seen);
    return weft_tokenizer_hand_over(out, t, status);
}

/* ---- use */

int weft_tokenizer_vocab(const struct weft_tokenizer *t) { return t ? t->vocab : 0; }

bool weft_tokenizer_plain(const struct weft_tokenizer *t)
{
    bool all_special = !t->added.ordinary && !t->normalized.ordinary && !(t->added.count && t->normalized.count);
    return t->kind == WEFT_TOKENIZER_CHAR ||
           (t->kind == WEFT_TOKENIZER_BPE && !t->normal.steps && t->lead == WEFT_LEAD_NONE &&
            weft_cut_is_gpt2(t->cut) && all_special && t->begin < 0 && !t->ignore_merges);
}

int32_t weft_tokenizer_begin(const struct weft_tokenizer *t) { return t ? t->begin : -1; }

int32_t weft_tokenizer_end(const struct weft_tokenizer *t) { return t ? t->end : -1; }

void weft_tokenizer_info(const struct weft_tokenizer *t, struct weft_result *r)
{
    int64_t specials = 0;
    for (int i = 0; i < t->vocab; i++)
        specials += t->token[i].special;
    weft_result_text(r, "kind", t->kind == WEFT_TOKENIZER_CHAR ? "char" : t->merges ? "bpe" : "bytes");
    weft_result_int(r, "vocab", t->vocab);
    weft_result_int(r, "merges", t->merges);
    weft_result_int(r, "specials", specials);
    weft_result_int(r, "end", t->end);
    weft_result_int(r, "longest_bytes", (int64_t)t->longest);
    weft_result_int(r, "begin", t->begin);
}
