/* SPDX-License-Identifier: MIT
 *
 * data - makes token files of texts, and tells what is in token files.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

struct args {
    const char *verb;
    const char **paths; /* NULL at the end */
    int count;
    const char *out, *tokenizer, *field, *split;
    double val_share;
    int64_t shard_tokens, length;
    const char *prepares, *informs; /* an option that only this verb has, if one was given */
    bool json;
};

enum { PREPARE = 1, INFO };

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "Print one flat JSON object", 0},
    {NULL, 0, NULL, 0, "prepare:", PREPARE},
    {"out", 'o', "DIR", 0, "The folder to make", 0},
    {"tokenizer", 't', "FILE|bytes|char", 0,
     "A tokenizer.json, a token per byte (default), or per character that occurs", 0},
    {"field", 'f', "NAME", 0, "The inputs are JSONL, and this field of a line is a document's text", 0},
    {"val", 'v', "SHARE", 0, "For validation, below 1 (default 0.1): of JSONL, documents by hash; of text, its end", 0},
    {"shard-tokens", 'n', "N", 0, "Most tokens of a file (default 100000000)", 0},
    {NULL, 0, NULL, 0, "info:", INFO},
    {"split", 's', "NAME", 0, "Which files of a folder: train (default) or val", 0},
    {"length", 'l', "T", 0, "Count windows of this length (default 1024)", 0},
    {0},
};

static error_t parse_info(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case 's':
        a->split = arg;
        a->informs = "--split";
        return 0;
    case 'l':
        a->length = weft_arg_int(state, "length", arg, 1, INT32_MAX);
        a->informs = "--length";
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_prepare(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case 'o':
        a->out = arg;
        a->prepares = "--out";
        return 0;
    case 't':
        a->tokenizer = arg;
        a->prepares = "--tokenizer";
        return 0;
    case 'f':
        a->field = arg;
        a->prepares = "--field";
        return 0;
    case 'v':
        a->val_share = weft_arg_real(state, "val", arg, 0, 1);
        a->prepares = "--val";
        return 0;
    case 'n':
        a->shard_tokens = weft_arg_int(state, "shard-tokens", arg, 1, INT32_MAX);
        a->prepares = "--shard-tokens";
        return 0;
    default:
        return parse_info(key, arg, state);
    }
}

/* What the arguments say together. */
static void check_usage(struct argp_state *state, const struct args *a)
{
    bool prepare = a->verb && strcmp(a->verb, "prepare") == 0;
    if (!prepare && (!a->verb || strcmp(a->verb, "info") != 0))
        argp_error(state, "prepare or info?");
    if (prepare && (!a->count || !a->out))
        argp_error(state, "prepare INPUT.. --out DIR: an input (\"-\": standard input) and a folder are needed");
    if (!prepare && a->count != 1)
        argp_error(state, "info PATH: which file or folder?");
    if (prepare ? a->informs : a->prepares)
        argp_error(state, "%s is no option of %s", prepare ? a->informs : a->prepares, a->verb);
    if (a->val_share == 1)
        argp_error(state, "--val 1 leaves nothing to train on: give less than 1");
    for (int i = 0; prepare && !a->field && i < a->count; i++)
        if (weft_ends_in(a->paths[i], ".jsonl") || weft_ends_in(a->paths[i], ".jsonl.zst"))
            argp_error(state, "%s is JSONL: say which field is the text, as in --field text", a->paths[i]);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        a->tokenizer = "bytes";
        a->split = "train";
        a->val_share = 0.1;
        a->shard_tokens = 100000000;
        a->length = 1024;
        a->paths = calloc((size_t)state->argc + 1, sizeof *a->paths);
        return a->paths ? 0 : ENOMEM;
    case 'j':
        a->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->verb)
            a->paths[a->count++] = arg;
        else
            a->verb = arg;
        return 0;
    case ARGP_KEY_END:
        check_usage(state, a);
        return 0;
    default:
        return parse_prepare(key, arg, state);
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "prepare INPUT..\ninfo PATH",
    .doc = "Makes token files of texts, or tells what is in token files.\v"
           "An INPUT is plain text or, with --field, JSONL; compressed with Zstandard or not; a file or \"-\". "
           "PATH is a folder made by prepare, one with llm.c's or nanoGPT's files, or a single file.",
};

