/* SPDX-License-Identifier: MIT
 *
 * tokenizer_json.c - reads and writes tokenizers as Hugging Face's tokenizer.json, and reads GPT-2's vocab.bpe with its
 * encoder.json.
 *
 * What is read: byte-level BPE cut by GPT-2's pattern, and character tokenizers as written here. What the file asks for
 * and would change tokens is either done or refused by name. Numbers must be 0 to n-1, each once; every part of a merge
 * must be a token. In the files a byte is written as a character, so that all are visible.
 */
#include "text/bpe.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define CHARS_PATTERN "[\\s\\S]"
static const size_t LARGEST = (size_t)1 << 28;

struct reading {
    const char *path;
    const json_t *vocab;
    struct weft_tokenizer *t;
};

/* ---- names */

/* A name from a file, for a message: control characters become question marks, and long ones end early. */
struct shown {
    char text[48];
};
static struct shown show(const char *name)
{
    struct shown s;
    size_t n = strlen(name);
    n = n < sizeof s.text ? n : sizeof s.text - 1;
    while (n && ((unsigned char)name[n] & 0xc0) == 0x80) /* not in the middle of a character */
        n--;
    for (size_t i = 0; i < n; i++)
        s.text[i] = (char)((unsigned char)name[i] < ' ' || name[i] == 0x7f ? '?' : name[i]);
    s.text[n] = 0;
    return s;
}

/* bytes -> name; the name has at most two bytes per byte, and a zero behind. */
static void write_name(const struct weft_token *token, char *name)
{
    uint32_t code_of[256], hidden = 256;
    for (int b = 0; b < 256; b++)
        code_of[b] = weft_byte_visible(b) ? (uint32_t)b : hidden++;
    for (uint32_t i = 0; i < token->size; i++)
        name += weft_utf8_write(code_of[(unsigned char)token->bytes[i]], name);
    *name = 0;
}

/* name -> bytes, which are no more; gives their number, 0 when a character stands for no byte. */
static size_t read_name(const char *name, char *bytes)
{
    int byte_of[324];
    int hidden = 256;
    size_t left = strlen(name), n = 0;
    uint32_t code;
    for (int b = 0; b < 256; b++)
        byte_of[b] = -1;
    for (int b = 0; b < 256; b++)
        byte_of[weft_byte_visible(b) ? b : hidden++] = b;
    for (size_t size; left; name += size, left -= size) {
        if (!(size = weft_utf8_read(name, left, &code)) || code >= (uint32_t)hidden || byte_of[code] < 0)
            return 0;
        bytes[n++] = (char)byte_of[code];
    }
    return n;
}

/* ---- reading the vocabulary */

static enum weft_status set_token(struct reading *r, const char *name, json_int_t id, bool special, char *scratch)
{
    size_t size = special ? strlen(name) : read_name(name, scratch);
    uint32_t code;
    if (r->t->kind == WEFT_TOKENIZER_CHAR) {
        size = strlen(name);
        if (weft_utf8_read(name, size, &code) != size)
            size = 0;
        special = true; /* as it stands */
    }
    if (!size)
        return FAIL(WEFT_FORMAT, "%s: the token \"%s\" is not written in %s", r->path, show(name).text,
                    r->t->kind == WEFT_TOKENIZER_CHAR ? "one character" : "the characters that stand for bytes");
    if (id < 0 || id >= r->t->vocab)
        return FAIL(WEFT_FORMAT, "%s: the token \"%s\" has the number %lld, but there are %d tokens", r->path,
                    show(name).text, (long long)id, r->t->vocab);
    if (r->t->token[id].size)
        return FAIL(WEFT_FORMAT, "%s: the token \"%s\" has the number %lld of another", r->path, show(name).text,
                    (long long)id);
    TRY(weft_tokenizer_set(r->t, (int32_t)id, special ? name : scratch, size,
                           special && r->t->kind != WEFT_TOKENIZER_CHAR));
    return WEFT_OK;
}

static bool is_added(const struct weft_tokenizer *t, const char *name, json_int_t id)
{
    const struct weft_token *token = id >= 0 && id < t->vocab ? &t->token[id] : NULL;
    return token && token->special && token->size == strlen(name) && memcmp(token->bytes, name, token->size) == 0;
}

