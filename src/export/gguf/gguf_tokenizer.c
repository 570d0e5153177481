/* SPDX-License-Identifier: MIT
 *
 * gguf_tokenizer.c - converts tokenizers in GGUF files, by way of the equivalent tokenizer.json.
 *
 * In GGUF, byte-level BPE with GPT-2's pre-tokenizer is the model "gpt2" with the pre-tokenizer "gpt-2". A byte
 * tokenizer is written in the same way, as BPE without merges, and so is a tokenizer of ASCII characters, as BPE
 * without merges and with only some bytes. Token ids of the model beyond the tokenizer's vocabulary get a name and are
 * marked as unused.
 */
#include "export/gguf/gguf.h"
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

enum { ASCII = 128 };

/* Returns the name of an ASCII character in GPT-2's encoding of bytes: the character itself if it is visible, else a
 * character above 255.
 */
struct name {
    char text[4];
};
static struct name name_of(unsigned char c)
{
    int code = c == 127 ? 289 : 256 + c;
    if (c > 32 && c < 127)
        return (struct name){{(char)c}};
    return (struct name){{(char)(0xc0 | code >> 6), (char)(0x80 | (code & 63))}};
}

/* ---- export */

/* Tokens by id, under construction. */
struct tokens {
    const char **name;
    int32_t *type;
    int64_t vocab;
    char (*own)[32]; /* generated names */
};

static const char *kind_of(const json_t *root, const char *part)
{
    const char *type = json_string_value(json_object_get(json_object_get(root, part), "type"));
    return type ? type : "";
}

/* Lists all tokens of tokenizer.json; returns false if one is a character that is not ASCII. */
static bool list_tokens(const json_t *root, bool chars, struct tokens *k)
{
    const char *name;
    json_t *id, *entry;
    size_t i;
    json_object_foreach(json_object_get(json_object_get(root, "model"), "vocab"), name, id)
    {
        int64_t n = json_integer_value(id);
        if (chars && (unsigned char)name[0] >= ASCII)
            return false;
        if (chars)
            snprintf(k->own[n], sizeof k->own[n], "%s", name_of((unsigned char)name[0]).text);
        k->name[n] = chars ? k->own[n] : name;
        k->type[n] = WEFT_GGUF_NORMAL;
    }
    json_array_foreach(json_object_get(root, "added_tokens"), i, entry)
    {
        int64_t n = json_integer_value(json_object_get(entry, "id"));
        k->name[n] = json_string_value(json_object_get(entry, "content"));
        k->type[n] = WEFT_GGUF_CONTROL;
    }
    return true;
}

static enum weft_status name_unused(const json_t *root, struct tokens *k)
{
    for (int64_t i = 0; i < k->vocab; i++) {
        if (k->type[i])
            continue;
        snprintf(k->own[i], sizeof k->own[i], "[PAD%lld]", (long long)i);
        if (json_object_get(json_object_get(json_object_get(root, "model"), "vocab"), k->own[i]))
            return FAIL(WEFT_INVALID,
                        "the tokenizer has a token %s, which GGUF files use as the name of an unused token", k->own[i]);
        k->name[i] = k->own[i];
        k->type[i] = WEFT_GGUF_UNUSED;
    }
    return WEFT_OK;
}

/* Without an end-of-text id, other programs treat some token as the end of a text; an unused token is better. */
static void add_end(struct weft_gguf_out *o, const struct weft_tokenizer *t, int64_t vocab)
{
    int64_t end = weft_tokenizer_end(t) >= 0 ? weft_tokenizer_end(t) : weft_tokenizer_vocab(t);
    if (end < vocab) {
        weft_gguf_add_u32(o, "tokenizer.ggml.bos_token_id", (uint32_t)end);
        weft_gguf_add_u32(o, "tokenizer.ggml.eos_token_id", (uint32_t)end);
    } else {
        weft_note_once("gguf-end", "the tokenizer has no end-of-text token: llama.cpp will use token 11");
    }
    weft_gguf_add_bool(o, "tokenizer.ggml.add_bos_token", false);
}

