/* SPDX-License-Identifier: MIT
 *
 * tokenizer_json.c - reads Hugging Face's tokenizer.json: BPE over bytes or characters, and character tokenizers as
 * tokenizer_save.c writes them. Any other feature that would change the tokens is an error that names it.
 */
#include "text/tokenizer/tokenizer_read.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- the model */

/* Rejects options of the model that would change tokens. */
static enum weft_status check_switches(const char *path, const json_t *model)
{
    static const char *const empty[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        if (json_string_length(json_object_get(model, empty[i])))
            return FAIL(WEFT_UNSUPPORTED, "%s: %s is not supported", path, empty[i]);
    if (json_number_value(json_object_get(model, "dropout")) != 0)
        return FAIL(WEFT_UNSUPPORTED, "%s: dropout is not supported", path);
    return WEFT_OK;
}

/* Reads how characters outside the vocabulary are encoded. */
static enum weft_status read_unknown(struct weft_reading *r, const json_t *model)
{
    const char *name = json_string_value(json_object_get(model, "unk_token"));
    const json_t *id = name ? json_object_get(r->vocab, name) : NULL;
    if (r->t->kind != WEFT_TOKENIZER_TEXT || r->byte_fallback)
        return WEFT_OK;
    if (!json_is_integer(id))
        return FAIL(WEFT_UNSUPPORTED,
                    "%s: characters outside the vocabulary would be lost, because there is neither byte_fallback nor "
                    "an unk_token in the vocabulary",
                    r->path);
    r->t->unknown = (int32_t)json_integer_value(id);
    r->t->fuse_unknown = json_is_true(json_object_get(model, "fuse_unk"));
    return WEFT_OK;
}

static enum weft_status read_model(struct weft_reading *r, const json_t *root)
{
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    const json_t *merges = json_object_get(model, "merges");
    enum weft_tokenizer_kind kind = weft_part_byte_level(r->pre) ? WEFT_TOKENIZER_BPE : WEFT_TOKENIZER_TEXT;
    TRY(check_switches(r->path, model));
    if (!json_is_array(merges))
        return FAIL(WEFT_FORMAT, "%s: the list of merges is missing", r->path);
    r->byte_fallback = kind == WEFT_TOKENIZER_TEXT && json_is_true(json_object_get(model, "byte_fallback"));
    TRY(weft_reading_create(r, kind, added, json_array_size(merges)));
    r->t->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    if (r->t->ignore_merges && kind == WEFT_TOKENIZER_TEXT)
        return FAIL(WEFT_UNSUPPORTED, "%s: ignore_merges is supported in byte-level tokenizers only", r->path);
    r->t->gaps = true; /* until a part of the file turns it off */
    TRY(weft_reading_normalizer(r, json_object_get(root, "normalizer")));
    TRY(weft_reading_pre_tokenizer(r, r->pre));
    TRY(weft_reading_post_processor(r, json_object_get(root, "post_processor")));
    TRY(weft_reading_decoder(r, json_object_get(root, "decoder")));
    TRY(weft_reading_vocab(r, added));
    TRY(weft_reading_added(r, added));
    TRY(read_merges(r, merges));
    return read_unknown(r, model);
}

/* ---- characters, as tokenizer_save.c writes them */

static enum weft_status read_chars(struct weft_reading *r, const json_t *root)
{
    const json_t *post = json_object_get(root, "post_processor"), *normalizer = json_object_get(root, "normalizer");
    const char *pattern = json_string_value(json_object_get(json_object_get(r->pre, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(r->pre, "behavior"));
    if (strcmp(weft_part_type(r->pre), "Split") != 0 || !pattern || strcmp(pattern, WEFT_CHARS_PATTERN) != 0 ||
        !behavior || strcmp(behavior, "Isolated") != 0 || json_is_true(json_object_get(r->pre, "invert")))
        return weft_part_unsupported(r->path, "pre_tokenizer", r->pre);
    if (post && !json_is_null(post))
        return weft_part_unsupported(r->path, "post_processor", post);
    if (normalizer && !json_is_null(normalizer))
        return weft_part_unsupported(r->path, "normalizer", normalizer);
    if (json_array_size(json_object_get(root, "added_tokens")))
        return FAIL(WEFT_UNSUPPORTED, "%s: added_tokens are not supported in a character tokenizer", r->path);
    TRY(weft_reading_create(r, WEFT_TOKENIZER_CHAR, NULL, 0));
    return weft_reading_vocab(r, NULL);
}

/* ---- the whole file */

static enum weft_status keep_source(struct weft_tokenizer *t, const char *json, size_t bytes)
{
    char *copy = weft_arena_alloc(&t->arena, bytes);
    if (!copy)
        return WEFT_NOMEM;
    memcpy(copy, json, bytes);
    t->source = copy;
    t->source_bytes = bytes;
    return WEFT_OK;
}

static enum weft_status read_root(struct weft_reading *r, const json_t *root)
{
    static const char *const cut[] = {"truncation", "padding"};
    const json_t *model = json_object_get(root, "model");
    bool chars = strcmp(weft_part_type(model), "WordLevel") == 0;
    bool untyped =
        json_is_array(json_object_get(model, "merges")) && !json_object_get(model, "type"); /* GPT-2's own file */
    if (!chars && !untyped && strcmp(weft_part_type(model), "BPE") != 0)
        return weft_part_unsupported(r->path, "model", model);
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
        if (json_object_get(root, cut[i]) && !json_is_null(json_object_get(root, cut[i])))
            return FAIL(WEFT_UNSUPPORTED, "%s: %s is not supported: set it to null", r->path, cut[i]);
    r->vocab = json_object_get(model, "vocab");
    r->pre = json_object_get(root, "pre_tokenizer");
    TRY(weft_reading_check_added(r->path, json_object_get(root, "added_tokens")));
    return chars ? read_chars(r, root) : read_model(r, root);
}

enum weft_status weft_tokenizer_parse(struct weft_tokenizer **t, const char *name, const char *json, size_t bytes)
{
    struct weft_reading r = {.path = name};
    json_t *root = NULL;
    enum weft_status status = weft_reading_count_added(name, json, bytes);
    if (status == WEFT_OK)
        status = weft_reading_json(name, json, bytes, &root);
    if (status == WEFT_OK)
        status = read_root(&r, root);
    json_decref(root);
    if (status == WEFT_OK)
        status = keep_source(r.t, json, bytes);
    if (status == WEFT_OK)
        status = weft_tokenizer_finish(r.t, name);
    return weft_tokenizer_hand_over(t, r.t, status);
}
