/* SPDX-License-Identifier: MIT
 *
 * pattern.c - translates the regular expressions of tokenizer.json. Hugging Face's tokenizers match them with
 * Oniguruma, Weft with PCRE2, and the two differ in parts of the language. So a pattern is copied construct by
 * construct: constructs with the same meaning are kept, \s, \w and scripts are spelled out, and any other construct is
 * an error that names the construct.
 *
 *     \s           Unicode's White_Space; PCRE2 would add U+180E
 *     \w           letters, marks, digits, connectors, ² ³ ¹ ¼ ½ ¾; PCRE2 would leave out marks
 *     \p{Han}      the script of a character; PCRE2 would also match characters that several scripts share
 *     ^ $          match at every line; PCRE2 needs an option for that
 *     \h \v \b     mean something else, or define words differently
 *     a{2}+ a{2}?  a repetition of a repetition; to PCRE2, possessive or lazy
 *     [a[b]] [a&&b] sets of sets; to PCRE2, plain characters
 *     (?i:ss)      matches ß as well; to PCRE2, letters match letters
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/tokenizer/bpe.h"

#include <ctype.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define SPACE "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NO_SPACE                                                                                                       \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"                    \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

struct copying {
    const char *path, *pattern, *at;
    char *out;       /* capacity: MOST_GROWTH bytes per byte of the pattern */
    char last;       /* in (?i:...), the previous letter, or 0 */
    int depth, fold; /* number of open groups; the depth at which (?i: began, or 0 */
    bool in_set;
};
enum { MOST_GROWTH = sizeof NO_SPACE };

static void put(struct copying *c, const char *text)
{
    size_t size = strlen(text);
    memcpy(c->out, text, size);
    c->out += size;
}

static void copy(struct copying *c, size_t size)
{
    memcpy(c->out, c->at, size);
    c->out += size;
    c->at += size;
}

static enum weft_status refuse(const struct copying *c, const char *what, size_t size)
{
    return FAIL(WEFT_UNSUPPORTED, "%s: the pattern \"%s\" has %.*s at byte %zu, which is not supported: %s", c->path,
                weft_name_show(c->pattern).text, (int)size, c->at, (size_t)(c->at - c->pattern), what);
}

/* Writes a class of characters, inside a set or as a set. */
static enum weft_status put_class(struct copying *c, const char *positive, const char *negative)
{
    bool upper = isupper((unsigned char)c->at[1]);
    if (c->in_set && (c->at[-1] == '-' || (c->at[2] == '-' && c->at[3] != ']')))
        return refuse(c, "a range cannot end in a class", 2);
    if (c->in_set && upper && !negative)
        return refuse(c, "write the intended set", 2);
    if (!c->in_set)
        put(c, upper ? "[^" : "[");
    put(c, upper && c->in_set ? negative : positive);
    if (!c->in_set)
        put(c, "]");
    c->at += 2;
    return WEFT_OK;
}

/* \p{L}, \p{Lu}, \p{^L}, \p{Han} */
static enum weft_status put_property(struct copying *c)
{
    const char *name = c->at + 2;
    if (*name != '{')
        return refuse(c, "write \\p{NAME}", 2);
    name += 1 + (name[1] == '^');
    size_t size = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_");
    if (!size || name[size] != '}')
        return refuse(c, "a property must be a category, such as L, or a script", 3);
    if (c->fold)
        return refuse(c, "a property in (?i: )", 2);
    copy(c, (size_t)(name - c->at));
    if (size > 2)
        put(c, "sc:");
    copy(c, size + 1);
    return WEFT_OK;
}

static enum weft_status put_code(struct copying *c)
{
    size_t braced = c->at[2] == '{' ? strspn(c->at + 3, "0123456789abcdefABCDEF") : 0;
    if (braced && braced <= 6 && c->at[3 + braced] == '}') {
        copy(c, braced + 4);
        return WEFT_OK;
    }
    if (c->at[2] >= '0' && c->at[2] <= '7' && isxdigit((unsigned char)c->at[3])) {
        copy(c, 4);
        return WEFT_OK;
    }
    return refuse(c, "write \\x{CODE}", 2);
}

static enum weft_status put_escape(struct copying *c)
{
    char e = c->at[1];
    c->last = 0;
    if (e == 's' || e == 'S')
        return put_class(c, SPACE, NO_SPACE);
    if (e == 'w' || e == 'W')
        return put_class(c, WORD, NULL);
    if (e == 'd' || e == 'D')
        return put_class(c, "\\p{Nd}", "\\P{Nd}");
    if (e == 'p' || e == 'P')
        return put_property(c);
    if (e == 'x')
        return put_code(c);
    if (!e || !(strchr("rntf", e) || (ispunct((unsigned char)e) && e != '<' && e != '>')))
        return refuse(c, "Oniguruma and PCRE2 interpret it differently", e ? 2 : 1);
    copy(c, 2);
    return WEFT_OK;
}

