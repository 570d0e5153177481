/* SPDX-License-Identifier: MIT
 *
 * tokenizer_json.c - reads Hugging Face's tokenizer.json: byte-level BPE with GPT-2's pre-tokenizer, and character
 * tokenizers as tokenizer_save.c writes them. Any other feature that would change the tokens is an error that names it.
 */
#include "text/tokenizer_read.h"

#include <stdlib.h>
#include <string.h>

static enum weft_status check_added(const char *path, const json_t *added)
{
    static const char *const forbidden[] = {"lstrip", "rstrip", "single_word"};
    size_t i;
    json_t *entry;
    if (added && !json_is_array(added) && !json_is_null(added))
        return FAIL(WEFT_FORMAT, "%s: added_tokens is not a list", path);
    if (json_array_size(added) > 4096)
        return FAIL(WEFT_UNSUPPORTED, "%s: %zu added_tokens: the limit is 4096", path, json_array_size(added));
    json_array_foreach(added, i, entry)
    {
        const char *content = json_string_value(json_object_get(entry, "content"));
        if (!content || !*content || !json_is_integer(json_object_get(entry, "id")))
            return FAIL(WEFT_FORMAT, "%s: entry %zu of added_tokens has no content or id", path, i);
        for (size_t k = 0; k < sizeof forbidden / sizeof *forbidden; k++)
            if (json_is_true(json_object_get(entry, forbidden[k])))
                return FAIL(WEFT_UNSUPPORTED, "%s: the added token \"%s\" has %s, which is not supported", path,
                            weft_name_show(content).text, forbidden[k]);
        if (json_is_false(json_object_get(entry, "special"))) /* Hugging Face would match it in every text */
            return FAIL(WEFT_UNSUPPORTED, "%s: the added token \"%s\" is not special, which is not supported", path,
                        weft_name_show(content).text);
        for (size_t k = 0; k < i; k++)
            if (strcmp(content, json_string_value(json_object_get(json_array_get(added, k), "content"))) == 0)
                return FAIL(WEFT_FORMAT, "%s: the added token \"%s\" is listed twice", path,
                            weft_name_show(content).text);
    }
    return WEFT_OK;
}

static enum weft_status read_merges(const struct weft_reading *r, const json_t *merges)
{
    size_t i;
    json_t *entry;
    json_array_foreach(merges, i, entry)
    {
        const char *left = json_string_value(json_array_get(entry, 0));
        const char *right = json_string_value(json_array_get(entry, 1));
        if (json_is_string(entry)) {
            char *line = strdup(json_string_value(entry));
            enum weft_status status =
                line ? weft_reading_merge_line(r, i, line) : FAIL(WEFT_NOMEM, "not enough memory for a merge");
            free(line);
            TRY(status);
        } else if (left && right && json_array_size(entry) == 2) {
            TRY(weft_reading_merge(r, i, left, right));
        } else {
            return FAIL(WEFT_FORMAT, "%s: merge %zu is not two tokens", r->path, i + 1);
        }
    }
    return WEFT_OK;
}

static const char *type_of(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : json_is_null(part) || !part ? "null" : "?";
}

static enum weft_status unsupported(const char *path, const char *what, const json_t *part)
{
    return FAIL(WEFT_UNSUPPORTED, "%s: the %s (%s) is not supported: only byte-level BPE with GPT-2's pattern is", path,
                what, weft_name_show(type_of(part)).text);
}

/* Options of the model that would change tokens. */
static enum weft_status check_switches(const char *path, const json_t *model)
{
    static const char *const off[] = {"byte_fallback", "ignore_merges", "fuse_unk"};
    static const char *const empty[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (json_is_true(json_object_get(model, off[i])))
            return FAIL(WEFT_UNSUPPORTED, "%s: %s is not supported", path, off[i]);
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        if (json_string_length(json_object_get(model, empty[i])))
            return FAIL(WEFT_UNSUPPORTED, "%s: %s is not supported", path, empty[i]);
    if (json_number_value(json_object_get(model, "dropout")) != 0)
        return FAIL(WEFT_UNSUPPORTED, "%s: dropout is not supported", path);
    return WEFT_OK;
}

static enum weft_status check_bpe(const char *path, const json_t *root)
{
    const json_t *pre = json_object_get(root, "pre_tokenizer"), *post = json_object_get(root, "post_processor");
    if (strcmp(type_of(pre), "ByteLevel") != 0 || json_is_false(json_object_get(pre, "use_regex")))
        return unsupported(path, "pre_tokenizer", pre);
    if (!json_is_false(json_object_get(pre, "add_prefix_space")))
        return FAIL(WEFT_UNSUPPORTED, "%s: add_prefix_space is not supported", path);
    if (post && !json_is_null(post) && strcmp(type_of(post), "ByteLevel") != 0)
        return unsupported(path, "post_processor", post);
    return check_switches(path, json_object_get(root, "model"));
}

static enum weft_status check_chars(const char *path, const json_t *root)
{
    const json_t *pre = json_object_get(root, "pre_tokenizer"), *post = json_object_get(root, "post_processor");
    const char *pattern = json_string_value(json_object_get(json_object_get(pre, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(pre, "behavior"));
    if (strcmp(type_of(pre), "Split") != 0 || !pattern || strcmp(pattern, WEFT_CHARS_PATTERN) != 0 || !behavior ||
        strcmp(behavior, "Isolated") != 0 || json_is_true(json_object_get(pre, "invert")))
        return unsupported(path, "pre_tokenizer", pre);
    if (post && !json_is_null(post))
        return unsupported(path, "post_processor", post);
    if (json_array_size(json_object_get(root, "added_tokens")))
        return FAIL(WEFT_UNSUPPORTED, "%s: added_tokens are not supported in a character tokenizer", path);
    return WEFT_OK;
}

static enum weft_status read_root(struct weft_reading *r, const json_t *root)
{
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    const json_t *merges = json_object_get(model, "merges"), *normalizer = json_object_get(root, "normalizer");
    bool chars = strcmp(type_of(model), "WordLevel") == 0;
    if (!chars && strcmp(type_of(model), "BPE") != 0)
        return unsupported(r->path, "model", model);
    if (normalizer && !json_is_null(normalizer))
        return unsupported(r->path, "normalizer", normalizer);
    TRY(chars ? check_chars(r->path, root) : check_bpe(r->path, root));
    TRY(check_added(r->path, added));
    if (!chars && !json_is_array(merges))
        return FAIL(WEFT_FORMAT, "%s: the list of merges is missing", r->path);
    r->vocab = json_object_get(model, "vocab");
    TRY(weft_reading_vocab(r, chars ? WEFT_TOKENIZER_CHAR : WEFT_TOKENIZER_BPE, added,
                           chars ? 0 : json_array_size(merges)));
    if (!chars)
        TRY(read_merges(r, merges));
    return weft_tokenizer_finish(r->t, r->path);
}

enum weft_status weft_tokenizer_parse(struct weft_tokenizer **t, const char *name, const char *json, size_t bytes)
{
    struct weft_reading r = {.path = name};
    json_t *root = NULL;
    enum weft_status status = weft_reading_json(name, json, bytes, &root);
    if (status == WEFT_OK)
        status = read_root(&r, root);
    json_decref(root);
    return weft_tokenizer_hand_over(t, r.t, status);
}
