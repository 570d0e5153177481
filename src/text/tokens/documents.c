/* SPDX-License-Identifier: MIT
 *
 * documents.c - reads texts from a source: JSONL line by line, plain text in pieces.
 *
 * Pieces end at gaps (bpe.h), so encoding them one by one gives the tokens of the whole text. Only if there is no gap
 * in several megabytes is the text split between two arbitrary characters.
 */
#include "text/tokenizer/bpe.h"
#include "text/tokens/internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- pieces */

size_t weft_piece_bytes(const char *text, size_t bytes)
{
    if (bytes <= WEFT_PIECE_BYTES)
        return bytes;
    size_t n = weft_gap_last(text, WEFT_PIECE_BYTES + 1);
    if (n > 0)
        return n;
    n = WEFT_PIECE_BYTES;
    while (n > WEFT_PIECE_BYTES - 3 && (text[n] & 0xc0) == 0x80)
        n--;
    return n;
}

/* ---- a growing buffer */

enum { BLOCK = 1 << 16 };

static enum weft_status widen(const struct weft_source *s, char **buffer, size_t *room, size_t most)
{
    size_t wider = *room ? (size_t)weft_min((int64_t)(2 * *room), (int64_t)most) : BLOCK;
    char *bytes = realloc(*buffer, wider);
    if (!bytes)
        return FAIL(WEFT_NOMEM, "not enough memory to read %s", weft_source_name(s));
    *buffer = bytes;
    *room = wider;
    return WEFT_OK;
}

/* ---- plain text */

struct plain {
    struct weft_source *source;
    char *buffer;
    size_t room, held;
};

/* Reads until the buffer holds one byte more than a piece, or the source ends. */
static enum weft_status fill(struct plain *p)
{
    size_t got, most = WEFT_PIECE_BYTES + 1;
    do {
        if (p->held == p->room)
            TRY(widen(p->source, &p->buffer, &p->room, most));
        TRY(weft_source_read(p->source, p->buffer + p->held, p->room - p->held, &got));
        p->held += got;
    } while (p->held == p->room && p->room < most);
    return WEFT_OK;
}

static enum weft_status pieces(struct plain *p, weft_text_fn *text, void *context)
{
    size_t n;
    do {
        TRY(fill(p));
        n = weft_piece_bytes(p->buffer, p->held);
        if (n)
            TRY(text(context, p->buffer, n));
        p->held -= n;
        memmove(p->buffer, p->buffer + n, p->held);
    } while (n);
    return WEFT_OK;
}

enum weft_status weft_documents_plain(struct weft_source *s, weft_text_fn *text, void *context)
{
    struct plain p = {.source = s};
    enum weft_status status = pieces(&p, text, context);
    free(p.buffer);
    return status;
}

/* ---- JSONL */

struct lines {
    struct weft_source *source;
    char *buffer;       /* grows with the longest line */
    size_t room;        /* size of the buffer */
    size_t start, held; /* buffer[start..held) is unread */
    int64_t number;     /* number of the current line, from 1 */
    bool ended;
};

/* Enlarges the buffer, up to the maximum line length. */
static enum weft_status grow(struct lines *l)
{
    if (l->room >= WEFT_LINE_BYTES)
        return FAIL(WEFT_FORMAT, "%s:%lld: the line has %d bytes or more: split the document into smaller ones",
                    weft_source_name(l->source), (long long)l->number + 1, WEFT_LINE_BYTES);
    return widen(l->source, &l->buffer, &l->room, WEFT_LINE_BYTES);
}

/* Appends more bytes to the unread ones. */
static enum weft_status read_more(struct lines *l)
{
    size_t got;
    l->held -= l->start;
    memmove(l->buffer, l->buffer + l->start, l->held);
    l->start = 0;
    if (l->held == l->room)
        TRY(grow(l));
    TRY(weft_source_read(l->source, l->buffer + l->held, l->room - l->held, &got));
    l->held += got;
    l->ended = l->held < l->room;
    return WEFT_OK;
}

/* Returns the next line without its newline; NULL at the end. */
static enum weft_status next_line(struct lines *l, const char **line, size_t *bytes)
{
    size_t seen = 0;
    char *end;
    while (!(end = memchr(l->buffer + l->start + seen, '\n', l->held - l->start - seen)) && !l->ended) {
        seen = l->held - l->start;
        TRY(read_more(l));
    }
    *line = end || l->start < l->held ? l->buffer + l->start : NULL;
    *bytes = (end ? (size_t)(end - l->buffer) : l->held) - l->start;
    l->start += *bytes + (end ? 1 : 0);
    l->number++;
    return WEFT_OK;
}

static bool blank(const char *line, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && strchr(" \t\r", line[i]) && line[i])
        i++;
    return i == bytes;
}

static enum weft_status one_line(const struct lines *l, const char *line, size_t bytes, weft_line_fn *visit,
                                 void *context)
{
    json_error_t error;
    json_t *value = json_loadb(line, bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    if (!value)
        return FAIL(WEFT_FORMAT, "%s:%lld:%d: invalid JSON: %s", weft_source_name(l->source), (long long)l->number,
                    error.column, error.text);
    enum weft_status status = visit(context, weft_source_name(l->source), l->number, value);
    json_decref(value);
    return status;
}

static enum weft_status each_line(struct weft_source *s, weft_line_fn *visit, void *context)
{
    struct lines l = {.source = s};
    const char *line = NULL;
    size_t bytes = 0;
    enum weft_status status = grow(&l);
    if (status == WEFT_OK)
        status = next_line(&l, &line, &bytes);
    while (status == WEFT_OK && line) {
        if (!blank(line, bytes))
            status = one_line(&l, line, bytes, visit, context);
        if (status == WEFT_OK)
            status = next_line(&l, &line, &bytes);
    }
    free(l.buffer);
    return status;
}

struct field_reader {
    const char *field;
    weft_text_fn *text;
    void *context;
};

static enum weft_status read_field(void *context, const char *name, int64_t line, const json_t *object)
{
    const struct field_reader *t = context;
    const json_t *value = json_object_get(object, t->field);
    if (!json_is_string(value))
        return FAIL(WEFT_FORMAT, "%s:%lld: no text field \"%s\": check --field; every line must be a JSON object", name,
                    (long long)line, t->field);
    return t->text(t->context, json_string_value(value), json_string_length(value));
}

enum weft_status weft_documents_jsonl(struct weft_source *s, const char *field, weft_text_fn *text, void *context)
{
    return each_line(s, read_field, &(struct field_reader){field, text, context});
}

/* ---- whole files */

enum weft_status weft_read_text(const char *path, weft_text_fn *text, void *context)
{
    struct weft_source *s;
    TRY(weft_source_open(&s, path));
    enum weft_status status = weft_documents_plain(s, text, context);
    weft_source_close(s);
    return status;
}

enum weft_status weft_read_jsonl(const char *path, weft_line_fn *visit, void *context)
{
    struct weft_source *s;
    TRY(weft_source_open(&s, path));
    enum weft_status status = each_line(s, visit, context);
    weft_source_close(s);
    return status;
}

enum weft_status weft_read_head(const char *path, char *head, size_t room, size_t *got)
{
    struct weft_source *s;
    TRY(weft_source_open(&s, path));
    enum weft_status status = weft_source_read(s, head, room, got);
    weft_source_close(s);
    return status;
}