static void add_lists(struct weft_gguf_out *o, const json_t *root, const struct tokens *k)
{
    const json_t *merges = json_object_get(json_object_get(root, "model"), "merges");
    size_t i;
    json_t *line;
    weft_gguf_add_text(o, "tokenizer.ggml.model", "gpt2");
    weft_gguf_add_text(o, "tokenizer.ggml.pre", "gpt-2");
    weft_gguf_put_list(o, "tokenizer.ggml.tokens", WEFT_GGUF_TEXT, (uint64_t)k->vocab);
    for (int64_t id = 0; id < k->vocab; id++)
        weft_gguf_put_text(o, k->name[id]);
    weft_gguf_put_list(o, "tokenizer.ggml.token_type", WEFT_GGUF_I32, (uint64_t)k->vocab);
    weft_gguf_put(o, k->type, (size_t)k->vocab * sizeof *k->type);
    weft_gguf_put_list(o, "tokenizer.ggml.merges", WEFT_GGUF_TEXT, json_array_size(merges));
    json_array_foreach(merges, i, line) weft_gguf_put_text(o, json_string_value(line));
}

static void leave_out(struct weft_gguf_out *o)
{
    weft_note_once("gguf-tokenizer", "the GGUF file will have no tokenizer: only byte-level BPE with GPT-2's pattern, "
                                     "byte tokenizers and tokenizers of ASCII characters can be written");
    weft_gguf_add_text(o, "tokenizer.ggml.model", "none");
}

static enum weft_status add_tokens(struct weft_gguf_out *o, const struct weft_tokenizer *t, const json_t *root,
                                   struct tokens *k)
{
    bool chars = strcmp(kind_of(root, "model"), "WordLevel") == 0;
    if (!list_tokens(root, chars, k)) {
        leave_out(o);
        return WEFT_OK;
    }
    TRY(name_unused(root, k));
    add_lists(o, root, k);
    add_end(o, t, k->vocab);
    return WEFT_OK;
}

enum weft_status weft_gguf_add_tokenizer(struct weft_gguf_out *o, const struct weft_tokenizer *t, int64_t vocab)
{
    json_t *root;
    size_t n = (size_t)vocab;
    if (!t) {
        weft_gguf_add_text(o, "tokenizer.ggml.model", "none");
        return WEFT_OK;
    }
    if (weft_tokenizer_vocab(t) > vocab)
        return FAIL(WEFT_INVALID, "the tokenizer has %d tokens, but the model has %lld", weft_tokenizer_vocab(t),
                    (long long)vocab);
    if (!weft_tokenizer_plain(t)) {
        leave_out(o);
        return WEFT_OK;
    }
    TRY(weft_tokenizer_root(t, &root));
    struct tokens k = {calloc(n, sizeof *k.name), calloc(n, sizeof *k.type), vocab, calloc(n, sizeof *k.own)};
    enum weft_status status = k.name && k.type && k.own ? add_tokens(o, t, root, &k)
                                                        : FAIL(WEFT_NOMEM, "not enough memory for a list of tokens");
    free(k.name);
    free(k.type);
    free(k.own);
    json_decref(root);
    return status;
}

/* ---- import */

struct reading {
    const struct weft_gguf *f;
    const struct weft_gguf_key *tokens, *types, *merges;
    uint64_t used; /* number of tokens before the unused ones at the end */
    bool special;  /* whether the tokenizer has control tokens */
    json_t *vocab, *added, *lines;
};

static int32_t type_at(const struct reading *r, uint64_t i)
{
    int32_t type = WEFT_GGUF_NORMAL;
    if (r->types)
        memcpy(&type, r->types->at + i * sizeof type, sizeof type);
    return type;
}

