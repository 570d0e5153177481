/* SPDX-License-Identifier: MIT
 *
 * task/recall - associative recall: S tokens r, all different, then r again; the input is [r;r] without its last token.
 * Scored are inputs S .. 2S-2, where the next token is the one that followed the same token before: the loss can be 0
 * and a model that does not look back guesses one in V.
 */
#include "train/train.h"

#include <stddef.h>

struct recall {
    int64_t symbols;
};

static const struct weft_opt options[] = {
    {"recall_length", WEFT_OPT_INT, offsetof(struct recall, symbols), "16", 2, 1 << 16,
     .help = "S, different tokens in a sample, drawn from the vocabulary and then repeated"},
};

static enum weft_status resolve(const struct weft_spec *spec, const void *opts)
{
    const struct recall *o = opts;
    if (o->symbols > spec->vocab)
        return FAIL(WEFT_INVALID, "recall_length=%lld different tokens need vocab=%lld or more, not %lld",
                    (long long)o->symbols, (long long)o->symbols, (long long)spec->vocab);
    return WEFT_OK;
}

static int64_t length(const void *opts) { return 2 * ((const struct recall *)opts)->symbols - 1; }

static bool contains(const int32_t *tokens, int64_t n, int32_t token)
{
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] == token)
            return true;
    return false;
}

static void sample(const struct weft_spec *spec, const void *opts, uint64_t index, int32_t *tokens, int32_t *targets)
{
    int64_t s = ((const struct recall *)opts)->symbols;
    uint64_t key = weft_key(weft_key_name((uint64_t)spec->seed, "task.recall"), index), drawn = 0;
    for (int64_t i = 0; i < s; i++)
        do
            tokens[i] = (int32_t)weft_below(key, drawn++, (uint64_t)spec->vocab);
        while (contains(tokens, i, tokens[i]));
    for (int64_t i = s; i < 2 * s - 1; i++)
        tokens[i] = tokens[i - s];
    for (int64_t i = 0; i < 2 * s - 1; i++)
        targets[i] = i < s ? -1 : tokens[i - s + 1];
}

const struct weft_task weft_task_recall = {
    .name = "recall",
    .summary = "repeat a sequence of S different tokens",
    .owner = WEFT_OWNER("task=recall", options),
    .options_bytes = sizeof(struct recall),
    .resolve = resolve,
    .length = length,
    .sample = sample,
};
