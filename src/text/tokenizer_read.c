/* SPDX-License-Identifier: MIT
 *
 * tokenizer_read.c - reads and validates a tokenizer's vocabulary and merges: ids are 0 to n-1, each used once, and
 * both parts of a merge and its result are tokens.
 */
#include "text/tokenizer_read.h"

#include <stdlib.h>
#include <string.h>

struct weft_shown weft_name_show(const char *name)
{
    struct weft_shown s;
    size_t n = strlen(name);
    n = n < sizeof s.text ? n : sizeof s.text - 1;
    while (n && ((unsigned char)name[n] & 0xc0) == 0x80) /* do not cut a character in two */
        n--;
    memcpy(s.text, name, n);
    s.text[n] = 0;
    return s;
}

enum weft_status weft_reading_json(const char *path, const char *json, size_t bytes, json_t **value)
{
    json_error_t error;
    *value = json_loadb(json, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!*value)
        return FAIL(WEFT_FORMAT, "%s:%d: %s", path, error.line, weft_name_show(error.text).text);
    return WEFT_OK;
}

/* ---- the vocabulary */

static enum weft_status set_token(struct weft_reading *r, const char *name, json_int_t id, bool special, char *scratch)
{
    size_t size = special ? strlen(name) : weft_byte_name_read(name, scratch);
    uint32_t code;
    if (r->t->kind == WEFT_TOKENIZER_CHAR) {
        size = strlen(name);
        if (weft_utf8_read(name, size, &code) != size)
            size = 0;
        special = true; /* the name is the text itself */
    }
    if (!size)
        return FAIL(WEFT_FORMAT, "%s: the token \"%s\" is not %s", r->path, weft_name_show(name).text,
                    r->t->kind == WEFT_TOKENIZER_CHAR ? "one character" : "written in GPT-2's characters for bytes");
    if (id < 0 || id >= r->t->vocab)
        return FAIL(WEFT_FORMAT, "%s: the token \"%s\" has the id %lld, but there are %d tokens", r->path,
                    weft_name_show(name).text, (long long)id, r->t->vocab);
    if (r->t->token[id].size)
        return FAIL(WEFT_FORMAT, "%s: the token \"%s\" has the same id as another token, %lld", r->path,
                    weft_name_show(name).text, (long long)id);
    TRY(weft_tokenizer_set(r->t, (int32_t)id, special ? name : scratch, size,
                           special && r->t->kind != WEFT_TOKENIZER_CHAR));
    return WEFT_OK;
}

static bool is_added(const struct weft_tokenizer *t, const char *name, json_int_t id)
{
    const struct weft_token *token = id >= 0 && id < t->vocab ? &t->token[id] : NULL;
    return token && token->special && token->size == strlen(name) && memcmp(token->bytes, name, token->size) == 0;
}

/* An added token may also be in the vocabulary, as GPT-2's end of text is, with the same id. */
static enum weft_status set_tokens(struct weft_reading *r, const json_t *added, char *scratch)
{
    size_t i;
    json_t *entry;
    json_array_foreach(added, i, entry)
    {
        const char *content = json_string_value(json_object_get(entry, "content"));
        json_t *id = json_object_get(entry, "id"), *again = json_object_get(r->vocab, content);
        if (again && !json_equal(id, again))
            return FAIL(WEFT_FORMAT, "%s: the added token \"%s\" has a different id in the vocabulary", r->path,
                        weft_name_show(content).text);
        TRY(set_token(r, content, json_integer_value(id), true, scratch));
    }
    for (void *at = json_object_iter((json_t *)r->vocab); at; at = json_object_iter_next((json_t *)r->vocab, at)) {
        const char *name = json_object_iter_key(at);
        const json_t *id = json_object_iter_value(at);
        if (!json_is_integer(id))
            return FAIL(WEFT_FORMAT, "%s: the id of the token \"%s\" is not an integer", r->path,
                        weft_name_show(name).text);
        if (!is_added(r->t, name, json_integer_value(id)))
            TRY(set_token(r, name, json_integer_value(id), false, scratch));
    }
    return WEFT_OK;
}

enum weft_status weft_reading_vocab(struct weft_reading *r, enum weft_tokenizer_kind kind, const json_t *added,
                                    size_t merges)
{
    size_t vocab = json_object_size(r->vocab), i, longest = 0;
    json_t *entry;
    if (!vocab)
        return FAIL(WEFT_FORMAT, "%s: the vocabulary is missing or empty", r->path);
    for (void *at = json_object_iter((json_t *)r->vocab); at; at = json_object_iter_next((json_t *)r->vocab, at))
        longest = weft_max((int64_t)longest, (int64_t)strlen(json_object_iter_key(at)));
    json_array_foreach(added, i, entry) vocab +=
        !json_object_get(r->vocab, json_string_value(json_object_get(entry, "content")));
    TRY(weft_tokenizer_create(&r->t, kind, (int)vocab, (int)merges));
    char *scratch = malloc(longest + 1);
    enum weft_status status =
        scratch ? set_tokens(r, added, scratch) : FAIL(WEFT_NOMEM, "not enough memory for a token");
    free(scratch);
    return status;
}

/* ---- merges */

static enum weft_status token_of(const struct weft_reading *r, const char *name, size_t merge, int32_t *id)
{
    const json_t *found = json_object_get(r->vocab, name);
    *id = (int32_t)json_integer_value(found);
    if (!found || r->t->token[*id].special)
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

/* Modifies `line`, "left right". */
enum weft_status weft_reading_merge_line(const struct weft_reading *r, size_t i, char *line)
{
    char *space = strchr(line, ' ');
    if (!space)
        return FAIL(WEFT_FORMAT, "%s: merge %zu is \"%s\", not two tokens separated by a space", r->path, i + 1,
                    weft_name_show(line).text);
    *space = 0;
    return weft_reading_merge(r, i, line, space + 1);
}
