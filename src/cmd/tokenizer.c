/* SPDX-License-Identifier: MIT
 *
 * tokenizer - trains a tokenizer, encodes and decodes with one, tells about one.
 */
#define _GNU_SOURCE
#include "base/json.h"
#include "base/opt.h"
#include "cmd/cmd.h"
#include "text/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SPECIALS = 64, RECOGNISE = 256 };

struct args {
    const char *what, *tokenizer, *out;
    const char *specials[MOST_SPECIALS];
    int special_count, vocab, input_count;
    char **inputs;
    bool recognise, json;
};

static const struct argp_option options[] = {
    {"vocab", 'v', "N", 0, "train: how many tokens there shall be, with the 256 bytes and the special ones", 0},
    {"out", 'o', "FILE", 0, "train: the tokenizer.json to write", 0},
    {"special", 'S', "TEXT", 0, "train: a special token, which no word crosses; may be repeated", 0},
    {"tokenizer", 'T', "FILE", 0, "encode, decode: a tokenizer.json, GPT-2's vocab.bpe, or a folder with one", 0},
    {"specials", RECOGNISE, NULL, 0, "encode: recognise special tokens in the text", 0},
    {"json", 'j', NULL, 0, "Print one flat JSON object; encode: of counts and speed instead of the tokens", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case 'v':
        a->vocab = (int)weft_arg_int(state, "vocab", arg, 1, INT32_MAX);
        return 0;
    case 'o':
        a->out = arg;
        return 0;
    case 'S':
        if (a->special_count == MOST_SPECIALS)
            argp_error(state, "more than %d special tokens", MOST_SPECIALS);
        a->specials[a->special_count++] = arg;
        return 0;
    case 'T':
        a->tokenizer = arg;
        return 0;
    case RECOGNISE:
        a->recognise = true;
        return 0;
    case 'j':
        a->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->what)
            return ARGP_ERR_UNKNOWN; /* all that follow come at once */
        a->what = arg;
        return 0;
    case ARGP_KEY_ARGS:
        a->inputs = state->argv + state->next;
        a->input_count = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "do what? train, encode, decode or info");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "train --vocab N --out FILE [INPUT..]\nencode --tokenizer FILE [INPUT..]\n"
                "decode --tokenizer FILE [INPUT..]\ninfo FILE",
    .doc = "Learns byte-level BPE from texts, turns texts into tokens (one number a line) and back.\vWithout INPUT the "
           "text is read from the standard input. Several are joined, with a newline between.",
};

/* ---- inputs */

