/* SPDX-License-Identifier: MIT
 *
 * scored.c - the score of held-out samples against a plain one: mean cross-entropy and accuracy over scored tokens, by
 * the logits of one sample at a time.
 */
#include "check/stepped.h"

#include <math.h>
#include <stdio.h>

enum { BATCH = 3 };

struct plain_score {
    double loss;
    int64_t right, tokens, ties; /* ties: tokens whose best logit is not clearly the best */
};

static void score_row(const struct weft_tensor *logits, int64_t row, int64_t vocab, int32_t target,
                      struct plain_score *s)
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

static void score(struct weft_probe *p, const struct weft_rehearsal *s, uint64_t first, struct plain_score *sum)
{
    int32_t targets[64], *tokens = weft_exec_tensor(p->exec, p->net.tokens)->data;
    const struct weft_tensor *logits = weft_exec_tensor(p->exec, p->net.logits);
    *sum = (struct plain_score){0};
    for (int64_t i = 0; i < s->recipe.eval_samples; i++) {
        s->recipe.task->sample(&s->spec, s->recipe.task_options, first + (uint64_t)i, tokens, targets);
        weft_probe_run(p);
        for (int64_t t = 0; t < s->length; t++)
            if (targets[t] != -1)
                score_row(logits, t, s->spec.vocab, targets[t], sum);
    }
}

static enum weft_status compare(const struct weft_trial *t, const struct weft_rehearsal *s, struct weft_probe *p,
                                uint64_t first, const char *which)
{
    const double limit = 1e-4;
    struct plain_score plain;
    struct weft_score real;
    char name[160];
    score(p, s, first, &plain);
    TRY(weft_evaluate(&s->model, &s->recipe, BATCH, first, &real));
    double n = (double)weft_max(1, plain.tokens), loss = plain.loss / n, error = fabs(real.loss - loss) / (1 + loss);
    double right = fabs(real.accuracy * n - (double)plain.right);
    snprintf(name, sizeof name, "loss of %lld %s samples against a plain score", (long long)s->recipe.eval_samples,
             which);
    weft_trial_report(t, error <= limit, error, limit, name, "%g, not %g", real.loss, loss);
    snprintf(name, sizeof name, "%s samples: scored tokens against a plain count", which);
    weft_trial_report(t, real.tokens == plain.tokens, (double)real.tokens, (double)plain.tokens, name, "scored tokens");
    snprintf(name, sizeof name, "%s samples: right predictions against a plain count", which);
    weft_trial_report(t, right <= (double)plain.ties + 1e-6, right, (double)plain.ties, name, "accuracy %g, not %g",
                      real.accuracy, (double)plain.right / n);
    return WEFT_OK;
}

enum weft_status weft_check_scores(const struct weft_trial *t, const struct weft_rehearsal *s)
{
    struct weft_probe p;
    enum weft_status status = weft_probe_open(&p, &s->model, WEFT_FORWARD,
                                              (struct weft_net_size){.sequences = 1, .length = s->length}, WEFT_FAST);
    if (status == WEFT_OK) {
        weft_probe_rows(&p, 1, s->length, NULL);
        status = compare(t, s, &p, WEFT_HELD_OUT, "validation");
    }
    if (status == WEFT_OK)
        status = compare(t, s, &p, WEFT_TEST, "test");
    weft_probe_close(&p);
    return status;
}
