/* SPDX-License-Identifier: MIT
 *
 * cut.c - pre-tokenization: finds special tokens and gaps, and splits a text into the pieces that are merged
 * independently.
 *
 * The pattern is GPT-2's, compiled by PCRE2's JIT: contractions; letters, digits, or other characters, each with an
 * optional space before; white space, whose last character is left to the word that follows. The pattern works on
 * characters, so each byte that is not valid UTF-8 becomes a piece of its own, and the text on either side is split
 * independently.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/bpe.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* Unicode's White_Space, as in Python's regex module and Rust; PCRE2's \s would add U+180E. */
#define SPACE "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
static const char pattern[] = "'(?:[sdmt]|ll|ve|re)"
                              "| ?\\p{L}+"
                              "| ?\\p{N}+"
                              "| ?[^" SPACE "\\p{L}\\p{N}]+"
                              "|[" SPACE "]+(?![^" SPACE "])"
                              "|[" SPACE "]+";

/* ---- characters */

size_t weft_utf8_read(const char *text, size_t bytes, uint32_t *code)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *u = (const unsigned char *)text;
    if (!bytes)
        return 0;
    size_t size = u[0] < 0x80 ? 1 : u[0] < 0xc0 ? 0 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : u[0] < 0xf8 ? 4 : 0;
    if (size == 0 || size > bytes)
        return 0;
    uint32_t c = size == 1 ? u[0] : u[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((u[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (u[i] & 0x3f);
    }
    if (c < least[size] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *code = c;
    return size;
}

size_t weft_utf8_write(uint32_t code, char text[4])
{
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size; i-- > 1; code >>= 6)
        text[i] = (char)(0x80 | (code & 0x3f));
    text[0] = (char)(size == 1 ? code : (0xf00u >> size & 0xf0) | code);
    return size;
}

/* The length of the longest valid UTF-8 prefix. */
static size_t valid_bytes(const char *text, size_t bytes)
{
    size_t at = 0, size;
    uint64_t word;
    uint32_t code;
    for (;;) {
        while (bytes - at >= 8 && (memcpy(&word, text + at, 8), !(word & 0x8080808080808080u)))
            at += 8;
        if (!(size = weft_utf8_read(text + at, bytes - at, &code)))
            return at;
        at += size;
    }
}

/* ---- special tokens and gaps */

static size_t special_at(const struct weft_specials *s, const char *text, size_t bytes, int *which)
{
    size_t size = 0;
    for (int i = 0; i < s->count; i++) {
        const struct weft_token *t = &s->text[i];
        if (t->size > size && t->size <= bytes && memcmp(t->bytes, text, t->size) == 0) {
            size = t->size;
            *which = i;
        }
    }
    return size;
}

size_t weft_specials_find(const struct weft_specials *s, const char *text, size_t from, size_t bytes, int *which)
{
    if (!s->count)
        return bytes;
    for (; from < bytes; from++)
        if (s->first[(unsigned char)text[from]] && special_at(s, text + from, bytes - from, which))
            break;
    return from;
}

static bool is_gap(const char *at) { return at[-1] > ' ' && at[-1] < 0x7f && (at[0] == ' ' || at[0] == '\n'); }

size_t weft_gap_first(const char *text, size_t from, size_t bytes)
{
    for (size_t at = from ? from : 1; at < bytes; at++)
        if (is_gap(text + at))
            return at;
    return bytes;
}

size_t weft_gap_last(const char *text, size_t bytes)
{
    for (size_t at = bytes; at-- > 1;)
        if (is_gap(text + at))
            return at;
    return 0;
}

/* ---- pieces */

struct weft_cut {
    pcre2_code *code;
};

struct weft_cutter {
    const struct weft_cut *cut;
    pcre2_match_data *match;
    const char *at, *valid, *end; /* at..valid is valid UTF-8 */
};

enum weft_status weft_cut_create(struct weft_cut **cut)
{
    int error = 0;
    PCRE2_SIZE where = 0;
    struct weft_cut *c = *cut = calloc(1, sizeof *c);
    if (!c)
        return FAIL(WEFT_NOMEM, "not enough memory for a tokenizer");
    /* PCRE2_ANCHORED at match time would disable the JIT. */
    c->code = pcre2_compile((PCRE2_SPTR)pattern, sizeof pattern - 1, PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error,
                            &where, NULL);
    if (!c->code)
        return FAIL(WEFT_UNSUPPORTED,
                    "PCRE2 cannot compile the pre-tokenizer's pattern (error %d at offset %zu): was it built with "
                    "Unicode support?",
                    error, (size_t)where);
    (void)pcre2_jit_compile(c->code, PCRE2_JIT_COMPLETE); /* without a JIT, matching is just slower */
    return WEFT_OK;
}

void weft_cut_free(struct weft_cut *cut)
{
    if (cut)
        pcre2_code_free(cut->code);
    free(cut);
}

enum weft_status weft_cutter_create(struct weft_cutter **cutter, const struct weft_cut *cut)
{
    struct weft_cutter *c = *cutter = calloc(1, sizeof *c);
    if (c)
        *c = (struct weft_cutter){.cut = cut, .match = pcre2_match_data_create(1, NULL)};
    if (!c || !c->match)
        return FAIL(WEFT_NOMEM, "not enough memory to split a text");
    return WEFT_OK;
}

void weft_cutter_free(struct weft_cutter *c)
{
    if (c)
        pcre2_match_data_free(c->match);
    free(c);
}

void weft_cutter_start(struct weft_cutter *c, const char *text, size_t bytes)
{
    c->at = text;
    c->end = text + bytes;
    c->valid = text + valid_bytes(text, bytes);
}

enum weft_status weft_cutter_next(struct weft_cutter *c, const char **piece, size_t *size)
{
    *piece = c->at;
    *size = 0;
    if (c->at == c->end)
        return WEFT_OK;
    if (c->at == c->valid)
        c->valid += valid_bytes(c->at, (size_t)(c->end - c->at));
    if (c->at == c->valid) {
        c->valid = ++c->at;
        *size = 1;
        return WEFT_OK;
    }
    int found =
        pcre2_match(c->cut->code, (PCRE2_SPTR)c->at, (size_t)(c->valid - c->at), 0, PCRE2_NO_UTF_CHECK, c->match, NULL);
    if (found < 1) /* the pattern matches any character, so this is a PCRE2 error */
        return FAIL(WEFT_UNSUPPORTED, "PCRE2 failed on a text of %zu bytes: error %d", (size_t)(c->valid - c->at),
                    found);
    *size = pcre2_get_ovector_pointer(c->match)[1];
    c->at += *size;
    return WEFT_OK;
}
