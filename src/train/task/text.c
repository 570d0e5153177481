/* SPDX-License-Identifier: MIT
 *
 * task/text - predict the next token of a text, from token files (see docs/data.md). A sample is a window of `context`
 * tokens; training reads all windows of the `train` files in an order drawn for each epoch. Windows of the `val` files
 * are in one random order, the same for every seed. If there are `test` files, the test reads them likewise; otherwise
 * the first half of `val` is for validation and the second for the test.
 */
#include "text/text.h"
#include "train/tasks.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct text {
    const char *data;
    int64_t length;
    struct weft_shards *train, *val, *test; /* test is NULL if half of val is used for it */
    char *tokenizer;                        /* the bytes of tokenizer.json; NULL: there is none */
    size_t tokenizer_bytes;
    int32_t *window; /* [length + 1] */
    enum weft_status *failure;
};

static const struct weft_opt options[] = {
    {"data", WEFT_OPT_TEXT, offsetof(struct text, data), "",
     .help = "folder of token files: train*.bin, val*.bin and optionally test*.bin; see `weft data`"},
};

static enum weft_status resolve(const struct weft_spec *spec, void *opts, struct weft_arena *arena)
{
    struct text *o = opts;
    (void)arena;
    o->length = spec->context;
    if (!*o->data)
        return FAIL(WEFT_INVALID, "task=text needs data=FOLDER, with token files that `weft data prepare` made");
    return WEFT_OK;
}

/* Returns the vocabulary over all splits, because without a data.json, each split has its own largest token id. */
static int64_t vocab(const void *opts)
{
    static const char *const splits[] = {"train", "val", "test"};
    const struct text *o = opts;
    struct stat info;
    int64_t most = 0;
    if (stat(o->data, &info) || !S_ISDIR(info.st_mode))
        return 0;
    for (int i = 0; i < 3; i++) {
        struct weft_shards *s = NULL;
        if (weft_shards_exist(o->data, splits[i]) && weft_shards_open(&s, o->data, splits[i]) == WEFT_OK)
            most = weft_max(most, (int64_t)weft_shards_max_token(s) + 1);
        weft_shards_close(s);
    }
    weft_error_clear(); /* opening the files reports the error */
    return most;
}

/* Prints the progress of hashing large files, which are hashed only by the first run that reads them. */
static void note_indexing(void *context, int64_t done, int64_t all)
{
    char key[32];
    int tenth = (int)(10 * (double)done / (double)all);
    snprintf(key, sizeof key, "indexed %d", tenth);
    if (all > 1 << 30)
        weft_note_once(key, "hashing %s once: %d %% of %.1f GB", (const char *)context, 10 * tenth, (double)all * 1e-9);
}

static enum weft_status open_split(const struct weft_spec *spec, const struct text *o, const char *split,
                                   struct weft_shards **s)
{
    TRY(weft_shards_open(s, o->data, split));
    if (weft_shards_max_token(*s) >= spec->vocab)
        return FAIL(WEFT_INVALID, "token ids of %s go up to %d: set vocab=%lld or more, not %lld", o->data,
                    weft_shards_max_token(*s), (long long)weft_shards_max_token(*s) + 1, (long long)spec->vocab);
    TRY(weft_shards_index(*s, note_indexing, (void *)o->data));
    if (weft_shards_windows(*s, o->length) == 0)
        return FAIL(WEFT_INVALID,
                    "%s has %lld tokens for %s, too few for a sequence of context=%lld and the token after it", o->data,
                    (long long)weft_shards_tokens(*s), split, (long long)o->length);
    return WEFT_OK;
}

/* Reads the tokenizer once, when the run begins, because the folder may be moved while its token files are mapped. */
static enum weft_status read_tokenizer(struct text *o, const char *path, struct weft_arena *arena)
{
    char *text;
    if (access(path, R_OK))
        return WEFT_OK;
    enum weft_status status = weft_slurp(path, WEFT_MAX_TOKENIZER_BYTES, &text, &o->tokenizer_bytes);
    o->tokenizer = status == WEFT_OK ? weft_arena_alloc(arena, o->tokenizer_bytes + 1) : NULL;
    if (o->tokenizer)
        memcpy(o->tokenizer, text, o->tokenizer_bytes);
    else if (status == WEFT_OK)
        status = FAIL(WEFT_NOMEM, "not enough memory to read %s", path);
    free(text);
    return status;
}

