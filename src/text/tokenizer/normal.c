/* SPDX-License-Identifier: MIT
 *
 * normal.c - normalizes texts by NFC (with utf8proc), prefixes and replacements. Bytes that are not valid UTF-8 stay
 * unchanged, and the text on either side is normalized separately.
 */
#define _GNU_SOURCE
#include "text/tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- buffers */

enum weft_status weft_buffer_add(struct weft_buffer *b, const char *bytes, size_t size)
{
    size_t wanted, twice;
    TRY(weft_size_add(b->size, size, &wanted));
    if (wanted > b->room) {
        TRY(weft_size_mul(b->room, 2, &twice));
        size_t room = wanted > twice ? wanted : twice;
        char *more = realloc(b->bytes, room);
        if (!more)
            return FAIL(WEFT_NOMEM, "not enough memory for %zu bytes of text", room);
        b->bytes = more;
        b->room = room;
    }
    if (size)
        memcpy(b->bytes + b->size, bytes, size);
    b->size = wanted;
    return WEFT_OK;
}

enum weft_status weft_buffer_replace(struct weft_buffer *b, const char *text, size_t bytes, struct weft_token from,
                                     struct weft_token to)
{
    const char *end = text + bytes, *found = text;
    while (found) {
        found = memmem(text, (size_t)(end - text), from.bytes, from.size);
        TRY(weft_buffer_add(b, text, (size_t)((found ? found : end) - text)));
        if (found)
            TRY(weft_buffer_add(b, to.bytes, to.size));
        text = found ? found + from.size : end;
    }
    return WEFT_OK;
}

/* ---- NFC
 *
 * Agrees with Hugging Face's tokenizers, whose tables follow Unicode 9: characters added to Unicode later are neither
 * composed with others nor reordered. No character below U+0300 changes unless a mark follows, and an ASCII character
 * does not affect the text before it. So only stretches from one ASCII character to the next that contain a character
 * from U+0300 up are normalized.
 */

static const struct range {
    uint32_t first, last;
} later[] = {
    {0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
    {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1aeb},   {0x1df6, 0x1dfa},
    {0xa82c, 0xa82c},   {0x105c0, 0x105ff}, {0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac},
    {0x10efa, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b},
    {0x11380, 0x113ff}, {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11930, 0x11930}, {0x1193d, 0x1193e},
    {0x11943, 0x11943}, {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99},
    {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x16100, 0x1613f},
    {0x16d40, 0x16d7f}, {0x16ff0, 0x16ff1}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
    {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef},
};

static bool is_later(uint32_t code)
{
    size_t low = 0, high = sizeof later / sizeof *later;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > later[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof later / sizeof *later && code >= later[low].first;
}

static bool is_ascii(char c) { return (unsigned char)c < 0x80; }

static enum weft_status compose(struct weft_buffer *b, const char *text, size_t bytes)
{
    utf8proc_uint8_t *made = NULL;
    if (!bytes)
        return WEFT_OK;
    utf8proc_ssize_t size = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)bytes, &made,
                                         UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (size < 0)
        return FAIL(size == UTF8PROC_ERROR_NOMEM ? WEFT_NOMEM : WEFT_UNSUPPORTED,
                    "a text of %zu bytes cannot be converted to NFC: %s", bytes, utf8proc_errmsg(size));
    enum weft_status status = weft_buffer_add(b, (const char *)made, (size_t)size);
    free(made);
    return status;
}

static enum weft_status compose_known(struct weft_buffer *b, const char *text, size_t bytes)
{
    size_t done = 0, size;
    uint32_t code;
    for (size_t at = 0; at < bytes; at += size) {
        size = weft_utf8_read(text + at, bytes - at, &code);
        if (!is_later(code))
            continue;
        TRY(compose(b, text + done, at - done));
        TRY(weft_buffer_add(b, text + at, size));
        done = at + size;
    }
    return compose(b, text + done, bytes - done);
}

static enum weft_status compose_valid(struct weft_buffer *b, const char *text, size_t bytes)
{
    enum { U_0300 = 0xcc }; /* the first byte of U+0300 */
    for (size_t done = 0, at = 0; done < bytes; done = at) {
        while (at < bytes && (unsigned char)text[at] < U_0300)
            at++;
        size_t from = at;
        while (at < bytes && from > done && !is_ascii(text[from]))
            from--;
        TRY(weft_buffer_add(b, text + done, from - done));
        while (at < bytes && !is_ascii(text[at]))
            at++;
        TRY(compose_known(b, text + from, at - from));
    }
    return WEFT_OK;
}

static enum weft_status nfc(struct weft_buffer *b, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        size_t valid = weft_utf8_valid(text + at, bytes - at);
        TRY(compose_valid(b, text + at, valid));
        at += valid;
        if (at < bytes)
            TRY(weft_buffer_add(b, text + at++, 1));
    }
    return WEFT_OK;
}

/* ---- all steps */

static enum weft_status apply(const struct weft_normal_step *s, const char *text, size_t bytes, struct weft_buffer *b)
{
    if (s->kind == WEFT_NORMAL_NFC)
        return nfc(b, text, bytes);
    if (s->kind == WEFT_NORMAL_REPLACE)
        return weft_buffer_replace(b, text, bytes, s->from, s->to);
    TRY(weft_buffer_add(b, s->to.bytes, s->to.size));
    return weft_buffer_add(b, text, bytes);
}

enum weft_status weft_normalize(const struct weft_normal *n, const char *text, size_t bytes, bool begins,
                                struct weft_buffer buffer[2], const char **out, size_t *size)
{
    enum { GROWTH = 64, ROOM = 1 << 16 };
    *out = text;
    *size = bytes;
    for (int i = 0, to = 0; i < n->steps; i++) {
        const struct weft_normal_step *s = &n->step[i];
        if (s->kind == WEFT_NORMAL_PREPEND && (!begins || !*size))
            continue;
        buffer[to].size = 0;
        TRY(apply(s, *out, *size, &buffer[to]));
        *out = buffer[to].bytes;
        *size = buffer[to].size;
        to = 1 - to;
        if (*size > ROOM && *size / GROWTH > bytes)
            return FAIL(WEFT_UNSUPPORTED, "the normalizer would produce %zu bytes from a text of %zu", *size, bytes);
    }
    return WEFT_OK;
}
