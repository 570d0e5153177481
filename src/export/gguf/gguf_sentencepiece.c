/* SPDX-License-Identifier: MIT
 *
 * gguf_sentencepiece.c - converts SentencePiece tokenizers in GGUF files ("llama") to the equivalent tokenizer.json.
 *
 * SentencePiece merges the two pieces that form the token with the highest score. So the merges of a token are all
 * pairs of tokens into which it can be cut, and merges that form tokens with higher scores come first.
 */
#include "export/gguf/gguf.h"
#include "text/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKEN = 512 }; /* maximum number of bytes, because every cut of a token is looked up */
#define SPACE "\xe2\x96\x81"

struct merge {
    float score;
    json_int_t token, left, right;
    const char *text; /* text of the token */
    int cut;          /* bytes of the left piece */
};

struct reading {
    const struct weft_gguf *f;
    const struct weft_gguf_key *tokens, *types, *scores;
    json_t *vocab, *added;
    const char *unknown;
    struct merge *list;
    size_t count, room;
};

static int32_t type_at(const struct reading *r, uint64_t i)
{
    int32_t type;
    memcpy(&type, r->types->at + i * sizeof type, sizeof type);
    return type;
}

static bool is_list(const struct weft_gguf_key *key, enum weft_gguf_type of, uint64_t count)
{
    return key && key->type == WEFT_GGUF_LIST && key->of == of && key->count == count;
}

/* ---- tokens */