/* Added tokens may also stand in the vocabulary, as GPT-2's end of text does: under the same number. */
static enum weft_status set_tokens(struct reading *r, const json_t *added, char *scratch)
{
    size_t i;
    json_t *entry;
    json_array_foreach(added, i, entry)
    {
        const char *content = json_string_value(json_object_get(entry, "content"));
        json_t *id = json_object_get(entry, "id"), *again = json_object_get(r->vocab, content);
        if (again && !json_equal(id, again))
            return FAIL(WEFT_FORMAT, "%s: the added token \"%s\" has another number in the vocabulary", r->path,
                        show(content).text);
        TRY(set_token(r, content, json_integer_value(id), true, scratch));
    }
    for (void *at = json_object_iter((json_t *)r->vocab); at; at = json_object_iter_next((json_t *)r->vocab, at)) {
        const char *name = json_object_iter_key(at);
        const json_t *id = json_object_iter_value(at);
        if (!json_is_integer(id))
            return FAIL(WEFT_FORMAT, "%s: the token \"%s\" has no number", r->path, show(name).text);
        if (!is_added(r->t, name, json_integer_value(id)))
            TRY(set_token(r, name, json_integer_value(id), false, scratch));
    }
    return WEFT_OK;
}

static enum weft_status check_added(const char *path, const json_t *added)
{
    static const char *const forbidden[] = {"lstrip", "rstrip", "single_word"};
    size_t i;
    json_t *entry;
    if (added && !json_is_array(added) && !json_is_null(added))
        return FAIL(WEFT_FORMAT, "%s: added_tokens is no list", path);
    if (json_array_size(added) > 4096)
        return FAIL(WEFT_UNSUPPORTED, "%s: %zu added_tokens: at most 4096 are possible", path, json_array_size(added));
    json_array_foreach(added, i, entry)
    {
        const char *content = json_string_value(json_object_get(entry, "content"));
        if (!content || !*content || !json_is_integer(json_object_get(entry, "id")))
            return FAIL(WEFT_FORMAT, "%s: entry %zu of added_tokens lacks its content or id", path, i);
        for (size_t k = 0; k < sizeof forbidden / sizeof *forbidden; k++)
            if (json_is_true(json_object_get(entry, forbidden[k])))
                return FAIL(WEFT_UNSUPPORTED, "%s: the added token \"%s\" has %s, which is not supported", path,
                            show(content).text, forbidden[k]);
        if (json_is_false(json_object_get(entry, "special"))) /* Hugging Face finds it in every text */
            return FAIL(WEFT_UNSUPPORTED, "%s: the added token \"%s\" is not special, which is not supported", path,
                        show(content).text);
        for (size_t k = 0; k < i; k++)
            if (strcmp(content, json_string_value(json_object_get(json_array_get(added, k), "content"))) == 0)
                return FAIL(WEFT_FORMAT, "%s: the added token \"%s\" stands twice", path, show(content).text);
    }
    return WEFT_OK;
}

static enum weft_status read_vocab(struct reading *r, enum weft_tokenizer_kind kind, const json_t *added, size_t merges)
{
    size_t vocab = json_object_size(r->vocab), i, longest = 0;
    json_t *entry;
    if (!vocab)
        return FAIL(WEFT_FORMAT, "%s: there is no vocabulary", r->path);
    for (void *at = json_object_iter((json_t *)r->vocab); at; at = json_object_iter_next((json_t *)r->vocab, at))
        longest = weft_max((int64_t)longest, (int64_t)strlen(json_object_iter_key(at)));
    json_array_foreach(added, i, entry) vocab +=
        !json_object_get(r->vocab, json_string_value(json_object_get(entry, "content")));
    TRY(weft_tokenizer_create(&r->t, kind, (int)vocab, (int)merges));
    char *scratch = malloc(longest + 1);
    enum weft_status status = scratch ? set_tokens(r, added, scratch) : FAIL(WEFT_NOMEM, "no memory for a token");
    free(scratch);
    return status;
}

/* ---- reading merges */

static enum weft_status token_of(const struct reading *r, const char *name, size_t merge, int32_t *id)
{
    const json_t *found = json_object_get(r->vocab, name);
    *id = (int32_t)json_integer_value(found);
    if (!found || r->t->token[*id].special)
        return FAIL(WEFT_FORMAT, "%s: merge %zu needs the token \"%s\", which is not in the vocabulary", r->path,
                    merge + 1, show(name).text);
    return WEFT_OK;
}

