/* SPDX-License-Identifier: MIT
 *
 * tokenizer_load.c - loads a tokenizer from a file or a folder: tokenizer.json, or GPT-2's vocab.bpe with encoder.json
 * next to it.
 */
#include "text/tokenizer/tokenizer_read.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- vocab.bpe */

static enum weft_status read_lines(const struct weft_reading *r, char *text)
{
    size_t i = 0;
    const char *first = text;
    for (char *next; *text; text = next) {
        next = text + strcspn(text, "\n");
        if (*next)
            *next++ = 0;
        if (text == first && strncmp(text, "#version", 8) == 0)
            continue;
        TRY(weft_reading_merge_line(r, i++, text));
    }
    return WEFT_OK;
}

/* Reads a vocab.bpe from `text`, which is modified. */
static enum weft_status read_vocab_bpe(struct weft_reading *r, char *text, size_t bytes)
{
    size_t lines = 0, versions = strncmp(text, "#version", 8) == 0;
    if (strlen(text) != bytes)
        return FAIL(WEFT_FORMAT, "%s: byte %zu is zero, so the file is not a list of merges", r->path, strlen(text));
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    lines += bytes && text[bytes - 1] != '\n';
    json_t *id = json_object_get(r->vocab, WEFT_END_OF_TEXT);
    json_t *added = id ? json_pack("[{s:s,s:O}]", "content", WEFT_END_OF_TEXT, "id", id) : NULL;
    enum weft_status status = weft_reading_create(r, WEFT_TOKENIZER_BPE, added, lines - versions);
    if (status == WEFT_OK)
        status = weft_reading_vocab(r, added);
    json_decref(added);
    TRY(status);
    TRY(read_lines(r, text));
    return weft_tokenizer_finish(r->t, r->path);
}

/* ---- files */

static enum weft_status load_vocab_bpe(struct weft_tokenizer **t, const char *path, char *merges, size_t bytes)
{
    char *json = NULL;
    json_t *vocab = NULL;
    struct weft_arena arena = {0};
    struct weft_reading r = {.path = path};
    const char *slash = strrchr(path, '/');
    const char *beside = weft_arena_print(&arena, "%.*sencoder.json", slash ? (int)(slash - path) + 1 : 0, path);
    size_t json_bytes;
    enum weft_status status = beside ? weft_slurp(beside, WEFT_MAX_TOKENIZER_BYTES, &json, &json_bytes) : WEFT_NOMEM;
    if (status == WEFT_OK)
        status = weft_reading_json(beside, json, json_bytes, &vocab);
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
    enum weft_status status = weft_slurp(path, WEFT_MAX_TOKENIZER_BYTES, &text, &bytes);
    if (status == WEFT_OK && !text[strspn(text, " \t\r\n")])
        status = FAIL(WEFT_FORMAT, "%s is empty", path);
    else if (status == WEFT_OK && text[strspn(text, " \t\r\n")] == '{')
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
    GIVEN(t);
    *t = NULL;
    GIVEN(path);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *full = weft_arena_print(&arena, "%s%s", path, names[i]);
        if (full && (!*names[i] || access(full, F_OK) == 0)) {
            status = load_file(t, full);
            break;
        }
    }
    weft_arena_release(&arena);
    TRY(status);
    return WEFT_OK;
}
