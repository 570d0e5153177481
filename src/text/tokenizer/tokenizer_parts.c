/* SPDX-License-Identifier: MIT
 *
 * tokenizer_parts.c - reads the parts of a tokenizer.json that apply before merging: the normalizer and the
 * pre_tokenizer. Unsupported features that would change the tokens are errors that name them.
 */
#include "text/tokenizer/tokenizer_read.h"

#include <string.h>

const char *weft_part_type(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : json_is_null(part) || !part ? "null" : "?";
}

enum weft_status weft_part_unsupported(const char *path, const char *what, const json_t *part)
{
    return FAIL(WEFT_UNSUPPORTED, "%s: the %s (%s) is not supported", path, what,
                weft_name_show(weft_part_type(part)).text);
}

static bool is_type(const json_t *part, const char *type) { return strcmp(weft_part_type(part), type) == 0; }

enum weft_status weft_reading_text(struct weft_reading *r, const json_t *text, struct weft_token *to)
{
    enum { MOST = 256 };
    size_t size = json_string_length(text);
    if (!json_is_string(text) || size > MOST)
        return FAIL(WEFT_UNSUPPORTED, "%s: a pattern or content is missing, not a string, or longer than %d bytes",
                    r->path, MOST);
    char *copy = weft_arena_alloc(&r->t->arena, size + 1);
    if (!copy)
        return WEFT_NOMEM;
    memcpy(copy, json_string_value(text), size);
    *to = (struct weft_token){.bytes = copy, .size = (uint32_t)size};
    return WEFT_OK;
}

/* ---- normalizer */

static enum weft_status add_step(struct weft_reading *r, const json_t *part)
{
    struct weft_normal *n = &r->t->normal;
    struct weft_normal_step *s = &n->step[n->steps];
    if (n->steps == WEFT_NORMAL_STEPS)
        return FAIL(WEFT_UNSUPPORTED, "%s: the normalizer has more than %d steps", r->path, WEFT_NORMAL_STEPS);
    if (is_type(part, "NFC")) {
        s->kind = WEFT_NORMAL_NFC;
    } else if (is_type(part, "Prepend")) {
        s->kind = WEFT_NORMAL_PREPEND;
        TRY(weft_reading_text(r, json_object_get(part, "prepend"), &s->to));
    } else if (is_type(part, "Replace") && json_object_get(json_object_get(part, "pattern"), "String")) {
        s->kind = WEFT_NORMAL_REPLACE;
        TRY(weft_reading_text(r, json_object_get(json_object_get(part, "pattern"), "String"), &s->from));
        TRY(weft_reading_text(r, json_object_get(part, "content"), &s->to));
        if (!s->from.size)
            return FAIL(WEFT_UNSUPPORTED, "%s: the normalizer replaces an empty text", r->path);
        bool space = s->from.size == 1 && s->from.bytes[0] == ' ' && s->to.size;
        r->t->gaps = r->t->gaps && space && !r->replaces && !weft_part_byte_level(r->pre);
        r->replaces = true;
    } else {
        return weft_part_unsupported(r->path, "normalizer", part);
    }
    n->steps++;
    return WEFT_OK;
}

enum weft_status weft_reading_normalizer(struct weft_reading *r, const json_t *part)
{
    size_t i;
    json_t *one;
    const json_t *list = json_object_get(part, "normalizers");
    if (!part || json_is_null(part))
        return WEFT_OK;
    if (!is_type(part, "Sequence") || !json_is_array(list))
        return add_step(r, part);
    json_array_foreach(list, i, one) TRY(weft_reading_normalizer(r, one));
    return WEFT_OK;
}

/* ---- pre_tokenizer */

bool weft_part_byte_level(const json_t *pre)
{
    const json_t *list = json_object_get(pre, "pretokenizers");
    while (is_type(pre, "Sequence") && json_array_size(list)) {
        pre = json_array_get(list, json_array_size(list) - 1);
        list = json_object_get(pre, "pretokenizers");
    }
    return is_type(pre, "ByteLevel");
}