/* Rejects pairs of letters in (?i: ) that also match a single character: ß, ligatures. */
static enum weft_status check_letter(struct copying *c)
{
    static const char *const pairs[] = {"ss", "st", "ff", "fi", "fl"};
    char letter = (char)tolower((unsigned char)*c->at);
    if (!c->fold)
        return WEFT_OK;
    if (*c->at & 0x80)
        return refuse(c, "a character in (?i: ) that is not ASCII", 1);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (c->last == pairs[i][0] && letter == pairs[i][1])
            return refuse(c, "in (?i: ), this pair of letters also matches a single character", 1);
    c->last = letter;
    return WEFT_OK;
}

static enum weft_status put_set(struct copying *c)
{
    c->in_set = true;
    copy(c, c->at[1] == '^' ? 2 : 1);
    if (*c->at == ']')
        return refuse(c, "write \\]", 1);
    while (*c->at && *c->at != ']') {
        if (*c->at == '[' || (c->at[0] == '&' && c->at[1] == '&'))
            return refuse(c, "it is a set inside a set", 1);
        if (c->fold && (*c->at & 0x80))
            return refuse(c, "a character in (?i: ) that is not ASCII", 1);
        if (*c->at == '\\')
            TRY(put_escape(c));
        else
            copy(c, 1);
    }
    c->in_set = false;
    c->last = 0;
    if (*c->at)
        copy(c, 1);
    return WEFT_OK;
}

static enum weft_status put_group(struct copying *c)
{
    static const char *const known[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
    size_t size = 1;
    c->depth++;
    c->last = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(c->at, known[i], strlen(known[i])) == 0)
            size = strlen(known[i]);
    if (size == 1 && (c->at[1] == '?' || c->at[1] == '*'))
        return refuse(c, "use a group that begins with ( (?: (?= (?! (?<= (?<! (?> or (?i:", 3);
    if (size == 4 && c->at[2] == 'i' && !c->fold)
        c->fold = c->depth;
    copy(c, size);
    return WEFT_OK;
}

static enum weft_status put_interval(struct copying *c)
{
    size_t least = strspn(c->at + 1, "0123456789"), size = 1 + least;
    if (c->at[size] == ',')
        size += 1 + strspn(c->at + size + 1, "0123456789");
    if (!least || c->at[size] != '}')
        return refuse(c, "write {N}, {N,} or {N,M}, or \\{", 1);
    size++;
    if (c->at[size] == '+' || c->at[size] == '?')
        return refuse(c, "put the repetition in a group", size + 1);
    copy(c, size);
    return WEFT_OK;
}

static enum weft_status translate(struct copying *c)
{
    while (*c->at) {
        if (*c->at == '\\') {
            TRY(put_escape(c));
        } else if (*c->at == '[') {
            TRY(put_set(c));
        } else if (*c->at == '(') {
            TRY(put_group(c));
        } else if (*c->at == '{') {
            TRY(put_interval(c));
        } else {
            TRY(check_letter(c));
            if (*c->at == ')' && c->depth-- == c->fold)
                c->fold = 0;
            copy(c, 1);
        }
    }
    *c->out = 0;
    return WEFT_OK;
}

static enum weft_status compile(pcre2_code **code, const char *path, const char *pattern, const char *translated,
                                uint32_t options)
{
    PCRE2_UCHAR message[128] = "";
    PCRE2_SIZE where = 0;
    uint32_t empty = 1;
    int error = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return FAIL(WEFT_NOMEM, "not enough memory for a pattern");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    *code = pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED, options, &error, &where, context);
    pcre2_compile_context_free(context);
    if (!*code) {
        pcre2_get_error_message(error, message, sizeof message);
        return FAIL(WEFT_UNSUPPORTED, "%s: the pattern \"%s\" is not supported: %s", path, weft_name_show(pattern).text,
                    (const char *)message);
    }
    pcre2_pattern_info(*code, PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty)
        return FAIL(WEFT_UNSUPPORTED, "%s: the pattern \"%s\" can match an empty text, which is not supported", path,
                    weft_name_show(pattern).text);
    (void)pcre2_jit_compile(*code,
                            PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD); /* without a JIT, matching is just slower */
    return WEFT_OK;
}

enum weft_status weft_pattern_compile(pcre2_code **code, const char *path, const char *pattern, bool literal)
{
    size_t size = strlen(pattern);
    if (size > WEFT_MAX_PATTERN)
        return FAIL(WEFT_UNSUPPORTED, "%s: the pattern has %zu bytes, but the limit is %d", path, size,
                    WEFT_MAX_PATTERN);
    if (literal)
        return compile(code, path, pattern, pattern, PCRE2_UTF | PCRE2_LITERAL);
    char *out = malloc(size * MOST_GROWTH + 1);
    if (!out)
        return FAIL(WEFT_NOMEM, "not enough memory for a pattern");
    struct copying c = {.path = path, .pattern = pattern, .at = pattern, .out = out};
    enum weft_status status = translate(&c);
    if (status == WEFT_OK)
        status = compile(code, path, pattern, out, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE);
    free(out);
    return status;
}
