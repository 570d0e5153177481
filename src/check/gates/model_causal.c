/* SPDX-License-Identifier: MIT
 *
 * model_causal.c - checks that no row of the model itself depends on later tokens or on other sequences, in the graphs
 * that train and score it.
 *
 * Derivative: one row is scored, without auxiliary losses; the gradient of its cross-entropy with respect to the
 * embedding must be exactly 0 at every later position and in every other sequence. This uses the training graph with
 * its own dropout and one additional output.
 *
 * Bits: in every sequence a position and all later ones get different tokens; the losses of all earlier rows must keep
 * the same bits. A leak at a single position is found if the position after it is among those tried: the last, those
 * around the boundaries of tiles and pages, then the others, as time allows. In the training graph the first sequence
 * keeps its tokens, so that all its rows must keep their bits.
 *
 * Agreement: without dropout, the loss of every row must have the same bits in TRAIN and EVAL, and the logits of
 * FORWARD must give the same loss and prediction up to rounding. So results for one graph hold for all. FORWARD is
 * compared at every row with a model that was fed token by token and has not seen later tokens (gate cached).
 */
#include "check/probe/gate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOKENS_KEY = 71,
    OTHERS_KEY = 72,
    LEAST_ROUNDS = 2,
    BITS = 24,
    ALONE = 1,
};

/* ---- the positions to try */

/* All positions except the first, each once, in this order: the last, those around each tile boundary from late to
 * early, and the others, spread over the context. */
struct places {
    int64_t *at, count;
    bool *listed; /* indexed by position */
};

static void free_places(struct places *p)
{
    free(p->at);
    free(p->listed);
}

static void list_place(struct places *p, int64_t length, int64_t position)
{
    if (position < 1 || position >= length || p->listed[position])
        return;
    p->listed[position] = true;
    p->at[p->count++] = position;
}

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

static enum weft_status list_places(struct places *p, int64_t length)
{
    *p = (struct places){.at = calloc((size_t)length, sizeof *p->at), .listed = calloc((size_t)length, 1)};
    if (!p->at || !p->listed)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    int64_t stride = weft_max(1, (int64_t)(0.618 * (double)length));
    while (common_divisor(length, stride) > 1) /* otherwise the stride would not reach all positions */
        stride++;
    list_place(p, length, length - 1);
    for (int64_t boundary = length / WEFT_KEY_TILE * WEFT_KEY_TILE; boundary > 0; boundary -= WEFT_KEY_TILE)
        for (int64_t around = -1; around <= 1; around++)
            list_place(p, length, boundary + around);
    for (int64_t i = 0; i < length; i++)
        list_place(p, length, i * stride % length);
    return WEFT_OK;
}

/* Returns the i-th position, starting again after the last; 0 if the context is one token. */
static int64_t place_at(const struct places *p, int64_t i) { return p->count ? p->at[i % p->count] : 0; }

/* Returns the number of runs to make regardless of the time limit: these take only a moment, so that small models are
 * checked at all positions even on a busy machine. `passes`: 1 forward, 3 with gradients. */
static int64_t least_rounds(const struct weft_itself *it, int passes)
{
    double flops = 2.0 * passes * (double)it->model->params.elements * (double)(it->sequences * it->length);
    return LEAST_ROUNDS + (int64_t)((WEFT_SANITIZED ? 1e8 : 2e10) / flops);
}

/* ---- bits of the losses */

struct losses {
    int64_t rows;
    float *nll, *lse;
    int32_t *prediction;
};

static void free_losses(struct losses *l)
{
    free(l->nll);
    *l = (struct losses){0};
}

static enum weft_status copy_losses(const struct weft_probe *p, struct losses *to)
{
    const struct weft_tensor *nll = weft_exec_tensor(p->exec, p->net.nll), *lse = weft_exec_tensor(p->exec, p->net.lse);
    to->rows = weft_tensor_count(nll);
    if (!to->nll)
        to->nll = malloc((size_t)to->rows * (2 * sizeof(float) + sizeof(int32_t)));
    if (!to->nll)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    to->lse = to->nll + to->rows;
    memcpy(to->nll, nll->data, (size_t)to->rows * sizeof(float));
    memcpy(to->lse, lse->data, (size_t)to->rows * sizeof(float));
    to->prediction = (int32_t *)(to->lse + to->rows);
    memcpy(to->prediction, weft_exec_tensor(p->exec, p->net.prediction)->data, (size_t)to->rows * sizeof(int32_t));
    return WEFT_OK;
}

static bool same_bits(float a, float b) { return memcmp(&a, &b, sizeof a) == 0; }

