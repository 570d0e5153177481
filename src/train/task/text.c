/* SPDX-License-Identifier: MIT
 *
 * task/text - predict the next token of texts, from token files (see docs/data.md). A sample is a window of `context`
 * tokens; training reads all windows of the `train` files in an order drawn for each epoch, evaluation those of the
 * `val` files from the first on.
 */
#include "text/text.h"
#include "train/train.h"

#include <stddef.h>
#include <unistd.h>

struct text {
    const char *data;
    int64_t length;
    struct weft_shards *train, *val;
    const char *tokenizer;
    int32_t *window; /* [length + 1] */
    enum weft_status *failure;
};

static const struct weft_opt options[] = {
    {"data", WEFT_OPT_TEXT, offsetof(struct text, data), "",
     .help = "the folder of token files, train*.bin and val*.bin: see `weft data`"},
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

static enum weft_status open_split(const struct weft_spec *spec, const struct text *o, const char *split,
                                   struct weft_shards **s)
{
    TRY(weft_shards_open(s, o->data, split));
    if (weft_shards_top(*s) >= spec->vocab)
        return FAIL(WEFT_INVALID, "tokens of %s go up to %d: set vocab=%lld or more, not %lld", o->data,
                    weft_shards_top(*s), (long long)weft_shards_top(*s) + 1, (long long)spec->vocab);
    if (weft_shards_windows(*s, o->length) == 0)
        return FAIL(WEFT_INVALID, "%s has %lld tokens for %s, too few for a sequence of context=%lld and its end",
                    o->data, (long long)weft_shards_tokens(*s), split, (long long)o->length);
    return WEFT_OK;
}

static enum weft_status open_data(const struct weft_spec *spec, void *opts, struct weft_arena *arena)
{
    struct text *o = opts;
    char *tokenizer = weft_arena_print(arena, "%s/tokenizer.json", o->data);
    o->window = weft_arena_alloc(arena, ((size_t)o->length + 1) * sizeof *o->window);
    o->failure = weft_arena_alloc(arena, sizeof *o->failure);
    if (!tokenizer || !o->window || !o->failure)
        return FAIL(WEFT_NOMEM, "no memory for a task");
    o->tokenizer = access(tokenizer, R_OK) ? NULL : tokenizer;
    TRY(open_split(spec, o, "train", &o->train));
    TRY(open_split(spec, o, "val", &o->val));
    return WEFT_OK;
}

static void close_data(void *opts)
{
    struct text *o = opts;
    weft_shards_close(o->train);
    weft_shards_close(o->val);
}

static int64_t length(const void *opts) { return ((const struct text *)opts)->length; }

static int64_t held_out(const void *opts)
{
    const struct text *o = opts;
    return weft_shards_windows(o->val, o->length);
}

static enum weft_status failure(const void *opts) { return *((const struct text *)opts)->failure; }

static const char *tokenizer(const void *opts) { return ((const struct text *)opts)->tokenizer; }

static void sample(const struct weft_spec *spec, const void *opts, uint64_t index, int32_t *tokens, int32_t *targets)
{
    const struct text *o = opts;
    bool held = index >= WEFT_HELD_OUT;
    const struct weft_shards *s = held ? o->val : o->train;
    uint64_t windows = (uint64_t)weft_shards_windows(s, o->length);
    uint64_t window = held ? index - WEFT_HELD_OUT : weft_order_sample(windows, (uint64_t)spec->seed, index);
    if (*o->failure == WEFT_OK)
        *o->failure = weft_shards_read(s, (int64_t)window * o->length, o->length + 1, o->window);
    for (int64_t i = 0; i < o->length; i++) {
        tokens[i] = *o->failure == WEFT_OK ? o->window[i] : 0; /* after a failure any token will do */
        targets[i] = *o->failure == WEFT_OK ? o->window[i + 1] : -1;
    }
}

const struct weft_task weft_task_text = {
    .name = "text",
    .summary = "predict the next token of texts",
    .owner = WEFT_OWNER("task=text", options),
    .options_bytes = sizeof(struct text),
    .resolve = resolve,
    .open = open_data,
    .close = close_data,
    .length = length,
    .held_out = held_out,
    .sample = sample,
    .failure = failure,
    .tokenizer = tokenizer,
};
