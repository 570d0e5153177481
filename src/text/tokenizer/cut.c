/* SPDX-License-Identifier: MIT
 *
 * cut.c - pre-tokenization: finds gaps, and splits a text into the pieces that are merged independently.
 *
 * Patterns, compiled by PCRE2's JIT, split a text one after another: the second splits the pieces of the first. Most
 * tokenizers have GPT-2's: contractions; letters, digits or other characters, each with an optional leading space;
 * white space, whose last character is left for the following word. Patterns work on characters, so each byte that is
 * not valid UTF-8 becomes a separate piece, and the text on either side is split independently.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/tokenizer/bpe.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* Unicode's White_Space, as in Python's regex module and Rust; PCRE2's \s would add U+180E. */
#define SPACE "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
static const char gpt2[] = "'(?:[sdmt]|ll|ve|re)"
                           "| ?\\p{L}+"
                           "| ?\\p{N}+"
                           "| ?[^" SPACE "\\p{L}\\p{N}]+"
                           "|[" SPACE "]+(?![^" SPACE "])"
                           "|[" SPACE "]+";

/* ---- gaps */

static bool is_gap(const char *at)
{
    char before = at[-1];
    if (at[0] == ' ')
        return before > ' ' && before < 0x7f;
    return at[0] == '\n' && ((before >= '0' && before <= '9') || ((before | 32) >= 'a' && (before | 32) <= 'z'));
}

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

/* ---- patterns */

enum { LEVELS = 8 };

struct weft_cut {
    int levels;
    struct level {
        pcre2_code *code;
        bool everywhere; /* matches at every position, so it is tried only at the current one */
        enum weft_cut_matches matches;
        bool invert;
        char *pattern; /* used in messages */
    } level[LEVELS];
};

enum weft_status weft_cut_create(struct weft_cut **cut)
{
    *cut = calloc(1, sizeof **cut);
    return *cut ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a tokenizer");
}

enum weft_status weft_cut_add_gpt2(struct weft_cut *cut)
{
    int error = 0;
    PCRE2_SIZE where = 0;
    struct level *l = &cut->level[cut->levels];
    if (cut->levels == LEVELS)
        return FAIL(WEFT_UNSUPPORTED, "more than %d patterns split the text", LEVELS);
    /* PCRE2_ANCHORED at match time would disable the JIT. */
    l->code =
        pcre2_compile((PCRE2_SPTR)gpt2, sizeof gpt2 - 1, PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &where, NULL);
    if (!l->code)
        return FAIL(WEFT_UNSUPPORTED,
                    "PCRE2 cannot compile the pre-tokenizer's pattern (error %d at offset %zu): PCRE2 must be built "
                    "with Unicode support",
                    error, (size_t)where);
    (void)pcre2_jit_compile(l->code,
                            PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD); /* without a JIT, matching is only slower */
    l->everywhere = true;
    cut->levels++;
    return WEFT_OK;
}

enum weft_status weft_cut_add(struct weft_cut *cut, const char *path, const char *pattern, bool literal,
                              enum weft_cut_matches matches, bool invert)
{
    struct level *l = &cut->level[cut->levels];
    if (cut->levels == LEVELS)
        return FAIL(WEFT_UNSUPPORTED, "%s: more than %d patterns split the text", path, LEVELS);
    *l = (struct level){.matches = matches, .invert = invert};
    cut->levels++; /* counted even if incomplete, so that it is freed with the rest */
    TRY(weft_pattern_compile(&l->code, path, pattern, literal));
    l->pattern = strdup(pattern);
    return l->pattern ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a pattern");
}

bool weft_cut_is_gpt2(const struct weft_cut *cut) { return cut->levels == 1 && cut->level[0].everywhere; }

void weft_cut_free(struct weft_cut *cut)
{
    for (int i = 0; cut && i < cut->levels; i++) {
        pcre2_code_free(cut->level[i].code);
        free(cut->level[i].pattern);
    }
    free(cut);
}

/* ---- pieces */

/* The state of one level: the text it splits, and its position. */
struct cutting {
    const char *text, *end, *at;
    const char *match, *match_end; /* the next match at or after `at`, if `searched` */
    bool searched;
};

struct segment {
    const char *from, *to;
    bool match;
};

struct weft_cutter {
    const struct weft_cut *cut;
    pcre2_code *gpt2; /* GPT-2's pattern if it is the only one, else NULL */
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    const char *at, *valid, *end; /* at..valid is valid UTF-8 */
    struct cutting cutting[LEVELS];
    size_t budget; /* for patterns other than GPT-2's, see search_window */
};