/* Accepts only settings that tokenizer.json represents without further options. */
static enum weft_status check_kind(const struct weft_gguf *f)
{
    static const char *const off[] = {"add_bos_token", "add_eos_token", "add_space_prefix"};
    const struct weft_gguf_key *model = weft_gguf_key_find(f, "tokenizer.ggml.model");
    const struct weft_gguf_key *pre = weft_gguf_key_find(f, "tokenizer.ggml.pre");
    const char *path = weft_gguf_path(f);
    char name[64];
    double x;
    weft_gguf_show(model, name);
    if (!weft_gguf_is(model, "gpt2"))
        return FAIL(WEFT_UNSUPPORTED,
                    "%s: tokenizer.ggml.model is %s: \"gpt2\" and \"llama\" are supported; pass --no-tokenizer to "
                    "import without the tokenizer",
                    path, name);
    weft_gguf_show(pre, name);
    if (!weft_gguf_is(pre, "gpt-2"))
        return FAIL(WEFT_UNSUPPORTED,
                    "%s: tokenizer.ggml.pre is %s: only \"gpt-2\" is supported, because a different pre-tokenizer "
                    "would change the tokens; pass --no-tokenizer to import without the tokenizer",
                    path, name);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        snprintf(name, sizeof name, "tokenizer.ggml.%s", off[i]);
        const struct weft_gguf_key *key = weft_gguf_key_find(f, name);
        if (key && (!weft_gguf_number(key, &x) || x != 0))
            return FAIL(WEFT_UNSUPPORTED,
                        "%s: %s is not supported: pass --no-tokenizer to import without the tokenizer", path, name);
    }
    return WEFT_OK;
}

static enum weft_status find_lists(struct reading *r)
{
    r->tokens = weft_gguf_key_find(r->f, "tokenizer.ggml.tokens");
    r->types = weft_gguf_key_find(r->f, "tokenizer.ggml.token_type");
    r->merges = weft_gguf_key_find(r->f, "tokenizer.ggml.merges");
    const struct weft_gguf_key *texts[] = {r->tokens, r->merges};
    bool good = !r->types || (r->types->type == WEFT_GGUF_LIST && r->types->of == WEFT_GGUF_I32);
    for (int i = 0; i < 2; i++)
        good = good && texts[i] && texts[i]->type == WEFT_GGUF_LIST && texts[i]->of == WEFT_GGUF_TEXT;
    if (!good || (r->types && r->types->count != r->tokens->count))
        return FAIL(WEFT_FORMAT,
                    "%s: tokenizer.ggml.tokens, .token_type and .merges are not lists of matching types and lengths",
                    weft_gguf_path(r->f));
    for (uint64_t i = 0; i < r->tokens->count; i++) {
        r->used = type_at(r, i) != WEFT_GGUF_UNUSED ? i + 1 : r->used;
        r->special |= type_at(r, i) == WEFT_GGUF_CONTROL;
    }
    return WEFT_OK;
}

static enum weft_status add_token(struct reading *r, uint64_t i, const char *text, size_t bytes)
{
    const char *path = weft_gguf_path(r->f);
    int32_t type = type_at(r, i);
    json_t *name = memchr(text, 0, bytes) || !bytes ? NULL : json_stringn(text, bytes); /* NULL: not UTF-8 */
    const char *key = json_string_value(name);
    enum weft_status status = WEFT_OK;
    if (type != WEFT_GGUF_NORMAL && type != WEFT_GGUF_CONTROL)
        status = FAIL(WEFT_UNSUPPORTED, "%s: token %llu has type %d: only normal and control tokens are supported",
                      path, (unsigned long long)i, type);
    else if (!key || json_object_get(r->vocab, key))
        status = FAIL(WEFT_FORMAT, "%s: token %llu is empty, not UTF-8, or a duplicate", path, (unsigned long long)i);
    else if (json_object_set_new(r->vocab, key, json_integer((json_int_t)i)) ||
             (type == WEFT_GGUF_CONTROL &&
              json_array_append_new(r->added,
                                    json_pack("{s:O, s:I, s:b}", "content", name, "id", (json_int_t)i, "special", 1))))
        status = FAIL(WEFT_NOMEM, "not enough memory for the tokens of %s", path);
    json_decref(name);
    return status;
}