/* Recognises the patterns of GPT-2, Llama 3 and Qwen2, which are known to split at gaps (bpe.h). */
static bool splits_at_gaps(const char *pattern)
{
    static const char *const known[] = {
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
        "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
        "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(pattern, known[i]) == 0)
            return true;
    return false;
}

static enum weft_status add_split(struct weft_reading *r, const json_t *part)
{
    static const char *const names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"};
    const json_t *pattern = json_object_get(part, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *literal = json_string_value(json_object_get(pattern, "String"));
    const char *behavior = json_string_value(json_object_get(part, "behavior"));
    bool invert = json_is_true(json_object_get(part, "invert"));
    if (!regex == !literal)
        return FAIL(WEFT_FORMAT, "%s: a Split does not have exactly one pattern", r->path);
    for (size_t i = 0; behavior && i < sizeof names / sizeof *names; i++)
        if (strcmp(behavior, names[i]) == 0) {
            bool all = i == WEFT_ISOLATED || (i == WEFT_REMOVED && invert);
            r->t->gaps = r->t->gaps && regex && all && splits_at_gaps(regex) && !r->replaces;
            return weft_cut_add(r->t->cut, r->path, regex ? regex : literal, literal, (enum weft_cut_matches)i, invert);
        }
    return FAIL(WEFT_UNSUPPORTED, "%s: a Split has the behavior \"%s\", which is not supported", r->path,
                behavior ? weft_name_show(behavior).text : "");
}

static enum weft_status add_digits(struct weft_reading *r, const json_t *part)
{
    bool each = json_is_true(json_object_get(part, "individual_digits"));
    return weft_cut_add(r->t->cut, r->path, "\\p{N}", false, each ? WEFT_ISOLATED : WEFT_CONTIGUOUS, false);
}

static enum weft_status add_byte_level(struct weft_reading *r, const json_t *part, bool alone)
{
    const json_t *space = json_object_get(part, "add_prefix_space");
    bool regex = !json_is_false(json_object_get(part, "use_regex"));
    if (!json_is_boolean(space) || (json_is_true(space) && !alone))
        return FAIL(WEFT_UNSUPPORTED,
                    "%s: add_prefix_space must be true or false, and true is not supported after other parts", r->path);
    r->t->lead = json_is_true(space) ? WEFT_LEAD_ALWAYS : WEFT_LEAD_NONE;
    r->t->gaps = r->t->gaps && (regex || !alone);
    if (regex)
        TRY(weft_cut_add_gpt2(r->t->cut));
    return WEFT_OK;
}

static enum weft_status add_metaspace(struct weft_reading *r, const json_t *part)
{
    struct weft_tokenizer *t = r->t;
    const char *scheme = json_string_value(json_object_get(part, "prepend_scheme"));
    const json_t *old = json_object_get(part, "add_prefix_space");
    uint32_t code;
    TRY(weft_reading_text(r, json_object_get(part, "replacement"), &t->mark));
    if (!t->mark.size || weft_utf8_read(t->mark.bytes, t->mark.size, &code) != t->mark.size)
        return FAIL(WEFT_FORMAT, "%s: the replacement of Metaspace is not one character", r->path);
    if (!scheme)
        scheme = json_is_false(old) ? "never" : "always";
    if (strcmp(scheme, "always") != 0 && strcmp(scheme, "first") != 0 && strcmp(scheme, "never") != 0)
        return FAIL(WEFT_UNSUPPORTED, "%s: the prepend_scheme \"%s\" is not supported", r->path,
                    weft_name_show(scheme).text);
    t->lead = *scheme == 'a' ? WEFT_LEAD_ALWAYS : *scheme == 'f' ? WEFT_LEAD_FIRST : WEFT_LEAD_NONE;
    t->gaps = t->gaps && !r->replaces;
    if (!json_is_false(json_object_get(part, "split")))
        TRY(weft_cut_add(t->cut, r->path, t->mark.bytes, true, WEFT_WITH_NEXT, false));
    return WEFT_OK;
}

/* ByteLevel must be the last part and Metaspace the only one: they rewrite bytes or spaces, so a following part would
 * not see the original text. */
static enum weft_status add_part(struct weft_reading *r, const json_t *part, bool alone, bool last)
{
    const json_t *list = json_object_get(part, "pretokenizers");
    size_t i;
    json_t *one;
    if (is_type(part, "Split"))
        return add_split(r, part);
    if (is_type(part, "Digits"))
        return add_digits(r, part);
    if (is_type(part, "ByteLevel") && last)
        return add_byte_level(r, part, alone);
    if (is_type(part, "Metaspace") && alone)
        return add_metaspace(r, part);
    if (!is_type(part, "Sequence") || !json_is_array(list))
        return weft_part_unsupported(r->path, "pre_tokenizer", part);
    json_array_foreach(list, i, one)
        TRY(add_part(r, one, alone && json_array_size(list) == 1, last && i + 1 == json_array_size(list)));
    return WEFT_OK;
}

enum weft_status weft_reading_pre_tokenizer(struct weft_reading *r, const json_t *part)
{
    TRY(weft_cut_create(&r->t->cut));
    if (part && !json_is_null(part))
        TRY(add_part(r, part, true, true));
    return WEFT_OK;
}