/* Returns whether the bits of a row's loss changed, or the loss is not finite. */
static bool differs(const struct losses *before, const struct weft_probe *p, int64_t row)
{
    const float *nll = weft_exec_tensor(p->exec, p->net.nll)->data, *lse = weft_exec_tensor(p->exec, p->net.lse)->data;
    return !same_bits(before->nll[row], nll[row]) || !same_bits(before->lse[row], lse[row]) || !isfinite(nll[row]);
}

/* ---- replacing tokens */

/* Replaces `count` tokens. The first new token differs by a power of two, which reveals tables that wrap around because
 * they are too short. Every new token differs from the old one. */
static void replace(struct weft_probe *p, int64_t row, int64_t count, int64_t round, uint64_t key)
{
    uint64_t vocab = (uint64_t)p->model->spec->vocab, step = 1;
    int32_t *tokens = weft_exec_tensor(p->exec, p->net.tokens)->data;
    for (int64_t k = (round + row) % BITS; k > 0 && 2 * step < vocab; k--)
        step *= 2;
    tokens[row] = (int32_t)(((uint64_t)tokens[row] + step) % vocab);
    for (int64_t i = row + 1; i < row + count; i++)
        tokens[i] = (int32_t)(((uint64_t)tokens[i] + 1 + weft_below(key, (uint64_t)i, vocab - 1)) % vocab);
}

struct found {
    int64_t tried, leaks, row, seen; /* positions tried, changed rows; first changed row, position it depends on */
    int64_t others;                  /* number of changed rows in unchanged sequences */
    int64_t still, still_at;         /* number of positions whose own row did not change; the last of them */
};

static void note_leak(struct found *f, int64_t row, int64_t seen)
{
    if (f->leaks++ == 0 || row < f->row) {
        f->row = row;
        f->seen = seen;
    }
}

/* Runs the graph with different tokens, starting at a position, in every sequence but the first `kept`. */
static void run_replaced(const struct weft_itself *it, struct weft_probe *p, const struct places *places,
                         const struct losses *before, int64_t kept, int64_t round, struct found *f)
{
    int64_t T = it->length, B = it->sequences;
    weft_probe_fill(p, TOKENS_KEY);
    for (int64_t s = kept; s < B; s++) {
        int64_t place = place_at(places, round * (B - kept) + s - kept);
        replace(p, s * T + place, T - place, round, weft_key(OTHERS_KEY, (uint64_t)(round * B + s)));
    }
    weft_defer(weft_exec_run(p->exec));
    for (int64_t row = 0; row < kept * T; row++)
        f->others += differs(before, p, row);
    for (int64_t s = kept; s < B; s++) {
        int64_t place = place_at(places, round * (B - kept) + s - kept);
        for (int64_t t = 0; t < place; t++)
            if (differs(before, p, s * T + t))
                note_leak(f, t, place);
        if (!differs(before, p, s * T + place)) {
            f->still++;
            f->still_at = place;
        }
        f->tried++;
    }
}

/* ---- bits */

static void report_bits(const struct weft_trial *t, const struct places *places, const struct found *f,
                        const char *graph, double dropped)
{
    char name[160];
    snprintf(name, sizeof name, "%s: rows that change with later tokens (%lld of %lld positions)", graph,
             (long long)weft_min(f->tried, places->count), (long long)places->count);
    weft_trial_report(t, f->leaks == 0, (double)f->leaks, 0, name, "the loss of position %lld depends on position %lld",
                      (long long)f->row, (long long)f->seen);
    snprintf(name, sizeof name, "%s: rows that do not change with their own token (of %lld)", graph,
             (long long)f->tried);
    weft_trial_report(t, (double)f->still <= dropped, (double)f->still, dropped, name,
                      f->still == f->tried ? "tokens are not read at all"
                                           : "at position %lld two different tokens give the same loss",
                      (long long)f->still_at);
}

static enum weft_status check_eval_bits(const struct weft_trial *t, const struct places *places, struct losses *before)
{
    struct weft_itself *it = t->itself;
    struct found f = {0};
    int64_t rounds = weft_div_up(places->count, it->sequences);
    weft_probe_fill(&it->eval, TOKENS_KEY);
    weft_defer(weft_exec_run(it->eval.exec));
    TRY(copy_losses(&it->eval, before));
    for (int64_t round = 0; round < rounds && (round < least_rounds(it, 1) || weft_itself_has_time(it, 0.1)); round++)
        run_replaced(it, &it->eval, places, before, 0, round, &f);
    report_bits(t, places, &f, "EVAL", 0);
    return WEFT_OK;
}