static enum weft_status read_lists(struct reading *r)
{
    const unsigned char *at = r->tokens->at;
    const char *text;
    size_t bytes;
    for (uint64_t i = 0; i < r->used; i++) {
        at = weft_gguf_text(at, &text, &bytes);
        TRY(add_token(r, i, text, bytes));
    }
    at = r->merges->at;
    for (uint64_t i = 0; i < r->merges->count; i++) {
        at = weft_gguf_text(at, &text, &bytes);
        json_t *line = memchr(text, 0, bytes) ? NULL : json_stringn(text, bytes);
        if (!line || json_array_append_new(r->lines, line))
            return FAIL(WEFT_FORMAT, "%s: merge %llu is not UTF-8", weft_gguf_path(r->f), (unsigned long long)i + 1);
    }
    return WEFT_OK;
}

/* Creates the tokenizer from a tokenizer.json, which the function releases. */
static enum weft_status parse(const struct weft_gguf *f, json_t *root, struct weft_tokenizer **t)
{
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    enum weft_status status = text ? weft_tokenizer_parse(t, weft_gguf_path(f), text, strlen(text))
                                   : FAIL(WEFT_NOMEM, "not enough memory for a tokenizer");
    free(text);
    return status;
}

static enum weft_status make_bpe(const struct reading *r, struct weft_tokenizer **t)
{
    return parse(r->f,
                 json_pack("{s:O, s:{s:s, s:b}, s:{s:s, s:O, s:O}}", "added_tokens", r->added, "pre_tokenizer", "type",
                           "ByteLevel", "add_prefix_space", 0, "model", "type", "BPE", "vocab", r->vocab, "merges",
                           r->lines),
                 t);
}

static enum weft_status make_sentencepiece(const struct weft_gguf *f, struct weft_tokenizer **t)
{
    json_t *root;
    TRY(weft_gguf_sentencepiece(f, &root));
    return parse(f, root, t);
}

/* Returns whether the tokens are ASCII characters in order, as in a character tokenizer; writes their text. */
static bool is_chars(const struct reading *r, char text[ASCII])
{
    const unsigned char *at = r->tokens->at;
    const char *name;
    size_t bytes;
    int c = 0;
    if (r->merges->count || r->special || r->used >= ASCII)
        return false;
    for (uint64_t i = 0; i < r->used; i++, c++) {
        at = weft_gguf_text(at, &name, &bytes);
        while (c < ASCII && (bytes != strlen(name_of((unsigned char)c).text) ||
                             memcmp(name, name_of((unsigned char)c).text, bytes) != 0))
            c++;
        if (c == ASCII)
            return false;
        text[i] = (char)c;
    }
    return true;
}

static enum weft_status make(struct reading *r, struct weft_tokenizer **t)
{
    char text[ASCII];
    TRY(find_lists(r));
    if (is_chars(r, text))
        return weft_tokenizer_chars(t, text, r->used);
    if (!r->vocab || !r->added || !r->lines)
        return FAIL(WEFT_NOMEM, "not enough memory for a tokenizer");
    TRY(read_lists(r));
    return make_bpe(r, t);
}

enum weft_status weft_gguf_tokenizer(const struct weft_gguf *f, struct weft_tokenizer **t)
{
    const struct weft_gguf_key *model = weft_gguf_key_find(f, "tokenizer.ggml.model");
    *t = NULL;
    if (!model || weft_gguf_is(model, "none") || weft_gguf_is(model, "no_vocab"))
        return WEFT_OK;
    if (weft_gguf_is(model, "llama"))
        return make_sentencepiece(f, t);
    TRY(check_kind(f));
    struct reading r = {.f = f, .vocab = json_object(), .added = json_array(), .lines = json_array()};
    enum weft_status status = make(&r, t);
    json_decref(r.vocab);
    json_decref(r.added);
    json_decref(r.lines);
    return status;
}
