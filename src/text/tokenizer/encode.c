/* SPDX-License-Identifier: MIT
 *
 * encode.c - encodes a text in parallel, in chunks that start and end at added tokens and gaps.
 *
 * Chunk boundaries depend only on the text, and no piece crosses a gap. So the tokens do not depend on the number of
 * threads and are the same as without chunks. Chunks are processed in waves to keep memory constant. If a tokenizer's
 * patterns or merges cross gaps, a chunk extends from one added token to the next.
 */
#include "text/tokenizer/bpe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 16, WAVE = 64 };

struct chunk {
    const char *text;
    size_t bytes;
    int32_t added;       /* the added token that forms this chunk, or -1 for text */
    bool begins, first;  /* whether a text between added tokens begins here; whether the whole text does */
    struct weft_ids ids; /* ids of this chunk; the memory is reused by all waves */
};

struct worker {
    struct weft_cutter *cutter;
    struct weft_bpe_work bpe;
    struct weft_buffer normal[2], lead;
    enum weft_status status;
    char message[400]; /* copy of weft_error(), which is per thread */
};

struct job {
    const struct weft_tokenizer *t;
    const char *text;
    size_t bytes, at, next_added; /* at: end of the last chunk; next_added: offset of the next added token, or bytes */
    int added;                    /* index of the next added token */
    bool specials, begins;        /* begins: for the next chunk of text */

    struct chunk chunk[WAVE];
    int chunks;
    struct worker *worker;
};

/* ---- lists of tokens */

enum weft_status weft_ids_reserve(struct weft_ids *ids, size_t more)
{
    size_t wanted, twice, bytes;
    TRY(weft_size_add(ids->count, more, &wanted));
    if (ids->fixed || wanted <= ids->room)
        return WEFT_OK;
    TRY(weft_size_mul(ids->room, 2, &twice));
    wanted = wanted > twice ? wanted : twice;
    TRY(weft_size_mul(wanted, sizeof *ids->id, &bytes));
    int32_t *id = realloc(ids->id, bytes);
    if (!id)
        return FAIL(WEFT_NOMEM, "not enough memory for %zu tokens", wanted);
    ids->id = id;
    ids->room = wanted;
    return WEFT_OK;
}

static enum weft_status add_ids(struct weft_ids *ids, const int32_t *id, size_t count)
{
    TRY(weft_ids_reserve(ids, count));
    size_t left = ids->count < ids->room ? ids->room - ids->count : 0;
    if (left && count)
        memcpy(ids->id + ids->count, id, (left < count ? left : count) * sizeof *id);
    ids->count += count;
    return WEFT_OK;
}

/* ---- chunks */

static struct chunk next_chunk(struct job *j, struct weft_ids ids)
{
    struct chunk c = {.text = j->text + j->at, .added = -1, .begins = j->begins, .ids = ids};
    c.first = j->begins && j->at == 0;
    c.ids.count = 0;
    j->begins = j->at == j->next_added;
    if (j->begins) {
        c.added = j->t->added.id[j->added];
        c.bytes = j->t->added.text[j->added].size;
        j->next_added = weft_added_find(&j->t->added, j->text, j->at + c.bytes, j->bytes, j->specials, &j->added);
    } else {
        size_t most = j->next_added - j->at;
        c.bytes = j->t->gaps && most > CHUNK ? weft_gap_first(c.text, CHUNK, most) : most;
    }
    j->at += c.bytes;
    return c;
}

static void next_wave(struct job *j)
{
    size_t total = 0;
    for (j->chunks = 0; j->chunks < WAVE && j->at < j->bytes && total < (size_t)WAVE * CHUNK; j->chunks++) {
        struct chunk *c = &j->chunk[j->chunks];
        *c = next_chunk(j, c->ids);
        total += c->bytes;
    }
}

/* ---- one chunk */

static enum weft_status encode_pieces(const struct weft_tokenizer *t, struct worker *w, const char *text, size_t bytes,
                                      struct weft_ids *ids)
{
    const char *piece;
    size_t size, count;
    TRY(weft_ids_reserve(ids, bytes)); /* a token has at least one byte */
    if (!w->cutter)
        TRY(weft_cutter_create(&w->cutter, t->cut));
    weft_cutter_start(w->cutter, text, bytes);
    for (int32_t *out = ids->id + ids->count;; out += count) {
        TRY(weft_cutter_next(w->cutter, &piece, &size));
        if (!size) {
            ids->count = (size_t)(out - ids->id);
            return WEFT_OK;
        }
        if (t->kind == WEFT_TOKENIZER_TEXT)
            TRY(weft_bpe_chars(t, &w->bpe, piece, size, out, &count));
        else
            TRY(weft_bpe_piece(t, &w->bpe, piece, size, out, &count));
    }
}