static enum weft_status check_train_bits(const struct weft_trial *t, const struct places *places)
{
    struct weft_itself *it = t->itself;
    struct losses before = {0};
    struct found f = {0};
    if (it->model->spec->dropout > 0) { /* otherwise the graph was already run for the comparison with EVAL */
        weft_probe_fill(&it->train, TOKENS_KEY);
        weft_defer(weft_exec_run(it->train.exec));
    }
    enum weft_status status = copy_losses(&it->train, &before);
    if (status == WEFT_OK) {
        run_replaced(it, &it->train, places, &before, 1, 0, &f);
        report_bits(t, places, &f, "TRAIN", weft_dropped_whole(it->model->spec, f.tried));
        weft_trial_report(t, f.others == 0, (double)f.others, 0, "TRAIN: rows that change with another sequence",
                          "a sequence depends on the other sequences of its batch");
    }
    free_losses(&before);
    return status;
}

/* ---- derivative */

/* Scores only row rows[s] of each sequence s, or no row of it if rows[s] is negative. */
static void score_only(const struct weft_itself *it, const int64_t *rows)
{
    const struct weft_probe *p = &it->train;
    int32_t *targets = weft_exec_tensor(p->exec, p->net.targets)->data;
    for (int64_t i = 0; i < it->sequences * it->length; i++)
        targets[i] = i % it->length == rows[i / it->length] ? targets[i] : -1;
    weft_tensor_set(weft_exec_tensor(p->exec, p->net.weight), 0, 1);
    weft_tensor_set(weft_exec_tensor(p->exec, p->net.share), 0, 0);
}

/* Returns the number of elements of the embedding's gradient that are not exactly 0 in these rows, and sets *first to
 * the first such row. */
static int64_t count_nonzero(const struct weft_tensor *x, int64_t row, int64_t rows, int64_t *first)
{
    int64_t width = weft_tensor_width(x), count = 0;
    for (int64_t i = row * width; i < (row + rows) * width; i++)
        if (weft_tensor_get(x, i) != 0 && count++ == 0)
            *first = i / width;
    return count;
}

struct derivative {
    int64_t tried, later, others, row, seen, silent; /* numbers of rows, in total and per defect; first defect */
};

static void run_derivative(struct weft_itself *it, const int64_t *rows, struct derivative *d)
{
    int64_t T = it->length, first = 0;
    weft_probe_fill(&it->train, TOKENS_KEY);
    score_only(it, rows);
    weft_defer(weft_exec_run(it->train.exec));
    const struct weft_tensor *g = weft_exec_tensor(it->train.exec, it->train.embedding);
    for (int64_t s = 0; s < it->sequences; s++) {
        int64_t t = rows[s];
        if (t < 0) {
            d->others += count_nonzero(g, s * T, T, &first) > 0;
            continue;
        }
        d->tried++;
        d->silent += count_nonzero(g, s * T + t, 1, &first) == 0;
        if (count_nonzero(g, s * T + t + 1, T - t - 1, &first) && (d->later++ == 0 || t < d->row)) {
            d->row = t;
            d->seen = first - s * T;
        }
    }
}

/* Scores a row of one sequence first, then rows of all sequences together. */
static enum weft_status check_derivative(const struct weft_trial *t, const struct places *places)
{
    struct weft_itself *it = t->itself;
    struct derivative d = {0};
    char name[160];
    int64_t T = it->length, B = it->sequences, *rows = malloc((size_t)B * sizeof *rows);
    if (!rows)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    for (int64_t round = 0; round < ALONE + weft_div_up(places->count, B) &&
                            (round < least_rounds(it, 3) || weft_itself_has_time(it, 0.2));
         round++) {
        for (int64_t s = 0; s < B; s++) {
            bool alone = round < ALONE;
            int64_t i = alone ? round : (round - ALONE) * B + s;
            rows[s] = alone && s != B - 1 ? -1 : weft_max(0, place_at(places, i) - 1);
        }
        run_derivative(it, rows, &d);
    }
    free(rows);
    weft_probe_rows(&it->train, B, T, NULL); /* restores weight and share */
    snprintf(name, sizeof name, "TRAIN: rows with a gradient at a later position (%lld of %lld rows)",
             (long long)d.tried, (long long)(T * B));
    weft_trial_report(t, d.later == 0, (double)d.later, 0, name,
                      "the loss of position %lld has a gradient at position %lld", (long long)d.row, (long long)d.seen);
    weft_trial_report(t, d.others == 0, (double)d.others, 0, "TRAIN: rows with a gradient in another sequence",
                      "the loss of a sequence has a gradient in other sequences of its batch");
    double dropped = weft_dropped_whole(it->model->spec, d.tried);
    weft_trial_report(t, (double)d.silent <= dropped, (double)d.silent, dropped,
                      "TRAIN: rows without a gradient at their own position",
                      "a row's own token has no effect on its loss");
    return WEFT_OK;
}

/* ---- agreement */

