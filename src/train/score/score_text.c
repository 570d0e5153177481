/* SPDX-License-Identifier: MIT
 *
 * score_text.c - scores streams of tokens, from token files or a text, in windows of the context.
 */
#include "text/text.h"
#include "train/score/items.h"
#include "train/score/score.h"

#include <stdlib.h>
#include <string.h>

struct stream {
    struct weft_scorer *scorer;
    const struct weft_tokenizer *tokenizer;
    struct weft_text_score *score;
    int32_t *window; /* last scored token and the tokens after it; capacity: context + 1 */
    int64_t held, room;
    struct weft_ids encoded; /* token ids of a piece of text */
    int32_t end;             /* the token that ends a document; -1: windows are the items */
    double nll;              /* cost of the current item; `tokens`: its number of tokens */
    int64_t tokens;
};

/* ---- items */

static void close_item(struct stream *t)
{
    if (t->tokens)
        weft_items_append(t->scorer->items, t->nll, 0, t->tokens);
    t->nll = 0;
    t->tokens = 0;
}

static void add_items(struct stream *t, const int32_t *targets, const float *nll, int64_t count)
{
    weft_sha256_add(&t->scorer->items->sha, targets, (size_t)count * sizeof *targets);
    for (int64_t i = 0; i < count; i++) {
        t->nll += nll[i];
        t->tokens++;
        if (targets[i] == t->end)
            close_item(t);
    }
    if (t->end < 0)
        close_item(t);
}

static enum weft_status begin_items(struct stream *t, int32_t end)
{
    t->end = end;
    if (!t->scorer->items)
        return WEFT_OK;
    TRY(weft_items_begin(t->scorer->items, end < 0 ? WEFT_ITEMS_WINDOWS : WEFT_ITEMS_DOCUMENTS, false));
    return WEFT_OK;
}

static enum weft_status finish_items(struct stream *t)
{
    if (!t->scorer->items)
        return WEFT_OK;
    close_item(t);
    TRY(weft_items_finish(t->scorer->items));
    return WEFT_OK;
}

/* ---- windows */

static void take_window(void *context, const int32_t *targets, const float *nll, int64_t count)
{
    struct stream *t = context;
    struct weft_position_range *range = t->score->range;
    for (int64_t i = 0, next = 1; i < count; i++) {
        if (i == next) {
            range++;
            next *= 2;
        }
        range->tokens++;
        range->nll += nll[i];
    }
    if (t->scorer->items)
        add_items(t, targets, nll, count);
}

static enum weft_status score_window(struct stream *t)
{
    if (t->held < 2)
        return WEFT_OK;
    TRY(weft_scorer_add(t->scorer, t->window, t->held, 1, &t->score->nll));
    t->score->tokens += t->held - 1;
    t->window[0] = t->window[t->held - 1];
    t->held = 1;
    return WEFT_OK;
}

static enum weft_status put(struct stream *t, const int32_t *tokens, int64_t count)
{
    while (count) {
        int64_t n = weft_min(count, t->room - t->held);
        memcpy(t->window + t->held, tokens, (size_t)n * sizeof *tokens);
        t->held += n;
        tokens += n;
        count -= n;
        if (t->held == t->room)
            TRY(score_window(t));
    }
    return WEFT_OK;
}

static enum weft_status finish(struct stream *t, const char *what)
{
    TRY(score_window(t));
    TRY(weft_scorer_finish(t->scorer));
    TRY(finish_items(t));
    if (!t->score->tokens)
        return FAIL(WEFT_INVALID, "%s has fewer than two tokens: there is nothing to score", what);
    return WEFT_OK;
}

static enum weft_status begin(struct stream *t, struct weft_scorer *s, int32_t end, struct weft_text_score *score)
{
    *t = (struct stream){.scorer = s, .score = score, .room = s->model->spec->context + 1};
    *score = (struct weft_text_score){0};
    t->window = malloc((size_t)t->room * sizeof *t->window);
    if (!t->window)
        return FAIL(WEFT_NOMEM, "not enough memory for scoring");
    TRY(begin_items(t, end));
    s->each = take_window;
    s->each_context = t;
    return WEFT_OK;
}

/* ---- token files */

static enum weft_status put_shards(struct stream *t, const struct weft_shards *shards)
{
    int32_t block[4096];
    const int64_t size = sizeof block / sizeof *block, all = weft_shards_tokens(shards);
    for (int64_t first = 0, n; first < all; first += n) {
        n = weft_min(size, all - first);
        TRY(weft_shards_read(shards, first, n, block));
        TRY(put(t, block, n));
    }
    TRY(finish(t, "the stream"));
    return WEFT_OK;
}

enum weft_status weft_score_shards(struct weft_scorer *s, const struct weft_shards *shards,
                                   struct weft_text_score *score)
{
    struct stream t;
    int64_t vocab = s->model->spec->vocab, top = weft_shards_max_token(shards);
    if (top >= vocab)
        return FAIL(
            WEFT_INVALID,
            "the data has token ids up to %lld, but the model's vocabulary size is %lld: encode the data with the "
            "model's tokenizer",
            (long long)top, (long long)vocab);
    bool documents = weft_shards_documents(shards) >= WEFT_LEAST_DOCUMENTS;
    enum weft_status status = begin(&t, s, documents ? weft_shards_end(shards) : -1, score);
    if (status == WEFT_OK)
        status = put_shards(&t, shards);
    score->bytes = weft_shards_bytes(shards);
    s->each = NULL;
    free(t.window);
    return status;
}

/* ---- text */

/* Adds a piece of text. The first piece begins with the tokenizer's begin token, if it has one. */
static enum weft_status put_text(void *context, const char *text, size_t bytes)
{
    struct stream *t = context;
    int32_t begin = weft_tokenizer_begin(t->tokenizer);
    bool begins = t->score->bytes == 0;
    if (begins && begin >= 0)
        TRY(put(t, &begin, 1));
    t->encoded.count = 0;
    TRY(weft_encode(t->tokenizer, text, bytes, false, begins, &t->encoded));
    TRY(put(t, t->encoded.id, (int64_t)t->encoded.count));
    t->score->bytes += (int64_t)bytes;
    return WEFT_OK;
}

enum weft_status weft_score_text(struct weft_scorer *s, const struct weft_tokenizer *tokenizer, const char *path,
                                 struct weft_text_score *score)
{
    struct stream t;
    enum weft_status status = begin(&t, s, -1, score);
    t.tokenizer = tokenizer;
    if (status == WEFT_OK)
        status = weft_read_text(path, put_text, &t);
    if (status == WEFT_OK)
        status = finish(&t, path);
    s->each = NULL;
    free(t.encoded.id);
    free(t.window);
    return status;
}
