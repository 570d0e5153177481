/* SPDX-License-Identifier: MIT
 *
 * tokenizer_added.c - reads the added_tokens of a tokenizer.json: tokens that are searched for in a text before or
 * after normalization.
 */
#define _GNU_SOURCE
#include "text/tokenizer/tokenizer_read.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ADDED = 4096 };

enum weft_status weft_reading_count_added(const char *path, const char *json, size_t bytes)
{
    enum { OTHERS = 1024 }; /* allowance for occurrences in the vocabulary and other parts */
    static const char word[] = "\"content\"";
    const char *at = json, *end = json + bytes;
    size_t count = 0;
    while (count <= MOST_ADDED + OTHERS && (at = memmem(at, (size_t)(end - at), word, sizeof word - 1))) {
        at += sizeof word - 1;
        count++;
    }
    if (count > MOST_ADDED + OTHERS)
        return FAIL(WEFT_UNSUPPORTED, "%s has more than %d added_tokens: the limit is %d", path, MOST_ADDED,
                    MOST_ADDED);
    return WEFT_OK;
}

enum weft_status weft_reading_check_added(const char *path, const json_t *added)
{
    static const char *const forbidden[] = {"lstrip", "rstrip", "single_word"};
    size_t i;
    json_t *entry;
    if (added && !json_is_array(added) && !json_is_null(added))
        return FAIL(WEFT_FORMAT, "%s: added_tokens is not a list", path);
    if (json_array_size(added) > MOST_ADDED)
        return FAIL(WEFT_UNSUPPORTED, "%s has %zu added_tokens: the limit is %d", path, json_array_size(added),
                    MOST_ADDED);
    json_array_foreach(added, i, entry)
    {
        const char *content = json_string_value(json_object_get(entry, "content"));
        if (!content || !*content || !json_is_integer(json_object_get(entry, "id")))
            return FAIL(WEFT_FORMAT, "%s: entry %zu of added_tokens has no content or id", path, i);
        for (size_t k = 0; k < sizeof forbidden / sizeof *forbidden; k++)
            if (json_is_true(json_object_get(entry, forbidden[k])))
                return FAIL(WEFT_UNSUPPORTED, "%s: the added token \"%s\" has %s, which is not supported", path,
                            weft_name_show(content).text, forbidden[k]);
        for (size_t k = 0; k < i; k++)
            if (strcmp(content, json_string_value(json_object_get(json_array_get(added, k), "content"))) == 0)
                return FAIL(WEFT_FORMAT, "%s: the added token \"%s\" is listed twice", path,
                            weft_name_show(content).text);
    }
    return WEFT_OK;
}

/* Returns whether the text of an added token contains a gap, or may contain one after normalization. */
static bool has_gap(const struct weft_token *text)
{
    for (uint32_t i = 1; i < text->size; i++)
        if (text->bytes[i] == ' ' || text->bytes[i] == '\n' || (unsigned char)text->bytes[i] >= 0x80)
            return true;
    return false;
}

static enum weft_status normalize(struct weft_reading *r, const char *content, struct weft_token *token)
{
    struct weft_buffer buffer[2] = {0};
    const char *text = NULL;
    size_t size = 0;
    enum weft_status status = weft_normalize(&r->t->normal, content, strlen(content), true, buffer, &text, &size);
    char *copy = status == WEFT_OK ? weft_arena_alloc(&r->t->arena, size + 1) : NULL;
    if (copy) {
        memcpy(copy, text, size);
        token->bytes = copy;
        token->size = (uint32_t)size;
    }
    free(buffer[0].bytes);
    free(buffer[1].bytes);
    TRY(status);
    if (!copy)
        return WEFT_NOMEM;
    if (!size)
        return FAIL(WEFT_UNSUPPORTED, "%s: the added token \"%s\" is empty after normalization", r->path,
                    weft_name_show(content).text);
    return WEFT_OK;
}

static enum weft_status add(struct weft_reading *r, const json_t *entry)
{
    struct weft_tokenizer *t = r->t;
    const char *content = json_string_value(json_object_get(entry, "content"));
    int32_t id = (int32_t)json_integer_value(json_object_get(entry, "id"));
    bool special = !json_is_false(json_object_get(entry, "special"));
    const json_t *normalized = json_object_get(entry, "normalized");
    struct weft_token token = {.bytes = t->token[id].bytes, .size = t->token[id].size, .special = special};
    if (normalized ? !json_is_true(normalized) : special) {
        weft_added_put(&t->added, token, id);
        return WEFT_OK;
    }
    TRY(normalize(r, content, &token));
    t->gaps = t->gaps && !has_gap(&token);
    weft_added_put(&t->normalized, token, id);
    return WEFT_OK;
}

/* If two added tokens have the same text, the special one comes first. */
enum weft_status weft_reading_added(struct weft_reading *r, const json_t *added)
{
    size_t i;
    json_t *entry;
    TRY(weft_added_create(r->t, &r->t->added, (int)json_array_size(added)));
    TRY(weft_added_create(r->t, &r->t->normalized, (int)json_array_size(added)));
    for (int others = 0; others < 2; others++)
        json_array_foreach(added, i, entry) if (json_is_false(json_object_get(entry, "special")) == others)
            TRY(add(r, entry));
    return WEFT_OK;
}