static enum weft_status set_merge(const struct reading *r, size_t i, const char *left, const char *right)
{
    struct weft_merge *m = &r->t->merge[i];
    TRY(token_of(r, left, i, &m->left));
    TRY(token_of(r, right, i, &m->right));
    size_t size = strlen(left) + strlen(right) + 1;
    char *made = malloc(size);
    if (!made)
        return FAIL(WEFT_NOMEM, "no memory for a token");
    snprintf(made, size, "%s%s", left, right);
    enum weft_status status = token_of(r, made, i, &m->made);
    free(made);
    return status;
}

/* "left right", which it takes apart. */
static enum weft_status set_merge_line(const struct reading *r, size_t i, char *line)
{
    char *space = strchr(line, ' ');
    if (!space)
        return FAIL(WEFT_FORMAT, "%s: merge %zu is \"%s\", not two tokens with a space between", r->path, i + 1,
                    show(line).text);
    *space = 0;
    return set_merge(r, i, line, space + 1);
}

static enum weft_status read_merges(const struct reading *r, const json_t *merges)
{
    size_t i;
    json_t *entry;
    json_array_foreach(merges, i, entry)
    {
        const char *left = json_string_value(json_array_get(entry, 0));
        const char *right = json_string_value(json_array_get(entry, 1));
        if (json_is_string(entry)) {
            char *line = strdup(json_string_value(entry));
            enum weft_status status = line ? set_merge_line(r, i, line) : FAIL(WEFT_NOMEM, "no memory for a merge");
            free(line);
            TRY(status);
        } else if (left && right && json_array_size(entry) == 2) {
            TRY(set_merge(r, i, left, right));
        } else {
            return FAIL(WEFT_FORMAT, "%s: merge %zu is not two tokens", r->path, i + 1);
        }
    }
    return WEFT_OK;
}

/* ---- reading tokenizer.json */

static const char *type_of(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : json_is_null(part) || !part ? "null" : "?";
}

static enum weft_status refuse(const char *path, const char *what, const json_t *part)
{
    return FAIL(WEFT_UNSUPPORTED, "%s: its %s (%s) is not supported: byte-level BPE with GPT-2's pattern is", path,
                what, show(type_of(part)).text);
}

