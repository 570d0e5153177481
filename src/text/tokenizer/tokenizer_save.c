/* SPDX-License-Identifier: MIT
 *
 * tokenizer_save.c - writes a tokenizer as Hugging Face's tokenizer.json.
 */
#include "text/tokenizer/bpe.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Each byte of the token takes at most two bytes in the name. */
static json_t *name_of(const struct weft_tokenizer *t, const struct weft_token *token)
{
    if (token->special || t->kind == WEFT_TOKENIZER_CHAR)
        return json_stringn(token->bytes, token->size);
    char *name = malloc(2 * (size_t)token->size + 1);
    if (!name)
        return NULL;
    weft_byte_name_write(token, name);
    json_t *text = json_string(name);
    free(name);
    return text;
}

static json_t *write_vocab(const struct weft_tokenizer *t)
{
    json_t *vocab = json_object();
    for (int i = 0; i < t->vocab; i++) {
        json_t *name = name_of(t, &t->token[i]);
        json_object_set_new(vocab, json_string_value(name), json_integer(i));
        json_decref(name);
    }
    return vocab;
}

static json_t *write_merges(const struct weft_tokenizer *t)
{
    json_t *merges = json_array();
    for (int i = 0; i < t->merges; i++) {
        json_t *left = name_of(t, &t->token[t->merge[i].left]), *right = name_of(t, &t->token[t->merge[i].right]);
        json_array_append_new(merges, json_sprintf("%s %s", json_string_value(left), json_string_value(right)));
        json_decref(left);
        json_decref(right);
    }
    return merges;
}

/* Writes added tokens, all of which are special. */
static void add_added(json_t *list, const struct weft_added *a)
{
    for (int i = 0; i < a->count; i++)
        json_array_append_new(list, json_pack("{s:i,s:s%,s:b,s:b,s:b,s:b,s:b}", "id", a->id[i], "content",
                                              a->text[i].bytes, (size_t)a->text[i].size, "single_word", 0, "lstrip", 0,
                                              "rstrip", 0, "normalized", 0, "special", 1));
}

static json_t *write_added(const struct weft_tokenizer *t)
{
    json_t *list = json_array();
    add_added(list, &t->added);
    add_added(list, &t->normalized);
    return list;
}

static json_t *write_root(const struct weft_tokenizer *t)
{
    json_t *root = json_pack("{s:s,s:n,s:n,s:o,s:n}", "version", "1.0", "truncation", "padding", "added_tokens",
                             write_added(t), "normalizer");
    if (t->kind == WEFT_TOKENIZER_CHAR) {
        json_object_set_new(root, "pre_tokenizer",
                            json_pack("{s:s,s:{s:s},s:s,s:b}", "type", "Split", "pattern", "Regex", WEFT_CHARS_PATTERN,
                                      "behavior", "Isolated", "invert", 0));
        json_object_set_new(root, "decoder", json_pack("{s:s}", "type", "Fuse"));
        json_object_set_new(
            root, "model",
            json_pack("{s:s,s:o,s:s}", "type", "WordLevel", "vocab", write_vocab(t), "unk_token", "<unk>"));
        return root;
    }
    static const char *const byte_level[] = {"pre_tokenizer", "post_processor", "decoder"};
    for (size_t i = 0; i < sizeof byte_level / sizeof *byte_level; i++)
        json_object_set_new(root, byte_level[i],
                            json_pack("{s:s,s:b,s:b,s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets",
                                      1, "use_regex", 1));
    json_object_set_new(root, "model",
                        json_pack("{s:s,s:n,s:n,s:o,s:o}", "type", "BPE", "dropout", "unk_token", "vocab",
                                  write_vocab(t), "merges", write_merges(t)));
    return root;
}

enum weft_status weft_tokenizer_root(const struct weft_tokenizer *t, json_t **root)
{
    *root = write_root(t);
    const json_t *model = json_object_get(*root, "model");
    if (json_object_size(json_object_get(model, "vocab")) == (size_t)t->vocab &&
        json_array_size(json_object_get(model, "merges")) == (size_t)t->merges)
        return WEFT_OK;
    json_decref(*root);
    *root = NULL;
    return FAIL(WEFT_NOMEM, "the tokenizer cannot be written: not enough memory, or a special token is spelled like "
                            "another token");
}

static enum weft_status write_file(const struct weft_tokenizer *t, const json_t *root, const char *path)
{
    FILE *f = fopen(path, "wb");
    int error = f ? 0 : errno;
    if (f && !root && fwrite(t->source, 1, t->source_bytes, f) != t->source_bytes)
        error = errno ? errno : EIO;
    if (f && root && (json_dumpf(root, f, JSON_INDENT(2)) || fputc('\n', f) == EOF))
        error = errno ? errno : EIO;
    if (f && fclose(f))
        error = errno;
    return error ? FAIL(WEFT_IO, "%s cannot be written: %s", path, strerror(error)) : WEFT_OK;
}

/* Plain tokenizers are always written in the same form. Other tokenizers are written as they were read. */
enum weft_status weft_tokenizer_save(const struct weft_tokenizer *t, const char *path)
{
    GIVEN(t);
    GIVEN(path);
    json_t *root;
    if (t->source && !weft_tokenizer_plain(t))
        return write_file(t, NULL, path);
    TRY(weft_tokenizer_root(t, &root));
    enum weft_status status = write_file(t, root, path);
    json_decref(root);
    return status;
}