/* Encodes a text between added tokens, or a chunk of it. */
static enum weft_status encode_part(const struct weft_tokenizer *t, struct worker *w, const char *text, size_t bytes,
                                    bool begins, bool first, struct weft_ids *ids)
{
    static const struct weft_token space = {.bytes = " ", .size = 1};
    struct weft_buffer *b = &w->lead;
    struct weft_token mark = t->mark.size ? t->mark : space;
    bool leads = t->lead == WEFT_LEAD_ALWAYS ? begins : t->lead == WEFT_LEAD_FIRST && first;
    if (!t->mark.size && !leads)
        return encode_pieces(t, w, text, bytes, ids);
    b->size = 0;
    if (leads && !(bytes && *text == ' ') && !(bytes >= mark.size && memcmp(text, mark.bytes, mark.size) == 0))
        TRY(weft_buffer_add(b, mark.bytes, mark.size));
    TRY(weft_buffer_replace(b, text, bytes, space, mark));
    return encode_pieces(t, w, b->bytes, b->size, ids);
}

static enum weft_status encode_text(const struct job *j, struct worker *w, struct chunk *c)
{
    const struct weft_tokenizer *t = j->t;
    const char *text;
    size_t bytes, next;
    int which = 0;
    TRY(weft_normalize(&t->normal, c->text, c->bytes, c->begins, w->normal, &text, &bytes));
    for (size_t at = 0; at < bytes; at = next) {
        next = weft_added_find(&t->normalized, text, at, bytes, j->specials, &which);
        if (next > at) {
            TRY(encode_part(t, w, text + at, next - at, c->begins || at > 0, c->first && at == 0, &c->ids));
        } else {
            TRY(add_ids(&c->ids, &t->normalized.id[which], 1));
            next += t->normalized.text[which].size;
        }
    }
    return WEFT_OK;
}

static enum weft_status encode_bytes(const struct weft_tokenizer *t, struct chunk *c)
{
    TRY(weft_ids_reserve(&c->ids, c->bytes));
    for (; c->ids.count < c->bytes; c->ids.count++)
        c->ids.id[c->ids.count] = t->byte[(unsigned char)c->text[c->ids.count]];
    return WEFT_OK;
}

static void encode_chunk(void *context, int64_t tile, int thread)
{
    struct job *j = context;
    struct worker *w = &j->worker[thread];
    struct chunk *c = &j->chunk[tile];
    if (w->status != WEFT_OK)
        return;
    if (c->added >= 0)
        w->status = add_ids(&c->ids, &c->added, 1);
    else
        w->status = j->t->bytes ? encode_bytes(j->t, c) : encode_text(j, w, c);
    if (w->status != WEFT_OK)
        snprintf(w->message, sizeof w->message, "%s", weft_error());
}

/* ---- whole texts */

static enum weft_status encode_waves(struct job *j, struct weft_ids *ids)
{
    while (j->at < j->bytes) {
        next_wave(j);
        weft_parallel(j->chunks, encode_chunk, j);
        for (int i = 0; i < weft_threads(); i++)
            if (j->worker[i].status != WEFT_OK)
                return FAIL(j->worker[i].status, "cannot encode a text of %zu bytes: %s", j->bytes,
                            j->worker[i].message);
        for (int i = 0; i < j->chunks; i++)
            TRY(add_ids(ids, j->chunk[i].ids.id, j->chunk[i].ids.count));
    }
    return WEFT_OK;
}

static enum weft_status encode_chars(const struct weft_tokenizer *t, const char *text, size_t bytes,
                                     struct weft_ids *ids)
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
        TRY(add_ids(ids, &token, 1));
    }
    return WEFT_OK;
}

static void release_worker(struct worker *w)
{
    weft_cutter_free(w->cutter);
    weft_bpe_work_release(&w->bpe);
    free(w->normal[0].bytes);
    free(w->normal[1].bytes);
    free(w->lead.bytes);
}

enum weft_status weft_encode(const struct weft_tokenizer *t, const char *text, size_t bytes, bool specials, bool begins,
                             struct weft_ids *ids)
{
    if (t->kind == WEFT_TOKENIZER_CHAR)
        return encode_chars(t, text, bytes, ids);
    struct weft_threads_scope scope; /* keeps the number of threads constant */
    weft_threads_enter(&scope, 0);
    struct job j = {.t = t, .text = text, .bytes = bytes, .specials = specials, .begins = begins};
    j.next_added = weft_added_find(&t->added, text, 0, bytes, specials, &j.added);
    j.worker = calloc((size_t)weft_threads(), sizeof *j.worker);
    enum weft_status status = j.worker ? encode_waves(&j, ids) : FAIL(WEFT_NOMEM, "not enough memory to encode a text");
    for (int i = 0; j.worker && i < weft_threads(); i++)
        release_worker(&j.worker[i]);
    weft_threads_leave(&scope);
    for (int i = 0; i < WAVE; i++)
        free(j.chunk[i].ids.id);
    free(j.worker);
    return status;
}

enum weft_status weft_tokenizer_encode(const struct weft_tokenizer *t, const char *text, size_t bytes, bool specials,
                                       int32_t *tokens, size_t room, size_t *count)
{
    GIVEN(count);
    *count = 0;
    GIVEN(t);
    GIVEN(text || !bytes);
    GIVEN(tokens || !room);
    struct weft_ids ids = {.id = tokens, .room = room, .fixed = true};
    enum weft_status status = weft_encode(t, text, bytes, specials, true, &ids);
    *count = ids.count;
    return status;
}
