/* SPDX-License-Identifier: MIT
 *
 * bpe_chars.c - encodes by BPE over characters, as in SentencePiece: a text is not split into words before merging.
 *
 * A character that is not in the vocabulary becomes the tokens of its bytes, or the unknown token. Neither is ever
 * merged. Two adjacent characters are also never merged if they are adjacent in no merge. So a text is cut at all these
 * places, mostly before words. Merging the parts separately gives the same tokens as merging the whole text.
 */
#include "text/tokenizer/bpe.h"

#include <string.h>

static uint64_t join_key(uint32_t before, uint32_t after) { return (uint64_t)before << 32 | after; }

/* ---- construction */

static uint32_t last_code(const struct weft_token *token)
{
    uint32_t code = 0;
    size_t at = token->size - 1;
    while (at > 0 && ((unsigned char)token->bytes[at] & 0xc0) == 0x80)
        at--;
    weft_utf8_read(token->bytes + at, token->size - at, &code);
    return code;
}

static uint32_t first_code(const struct weft_token *token)
{
    uint32_t code = 0;
    weft_utf8_read(token->bytes, token->size, &code);
    return code;
}

static enum weft_status add_chars(struct weft_tokenizer *t, const char *name)
{
    for (int i = 0; i < 128; i++)
        t->ascii[i] = -1;
    for (int i = 0; i < t->vocab; i++) {
        const struct weft_token *token = &t->token[i];
        uint32_t code;
        if (token->byte)
            t->byte[(unsigned char)token->bytes[0]] = i;
        if (token->byte || token->added || weft_utf8_read(token->bytes, token->size, &code) != token->size)
            continue;
        if (code < 128)
            t->ascii[code] = i;
        else
            TRY(weft_map_put(&t->chars, code, i));
    }
    for (int i = 0; i < 256 && t->unknown < 0; i++)
        if (t->byte[i] < 0)
            return FAIL(WEFT_FORMAT,
                        "%s: there is no token <0x%02X>, so texts that contain this byte cannot be encoded", name,
                        (unsigned)i);
    return WEFT_OK;
}

/* Returns the character that replaces a space before merging. */
static uint32_t mark_code(const struct weft_tokenizer *t)
{
    uint32_t code = t->mark.size ? first_code(&t->mark) : ' ';
    for (int i = 0; i < t->normal.steps; i++)
        if (t->normal.step[i].kind == WEFT_NORMAL_REPLACE)
            code = first_code(&t->normal.step[i].to);
    return code;
}

enum weft_status weft_bpe_chars_finish(struct weft_tokenizer *t, const char *name)
{
    uint32_t mark = mark_code(t);
    TRY(add_chars(t, name));
    for (int i = 0; i < t->merges; i++) {
        uint32_t before = last_code(&t->token[t->merge[i].left]), after = first_code(&t->token[t->merge[i].right]);
        if (weft_map_get(&t->joins, join_key(before, after)) < 0)
            TRY(weft_map_put(&t->joins, join_key(before, after), 1));
        if (before > ' ' && before < 0x7f && (after == mark || after == '\n'))
            t->gaps = false;
    }
    t->gaps = t->gaps && !t->fuse_unknown;
    return WEFT_OK;
}

/* ---- encoding */

/* Returns the size of the first part of `piece` that is merged separately; 0 if its first character has no token. */
static size_t part_size(const struct weft_tokenizer *t, const char *piece, size_t size)
{
    uint32_t before = 0, code;
    size_t at = 0, n;
    for (; at < size; at += n, before = code) {
        n = weft_utf8_read(piece + at, size - at, &code);
        if (!n || weft_char_token(t, code) < 0 || (at && weft_map_get(&t->joins, join_key(before, code)) < 0))
            break;
    }
    return at;
}

/* Encodes a character without a token, or a byte that is not valid UTF-8. */
static size_t put_unknown(const struct weft_tokenizer *t, const char *piece, size_t size, bool after_unknown,
                          int32_t *tokens, size_t *count)
{
    uint32_t code;
    size_t n = weft_utf8_read(piece, size, &code);
    n = n ? n : 1;
    if (t->unknown < 0)
        for (size_t i = 0; i < n; i++)
            tokens[(*count)++] = t->byte[(unsigned char)piece[i]];
    else if (!after_unknown || !t->fuse_unknown)
        tokens[(*count)++] = t->unknown;
    return n;
}

enum weft_status weft_bpe_chars(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                size_t size, int32_t *tokens, size_t *count)
{
    bool unknown = false;
    *count = 0;
    for (size_t at = 0, n, more; at < size; at += n) {
        n = part_size(t, piece + at, size - at);
        if (n) {
            TRY(weft_bpe_piece(t, work, piece + at, n, tokens + *count, &more));
            *count += more;
            unknown = false;
        } else {
            n = put_unknown(t, piece + at, size - at, unknown, tokens, count);
            unknown = true;
        }
    }
    return WEFT_OK;
}
