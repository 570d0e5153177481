/* SPDX-License-Identifier: MIT
 *
 * tokenizer_read.c - reads and validates a tokenizer's vocabulary and merges: ids are 0 to n-1, each used once, and
 * both parts of a merge and its result are tokens.
 */
#include "text/tokenizer/tokenizer_read.h"

#include <stdlib.h>
#include <string.h>

enum weft_status weft_reading_json(const char *path, const char *json, size_t bytes, json_t **value)
{
    json_error_t error;
    *value = json_loadb(json, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!*value)
        return FAIL(WEFT_FORMAT, "%s:%d: %s", path, error.line, weft_name_show(error.text).text);
    return WEFT_OK;
}

/* ---- the vocabulary */

/* Returns the byte represented by a name <0xHH>, or -1. */
static int fallback_byte(const struct weft_reading *r, const char *name)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *high = strlen(name) == 6 ? strchr(digits, name[3]) : NULL, *low = high ? strchr(digits, name[4]) : NULL;
    if (!r->byte_fallback || !low || strncmp(name, "<0x", 3) != 0 || name[5] != '>')
        return -1;
    return (int)((high - digits) * 16 + (low - digits));
}

/* Writes the bytes of a model token to `scratch` and returns their number; 0 if the name is invalid for the kind. */
static size_t model_bytes(const struct weft_reading *r, const char *name, char *scratch)
{
    size_t size = strlen(name);
    uint32_t code;
    if (r->t->kind == WEFT_TOKENIZER_BPE)
        return weft_byte_name_read(name, scratch);
    if (r->t->kind == WEFT_TOKENIZER_CHAR && weft_utf8_read(name, size, &code) != size)
        return 0;
    memcpy(scratch, name, size);
    if (fallback_byte(r, name) < 0)
        return size;
    scratch[0] = (char)fallback_byte(r, name);
    return 1;
}

static enum weft_status check_id(const struct weft_reading *r, const char *name, json_int_t id)
{
    if (id < 0 || id >= r->t->vocab)
        return FAIL(WEFT_FORMAT, "%s: the token \"%s\" has the id %lld, but there are %d tokens", r->path,
                    weft_name_show(name).text, (long long)id, r->t->vocab);
    if (r->t->token[id].size)
        return FAIL(WEFT_FORMAT, "%s: the token \"%s\" has the same id as another token, %lld", r->path,
                    weft_name_show(name).text, (long long)id);
    return WEFT_OK;
}

static enum weft_status set_model_token(struct weft_reading *r, const char *name, const json_t *id, char *scratch)
{
    if (!json_is_integer(id))
        return FAIL(WEFT_FORMAT, "%s: the id of the token \"%s\" is not an integer", r->path,
                    weft_name_show(name).text);
    json_int_t n = json_integer_value(id);
    size_t size = model_bytes(r, name, scratch);
    if (!size)
        return FAIL(WEFT_FORMAT, "%s: the token \"%s\" is not %s", r->path, weft_name_show(name).text,
                    r->t->kind == WEFT_TOKENIZER_CHAR   ? "one character"
                    : r->t->kind == WEFT_TOKENIZER_TEXT ? "a string"
                                                        : "written in GPT-2's characters for bytes");
    TRY(check_id(r, name, n));
    TRY(weft_tokenizer_set(r->t, (int32_t)n, scratch, size, false));
    r->t->token[n].byte = fallback_byte(r, name) >= 0;
    return WEFT_OK;
}

/* An added token may also be in the vocabulary, with the same id, like GPT-2's end-of-text token. If it is not special,
 * it is then also a token of the model. An added token that is not in the vocabulary must have the next free id, which
 * other readers of the file would assign to it. */
static enum weft_status set_added_token(struct weft_reading *r, const json_t *entry, json_int_t *next, char *scratch)
{
    const char *content = json_string_value(json_object_get(entry, "content"));
    json_t *id = json_object_get(entry, "id"), *again = json_object_get(r->vocab, content);
    bool special = !json_is_false(json_object_get(entry, "special"));
    size_t size = strlen(content), model = again ? model_bytes(r, content, scratch) : 0;
    uint32_t code;
    if (again && !json_equal(id, again))
        return FAIL(WEFT_FORMAT, "%s: the added token \"%s\" has a different id in the vocabulary", r->path,
                    weft_name_show(content).text);
    if (!again && json_integer_value(id) != (*next)++)
        return FAIL(WEFT_FORMAT, "%s: the added token \"%s\" has the id %lld, but the next free one is %lld", r->path,
                    weft_name_show(content).text, (long long)json_integer_value(id), (long long)*next - 1);
    if (again && special && r->t->kind == WEFT_TOKENIZER_TEXT && weft_utf8_read(content, size, &code) == size)
        return FAIL(WEFT_UNSUPPORTED, "%s: the special token \"%s\" is also a character of the vocabulary", r->path,
                    weft_name_show(content).text);
    if (model && !special && (model != size || memcmp(scratch, content, size) != 0))
        return FAIL(WEFT_UNSUPPORTED,
                    "%s: the added token \"%s\" is not special, but its text in the vocabulary is different", r->path,
                    weft_name_show(content).text);
    TRY(check_id(r, content, json_integer_value(id)));
    TRY(weft_tokenizer_set(r->t, (int32_t)json_integer_value(id), content, size, special));
    r->t->token[json_integer_value(id)].added = special || !model;
    return WEFT_OK;
}

