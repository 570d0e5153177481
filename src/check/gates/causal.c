/* SPDX-License-Identifier: MIT
 *
 * causal.c - checks that no bit of a row depends on later tokens.
 *
 * One batch contains a sequence and, for every position t, the same sequence with different tokens after t; a second
 * batch contains the sequence cut off after t. Rows up to t must be the same. Both runs are repeated with matrices
 * scaled up so far that a mask made of a finite constant no longer hides anything.
 */
#include "check/probe/gate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 70, TOKENS_KEY = 21, OTHERS_KEY = 22 };

/* Sequence 0 is whole; a sequence s > 0 has the same first s tokens. */
struct batch {
    struct weft_probe probe;
    int64_t count; /* number of sequences, and number of tokens in the whole sequence */
    int64_t lengths[MOST];
};

static void write_tokens(struct batch *b)
{
    uint64_t vocab = (uint64_t)b->probe.model->spec->vocab;
    int32_t *tokens = weft_exec_tensor(b->probe.exec, b->probe.net.tokens)->data;
    for (int64_t s = 0; s < b->count; s++)
        for (int64_t t = 0; t < b->lengths[s]; t++, tokens++) {
            uint64_t token = weft_below(TOKENS_KEY, (uint64_t)t, vocab);
            if (s > 0 && t >= s) /* always differs from the old token */
                token += 1 + weft_below(OTHERS_KEY, (uint64_t)(s * MOST + t), vocab - 1);
            *tokens = (int32_t)(token % vocab);
        }
}

static bool same(const float *a, const float *b, int64_t n)
{
    if (memcmp(a, b, (size_t)n * sizeof *a) != 0)
        return false;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(a[i]))
            return false;
    return true;
}

/* Returns the number of rows that differ. Sets *first to the first of them, and *seen to the first token that was
 * replaced. */
static int64_t compare(const struct batch *b, int64_t *first, int64_t *seen)
{
    const struct weft_tensor *logits = weft_exec_tensor(b->probe.exec, b->probe.net.logits);
    const float *whole = logits->data, *other = whole;
    int64_t V = weft_tensor_width(logits), differing = 0;
    *first = b->count;
    for (int64_t s = 0; s < b->count; s++) {
        for (int64_t t = 0; t < s; t++) {
            if (same(whole + t * V, other + t * V, V))
                continue;
            differing++;
            if (t <= *first) {
                *first = t;
                *seen = s;
            }
        }
        other += b->lengths[s] * V;
    }
    return differing;
}

/* Runs the sequence and its copies, which are changed or, if `cut` is set, cut off. */
static void run(struct batch *b, bool cut)
{
    for (int64_t s = 0; s < b->count; s++)
        b->lengths[s] = cut && s > 0 ? s : b->count;
    weft_probe_rows(&b->probe, b->count, 0, b->lengths);
    write_tokens(b);
    weft_defer(weft_exec_run(b->probe.exec));
}

static void report(const struct weft_trial *t, struct batch *b, bool cut, double factor)
{
    char name[96];
    int64_t first = 0, seen = 0;
    int64_t differing = compare(b, &first, &seen);
    snprintf(name, sizeof name, "rows that change when later tokens %s, matrices x %g", cut ? "are missing" : "change",
             factor);
    weft_trial_report(t, differing == 0, (double)differing, 0, name,
                      "logits of position %lld depend on the token at %lld", (long long)first, (long long)seen);
}

/* Scales only matrices, because temperatures and gains are themselves exponents or factors. */
static void enlarge(struct weft_probe *p, double factor)
{
    for (int i = 0; i < p->model->params.count; i++) {
        const struct weft_param *w = &p->model->params.list[i];
        for (int64_t e = w->offset; w->ndim > 1 && e < w->offset + w->count; e++)
            ((float *)p->weights)[e] = (float)factor * p->model->params.weights[e];
    }
    weft_defer(weft_exec_prepare(p->exec));
}

/* Scales matrices as far as the model allows, because scores beyond 1e9 give no finite probabilities in f32. Runs the
 * changed copies and returns the factor. */
static double enlarge_much(struct batch *b)
{
    for (double factor = 1000;; factor /= 10) {
        enlarge(&b->probe, factor);
        run(b, false);
        if (factor <= 1 || isfinite(weft_tensor_rms(weft_exec_tensor(b->probe.exec, b->probe.net.logits))))
            return factor;
    }
}

enum weft_status weft_gate_causal(const struct weft_trial *t)
{
    struct batch b = {.count = weft_min(MOST, t->model->spec->context)};
    struct weft_net_size size = {.sequences = b.count, .length = b.count};
    enum weft_status status = weft_probe_open(&b.probe, t->model, WEFT_FORWARD, size, WEFT_FAST);
    if (status == WEFT_OK) {
        weft_defer(weft_exec_prepare(b.probe.exec));
        run(&b, false);
        report(t, &b, false, 1);
        run(&b, true);
        report(t, &b, true, 1);
        double factor = enlarge_much(&b);
        report(t, &b, false, factor);
        run(&b, true);
        report(t, &b, true, factor);
    }
    weft_probe_close(&b.probe);
    return status;
}
