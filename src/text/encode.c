/* SPDX-License-Identifier: MIT
 *
 * encode.c - encodes a text in parallel, in chunks that start and end at special tokens and gaps.
 *
 * Chunk boundaries depend on the text alone, and no piece crosses a gap. So the tokens do not depend on the number of
 * threads and are the same as without chunks. Chunks are processed in waves to keep memory constant.
 */
#include "text/bpe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 16, WAVE = 64 };

struct chunk {
    const char *text;
    size_t bytes, offset; /* offset: of its tokens in the wave's buffer */
    size_t count;         /* tokens written */
    int32_t special;      /* the special token this chunk is, or -1 for text */
};

struct worker {
    struct weft_cutter *cutter;
    struct weft_bpe_work bpe;
    enum weft_status status;
    char message[400]; /* of the error: weft_error() is per thread */
};

struct job {
    const struct weft_tokenizer *t;
    const char *text;
    size_t bytes, at, next_special; /* at: end of the last chunk; next_special: its offset, or bytes */
    int special;                    /* index of the next special token */

    struct chunk chunk[WAVE];
    int chunks;
    int32_t *tokens; /* of the wave */
    size_t room;
    struct worker *worker;
};

/* ---- chunks */

static struct chunk next_chunk(struct job *j)
{
    struct chunk c = {.text = j->text + j->at, .special = -1};
    if (j->at == j->next_special) {
        c.special = j->t->special_id[j->special];
        c.bytes = j->t->token[c.special].size;
        j->next_special = weft_specials_find(&j->t->specials, j->text, j->at + c.bytes, j->bytes, &j->special);
    } else {
        size_t most = j->next_special - j->at;
        c.bytes = most > CHUNK ? weft_gap_first(c.text, CHUNK, most) : most;
    }
    j->at += c.bytes;
    return c;
}

static enum weft_status next_wave(struct job *j)
{
    size_t total = 0;
    for (j->chunks = 0; j->chunks < WAVE && j->at < j->bytes && total < (size_t)WAVE * CHUNK; j->chunks++) {
        struct chunk *c = &j->chunk[j->chunks];
        *c = next_chunk(j);
        c->offset = total;
        total += c->bytes;
    }
    if (total > j->room) {
        free(j->tokens);
        j->tokens = total > SIZE_MAX / sizeof *j->tokens ? NULL : malloc(total * sizeof *j->tokens);
        j->room = j->tokens ? total : 0;
        if (!j->tokens)
            return FAIL(WEFT_NOMEM, "not enough memory for the tokens of %zu bytes", total);
    }
    return WEFT_OK;
}

/* ---- one chunk */

static enum weft_status encode_pieces(const struct weft_tokenizer *t, struct worker *w, struct chunk *c, int32_t *out)
{
    const char *piece;
    size_t size, count;
    if (!w->cutter)
        TRY(weft_cutter_create(&w->cutter, t->cut));
    weft_cutter_start(w->cutter, c->text, c->bytes);
    for (;;) {
        TRY(weft_cutter_next(w->cutter, &piece, &size));
        if (!size)
            return WEFT_OK;
        TRY(weft_bpe_piece(t, &w->bpe, piece, size, out + c->count, &count));
        c->count += count;
    }
}

static void encode_chunk(void *context, int64_t tile, int thread)
{
    struct job *j = context;
    struct worker *w = &j->worker[thread];
    struct chunk *c = &j->chunk[tile];
    int32_t *out = j->tokens + c->offset;
    if (c->special >= 0) {
        out[c->count++] = c->special;
    } else if (!j->t->merges) {
        for (; c->count < c->bytes; c->count++)
            out[c->count] = j->t->byte[(unsigned char)c->text[c->count]];
    } else if (w->status == WEFT_OK) {
        w->status = encode_pieces(j->t, w, c, out);
        if (w->status != WEFT_OK)
            snprintf(w->message, sizeof w->message, "%s", weft_error());
    }
}

/* ---- whole texts */

static enum weft_status encode_waves(struct job *j, int32_t *tokens, size_t room, size_t *count)
{
    while (j->at < j->bytes) {
        TRY(next_wave(j));
        weft_parallel(j->chunks, encode_chunk, j);
        for (int i = 0; i < weft_threads(); i++)
            if (j->worker[i].status != WEFT_OK)
                return FAIL(j->worker[i].status, "cannot encode a text of %zu bytes: %s", j->bytes,
                            j->worker[i].message);
        for (int i = 0; i < j->chunks; i++) {
            const struct chunk *c = &j->chunk[i];
            size_t left = *count < room ? room - *count : 0;
            if (left)
                memcpy(tokens + *count, j->tokens + c->offset, (left < c->count ? left : c->count) * sizeof *tokens);
            *count += c->count;
        }
    }
    return WEFT_OK;
}

static enum weft_status encode_chars(const struct weft_tokenizer *t, const char *text, size_t bytes, int32_t *tokens,
                                     size_t room, size_t *count)
{
    uint32_t code;
    for (size_t at = 0, size; at < bytes; at += size) {
        size = weft_utf8_read(text + at, bytes - at, &code);
        int32_t token = size ? weft_strings_get(&t->whole, text + at, size) : -1;
        if (token < 0)
            return FAIL(WEFT_INVALID,
                        "the character at byte %zu of the text is not in the tokenizer's vocabulary: use the byte "
                        "tokenizer, which accepts any text",
                        at);
        if (*count < room)
            tokens[*count] = token;
        ++*count;
    }
    return WEFT_OK;
}

enum weft_status weft_tokenizer_encode(const struct weft_tokenizer *t, const char *text, size_t bytes, bool specials,
                                       int32_t *tokens, size_t room, size_t *count)
{
    GIVEN(count);
    *count = 0;
    GIVEN(t);
    GIVEN(text || !bytes);
    GIVEN(tokens || !room);
    if (t->kind == WEFT_TOKENIZER_CHAR)
        return encode_chars(t, text, bytes, tokens, room, count);
    struct weft_threads_scope scope; /* the number of threads stays the same */
    weft_threads_enter(&scope, 0);
    struct job j = {.t = t, .text = text, .bytes = bytes, .next_special = bytes};
    if (specials)
        j.next_special = weft_specials_find(&t->specials, text, 0, bytes, &j.special);
    j.worker = calloc((size_t)weft_threads(), sizeof *j.worker);
    enum weft_status status =
        j.worker ? encode_waves(&j, tokens, room, count) : FAIL(WEFT_NOMEM, "not enough memory to encode a text");
    for (int i = 0; j.worker && i < weft_threads(); i++) {
        weft_cutter_free(j.worker[i].cutter);
        weft_bpe_work_release(&j.worker[i].bpe);
    }
    weft_threads_leave(&scope);
    free(j.worker);
    free(j.tokens);
    return status;
}
