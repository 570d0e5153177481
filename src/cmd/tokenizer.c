/* SPDX-License-Identifier: MIT
 *
 * tokenizer - trains, applies and describes tokenizers.
 */
#define _GNU_SOURCE
#include "base/json.h"
#include "cmd/cmd.h"
#include "text/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TRAIN, ENCODE, DECODE, INFO };
static const char *const verbs[] = {[TRAIN] = "train", [ENCODE] = "encode", [DECODE] = "decode", [INFO] = "info", NULL};

struct args {
    struct weft_common common;
    int verb;
    const char *tokenizer, *out, *file;
    struct weft_arg_list specials, inputs;
    int64_t vocab;
    bool recognise;
};

static const struct weft_arg table[] = {
    {NULL, 0, "VERB", WEFT_ARG_CHOICE, offsetof(struct args, verb), .help = "What to do", .choices = verbs,
     .missing = "no VERB given: expected train, encode, decode or info"},
    {NULL, 0, "INPUT", WEFT_ARG_FILE, offsetof(struct args, inputs),
     .help = "Texts, joined with newlines (default: standard input)", .only = "train encode decode", .many = true},
    {NULL, 0, "FILE", WEFT_ARG_FILE, offsetof(struct args, file),
     .help = "tokenizer.json, GPT-2's vocab.bpe, or a folder with one", .only = "info",
     .missing = "info needs one FILE: a tokenizer.json, GPT-2's vocab.bpe, or a folder with one"},
    {"vocab", 'v', "N", WEFT_ARG_INT, offsetof(struct args, vocab),
     .help = "Train a vocabulary of N tokens, including the 256 bytes and the special tokens", .only = "train",
     .min = 1, .max = INT32_MAX, .missing = "train needs --vocab=N, the number of tokens"},
    {"out", 'o', "FILE", WEFT_ARG_FILE, offsetof(struct args, out), .help = "Write this tokenizer.json",
     .only = "train", .missing = "train needs --out=FILE, the tokenizer.json to write"},
    {"special", 'S', "TEXT", WEFT_ARG_TEXT, offsetof(struct args, specials),
     .help = "Add a special token, across which nothing is merged; may be repeated", .only = "train", .many = true},
    {"tokenizer", 'T', "FILE", WEFT_ARG_FILE, offsetof(struct args, tokenizer),
     .help = "Use a tokenizer.json, GPT-2's vocab.bpe, or a folder with one", .only = "encode decode",
     .missing = "no tokenizer given: pass --tokenizer=FILE"},
    {"specials", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, recognise),
     .help = "Recognise special tokens in the text", .only = "encode"},
    {0},
};

/* ---- inputs */

/* All inputs, concatenated into one stream. */
struct inputs {
    const char **path;
    int count, at;
    FILE *file;
    int error; /* errno of an input that could not be read */
};

static ssize_t read_inputs(void *cookie, char *to, size_t size)
{
    struct inputs *in = cookie;
    while (in->at < in->count) {
        if (!in->file)
            in->file = fopen(in->path[in->at], "rb");
        size_t got = in->file ? fread(to, 1, size, in->file) : 0;
        if (!in->file || ferror(in->file)) {
            in->error = errno;
            return -1;
        }
        if (got)
            return (ssize_t)got;
        fclose(in->file);
        in->file = NULL;
        if (++in->at < in->count) {
            *to = '\n';
            return 1;
        }
    }
    return 0;
}

/* Calls use(stream) on the inputs or, if there are none, on standard input. */
static enum weft_status with_inputs(struct args *a, enum weft_status (*use)(struct args *a, FILE *from))
{
    struct inputs in = {.path = a->inputs.item, .count = a->inputs.count};
    for (int i = 0; i < in.count; i++) {
        FILE *file;
        TRY(weft_input_open(in.path[i], &file)); /* fails early, before the preceding inputs are read */
        fclose(file);
    }
    FILE *from = in.count ? fopencookie(&in, "rb", (cookie_io_functions_t){.read = read_inputs}) : stdin;
    if (!from)
        return FAIL(WEFT_NOMEM, "not enough memory to read the input");
    enum weft_status status = use(a, from);
    if (from != stdin)
        fclose(from);
    if (in.file)
        fclose(in.file);
    if (in.error)
        return FAIL(WEFT_IO, "%s cannot be read: %s", in.path[in.at], strerror(in.error));
    return status;
}

static enum weft_status slurp(FILE *from, char **text, size_t *bytes)
{
    size_t room = 1 << 16, got = 1;
    *bytes = 0;
    for (*text = malloc(room); *text && got; *bytes += got) {
        if (*bytes == room) {
            char *grown = realloc(*text, room *= 2);
            if (!grown)
                free(*text);
            if (!(*text = grown))
                break;
        }
        got = fread(*text + *bytes, 1, room - *bytes, from);
    }
    if (!*text)
        return FAIL(WEFT_NOMEM, "not enough memory for a text of %zu bytes", *bytes);
    return ferror(from) ? FAIL(WEFT_IO, "the input could not be read") : WEFT_OK;
}

/* ---- verbs */