/* Switches of the model that would change tokens. */
static enum weft_status check_switches(const char *path, const json_t *model)
{
    static const char *const off[] = {"byte_fallback", "ignore_merges", "fuse_unk"};
    static const char *const empty[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (json_is_true(json_object_get(model, off[i])))
            return FAIL(WEFT_UNSUPPORTED, "%s: its %s is not supported", path, off[i]);
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        if (json_string_length(json_object_get(model, empty[i])))
            return FAIL(WEFT_UNSUPPORTED, "%s: its %s is not supported", path, empty[i]);
    if (json_number_value(json_object_get(model, "dropout")) != 0)
        return FAIL(WEFT_UNSUPPORTED, "%s: its dropout is not supported", path);
    return WEFT_OK;
}

static enum weft_status check_bpe(const char *path, const json_t *root)
{
    const json_t *pre = json_object_get(root, "pre_tokenizer"), *post = json_object_get(root, "post_processor");
    if (strcmp(type_of(pre), "ByteLevel") != 0 || json_is_false(json_object_get(pre, "use_regex")))
        return refuse(path, "pre_tokenizer", pre);
    if (!json_is_false(json_object_get(pre, "add_prefix_space")))
        return FAIL(WEFT_UNSUPPORTED, "%s: its add_prefix_space is not supported", path);
    if (post && !json_is_null(post) && strcmp(type_of(post), "ByteLevel") != 0)
        return refuse(path, "post_processor", post);
    return check_switches(path, json_object_get(root, "model"));
}

static enum weft_status check_chars(const char *path, const json_t *root)
{
    const json_t *pre = json_object_get(root, "pre_tokenizer"), *post = json_object_get(root, "post_processor");
    const char *pattern = json_string_value(json_object_get(json_object_get(pre, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(pre, "behavior"));
    if (strcmp(type_of(pre), "Split") != 0 || !pattern || strcmp(pattern, CHARS_PATTERN) != 0 || !behavior ||
        strcmp(behavior, "Isolated") != 0 || json_is_true(json_object_get(pre, "invert")))
        return refuse(path, "pre_tokenizer", pre);
    if (post && !json_is_null(post))
        return refuse(path, "post_processor", post);
    if (json_array_size(json_object_get(root, "added_tokens")))
        return FAIL(WEFT_UNSUPPORTED, "%s: added_tokens among characters are not supported", path);
    return WEFT_OK;
}

static enum weft_status read_root(struct reading *r, const json_t *root)
{
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    const json_t *merges = json_object_get(model, "merges"), *normalizer = json_object_get(root, "normalizer");
    bool chars = strcmp(type_of(model), "WordLevel") == 0;
    if (!chars && strcmp(type_of(model), "BPE") != 0)
        return refuse(r->path, "model", model);
    if (normalizer && !json_is_null(normalizer))
        return refuse(r->path, "normalizer", normalizer);
    TRY(chars ? check_chars(r->path, root) : check_bpe(r->path, root));
    TRY(check_added(r->path, added));
    if (!chars && !json_is_array(merges))
        return FAIL(WEFT_FORMAT, "%s: there is no list of merges", r->path);
    r->vocab = json_object_get(model, "vocab");
    TRY(read_vocab(r, chars ? WEFT_TOKENIZER_CHAR : WEFT_TOKENIZER_BPE, added, chars ? 0 : json_array_size(merges)));
    if (!chars)
        TRY(read_merges(r, merges));
    return weft_tokenizer_finish(r->t, r->path);
}

static enum weft_status parse_object(const char *path, const char *json, size_t bytes, json_t **object)
{
    json_error_t error;
    *object = json_loadb(json, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!*object)
        return FAIL(WEFT_FORMAT, "%s:%d: %s", path, error.line, show(error.text).text);
    return WEFT_OK;
}

enum weft_status weft_tokenizer_parse(struct weft_tokenizer **t, const char *name, const char *json, size_t bytes)
{
    struct reading r = {.path = name};
    json_t *root = NULL;
    enum weft_status status = parse_object(name, json, bytes, &root);
    if (status == WEFT_OK)
        status = read_root(&r, root);
    json_decref(root);
    return weft_tokenizer_hand_over(t, r.t, status);
}

/* ---- reading vocab.bpe */

static enum weft_status read_lines(const struct reading *r, char *text)
{
    size_t i = 0;
    const char *first = text;
    for (char *next; *text; text = next) {
        next = text + strcspn(text, "\n");
        if (*next)
            *next++ = 0;
        if (text == first && strncmp(text, "#version", 8) == 0)
            continue;
        TRY(set_merge_line(r, i++, text));
    }
    return WEFT_OK;
}

/* `text` is taken apart. */
static enum weft_status read_vocab_bpe(struct reading *r, char *text, size_t bytes)
{
    size_t lines = 0, versions = strncmp(text, "#version", 8) == 0;
    if (strlen(text) != bytes)
        return FAIL(WEFT_FORMAT, "%s: byte %zu is zero: this is no list of merges", r->path, strlen(text));
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    lines += bytes && text[bytes - 1] != '\n';
    json_t *id = json_object_get(r->vocab, WEFT_END_OF_TEXT);
    json_t *added = id ? json_pack("[{s:s,s:O}]", "content", WEFT_END_OF_TEXT, "id", id) : NULL;
    enum weft_status status = read_vocab(r, WEFT_TOKENIZER_BPE, added, lines - versions);
    json_decref(added);
    TRY(status);
    TRY(read_lines(r, text));
    return weft_tokenizer_finish(r->t, r->path);
}

/* ---- files */

/* All of a file with a zero behind; the caller frees it. */
static enum weft_status slurp(const char *path, char **text, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return FAIL(WEFT_IO, "%s cannot be read: %s", path, strerror(errno));
    size_t room = 1 << 16, got = 1;
    enum weft_status status = WEFT_OK;
    *bytes = 0;
    for (*text = malloc(room + 1); *text && got && *bytes < LARGEST; *bytes += got) {
        if (*bytes == room) {
            char *grown = realloc(*text, (room *= 2) + 1);
            if (!grown)
                free(*text);
            if (!(*text = grown))
                break;
        }
        got = fread(*text + *bytes, 1, room - *bytes, f);
    }
    if (!*text)
        status = FAIL(WEFT_NOMEM, "no memory to read %s", path);
    else if (ferror(f))
        status = FAIL(WEFT_IO, "%s cannot be read: is it a file?", path);
    else if (*bytes >= LARGEST)
        status = FAIL(WEFT_FORMAT, "%s has more than %zu bytes: it is no tokenizer", path, LARGEST);
    else
        (*text)[*bytes] = 0;
    fclose(f);
    return status;
}

static enum weft_status load_vocab_bpe(struct weft_tokenizer **t, const char *path, char *merges, size_t bytes)
{
    char *json = NULL;
    json_t *vocab = NULL;
    struct weft_arena arena = {0};
    struct reading r = {.path = path};
    const char *slash = strrchr(path, '/');
    const char *beside = weft_arena_print(&arena, "%.*sencoder.json", slash ? (int)(slash - path) + 1 : 0, path);
    size_t json_bytes;
    enum weft_status status = beside ? slurp(beside, &json, &json_bytes) : WEFT_NOMEM;
    if (status == WEFT_OK)
        status = parse_object(beside, json, json_bytes, &vocab);
    r.vocab = vocab;
    if (status == WEFT_OK)
        status = read_vocab_bpe(&r, merges, bytes);
    json_decref(vocab);
    free(json);
    weft_arena_release(&arena);
    return weft_tokenizer_hand_over(t, r.t, status);
}

static enum weft_status load_file(struct weft_tokenizer **t, const char *path)
{
    char *text = NULL;
    size_t bytes;
    enum weft_status status = slurp(path, &text, &bytes);
    if (status == WEFT_OK && text[strspn(text, " \t\r\n")] == '{')
        status = weft_tokenizer_parse(t, path, text, bytes);
    else if (status == WEFT_OK)
        status = load_vocab_bpe(t, path, text, bytes);
    free(text);
    return status;
}

enum weft_status weft_tokenizer_load(struct weft_tokenizer **t, const char *path)
{
    static const char *const names[] = {"/tokenizer.json", "/vocab.bpe", ""};
    struct weft_arena arena = {0};
    enum weft_status status = WEFT_NOMEM;
    *t = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *full = weft_arena_print(&arena, "%s%s", path, names[i]);
        FILE *f = full && *names[i] ? fopen(full, "rb") : NULL;
        if (f)
            fclose(f);
        if (full && (f || !*names[i])) {
            status = load_file(t, full);
            break;
        }
    }
    weft_arena_release(&arena);
    TRY(status);
    return WEFT_OK;
}

/* ---- writing */

/* Every byte of a token gives two of its name at most. */
static json_t *name_of(const struct weft_tokenizer *t, const struct weft_token *token)
{
    if (token->special || t->kind == WEFT_TOKENIZER_CHAR)
        return json_stringn(token->bytes, token->size);
    char *name = malloc(2 * (size_t)token->size + 1);
    if (!name)
        return NULL;
    write_name(token, name);
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

static json_t *write_added(const struct weft_tokenizer *t)
{
    json_t *added = json_array();
    for (int i = 0; i < t->specials.count; i++)
        json_array_append_new(added,
                              json_pack("{s:i,s:s%,s:b,s:b,s:b,s:b,s:b}", "id", t->special_id[i], "content",
                                        t->specials.text[i].bytes, (size_t)t->specials.text[i].size, "single_word", 0,
                                        "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1));
    return added;
}

static json_t *write_root(const struct weft_tokenizer *t)
{
    json_t *root = json_pack("{s:s,s:n,s:n,s:o,s:n}", "version", "1.0", "truncation", "padding", "added_tokens",
                             write_added(t), "normalizer");
    if (t->kind == WEFT_TOKENIZER_CHAR) {
        json_object_set_new(root, "pre_tokenizer",
                            json_pack("{s:s,s:{s:s},s:s,s:b}", "type", "Split", "pattern", "Regex", CHARS_PATTERN,
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

enum weft_status weft_tokenizer_save(const struct weft_tokenizer *t, const char *path)
{
    json_t *root = write_root(t), *model = json_object_get(root, "model");
    if (json_object_size(json_object_get(model, "vocab")) != (size_t)t->vocab ||
        json_array_size(json_object_get(model, "merges")) != (size_t)t->merges) {
        json_decref(root);
        return FAIL(WEFT_NOMEM, "no memory to write %s, or a special token is written like another token", path);
    }
    FILE *f = fopen(path, "wb");
    int error = f ? 0 : errno;
    if (f && json_dumpf(root, f, JSON_INDENT(2)))
        error = errno ? errno : EIO;
    if (f && fputc('\n', f) == EOF)
        error = errno;
    if (f && fclose(f))
        error = errno;
    json_decref(root);
    return error ? FAIL(WEFT_IO, "%s could not be written: %s", path, strerror(error)) : WEFT_OK;
}