static enum weft_status check_train_as_eval(const struct weft_trial *t, const struct losses *eval)
{
    struct weft_itself *it = t->itself;
    struct weft_spec plain = *it->model->spec;
    struct weft_nn model = *it->model;
    struct weft_probe own = {0}, *p = &it->train;
    enum weft_status status = WEFT_OK;
    int64_t differing = 0, first = 0;
    model.spec = &plain;
    if (plain.dropout > 0) {
        struct weft_net_size size = {.sequences = it->sequences, .length = it->length};
        plain.dropout = 0;
        p = &own;
        status = weft_probe_open(p, &model, WEFT_TRAIN, size, WEFT_FAST);
        if (status == WEFT_OK)
            weft_probe_rows(p, it->sequences, it->length, NULL);
    }
    if (status == WEFT_OK) {
        weft_probe_fill(p, TOKENS_KEY);
        weft_probe_run(p);
        for (int64_t row = eval->rows - 1; row >= 0; row--)
            if (differs(eval, p, row)) {
                differing++;
                first = row;
            }
        weft_trial_report(t, differing == 0, (double)differing, 0, "rows whose loss differs between TRAIN and EVAL",
                          "position %lld of sequence %lld", (long long)(first % it->length),
                          (long long)(first / it->length));
    }
    weft_probe_close(&own);
    return status;
}

/* The loss of a row computed from FORWARD's logits, and how far the prediction's logit is below the highest. */
struct by_logits {
    double loss, below;
};

static struct by_logits look_at(const float *logits, int64_t vocab, int32_t target, int32_t prediction)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < vocab; i++)
        top = logits[i] > top ? logits[i] : top;
    for (int64_t i = 0; i < vocab; i++)
        sum += exp(logits[i] - top);
    bool is_token = prediction >= 0 && prediction < vocab;
    return (struct by_logits){top + log(sum) - logits[target], is_token ? top - logits[prediction] : INFINITY};
}

static void compare_rows(const struct weft_trial *t, const float *logits, int64_t rows, const struct losses *eval)
{
    const double limit = 1e-4;
    const struct weft_probe *p = &t->itself->eval;
    const int32_t *targets = weft_exec_tensor(p->exec, p->net.targets)->data;
    int64_t V = t->itself->model->spec->vocab, at = 0, below_at = 0;
    double worst = 0, below = 0;
    char name[160];
    for (int64_t row = 0; row < rows; row++) {
        struct by_logits found = look_at(logits + row * V, V, targets[row], eval->prediction[row]);
        double error = fabs(found.loss - eval->nll[row]);
        if (!(error <= worst)) {
            worst = error;
            at = row;
        }
        if (!(found.below <= below)) {
            below = found.below;
            below_at = row;
        }
    }
    snprintf(name, sizeof name, "loss by FORWARD's logits against EVAL's (%lld rows)", (long long)rows);
    weft_trial_report(t, worst <= limit, worst, limit, name, "position %lld", (long long)at);
    snprintf(name, sizeof name, "EVAL's predictions below the highest of FORWARD's logits (%lld rows)",
             (long long)rows);
    weft_trial_report(t, below <= limit, below, limit, name, "position %lld: token %d", (long long)below_at,
                      (int)eval->prediction[below_at]);
}

/* Compares the first sequence, or its beginning if there is no memory for the logits of all of it. */
static enum weft_status check_forward_as_eval(const struct weft_trial *t, const struct losses *eval)
{
    struct weft_itself *it = t->itself;
    struct weft_probe p;
    int64_t V = it->model->spec->vocab, length = weft_max(1, weft_min(it->length, WEFT_MOST_LOGITS / V));
    enum weft_status status =
        weft_probe_open(&p, it->model, WEFT_FORWARD,
                        (struct weft_net_size){.sequences = 1, .length = it->length, .rows = length}, WEFT_FAST);
    if (status == WEFT_OK) {
        weft_probe_rows(&p, 1, length, NULL);
        weft_probe_fill(&p, TOKENS_KEY);
        weft_probe_run(&p);
        weft_probe_fill(&it->eval, TOKENS_KEY);
        compare_rows(t, weft_exec_tensor(p.exec, p.net.logits)->data, length, eval);
    }
    weft_probe_close(&p);
    return status;
}

static enum weft_status check(const struct weft_trial *t, const struct places *places, struct losses *eval)
{
    TRY(check_eval_bits(t, places, eval));
    TRY(check_forward_as_eval(t, eval));
    TRY(check_train_as_eval(t, eval));
    TRY(check_train_bits(t, places));
    TRY(check_derivative(t, places));
    return WEFT_OK;
}

enum weft_status weft_gate_causal_itself(const struct weft_trial *t)
{
    struct losses eval = {0};
    struct places places;
    TRY(weft_itself_train(t->itself));
    TRY(weft_itself_eval(t->itself));
    enum weft_status status = list_places(&places, t->itself->length);
    if (status == WEFT_OK)
        status = check(t, &places, &eval);
    free_losses(&eval);
    free_places(&places);
    return status;
}