static enum weft_status print_info(const struct weft_tokenizer *t, bool json)
{
    struct weft_result *r = weft_result_create();
    weft_tokenizer_info(t, r);
    return weft_result_finish(r, stdout, json);
}

/* Fails if the syntax of an input file would be learned as text. */
static enum weft_status check_plain(const struct args *a)
{
    for (int i = 0; i < a->inputs.count; i++) {
        const char *path = a->inputs.item[i];
        if (weft_ends_in(path, ".zst"))
            return FAIL(WEFT_INVALID, "%s is compressed: use `zstd -dc %s | weft tokenizer train ..`", path, path);
        if (weft_ends_in(path, ".jsonl"))
            return FAIL(WEFT_INVALID, "%s is JSONL: pass its texts, as in `jq -r .text %s | weft tokenizer train ..`",
                        path, path);
    }
    return WEFT_OK;
}

static enum weft_status train(struct args *a, FILE *from)
{
    struct weft_tokenizer *t = NULL;
    enum weft_status status = weft_tokenizer_train(&t, from, (int)a->vocab, a->specials.item, a->specials.count);
    if (status == WEFT_OK)
        status = weft_tokenizer_save(t, a->out);
    if (status == WEFT_OK)
        status = print_info(t, a->common.json);
    weft_tokenizer_free(t);
    return status;
}

static enum weft_status print_tokens(const struct args *a, const int32_t *tokens, size_t count, size_t bytes,
                                     double seconds)
{
    if (!a->common.json) {
        for (size_t i = 0; i < count; i++)
            printf("%d\n", tokens[i]);
        return WEFT_OK;
    }
    struct weft_result *r = weft_result_create();
    weft_result_int(r, "bytes", (int64_t)bytes);
    weft_result_int(r, "tokens", (int64_t)count);
    weft_result_int(r, "threads", weft_threads());
    weft_result_real(r, "seconds", seconds);
    weft_result_real(r, "megabytes_per_second", (double)bytes / 1e6 / seconds);
    return weft_result_finish(r, stdout, true);
}

static enum weft_status encode_text(const struct args *a, const struct weft_tokenizer *t, FILE *from)
{
    char *text = NULL;
    struct weft_ids ids = {0};
    size_t bytes = 0;
    enum weft_status status = slurp(from, &text, &bytes);
    double start = weft_seconds();
    if (status == WEFT_OK)
        status = weft_encode(t, text, bytes, a->recognise, true, &ids);
    if (status == WEFT_OK)
        status = print_tokens(a, ids.id, ids.count, bytes, weft_seconds() - start);
    free(ids.id);
    free(text);
    return status;
}

/* Reads the next token id; false: end of the input or something other than an id. */
static bool read_token(FILE *from, int32_t *token, bool *ended)
{
    char word[32]; /* a word that fills the buffer is too long */
    int64_t n;
    *ended = fscanf(from, "%31s", word) != 1;
    if (*ended || strlen(word) == sizeof word - 1 || !weft_text_int(word, &n) || n < 0 || n > INT32_MAX)
        return false;
    *token = (int32_t)n;
    return true;
}

/* Decodes token by token, so that output does not wait for the end of the input. */
static enum weft_status decode_tokens(const struct weft_tokenizer *t, FILE *from)
{
    size_t room = 0, bytes;
    char *text = NULL;
    int32_t token;
    bool ended = false, begins = true;
    enum weft_status status = WEFT_OK;
    for (; status == WEFT_OK && read_token(from, &token, &ended); begins = false) {
        status = weft_decode(t, &token, 1, begins, text, room, &bytes);
        if (status == WEFT_OK && bytes > room) {
            free(text);
            room = (text = malloc(bytes)) ? bytes : 0;
            status =
                text ? weft_decode(t, &token, 1, begins, text, room, &bytes) : FAIL(WEFT_NOMEM, "not enough memory");
        }
        if (status == WEFT_OK)
            fwrite(text, 1, bytes, stdout);
    }
    free(text);
    TRY(status);
    if (!ended)
        return FAIL(WEFT_FORMAT, "the input contains something other than token ids");
    return WEFT_OK;
}

static enum weft_status use_tokenizer(struct args *a, FILE *from)
{
    struct weft_tokenizer *t = NULL;
    TRY(weft_tokenizer_load(&t, a->tokenizer));
    enum weft_status status = a->verb == ENCODE ? encode_text(a, t, from) : decode_tokens(t, from);
    weft_tokenizer_free(t);
    return status;
}

static enum weft_status info(const struct args *a)
{
    struct weft_tokenizer *t = NULL;
    TRY(weft_tokenizer_load(&t, a->file));
    enum weft_status status = print_info(t, a->common.json);
    weft_tokenizer_free(t);
    return status;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    if (a->verb == INFO)
        return info(a);
    if (a->verb == TRAIN)
        TRY(check_plain(a));
    return with_inputs(a, a->verb == TRAIN ? train : use_tokenizer);
}

const struct weft_cmd weft_cmd_tokenizer = {
    .name = "tokenizer",
    .summary = "train, use and inspect tokenizers",
    .doc = "Trains byte-level BPE on texts, encodes texts as token ids (one per line), and decodes them.",
    .notes = "`encode --json` prints counts and speed instead of the tokens.",
    .args = table,
    .takes = WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