enum weft_status weft_cutter_create(struct weft_cutter **cutter, const struct weft_cut *cut)
{
    enum { STACK = 32 << 10, MOST_STACK = 1 << 20 };
    struct weft_cutter *c = *cutter = calloc(1, sizeof *c);
    if (c)
        *c = (struct weft_cutter){.cut = cut,
                                  .gpt2 = weft_cut_is_gpt2(cut) ? cut->level[0].code : NULL,
                                  .match = pcre2_match_data_create(1, NULL),
                                  .context = pcre2_match_context_create(NULL),
                                  .stack = pcre2_jit_stack_create(STACK, MOST_STACK, NULL)};
    if (!c || !c->match || !c->context)
        return FAIL(WEFT_NOMEM, "not enough memory to split a text");
    if (c->stack) /* NULL: no JIT */
        pcre2_jit_stack_assign(c->context, NULL, c->stack);
    return WEFT_OK;
}

void weft_cutter_free(struct weft_cutter *c)
{
    if (!c)
        return;
    pcre2_match_data_free(c->match);
    pcre2_match_context_free(c->context);
    pcre2_jit_stack_free(c->stack);
    free(c);
}

void weft_cutter_start(struct weft_cutter *c, const char *text, size_t bytes)
{
    enum { LEAST = 1 << 20, PER_BYTE = 64 };
    c->at = text;
    c->end = text + bytes;
    c->valid = text + weft_utf8_valid(text, bytes);
    c->budget = bytes < SIZE_MAX / (2 * PER_BYTE) ? LEAST + PER_BYTE * bytes : SIZE_MAX / 2;
    for (int i = 0; i < c->cut->levels && !c->gpt2; i++)
        c->cutting[i] = (struct cutting){0};
}

static const char *name_of(const struct level *l) { return l->pattern ? l->pattern : "of GPT-2"; }

static enum weft_status fail(const struct level *l, size_t bytes, int error)
{
    PCRE2_UCHAR message[128] = "";
    pcre2_get_error_message(error, message, sizeof message);
    return FAIL(WEFT_UNSUPPORTED, "PCRE2 failed on a text of %zu bytes with the pattern \"%.60s\": %s", bytes,
                name_of(l), (const char *)message);
}

static int match(struct weft_cutter *c, const struct level *l, const char *text, size_t size, size_t from,
                 uint32_t options)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    options |= PCRE2_NO_UTF_CHECK;
    int found = pcre2_match(l->code, subject, size, from, options, c->match, c->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(l->code, subject, size, from, options | PCRE2_NO_JIT, c->match, c->context);
    return found;
}

/* Returns the first position at or after `at` where a character begins. */
static size_t round_up(const char *text, size_t at, size_t size)
{
    while (at < size && ((unsigned char)text[at] & 0xc0) == 0x80)
        at++;
    return at < size ? at : size;
}

/* Finds the next match. A pattern may look far ahead or backtrack at some positions of a text, but not at every
 * position, which would take quadratic time. So a search is limited to a short window and a small number of steps. If a
 * match needs more, the limit is doubled and the increase is charged to the text's budget, which is the same on every
 * machine. */
static enum weft_status search_window(struct weft_cutter *c, const struct level *l, const struct cutting *p, int *found)
{
    enum { WINDOW = 512, STEPS = 1024, MOST = 1 << 30 };
    size_t size = (size_t)(p->end - p->text), from = (size_t)(p->at - p->text), window = WINDOW, steps = STEPS;
    while (true) {
        size_t end = size - from > window ? round_up(p->text, from + window, size) : size;
        pcre2_set_match_limit(c->context, (uint32_t)steps);
        *found = match(c, l, p->text, end, from, end < size ? PCRE2_PARTIAL_HARD : 0);
        bool further = end < size && (*found == PCRE2_ERROR_PARTIAL || *found == PCRE2_ERROR_NOMATCH);
        if (!further && *found != PCRE2_ERROR_MATCHLIMIT)
            return WEFT_OK;
        size_t *more = further ? &window : &steps;
        if (*more > c->budget || *more > MOST)
            return FAIL(WEFT_UNSUPPORTED,
                        "the pattern \"%.60s\" takes too long on a text of %zu bytes: it scans most of the text at "
                        "many positions",
                        name_of(l), size);
        c->budget -= *more;
        *more *= 2;
    }
}