static enum weft_status set_tokens(struct weft_reading *r, const json_t *added, char *scratch,
                                   struct weft_strings *names)
{
    json_int_t next = (json_int_t)json_object_size(r->vocab);
    size_t i;
    json_t *entry;
    json_array_foreach(added, i, entry)
    {
        const json_t *content = json_object_get(entry, "content");
        TRY(set_added_token(r, entry, &next, scratch));
        TRY(weft_strings_put(names, json_string_value(content), json_string_length(content), 1));
    }
    for (void *at = json_object_iter((json_t *)r->vocab); at; at = json_object_iter_next((json_t *)r->vocab, at)) {
        const char *name = json_object_iter_key(at);
        if (weft_strings_get(names, name, strlen(name)) < 0)
            TRY(set_model_token(r, name, json_object_iter_value(at), scratch));
    }
    return WEFT_OK;
}

enum weft_status weft_reading_create(struct weft_reading *r, enum weft_tokenizer_kind kind, const json_t *added,
                                     size_t merges)
{
    size_t vocab = json_object_size(r->vocab), i;
    json_t *entry;
    if (!vocab)
        return FAIL(WEFT_FORMAT, "%s: the vocabulary is missing or empty", r->path);
    json_array_foreach(added, i, entry) vocab +=
        !json_object_get(r->vocab, json_string_value(json_object_get(entry, "content")));
    return weft_tokenizer_create(&r->t, kind, (int)vocab, (int)merges);
}

enum weft_status weft_reading_vocab(struct weft_reading *r, const json_t *added)
{
    size_t longest = 0;
    for (void *at = json_object_iter((json_t *)r->vocab); at; at = json_object_iter_next((json_t *)r->vocab, at))
        longest = weft_max((int64_t)longest, (int64_t)strlen(json_object_iter_key(at)));
    struct weft_strings names = {0};
    char *scratch = malloc(longest + 1);
    enum weft_status status =
        scratch ? set_tokens(r, added, scratch, &names) : FAIL(WEFT_NOMEM, "not enough memory for a token");
    weft_strings_release(&names);
    free(scratch);
    return status;
}

/* ---- merges */

static enum weft_status token_of(const struct weft_reading *r, const char *name, size_t merge, int32_t *id)
{
    const json_t *found = json_object_get(r->vocab, name);
    *id = (int32_t)json_integer_value(found);
    if (!found || r->t->token[*id].added || r->t->token[*id].byte)
        return FAIL(WEFT_FORMAT, "%s: merge %zu needs the token \"%s\", which is not in the vocabulary", r->path,
                    merge + 1, weft_name_show(name).text);
    return WEFT_OK;
}

enum weft_status weft_reading_merge(const struct weft_reading *r, size_t i, const char *left, const char *right)
{
    struct weft_merge *m = &r->t->merge[i];
    TRY(token_of(r, left, i, &m->left));
    TRY(token_of(r, right, i, &m->right));
    size_t size = strlen(left) + strlen(right) + 1;
    char *made = malloc(size);
    if (!made)
        return FAIL(WEFT_NOMEM, "not enough memory for a token");
    snprintf(made, size, "%s%s", left, right);
    enum weft_status status = token_of(r, made, i, &m->made);
    free(made);
    return status;
}

/* Sets merge i from `line`, "left right", which is modified. */
enum weft_status weft_reading_merge_line(const struct weft_reading *r, size_t i, char *line)
{
    char *space = strchr(line, ' ');
    if (!space)
        return FAIL(WEFT_FORMAT, "%s: merge %zu is \"%s\", not two tokens separated by a space", r->path, i + 1,
                    weft_name_show(line).text);
    *space = 0;
    return weft_reading_merge(r, i, line, space + 1);
}