static enum weft_status add_token(struct reading *r, uint64_t i, const char *text, size_t bytes)
{
    int32_t type = type_at(r, i);
    json_t *name = memchr(text, 0, bytes) || !bytes || bytes > MAX_TOKEN ? NULL : json_stringn(text, bytes);
    const char *key = json_string_value(name);
    enum weft_status status = WEFT_OK;
    if (type != WEFT_GGUF_NORMAL && type != WEFT_GGUF_UNKNOWN && type != WEFT_GGUF_CONTROL && type != WEFT_GGUF_BYTE)
        status = FAIL(WEFT_UNSUPPORTED, "%s: token %llu has type %d, which is not supported", weft_gguf_path(r->f),
                      (unsigned long long)i, type);
    else if (!key || json_object_get(r->vocab, key))
        status = FAIL(WEFT_FORMAT, "%s: token %llu is empty, not UTF-8, longer than %d bytes, or a duplicate",
                      weft_gguf_path(r->f), (unsigned long long)i, MAX_TOKEN);
    else
        json_object_set_new(r->vocab, key, json_integer((json_int_t)i));
    if (status == WEFT_OK && type != WEFT_GGUF_NORMAL && type != WEFT_GGUF_BYTE)
        json_array_append_new(r->added,
                              json_pack("{s:I, s:O, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)i, "content", name,
                                        "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1));
    json_decref(name);
    return status;
}

static enum weft_status read_tokens(struct reading *r)
{
    const unsigned char *at = r->tokens->at;
    const char *text, *name;
    size_t bytes;
    json_t *id;
    for (uint64_t i = 0; i < r->tokens->count; i++) {
        at = weft_gguf_text(at, &text, &bytes);
        if (type_at(r, i) != WEFT_GGUF_UNUSED)
            TRY(add_token(r, i, text, bytes));
    }
    json_object_foreach(r->vocab, name, id)
    {
        if (type_at(r, (uint64_t)json_integer_value(id)) == WEFT_GGUF_UNKNOWN)
            r->unknown = name;
    }
    return WEFT_OK;
}

/* ---- merges */

static enum weft_status add_merge(struct reading *r, struct merge m)
{
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 1024;
        struct merge *list = realloc(r->list, room * sizeof *list);
        if (!list)
            return FAIL(WEFT_NOMEM, "not enough memory for the merges of %s", weft_gguf_path(r->f));
        r->list = list;
        r->room = room;
    }
    r->list[r->count++] = m;
    return WEFT_OK;
}

/* Adds all cuts of a token into two parts, between characters. */
static enum weft_status cut_token(struct reading *r, const char *text, json_int_t token)
{
    char left[MAX_TOKEN + 1];
    struct merge m = {.token = token, .text = text};
    memcpy(&m.score, r->scores->at + (size_t)token * sizeof m.score, sizeof m.score);
    if (!isfinite(m.score))
        return FAIL(WEFT_FORMAT, "%s: the score of token %lld is not finite", weft_gguf_path(r->f), (long long)token);
    for (int n = 1; text[n]; n++) {
        snprintf(left, sizeof left, "%.*s", n, text);
        if (((unsigned char)text[n] & 0xc0) == 0x80) /* inside a character */
            continue;
        const json_t *a = json_object_get(r->vocab, left), *b = a ? json_object_get(r->vocab, text + n) : NULL;
        m.left = json_integer_value(a);
        m.right = json_integer_value(b);
        m.cut = n;
        if (b && type_at(r, (uint64_t)m.left) == WEFT_GGUF_NORMAL && type_at(r, (uint64_t)m.right) == WEFT_GGUF_NORMAL)
            TRY(add_merge(r, m));
    }
    return WEFT_OK;
}

static int first(json_int_t a, json_int_t b) { return a < b ? -1 : a > b; }

static int order(const void *left, const void *right)
{
    const struct merge *a = left, *b = right;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->token != b->token ? first(a->token, b->token)
           : a->left != b->left ? first(a->left, b->left)
                                : first(a->right, b->right);
}

static enum weft_status make_merges(struct reading *r, json_t *merges)
{
    const char *name;
    json_t *id;
    json_object_foreach(r->vocab, name, id)
    {
        if (type_at(r, (uint64_t)json_integer_value(id)) == WEFT_GGUF_NORMAL)
            TRY(cut_token(r, name, json_integer_value(id)));
    }
    if (r->count)
        qsort(r->list, r->count, sizeof *r->list, order);
    for (size_t i = 0; i < r->count; i++)
        json_array_append_new(
            merges, json_pack("[s%, s]", r->list[i].text, (size_t)r->list[i].cut, r->list[i].text + r->list[i].cut));
    return WEFT_OK;
}

/* ---- the whole tokenizer */

/* Returns whether a switch is on, or its default if the file does not have it. */
static bool is_on(const struct weft_gguf *f, const char *name, bool unsaid)
{
    double x;
    const struct weft_gguf_key *key = weft_gguf_key_find(f, name);
    return key ? !weft_gguf_number(key, &x) || x != 0 : unsaid;
}

/* Accepts only settings that tokenizer.json can represent. */
static enum weft_status check_kind(const struct weft_gguf *f)
{
    static const char *const off[] = {"tokenizer.ggml.add_eos_token", "tokenizer.ggml.remove_extra_whitespaces",
                                      "tokenizer.ggml.precompiled_charsmap"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (is_on(f, off[i], false))
            return FAIL(WEFT_UNSUPPORTED,
                        "%s: %s is not supported: pass --no-tokenizer to import without the tokenizer",
                        weft_gguf_path(f), off[i]);
    return WEFT_OK;
}

/* Returns the token that begins a text, as a template; null: none. */
static json_t *template(const struct reading *r)
{
    const struct weft_gguf_key *key = weft_gguf_key_find(r->f, "tokenizer.ggml.bos_token_id");
    int64_t id = 1; /* SentencePiece's default */
    const char *name;
    json_t *value;
    if (!is_on(r->f, "tokenizer.ggml.add_bos_token", true) || (key && !weft_gguf_whole(key, &id)))
        return json_null();
    json_object_foreach(r->vocab, name, value)
    {
        if (json_integer_value(value) == id)
            return json_pack("{s:s, s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}], s:[], s:{s:{s:s, s:[I], s:[s]}}}", "type",
                             "TemplateProcessing", "single", "SpecialToken", "id", name, "type_id", 0, "Sequence", "id",
                             "A", "type_id", 0, "pair", "special_tokens", name, "id", name, "ids", (json_int_t)id,
                             "tokens", name);
    }
    return json_null();
}

static json_t *normalizer(const struct weft_gguf *f)
{
    json_t *replace = json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", " ", "content", SPACE);
    if (!is_on(f, "tokenizer.ggml.add_space_prefix", true))
        return replace;
    return json_pack("{s:s, s:[{s:s, s:s}, o]}", "type", "Sequence", "normalizers", "type", "Prepend", "prepend", SPACE,
                     replace);
}

static json_t *decoder(bool strip)
{
    json_t *list = json_pack("[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]", "type", "Replace", "pattern", "String", SPACE,
                             "content", " ", "type", "ByteFallback", "type", "Fuse");
    if (strip)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ", "start", 1, "stop", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", list);
}

static enum weft_status make(struct reading *r, json_t *merges, json_t **root)
{
    if (!is_list(r->tokens, WEFT_GGUF_TEXT, r->tokens ? r->tokens->count : 0) ||
        !is_list(r->types, WEFT_GGUF_I32, r->tokens->count) || !is_list(r->scores, WEFT_GGUF_F32, r->tokens->count))
        return FAIL(WEFT_FORMAT,
                    "%s: tokenizer.ggml.tokens, .token_type and .scores are not lists of matching types and lengths",
                    weft_gguf_path(r->f));
    TRY(check_kind(r->f));
    TRY(read_tokens(r));
    TRY(make_merges(r, merges));
    bool prefix = is_on(r->f, "tokenizer.ggml.add_space_prefix", true);
    *root =
        json_pack("{s:s, s:n, s:n, s:O, s:o, s:n, s:o, s:o, s:{s:s, s:n, s:s?, s:n, s:n, s:b, s:b, s:b, s:O, s:O}}",
                  "version", "1.0", "truncation", "padding", "added_tokens", r->added, "normalizer", normalizer(r->f),
                  "pre_tokenizer", "post_processor", template(r), "decoder", decoder(prefix), "model", "type", "BPE",
                  "dropout", "unk_token", r->unknown, "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 1,
                  "byte_fallback", 1, "ignore_merges", 0, "vocab", r->vocab, "merges", merges);
    return WEFT_OK;
}

enum weft_status weft_gguf_sentencepiece(const struct weft_gguf *f, json_t **root)
{
    struct reading r = {.f = f,
                        .tokens = weft_gguf_key_find(f, "tokenizer.ggml.tokens"),
                        .types = weft_gguf_key_find(f, "tokenizer.ggml.token_type"),
                        .scores = weft_gguf_key_find(f, "tokenizer.ggml.scores"),
                        .vocab = json_object(),
                        .added = json_array()};
    json_t *merges = json_array();
    *root = NULL;
    enum weft_status status = make(&r, merges, root);
    free(r.list);
    json_decref(merges);
    json_decref(r.vocab);
    json_decref(r.added);
    return status;
}