static enum weft_status search(struct weft_cutter *c, const struct level *l, struct cutting *p)
{
    size_t size = (size_t)(p->end - p->text);
    int found;
    TRY(search_window(c, l, p, &found));
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(c->match);
    p->searched = true;
    p->match = p->match_end = p->end;
    if (found == PCRE2_ERROR_NOMATCH)
        return WEFT_OK;
    if (found < 0)
        return fail(l, size, found);
    if (range[1] <= range[0])
        return FAIL(WEFT_UNSUPPORTED, "the pattern \"%.60s\" matches an empty text", name_of(l));
    p->match = p->text + range[0];
    p->match_end = p->text + range[1];
    return WEFT_OK;
}

/* Finds the next match, or the text before it. */
static enum weft_status look(struct weft_cutter *c, const struct level *l, struct cutting *p, struct segment *s)
{
    if (!p->searched)
        TRY(search(c, l, p));
    bool match = p->at == p->match;
    *s = (struct segment){p->at, match ? p->match_end : p->match, match != l->invert};
    return WEFT_OK;
}

static void take(struct cutting *p, struct segment s)
{
    p->searched = p->searched && s.to <= p->match;
    p->at = s.to;
}

static bool joined(enum weft_cut_matches matches, struct segment a, struct segment b)
{
    if (matches == WEFT_CONTIGUOUS)
        return a.match == b.match;
    if (matches == WEFT_WITH_PREVIOUS)
        return !a.match && b.match;
    return matches == WEFT_WITH_NEXT && a.match && !b.match;
}

/* Returns the next piece of a level's text; `from` is NULL if the piece is removed. */
static enum weft_status cut_piece(struct weft_cutter *c, const struct level *l, struct cutting *p, struct segment *a)
{
    struct segment b;
    TRY(look(c, l, p, a));
    take(p, *a);
    if (l->matches == WEFT_REMOVED && a->match)
        a->from = NULL;
    while (l->matches > WEFT_REMOVED && p->at < p->end) {
        TRY(look(c, l, p, &b));
        if (!joined(l->matches, *a, b))
            break;
        take(p, b);
        a->to = b.to;
        if (l->matches != WEFT_CONTIGUOUS)
            break;
    }
    return WEFT_OK;
}

/* Returns the next stretch of valid UTF-8, or an invalid byte. */
static void next_stretch(struct weft_cutter *c, struct segment *s)
{
    if (c->at == c->valid)
        c->valid += weft_utf8_valid(c->at, (size_t)(c->end - c->at));
    s->match = c->at < c->valid;
    if (!s->match && c->at < c->end)
        c->valid = c->at + 1;
    *s = (struct segment){c->at, c->valid, s->match};
    c->at = c->valid;
}

/* Returns the next piece after `levels` patterns; `match` is false for an invalid byte. */
static enum weft_status next_piece(struct weft_cutter *c, int levels, struct segment *s)
{
    if (levels == 0) {
        next_stretch(c, s);
        return WEFT_OK;
    }
    struct cutting *p = &c->cutting[levels - 1];
    do {
        if (p->at == p->end) {
            TRY(next_piece(c, levels - 1, s));
            if (!s->match)
                return WEFT_OK;
            *p = (struct cutting){.text = s->from, .end = s->to, .at = s->from};
        }
        TRY(cut_piece(c, &c->cut->level[levels - 1], p, s));
    } while (!s->from);
    s->match = true;
    return WEFT_OK;
}

/* Returns the next piece if GPT-2's pattern is the only one. */
static inline enum weft_status next_gpt2(struct weft_cutter *c, const char **piece, size_t *size)
{
    *piece = c->at;
    *size = 0;
    if (c->at == c->end)
        return WEFT_OK;
    if (c->at == c->valid)
        c->valid += weft_utf8_valid(c->at, (size_t)(c->end - c->at));
    if (c->at == c->valid) {
        c->valid = ++c->at;
        *size = 1;
        return WEFT_OK;
    }
    int found =
        pcre2_match(c->gpt2, (PCRE2_SPTR)c->at, (size_t)(c->valid - c->at), 0, PCRE2_NO_UTF_CHECK, c->match, NULL);
    if (found < 1) /* the pattern matches any character, so this is a PCRE2 error */
        return fail(&c->cut->level[0], (size_t)(c->valid - c->at), found);
    *size = pcre2_get_ovector_pointer(c->match)[1];
    c->at += *size;
    return WEFT_OK;
}

enum weft_status weft_cutter_next(struct weft_cutter *c, const char **piece, size_t *size)
{
    struct segment s;
    if (c->gpt2)
        return next_gpt2(c, piece, size);
    TRY(next_piece(c, c->cut->levels, &s));
    *piece = s.from;
    *size = (size_t)(s.to - s.from);
    return WEFT_OK;
}
