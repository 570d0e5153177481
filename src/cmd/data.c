/* SPDX-License-Identifier: MIT
 *
 * data - converts texts to token files, prints information about token files, and writes their hash trees.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/kit/progress.h"
#include "text/text.h"

#include <string.h>
#include <sys/stat.h>

enum { PREPARE, INFO, INDEX };
static const char *const verbs[] = {[PREPARE] = "prepare", [INFO] = "info", [INDEX] = "index", NULL};
static const char *const splits[] = {"train", "val", "test", NULL};
static const char *const tokenizers[] = {"bytes", "char", NULL};

struct args {
    struct weft_common common;
    int verb, split;
    struct weft_arg_list inputs;
    const char *path, *out, *tokenizer, *field;
    double val_share;
    int64_t shard_tokens, length;
};

static const struct weft_arg table[] = {
    {NULL, 0, "VERB", WEFT_ARG_CHOICE, offsetof(struct args, verb), .help = "What to do", .choices = verbs,
     .missing = "no VERB given: expected prepare, info or index"},
    {NULL, 0, "INPUT", WEFT_ARG_FILE, offsetof(struct args, inputs),
     .help = "Plain text or, with --field, JSONL, optionally compressed with Zstandard: a file, or \"-\" for standard "
             "input",
     .only = "prepare", .many = true, .missing = "no INPUT given: pass files, or \"-\" for standard input"},
    {NULL, 0, "PATH", WEFT_ARG_FILE, offsetof(struct args, path),
     .help = "Folder written by prepare, a folder with files of llm.c or nanoGPT, or a single file",
     .only = "info index", .missing = "no PATH given: pass a token file or a folder of them"},
    {"out", 'o', "DIR", WEFT_ARG_FOLDER, offsetof(struct args, out), .help = "Write the token files to this new folder",
     .only = "prepare", .missing = "no output folder given: pass --out=DIR"},
    {"tokenizer", 't', "FILE|bytes|char", WEFT_ARG_FILE, offsetof(struct args, tokenizer),
     .help = "Use this tokenizer.json, one token per byte, or one per character that occurs", .choices = tokenizers,
     .only = "prepare", .initial = "bytes"},
    {"field", 'f', "NAME", WEFT_ARG_TEXT, offsetof(struct args, field),
     .help = "Read JSONL, with a document's text in this field of each line", .only = "prepare"},
    {"val", 'v', "FRACTION", WEFT_ARG_REAL, offsetof(struct args, val_share),
     .help = "Use this fraction, below 1, for validation: documents selected by hash (JSONL), or the end of each text",
     .only = "prepare", .initial = "0.1", .max = 1},
    {"shard-tokens", 'n', "N", WEFT_ARG_INT, offsetof(struct args, shard_tokens),
     .help = "Write at most N tokens per file", .only = "prepare", .initial = "100000000", .min = 1, .max = INT32_MAX},
    {"split", 0, "NAME", WEFT_ARG_CHOICE, offsetof(struct args, split), .help = "Read these files of a folder",
     .choices = splits, .only = "info", .initial = "train"},
    {"length", 'l', "T", WEFT_ARG_INT, offsetof(struct args, length), .help = "Count windows of this length",
     .only = "info", .initial = "1024", .min = 1, .max = INT32_MAX},
    {0},
};

static enum weft_status check(const void *args)
{
    const struct args *a = args;
    if (a->val_share == 1)
        return FAIL(WEFT_INVALID, "--val 1 leaves nothing to train on: pass a fraction below 1");
    for (int i = 0; !a->field && i < a->inputs.count; i++) /* otherwise JSONL would be read as plain text */
        if (weft_ends_in(a->inputs.item[i], ".jsonl") || weft_ends_in(a->inputs.item[i], ".jsonl.zst"))
            return FAIL(WEFT_INVALID, "%s is JSONL: name the field that contains the text, as in --field text",
                        a->inputs.item[i]);
    return WEFT_OK;
}

/* ---- prepare */

struct reading {
    struct weft_line line;
    double bytes; /* size of all inputs; 0: unknown */
};

/* Returns the size of all inputs; 0 if it is unknown, as for compressed files and standard input. */
static double count_bytes(const struct weft_arg_list *inputs)
{
    double sum = 0;
    struct stat st;
    for (int i = 0; i < inputs->count; i++) {
        if (weft_ends_in(inputs->item[i], ".zst") || stat(inputs->item[i], &st) || !S_ISREG(st.st_mode))
            return 0;
        sum += (double)st.st_size;
    }
    return sum;
}

static void show(void *context, const struct weft_prepared *now)
{
    struct reading *r = context;
    weft_line_show(&r->line, (double)now->bytes, r->bytes, "%lld documents  %.1f MB  %lld tokens  %.1f MB/s",
                   (long long)now->documents, (double)now->bytes * 1e-6,
                   (long long)(now->train.tokens + now->val.tokens),
                   (double)now->bytes * 1e-6 / (weft_seconds() - r->line.start));
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
    return weft_result_finish(r, stdout, a->common.json);
}

