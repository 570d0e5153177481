/* SPDX-License-Identifier: MIT
 *
 * decode.c - turns tokens into text. The texts of the tokens are concatenated, except for characters that the decoder
 * removes at the beginning. Bytes are output unchanged, whether or not they are valid UTF-8.
 */
#include "text/tokenizer/bpe.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- the text of a token */

/* Returns the byte represented by a name <0xHH>, or -1. */
static int byte_of(const char *name, size_t size)
{
    if (size != 6 || memcmp(name, "<0x", 3) != 0 || !isxdigit((unsigned char)name[3]) ||
        !isxdigit((unsigned char)name[4]) || name[5] != '>')
        return -1;
    return (int)strtol((char[]){name[3], name[4], 0}, NULL, 16);
}

static enum weft_status make_text(struct weft_tokenizer *t, int id, const struct weft_token *token,
                                  struct weft_buffer buffer[2])
{
    char name[8];
    const char *text = token->bytes;
    size_t size = token->size;
    if (token->byte) {
        snprintf(name, sizeof name, "<0x%02X>", (unsigned char)token->bytes[0]);
        text = name;
        size = strlen(name);
    }
    TRY(weft_normalize(&t->decoder.replace, text, size, true, buffer, &text, &size));
    int byte = t->decoder.bytes ? byte_of(text, size) : -1;
    if (byte >= 0) {
        name[0] = (char)byte;
        text = name;
        size = 1;
    }
    char *copy = weft_arena_alloc(&t->arena, size + !size);
    if (!copy)
        return WEFT_NOMEM;
    memcpy(copy, text, size);
    t->shown[id] = (struct weft_token){.bytes = copy, .size = (uint32_t)size};
    return WEFT_OK;
}

enum weft_status weft_decoder_finish(struct weft_tokenizer *t)
{
    struct weft_buffer buffer[2] = {0};
    enum weft_status status = WEFT_OK;
    t->shown = t->token;
    if (!t->decoder.replace.steps && !t->decoder.bytes && !(t->normal.steps && t->normalized.count))
        return WEFT_OK;
    t->shown = weft_arena_alloc(&t->arena, (size_t)t->vocab * sizeof *t->shown);
    if (!t->shown)
        return WEFT_NOMEM;
    for (int i = 0; i < t->vocab && status == WEFT_OK; i++)
        status = make_text(t, i, &t->token[i], buffer);
    for (int i = 0; i < t->normalized.count && status == WEFT_OK; i++) /* decoded to the text that is searched for */
        status = make_text(t, t->normalized.id[i], &t->normalized.text[i], buffer);
    free(buffer[0].bytes);
    free(buffer[1].bytes);
    return status;
}

/* ---- the text of several tokens */

struct writing {
    char *text;
    size_t room, at;
};

static void put(struct writing *w, const char *bytes, size_t size)
{
    size_t left = w->at < w->room ? w->room - w->at : 0;
    if (left && size)
        memcpy(w->text + w->at, bytes, left < size ? left : size);
    w->at += size;
}

/* Writes the first token without the characters that the decoder removes. */
static void put_first(struct writing *w, const struct weft_tokenizer *t, int32_t token)
{
    const struct weft_token *shown = &t->shown[token], *name = &t->token[token];
    const struct weft_token *mark = &t->decoder.mark;
    if (mark->size && !name->byte) {
        for (size_t at = 0; at < name->size;) {
            bool is_mark = name->size - at >= mark->size && memcmp(name->bytes + at, mark->bytes, mark->size) == 0;
            put(w, name->bytes + at, !is_mark);
            at += is_mark ? mark->size : 1;
        }
        return;
    }
    size_t gone = t->decoder.strip && shown->size && shown->bytes[0] == t->decoder.strip;
    put(w, shown->bytes + gone, shown->size - gone);
}

enum weft_status weft_decode(const struct weft_tokenizer *t, const int32_t *tokens, size_t count, bool begins,
                             char *text, size_t room, size_t *bytes)
{
    struct writing w = {text, room, 0};
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= t->vocab)
            return FAIL(WEFT_INVALID, "token %zu is %d, but the vocabulary has %d tokens", i, tokens[i], t->vocab);
        if (begins && i == 0)
            put_first(&w, t, tokens[i]);
        else
            put(&w, t->shown[tokens[i]].bytes, t->shown[tokens[i]].size);
    }
    *bytes = w.at;
    return WEFT_OK;
}

enum weft_status weft_tokenizer_decode(const struct weft_tokenizer *t, const int32_t *tokens, size_t count, char *text,
                                       size_t room, size_t *bytes)
{
    GIVEN(t);
    GIVEN(tokens || !count);
    GIVEN(text || !room);
    GIVEN(bytes);
    return weft_decode(t, tokens, count, true, text, room, bytes);
}
