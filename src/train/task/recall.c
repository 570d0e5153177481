/* SPDX-License-Identifier: MIT
 *
 * task/recall - associative recall: S distinct tokens r, then r again; the input is [r;r] without its last token.
 * Inputs S .. 2S-2 are scored: the next token is the one that followed the same token before, so the loss can be 0, and
 * a model that does not look back guesses one token in V right.
 */
#include "train/task/draw_inl.h"

#include <stddef.h>

struct recall {
    int64_t symbols;
};

static const struct weft_opt options[] = {
    {"recall_length", WEFT_OPT_INT, offsetof(struct recall, symbols), "16", 2, 1 << 16,
     .help = "S, number of distinct tokens in a sample, drawn from the vocabulary and then repeated"},
};

static enum weft_status resolve(const struct weft_spec *spec, void *opts, struct weft_arena *arena)
{
    (void)arena;
    const struct recall *o = opts;
    if (o->symbols > spec->vocab)
        return FAIL(WEFT_INVALID, "recall_length=%lld distinct tokens need vocab=%lld or more, not %lld",
                    (long long)o->symbols, (long long)o->symbols, (long long)spec->vocab);
    return WEFT_OK;
}

static int64_t length(const void *opts) { return 2 * ((const struct recall *)opts)->symbols - 1; }

static void sample(const struct weft_spec *spec, const void *opts, uint64_t index, int32_t *tokens, int32_t *targets)
{
    int64_t s = ((const struct recall *)opts)->symbols;
    struct draw d = draw_begin(spec, "task.recall", index);
    for (int64_t i = 0; i < s; i++)
        tokens[i] = draw_other(&d, 0, spec->vocab, tokens, i);
    for (int64_t i = s; i < 2 * s - 1; i++)
        tokens[i] = tokens[i - s];
    for (int64_t i = 0; i < 2 * s - 1; i++)
        targets[i] = i < s ? -1 : tokens[i - s + 1];
}

static double different(const struct weft_spec *spec, const void *opts)
{
    return draw_ways(spec->vocab, ((const struct recall *)opts)->symbols);
}

/* The first token of r follows no other, so it is never an answer. */
static struct weft_floor find_floor(const struct weft_spec *spec, const void *opts)
{
    (void)spec;
    return (struct weft_floor){.accuracy = 1, .chance = 1 / (double)(((const struct recall *)opts)->symbols - 1)};
}

const struct weft_task weft_task_recall = {
    .name = "recall",
    .summary = "repeat a sequence of S distinct tokens",
    .owner = WEFT_OWNER("task=recall", options),
    .options_bytes = sizeof(struct recall),
    .resolve = resolve,
    .length = length,
    .sample = sample,
    .different = different,
    .floor = find_floor,
};
