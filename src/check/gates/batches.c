/* SPDX-License-Identifier: MIT
 *
 * batches.c - checks that the gradient of a batch is the sum of the gradients of its parts, on the training graph with
 * the batch size and length of training.
 *
 * Other checks compare kernels with references on only a few rows; here the kernels run on as many rows as in training,
 * and again on a few sequences at a time. Only the order of summation may differ, except that the gradient of a matrix
 * that is computed from other weights is rounded to bf16 before it is passed on to them. Auxiliary losses, which may
 * contrast sequences with each other, are left out.
 */
#include "check/probe/gate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_KEY = 96, FEW_ROWS = 256 };
#define LIMIT_F32 1e-4
#define LIMIT_BF16 5e-3
#define SHARE 0.1  /* fraction of the time limit of all checks */
#define SMALL 1e-3 /* fraction of the largest gradient; rounding errors of large gradients reach smaller ones */

struct batch {
    struct weft_probe probe;
    int64_t sequences, length, each; /* each: number of sequences per part */
    int32_t *tokens, *targets;       /* tokens and targets of the whole batch */
    float *whole, *losses;           /* gradient of the whole batch; loss of each row */
};

static int32_t *ints(const struct weft_probe *p, const struct weft_value *v)
{
    return weft_exec_tensor(p->exec, v)->data;
}

static void *allocate(int64_t n, size_t each) { return calloc((size_t)n, each); }

static enum weft_status open_batch(struct batch *b, const struct weft_itself *it)
{
    struct weft_net_size size = {.sequences = b->sequences, .length = b->length};
    int64_t rows = b->sequences * b->length;
    TRY(weft_probe_open(&b->probe, it->model, WEFT_TRAIN, size, WEFT_FAST));
    b->tokens = allocate(rows, sizeof *b->tokens);
    b->targets = allocate(rows, sizeof *b->targets);
    b->losses = allocate(rows, sizeof *b->losses);
    b->whole = allocate(it->model->params.total, sizeof *b->whole);
    if (!b->tokens || !b->targets || !b->losses || !b->whole)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    weft_probe_fill(&b->probe, TOKENS_KEY);
    memcpy(b->tokens, ints(&b->probe, b->probe.net.tokens), (size_t)rows * sizeof *b->tokens);
    memcpy(b->targets, ints(&b->probe, b->probe.net.targets), (size_t)rows * sizeof *b->targets);
    return WEFT_OK;
}

static void close_batch(struct batch *b)
{
    weft_probe_close(&b->probe);
    free(b->tokens);
    free(b->targets);
    free(b->losses);
    free(b->whole);
}

/* Runs some sequences of the batch with the same dropout masks and loss weights as in the whole batch, and adds to the
 * gradients. */
static void run(struct batch *b, int64_t first, int64_t count)
{
    const struct weft_probe *p = &b->probe;
    int64_t row = first * b->length, rows = count * b->length;
    weft_probe_rows(&b->probe, count, b->length, NULL);
    memcpy(ints(p, p->net.tokens), b->tokens + row, (size_t)rows * sizeof *b->tokens);
    memcpy(ints(p, p->net.targets), b->targets + row, (size_t)rows * sizeof *b->targets);
    for (int64_t s = 0; p->net.at.sample && s < count; s++)
        ints(p, p->net.at.sample)[s] = (int32_t)(first + s);
    weft_tensor_set(weft_exec_tensor(p->exec, p->net.weight), 0, 1 / (double)(b->sequences * b->length));
    weft_tensor_set(weft_exec_tensor(p->exec, p->net.share), 0, 0);
    weft_defer(weft_exec_run(p->exec));
}

/* Returns the largest relative difference between the gradients of a weight, and sets *at to that weight. */
static double worst_weight(const struct batch *b, int *at)
{
    const struct weft_params *params = &b->probe.model->params;
    const float *parts = b->probe.grads;
    double worst = 0, largest = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < params->count; i++) {
            double squares = 0, errors = 0, n = (double)params->list[i].count;
            for (int64_t e = params->list[i].offset; e < params->list[i].offset + params->list[i].count; e++) {
                double d = (double)parts[e] - (double)b->whole[e];
                squares += (double)b->whole[e] * (double)b->whole[e];
                errors += d * d;
            }
            largest = fmax(largest, sqrt(squares / n));
            double error = sqrt(errors / n) / fmax(sqrt(squares / n), SMALL * largest);
            if (pass == 1 && !(error <= worst)) {
                worst = error;
                *at = i;
            }
        }
    return worst;
}

static void compare(const struct weft_trial *t, struct batch *b)
{
    struct weft_probe *p = &b->probe;
    size_t bytes = (size_t)p->model->params.total * sizeof *b->whole;
    int64_t differing = 0, rows = b->sequences * b->length;
    int at = 0;
    char name[160];
    weft_defer(weft_exec_prepare(p->exec));
    memset(p->grads, 0, bytes);
    run(b, 0, b->sequences);
    memcpy(b->whole, p->grads, bytes);
    memcpy(b->losses, weft_exec_tensor(p->exec, p->net.nll)->data, (size_t)rows * sizeof *b->losses);
    memset(p->grads, 0, bytes);
    for (int64_t s = 0; s < b->sequences; s += b->each) {
        int64_t count = weft_min(b->each, b->sequences - s);
        run(b, s, count);
        const float *losses = weft_exec_tensor(p->exec, p->net.nll)->data;
        for (int64_t r = 0; r < count * b->length; r++)
            differing += memcmp(losses + r, b->losses + s * b->length + r, sizeof *losses) != 0;
    }
    double error = worst_weight(b, &at), limit = p->model->spec->compute == WEFT_F32 ? LIMIT_F32 : LIMIT_BF16;
    snprintf(name, sizeof name, "gradients of a batch against the sum of its parts (%lld rows, %lld at a time)",
             (long long)rows, (long long)(b->each * b->length));
    weft_trial_report(t, error <= limit, error, limit, name, "%s", p->model->params.list[at].name);
    snprintf(name, sizeof name, "rows whose loss differs in a smaller batch (of %lld)", (long long)rows);
    weft_trial_report(t, differing == 0, (double)differing, 0, name, "a row depends on the size of its batch");
}

/* Uses as many sequences of the batch as there is time for, but at least two. */
enum weft_status weft_check_batches(const struct weft_trial *t)
{
    const struct weft_itself *it = t->itself;
    double seconds_per_row = it->run_seconds / (double)(it->sequences * it->length);
    struct batch b = {.length = it->recipe->task->length(it->recipe->task_options)};
    double affordable = SHARE * it->seconds / (2 * seconds_per_row * (double)b.length);
    b.sequences = weft_max(2, weft_min(it->model->spec->batch, (int64_t)fmin(affordable, 1e9)));
    b.each = weft_max(1, weft_min(FEW_ROWS / b.length, b.sequences / 2));
    enum weft_status status = open_batch(&b, it);
    if (status == WEFT_OK)
        compare(t, &b);
    close_batch(&b);
    return status;
}