/* All inputs one after the other, as one stream. */
struct inputs {
    char **path;
    int count, at;
    FILE *file;
    int error; /* errno of the one that could not be read */
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

/* Runs use(stream) on the inputs or, when there are none, the standard input. */
static enum weft_status with_inputs(struct args *a, enum weft_status (*use)(struct args *a, FILE *from))
{
    struct inputs in = {.path = a->inputs, .count = a->input_count};
    FILE *from = a->input_count ? fopencookie(&in, "rb", (cookie_io_functions_t){.read = read_inputs}) : stdin;
    if (!from)
        return FAIL(WEFT_NOMEM, "no memory to read");
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
        return FAIL(WEFT_NOMEM, "no memory for a text of %zu bytes", *bytes);
    return ferror(from) ? FAIL(WEFT_IO, "the input could not be read") : WEFT_OK;
}

/* ---- what can be done */

static enum weft_status print_info(const struct weft_tokenizer *t, bool json)
{
    struct weft_result *r = weft_result_create();
    weft_tokenizer_info(t, r);
    enum weft_status status = weft_result_print(r, stdout, json);
    weft_result_free(r);
    return status;
}

/* Their words would be learned, too. */
static enum weft_status check_plain(const struct args *a)
{
    for (int i = 0; i < a->input_count; i++) {
        const char *path = a->inputs[i];
        if (weft_ends_in(path, ".zst"))
            return FAIL(WEFT_INVALID, "%s is compressed: say `zstd -dc %s | weft tokenizer train ..`", path, path);
        if (weft_ends_in(path, ".jsonl"))
            return FAIL(WEFT_INVALID, "%s is JSONL: give its texts, as in `jq -r .text %s | weft tokenizer train ..`",
                        path, path);
    }
    return WEFT_OK;
}

static enum weft_status train(struct args *a, FILE *from)
{
    struct weft_tokenizer *t = NULL;
    if (!a->vocab || !a->out)
        return FAIL(WEFT_INVALID, "train needs --vocab N and --out FILE");
    TRY(check_plain(a));
    enum weft_status status = weft_tokenizer_train(&t, from, a->vocab, a->specials, a->special_count);
    if (status == WEFT_OK)
        status = weft_tokenizer_save(t, a->out);
    if (status == WEFT_OK)
        status = print_info(t, a->json);
    weft_tokenizer_free(t);
    return status;
}

static enum weft_status finish_output(void)
{
    if (fflush(stdout) || ferror(stdout))
        return FAIL(WEFT_IO, "the result could not be written: is the disk full or the pipe closed?");
    return WEFT_OK;
}

static enum weft_status print_tokens(const struct args *a, const int32_t *tokens, size_t count, size_t bytes,
                                     double seconds)
{
    if (!a->json) {
        for (size_t i = 0; i < count; i++)
            printf("%d\n", tokens[i]);
        return finish_output();
    }
    struct weft_result *r = weft_result_create();
    weft_result_int(r, "bytes", (int64_t)bytes);
    weft_result_int(r, "tokens", (int64_t)count);
    weft_result_int(r, "threads", weft_threads());
    weft_result_real(r, "seconds", seconds);
    weft_result_real(r, "megabytes_per_second", (double)bytes / 1e6 / seconds);
    enum weft_status status = weft_result_print(r, stdout, true);
    weft_result_free(r);
    return status;
}

static enum weft_status encode_text(const struct args *a, const struct weft_tokenizer *t, FILE *from)
{
    char *text = NULL;
    int32_t *tokens = NULL;
    size_t bytes = 0, count = 0;
    enum weft_status status = slurp(from, &text, &bytes);
    if (status == WEFT_OK && !(tokens = malloc(bytes * sizeof *tokens + 1)))
        status = FAIL(WEFT_NOMEM, "no memory for the tokens of %zu bytes", bytes);
    double start = weft_seconds();
    if (status == WEFT_OK)
        status = weft_tokenizer_encode(t, text, bytes, a->recognise, tokens, bytes, &count);
    if (status == WEFT_OK)
        status = print_tokens(a, tokens, count, bytes, weft_seconds() - start);
    free(tokens);
    free(text);
    return status;
}

/* The next number of a token; false: there is none, the end of the input or something else. */
static bool read_token(FILE *from, int32_t *token, bool *ended)
{
    char word[32]; /* one that fills it is too long */
    int64_t n;
    *ended = fscanf(from, "%31s", word) != 1;
    if (*ended || strlen(word) == sizeof word - 1 || !weft_text_int(word, &n) || n < 0 || n > INT32_MAX)
        return false;
    *token = (int32_t)n;
    return true;
}

/* One by one: a text has no end that would be needed. */
static enum weft_status decode_tokens(const struct weft_tokenizer *t, FILE *from)
{
    size_t room = 0, bytes;
    char *text = NULL;
    int32_t token;
    bool ended = false;
    enum weft_status status = WEFT_OK;
    while (status == WEFT_OK && read_token(from, &token, &ended)) {
        status = weft_tokenizer_decode(t, &token, 1, text, room, &bytes);
        if (status == WEFT_OK && bytes > room) {
            free(text);
            room = (text = malloc(bytes)) ? bytes : 0;
            status = text ? weft_tokenizer_decode(t, &token, 1, text, room, &bytes) : FAIL(WEFT_NOMEM, "no memory");
        }
        if (status == WEFT_OK)
            fwrite(text, 1, bytes, stdout);
    }
    free(text);
    TRY(status);
    if (!ended)
        return FAIL(WEFT_FORMAT, "the input holds something that is no number of a token");
    return finish_output();
}

static enum weft_status use_tokenizer(struct args *a, FILE *from)
{
    struct weft_tokenizer *t = NULL;
    if (!a->tokenizer)
        return FAIL(WEFT_INVALID, "%s needs --tokenizer FILE", a->what);
    TRY(weft_tokenizer_load(&t, a->tokenizer));
    enum weft_status status = strcmp(a->what, "encode") == 0 ? encode_text(a, t, from) : decode_tokens(t, from);
    weft_tokenizer_free(t);
    return status;
}

static enum weft_status info(const struct args *a)
{
    struct weft_tokenizer *t = NULL;
    if (a->input_count != 1)
        return FAIL(WEFT_INVALID, "info needs one FILE: a tokenizer.json, GPT-2's vocab.bpe, or a folder with one");
    TRY(weft_tokenizer_load(&t, a->inputs[0]));
    enum weft_status status = print_info(t, a->json);
    weft_tokenizer_free(t);
    return status;
}

static enum weft_status run(void *args)
{
    static const char *const names[] = {"train", "encode", "decode", "info"};
    struct args *a = args;
    if (strcmp(a->what, "train") == 0)
        return with_inputs(a, train);
    if (strcmp(a->what, "encode") == 0 || strcmp(a->what, "decode") == 0)
        return with_inputs(a, use_tokenizer);
    if (strcmp(a->what, "info") == 0)
        return info(a);
    const char *near = weft_suggest(a->what, names, 4);
    return FAIL(WEFT_INVALID, "a tokenizer cannot %s: there are train, encode, decode and info%s%s%s", a->what,
                near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

const struct weft_cmd weft_cmd_tokenizer = {"tokenizer", "train, use and inspect tokenizers", &argp,
                                            sizeof(struct args), run};