/* ---- prepare */

static void tell(void *context, const struct weft_prepared *now)
{
    struct weft_line *line = context;
    weft_line_tell(line, "%lld documents  %.1f MB  %lld tokens  %.1f MB/s", (long long)now->documents,
                   (double)now->bytes * 1e-6, (long long)(now->train.tokens + now->val.tokens),
                   (double)now->bytes * 1e-6 / (weft_seconds() - line->start));
}

static enum weft_status print_prepared(const struct args *a, const struct weft_tokenizer *tokenizer,
                                       const struct weft_prepared *sum, double seconds)
{
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "out", a->out);
    weft_result_int(r, "documents", sum->documents);
    weft_result_int(r, "bytes", sum->bytes);
    weft_result_int(r, "train_tokens", sum->train.tokens);
    weft_result_int(r, "val_tokens", sum->val.tokens);
    weft_result_int(r, "shards", sum->train.files + sum->val.files);
    weft_result_int(r, "vocab", weft_tokenizer_vocab(tokenizer));
    weft_result_real(r, "seconds", seconds);
    weft_result_real(r, "mb_per_s", (double)sum->bytes * 1e-6 / seconds);
    enum weft_status status = weft_result_print(r, stdout, a->json);
    weft_result_free(r);
    return status;
}

static enum weft_status prepare(const struct args *a, const struct weft_tokenizer *tokenizer)
{
    struct weft_prepared sum;
    struct weft_line line;
    weft_line_init(&line);
    struct weft_prepare how = {a->paths, a->out, tokenizer, a->field, a->val_share, a->shard_tokens, tell, &line};
    enum weft_status status = weft_prepare(&how, &sum);
    weft_line_end(&line);
    if (status == WEFT_OK && sum.documents > 1 && weft_tokenizer_end(tokenizer) < 0)
        weft_note_once("end", "the tokenizer has no end-of-text token: nothing stands between documents. One trained "
                              "with --special '<|endoftext|>' has one");
    if (status == WEFT_OK)
        status = print_prepared(a, tokenizer, &sum, weft_seconds() - line.start);
    return status;
}

static enum weft_status make_tokenizer(const struct args *a, struct weft_tokenizer **t)
{
    if (strcmp(a->tokenizer, "bytes") == 0)
        TRY(weft_tokenizer_bytes(t));
    else if (strcmp(a->tokenizer, "char") == 0)
        TRY(weft_prepare_chars(t, a->paths, a->field));
    else
        TRY(weft_tokenizer_load(t, a->tokenizer));
    return WEFT_OK;
}

/* ---- info */

static enum weft_status print_info(const struct args *a, const struct weft_shards *s)
{
    struct weft_result *r = weft_result_create();
    weft_result_int(r, "tokens", weft_shards_tokens(s));
    weft_result_int(r, "shards", weft_shards_files(s));
    weft_result_int(r, "documents", weft_shards_documents(s));
    weft_result_int(r, "bytes", weft_shards_bytes(s));
    weft_result_int(r, "vocab", (int64_t)weft_shards_max_token(s) + 1);
    weft_result_int(r, "length", a->length);
    weft_result_int(r, "windows", weft_shards_windows(s, a->length));
    weft_result_text(r, "tokenizer_sha256", weft_shards_tokenizer(s));
    enum weft_status status = weft_result_print(r, stdout, a->json);
    weft_result_free(r);
    return status;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct weft_tokenizer *tokenizer = NULL;
    struct weft_shards *shards = NULL;
    enum weft_status status;
    if (strcmp(a->verb, "prepare") == 0) {
        status = make_tokenizer(a, &tokenizer);
        if (status == WEFT_OK)
            status = prepare(a, tokenizer);
    } else {
        status = weft_shards_open(&shards, a->paths[0], a->split);
        if (status == WEFT_OK)
            status = print_info(a, shards);
    }
    weft_shards_close(shards);
    weft_tokenizer_free(tokenizer);
    free(a->paths);
    return status;
}

const struct weft_cmd weft_cmd_data = {"data", "make and look at token files", &argp, sizeof(struct args), run};