static enum weft_status prepare(const struct args *a, const struct weft_tokenizer *tokenizer)
{
    struct weft_prepared sum;
    struct reading reading = {.bytes = count_bytes(&a->inputs)};
    weft_line_init(&reading.line, 0);
    struct weft_prepare how = {a->inputs.item, a->out,          tokenizer, a->field,
                               a->val_share,   a->shard_tokens, show,      &reading};
    enum weft_status status = weft_prepare(&how, &sum);
    weft_line_end(&reading.line);
    if (status == WEFT_OK && sum.documents > 1 && weft_tokenizer_end(tokenizer) < 0)
        weft_note_once("end", "the tokenizer has no end-of-text token, so documents are not separated; train one with "
                              "--special '<|endoftext|>'");
    if (status == WEFT_OK)
        status = print_prepared(a, tokenizer, &sum, weft_seconds() - reading.line.start);
    return status;
}

static enum weft_status make_tokenizer(const struct args *a, struct weft_tokenizer **t)
{
    if (strcmp(a->tokenizer, "bytes") == 0)
        TRY(weft_tokenizer_bytes(t));
    else if (strcmp(a->tokenizer, "char") == 0)
        TRY(weft_prepare_chars(t, a->inputs.item, a->field));
    else
        TRY(weft_tokenizer_load(t, a->tokenizer));
    return WEFT_OK;
}

/* ---- info */

static enum weft_status print_info(const struct args *a, const struct weft_shards *s)
{
    char hash[65];
    struct weft_result *r = weft_result_create();
    weft_result_int(r, "tokens", weft_shards_tokens(s));
    weft_result_int(r, "shards", weft_shards_files(s));
    weft_result_int(r, "documents", weft_shards_documents(s));
    weft_result_int(r, "bytes", weft_shards_bytes(s));
    weft_result_int(r, "vocab", (int64_t)weft_shards_max_token(s) + 1);
    weft_result_int(r, "length", a->length);
    weft_result_int(r, "windows", weft_shards_windows(s, a->length));
    weft_result_text(r, "tokenizer_sha256", weft_shards_tokenizer(s));
    if (weft_shards_hash(s, hash))
        weft_result_text(r, "sha256", hash);
    return weft_result_finish(r, stdout, a->common.json);
}

static enum weft_status info(const struct args *a)
{
    struct weft_shards *s;
    TRY(weft_shards_open(&s, a->path, splits[a->split]));
    enum weft_status status = print_info(a, s);
    weft_shards_close(s);
    return status;
}

/* ---- index */

struct indexing {
    struct weft_line line;
    const char *split;
    int64_t files;
};

static void show_indexing(void *context, int64_t done, int64_t all)
{
    struct indexing *i = context;
    weft_line_show(&i->line, (double)done, (double)all, "%s: %.2f of %.2f GB", i->split, (double)done * 1e-9,
                   (double)all * 1e-9);
}

static enum weft_status index_split(const struct args *a, struct indexing *now, struct weft_result *r)
{
    struct weft_shards *s;
    char hash[65], name[32];
    TRY(weft_shards_open_anew(&s, a->path, now->split));
    weft_line_init(&now->line, 0);
    enum weft_status status = weft_shards_index(s, show_indexing, now);
    weft_line_end(&now->line);
    weft_shards_hash(s, hash);
    now->files += weft_shards_files(s);
    weft_shards_close(s);
    snprintf(name, sizeof name, "%s_sha256", now->split);
    weft_result_text(r, name, hash);
    return status;
}

static enum weft_status index_path(const struct args *a, struct weft_result *r)
{
    struct indexing now = {0};
    struct stat st;
    double start = weft_seconds();
    bool folder = stat(a->path, &st) == 0 && S_ISDIR(st.st_mode);
    for (int i = 0; splits[i]; i++) {
        now.split = folder ? splits[i] : "file";
        if (!folder || weft_shards_exist(a->path, splits[i]))
            TRY(index_split(a, &now, r));
        if (!folder)
            break;
    }
    if (now.files == 0)
        return FAIL(WEFT_INVALID, "%s has no token files, such as train_000000.bin or val.bin", a->path);
    weft_result_int(r, "files", now.files);
    weft_result_real(r, "seconds", weft_seconds() - start);
    return weft_result_print(r, stdout, a->common.json);
}

static enum weft_status make_index(const struct args *a)
{
    struct weft_result *r = weft_result_create();
    enum weft_status status = index_path(a, r);
    weft_result_free(r);
    return status;
}

static enum weft_status make_data(const struct args *a)
{
    struct weft_tokenizer *tokenizer = NULL;
    enum weft_status status = make_tokenizer(a, &tokenizer);
    if (status == WEFT_OK)
        status = prepare(a, tokenizer);
    weft_tokenizer_free(tokenizer);
    return status;
}

static enum weft_status run(void *args)
{
    const struct args *a = args;
    return a->verb == PREPARE ? make_data(a) : a->verb == INFO ? info(a) : make_index(a);
}

const struct weft_cmd weft_cmd_data = {
    .name = "data",
    .summary = "prepare and inspect token files",
    .doc = "prepare converts texts to token files, info prints what token files contain, and index writes the hash "
           "tree of every token file to FILE.tree. Runs check the data that they read against these trees. prepare "
           "also writes hash trees; for other files without a tree, the first run writes it.",
    .args = table,
    .check = check,
    .takes = WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
