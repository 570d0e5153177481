/* SPDX-License-Identifier: MIT
 *
 * score.c - scores given tokens with a model: sequences of any lengths are collected into full batches and run in
 * parallel. A row's result does not depend on the other rows, and each sequence is summed by itself, in order, in f64,
 * so nothing depends on the batch.
 */
#include "train/score/score.h"

#include <math.h>
#include <stdlib.h>

static void *input(struct weft_scorer *s, const struct weft_value *v) { return weft_exec_tensor(s->exec, v)->data; }

enum weft_status weft_scorer_create(struct weft_scorer **scorer, const struct weft_nn *model, int64_t batch)
{
    struct weft_scorer *s = *scorer = calloc(1, sizeof *s);
    if (!s || !(s->waiting = calloc((size_t)batch, sizeof *s->waiting)))
        return FAIL(WEFT_NOMEM, "not enough memory for scoring");
    s->model = model;
    s->batch = batch;
    TRY(weft_net_init(&s->net, model, WEFT_EVAL,
                      (struct weft_net_size){.sequences = batch, .length = model->spec->context}));
    TRY(weft_exec_create(&s->exec, s->net.g, WEFT_FAST));
    weft_net_bind(&s->net, s->exec, model, NULL);
    TRY(weft_exec_prepare(s->exec));
    *(float *)input(s, s->net.weight) = 1;
    return WEFT_OK;
}

void weft_scorer_free(struct weft_scorer *s)
{
    if (!s)
        return;
    weft_exec_free(s->exec);
    weft_net_release(&s->net);
    free(s->waiting);
    free(s);
}

enum weft_status weft_scorer_finish(struct weft_scorer *s)
{
    if (!s->sequences)
        return WEFT_OK;
    weft_exec_count(s->exec, s->net.rows, s->rows);
    weft_exec_count(s->exec, s->net.sequences, s->sequences);
    enum weft_status status = weft_exec_run(s->exec);
    const float *nll = input(s, s->net.nll);
    for (int64_t q = 0; status == WEFT_OK && q < s->sequences; q++) {
        const struct weft_waiting *w = &s->waiting[q];
        double sum = 0;
        for (int64_t r = w->first; r < w->first + w->count; r++)
            sum += nll[r];
        *w->nll += sum;
        if (s->each)
            s->each(s->each_context, (const int32_t *)input(s, s->net.targets) + w->first, nll + w->first, w->count);
        s->not_finite += !isfinite(sum);
    }
    s->sequences = s->rows = 0;
    if (status == WEFT_OK && s->report)
        s->report(s->context, s->scored);
    return status;
}

/* Adds a window with input tokens[0..count); targets starting at tokens[from] are scored. */
static enum weft_status add_window(struct weft_scorer *s, const int32_t *tokens, int64_t count, int64_t from,
                                   double *nll)
{
    const struct weft_net *net = &s->net;
    int64_t q = s->sequences++, first = s->rows;
    int32_t *in = input(s, net->tokens), *targets = input(s, net->targets), *tiles = input(s, net->at.tiles);
    int32_t *seq = input(s, net->at.seq), *pos = input(s, net->at.pos), *position = input(s, net->position);
    s->rows += count;
    s->waiting[q] = (struct weft_waiting){first, count, nll};
    for (int64_t t = 0; t < count; t++) {
        in[first + t] = tokens[t];
        targets[first + t] = t + 1 >= from ? tokens[t + 1] : -1;
        seq[first + t] = (int32_t)q;
        pos[first + t] = position[first + t] = (int32_t)t;
    }
    for (int64_t j = 0; j < net->tiles; j++)
        tiles[q * net->tiles + j] = (int32_t)(first + j * WEFT_KEY_TILE);
    return s->sequences == s->batch ? weft_scorer_finish(s) : WEFT_OK;
}

enum weft_status weft_scorer_add(struct weft_scorer *s, const int32_t *tokens, int64_t count, int64_t from, double *nll)
{
    const int64_t context = s->model->spec->context, vocab = s->model->spec->vocab;
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            return FAIL(WEFT_INVALID, "the model has no token %d: its vocabulary size is %lld", tokens[i],
                        (long long)vocab);
    int64_t start = weft_max(0, weft_min(from - 1, count - 1 - context));
    s->scored += weft_max(0, count - from);
    s->cut += count - 1 > context;
    for (; start < count - 1; start += context)
        TRY(add_window(s, tokens + start, weft_min(context, count - 1 - start), from - start, nll));
    return WEFT_OK;
}
