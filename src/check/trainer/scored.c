/* SPDX-License-Identifier: MIT
 *
 * scored.c - compares the score of held-out samples with a plain one: mean cross-entropy and accuracy over scored
 * tokens, computed from the logits of FORWARD.
 */
#include "check/trainer/scores.h"
#include "check/trainer/stepped.h"
#include "train/score/evaluate.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

enum { SIDE_BY_SIDE = 16, LONGEST = 16 };

static void score_row(const struct weft_tensor *logits, int64_t row, int64_t vocab, int32_t target,
                      struct weft_plain_score *s)
{
    double top = -INFINITY, second = -INFINITY, sum = 0;
    int64_t best = 0;
    for (int64_t i = 0; i < vocab; i++) {
        double x = weft_tensor_get(logits, row * vocab + i);
        if (x > top) {
            second = top;
            top = x;
            best = i;
        } else
            second = fmax(second, x);
    }
    for (int64_t i = 0; i < vocab; i++)
        sum += exp(weft_tensor_get(logits, row * vocab + i) - top);
    s->loss += top + log(sum) - weft_tensor_get(logits, row * vocab + target);
    s->right += best == target;
    s->ties += top - second < 1e-3;
    s->tokens++;
}

static void score(struct weft_probe *p, const struct weft_rehearsal *s, uint64_t first, struct weft_plain_score *sum)
{
    int32_t targets[SIDE_BY_SIDE * LONGEST], *tokens = weft_exec_tensor(p->exec, p->net.tokens)->data;
    const struct weft_tensor *logits = weft_exec_tensor(p->exec, p->net.logits);
    *sum = (struct weft_plain_score){0};
    for (int64_t i = 0, count; i < s->recipe.eval_samples; i += count) {
        count = weft_min(SIDE_BY_SIDE, s->recipe.eval_samples - i);
        for (int64_t k = 0; k < count; k++)
            s->recipe.task->sample(&s->spec, s->recipe.task_options, first + (uint64_t)(i + k), tokens + k * s->length,
                                   targets + k * s->length);
        weft_probe_run(p);
        for (int64_t row = 0; row < count * s->length; row++)
            if (targets[row] != -1)
                score_row(logits, row, s->spec.vocab, targets[row], sum);
    }
}

enum weft_status weft_score_plainly(const struct weft_rehearsal *s, uint64_t first, struct weft_plain_score *sum)
{
    struct weft_probe p;
    struct weft_net_size size = {.sequences = SIDE_BY_SIDE, .length = s->length};
    assert(s->length <= LONGEST);
    enum weft_status status = weft_probe_open(&p, &s->model, WEFT_FORWARD, size, WEFT_FAST);
    if (status == WEFT_OK) {
        weft_probe_rows(&p, SIDE_BY_SIDE, s->length, NULL);
        weft_probe_fill(&p, 0); /* the last run may have fewer samples */
        score(&p, s, first, sum);
    }
    weft_probe_close(&p);
    return status;
}

double weft_score_loss_error(const struct weft_plain_score *plain, double loss)
{
    double mean = plain->loss / (double)weft_max(1, plain->tokens);
    return fabs(loss - mean) / (1 + mean);
}

/* In a near tie, either prediction is right. */
double weft_score_accuracy_error(const struct weft_plain_score *plain, double accuracy)
{
    double n = (double)weft_max(1, plain->tokens), wrong = fabs(accuracy * n - (double)plain->right);
    return wrong <= (double)plain->ties ? 0 : (wrong - (double)plain->ties) / n;
}

static enum weft_status compare(const struct weft_trial *t, const struct weft_rehearsal *s, uint64_t first,
                                const char *which)
{
    const double limit = 1e-4;
    struct weft_plain_score plain;
    struct weft_score real;
    char name[160];
    int64_t batch = s->recipe.eval_samples < 100 ? 3 : 33; /* the last batch is not full */
    TRY(weft_score_plainly(s, first, &plain));
    TRY(weft_evaluate(&s->model, &s->recipe, NULL, batch, first, &real));
    double n = (double)weft_max(1, plain.tokens), error = weft_score_loss_error(&plain, real.loss);
    snprintf(name, sizeof name, "loss of %lld %s samples against a plain score", (long long)s->recipe.eval_samples,
             which);
    weft_trial_report(t, error <= limit, error, limit, name, "%g, expected %g", real.loss, plain.loss / n);
    snprintf(name, sizeof name, "%lld %s samples: scored tokens against a plain count",
             (long long)s->recipe.eval_samples, which);
    weft_trial_report(t, real.tokens == plain.tokens, (double)real.tokens, (double)plain.tokens, name, "scored tokens");
    snprintf(name, sizeof name, "%lld %s samples: accuracy against a plain one", (long long)s->recipe.eval_samples,
             which);
    error = weft_score_accuracy_error(&plain, real.accuracy);
    weft_trial_report(t, error <= 1e-9, error, 1e-9, name, "%g, expected %g", real.accuracy, (double)plain.right / n);
    return WEFT_OK;
}

enum weft_status weft_check_scores(const struct weft_trial *t, const struct weft_rehearsal *s)
{
    TRY(compare(t, s, WEFT_HELD_OUT, "validation"));
    TRY(compare(t, s, WEFT_TEST, "test"));
    return WEFT_OK;
}