static enum weft_status open_data(const struct weft_spec *spec, void *opts, struct weft_arena *arena)
{
    struct text *o = opts;
    struct stat info;
    if (stat(o->data, &info) == 0 && !S_ISDIR(info.st_mode)) /* a single file would serve as train, val and test */
        return FAIL(WEFT_INVALID,
                    "data=%s is not a folder: set data to a folder with token files train*.bin and val*.bin", o->data);
    char *tokenizer = weft_arena_print(arena, "%s/tokenizer.json", o->data);
    o->window = weft_arena_alloc(arena, ((size_t)o->length + 1) * sizeof *o->window);
    o->failure = weft_arena_alloc(arena, sizeof *o->failure);
    if (!tokenizer || !o->window || !o->failure)
        return FAIL(WEFT_NOMEM, "not enough memory for a task");
    TRY(read_tokenizer(o, tokenizer, arena));
    TRY(open_split(spec, o, "train", &o->train));
    TRY(open_split(spec, o, "val", &o->val));
    if (weft_shards_exist(o->data, "test"))
        TRY(open_split(spec, o, "test", &o->test));
    else if (weft_shards_windows(o->val, o->length) < 2)
        return FAIL(WEFT_INVALID,
                    "%s has %lld tokens for val and no test files: that is one sequence of context=%lld, too few for "
                    "validation and a test",
                    o->data, (long long)weft_shards_tokens(o->val), (long long)o->length);
    return WEFT_OK;
}

static void close_data(void *opts)
{
    struct text *o = opts;
    weft_shards_close(o->train);
    weft_shards_close(o->val);
    weft_shards_close(o->test);
}

static int64_t length(const void *opts) { return ((const struct text *)opts)->length; }

static int64_t held_out(const void *opts, bool test)
{
    const struct text *o = opts;
    int64_t windows = weft_shards_windows(test && o->test ? o->test : o->val, o->length);
    return o->test ? windows : test ? windows / 2 : windows - windows / 2;
}

static enum weft_status failure(const void *opts) { return *((const struct text *)opts)->failure; }

static const char *tokenizer(const void *opts, size_t *bytes)
{
    const struct text *o = opts;
    *bytes = o->tokenizer_bytes;
    return o->tokenizer;
}

static void fingerprint(const void *opts, char hash[65])
{
    const struct text *o = opts;
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    weft_sha256_add(&sha, o->tokenizer, o->tokenizer_bytes);
    weft_shards_root(o->train, &sha);
    weft_shards_root(o->val, &sha);
    if (o->test)
        weft_shards_root(o->test, &sha);
    weft_sha256_hex(&sha, hash);
}

/* Returns the window of a sample and its shards. */
static uint64_t find(uint64_t seed, const struct text *o, uint64_t index, const struct weft_shards **s)
{
    bool test = index >= WEFT_TEST, held = index >= WEFT_HELD_OUT;
    *s = test && o->test ? o->test : held ? o->val : o->train;
    uint64_t windows = (uint64_t)weft_shards_windows(*s, o->length);
    if (!held)
        return weft_order_sample(windows, seed, index);
    index -= test ? WEFT_TEST : WEFT_HELD_OUT;
    if (test && !o->test)
        index += (uint64_t)held_out(o, false);
    return weft_order(windows, weft_key_name(0, "held out"), index);
}

static void sample(const struct weft_spec *spec, const void *opts, uint64_t index, int32_t *tokens, int32_t *targets)
{
    const struct text *o = opts;
    const struct weft_shards *s;
    uint64_t window = find((uint64_t)spec->seed, o, index, &s);
    if (*o->failure == WEFT_OK)
        *o->failure = weft_shards_read(s, (int64_t)window * o->length, o->length + 1, o->window);
    for (int64_t i = 0; i < o->length; i++) {
        tokens[i] = *o->failure == WEFT_OK ? o->window[i] : 0; /* after a failure, any token is fine */
        targets[i] = *o->failure == WEFT_OK ? o->window[i + 1] : -1;
    }
}

static enum weft_status documents(const void *opts, int64_t samples, int64_t *document, int64_t *count, int32_t *end)
{
    const struct text *o = opts;
    const struct weft_shards *s = o->test ? o->test : o->val;
    int64_t *window = calloc((size_t)samples, sizeof *window);
    if (!window)
        return FAIL(WEFT_NOMEM, "not enough memory for the positions of %lld samples", (long long)samples);
    for (int64_t i = 0; i < samples; i++)
        window[i] = (int64_t)find(0, o, WEFT_TEST + (uint64_t)i, &s);
    enum weft_status status = weft_shards_locate(s, o->length, window, samples, document, count);
    *end = weft_shards_end(s);
    free(window);
    return status;
}

const struct weft_task weft_task_text = {
    .name = "text",
    .summary = "predict the next token of a text",
    .owner = WEFT_OWNER("task=text", options),
    .options_bytes = sizeof(struct text),
    .resolve = resolve,
    .vocab = vocab,
    .open = open_data,
    .close = close_data,
    .length = length,
    .held_out = held_out,
    .sample = sample,
    .failure = failure,
    .tokenizer = tokenizer,
    .fingerprint = fingerprint,
    .documents = documents,
};
