/* SPDX-License-Identifier: MIT
 *
 * sampler.c - samples the next token from logits: a function of the logits, the past, a key and a counter.
 *
 * weft.h documents the order of the steps. Candidates are a heap ordered by logit, then by the smaller token id, from
 * which top_k and top_p take tokens; without these all tokens remain. The token is drawn by inverting the cumulative
 * distribution over the remaining tokens in the order in which they were taken, or in order of id if all remain.
 */
#include "base/vmath_inl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { BLOCK = 256 };
enum { KEEP_ALL, KEEP_TOP };

struct weft_sampler {
    struct weft_sampling how;
    int64_t vocab;
    float *logit;  /* [vocab]: penalised and divided by the temperature */
    float *weight; /* [vocab]: exp(logit - largest) */
    int32_t *heap; /* [vocab]: tokens */
};

/* ---- creation */

static bool in(double x, double low, double high) { return x >= low && x <= high; } /* false for NaN */

enum weft_status weft_sampler_create(struct weft_sampler **sampler, const struct weft_sampling *sampling, int64_t vocab)
{
    GIVEN(sampler);
    *sampler = NULL;
    const struct weft_sampling how = sampling ? *sampling : (struct weft_sampling){0};
    if (!in(how.temperature, 0, 100) || how.top_k < 0 || !in(how.top_p, 0, 1) || !in(how.min_p, 0, 1) ||
        !in(how.repetition, 0, 100))
        return FAIL(WEFT_INVALID,
                    "temperature %g, top_k %lld, top_p %g, min_p %g, repetition %g: expected 0 to 100, 0 or more, "
                    "0 to 1, 0 to 1, 0 to 100",
                    how.temperature, (long long)how.top_k, how.top_p, how.min_p, how.repetition);
    if (vocab < 1 || vocab > INT32_MAX)
        return FAIL(WEFT_INVALID, "a vocabulary of %lld tokens: expected 1 to %d", (long long)vocab, INT32_MAX);
    struct weft_sampler *s = calloc(1, sizeof *s);
    size_t n = (size_t)weft_round_up(vocab, BLOCK);
    if (s)
        *s = (struct weft_sampler){how, vocab, calloc(n, sizeof(float)), calloc(n, sizeof(float)),
                                   calloc(n, sizeof(int32_t))};
    if (!s || !s->logit || !s->weight || !s->heap) {
        weft_sampler_free(s);
        return FAIL(WEFT_NOMEM, "not enough memory for a sampler");
    }
    *sampler = s;
    return WEFT_OK;
}

void weft_sampler_free(struct weft_sampler *s)
{
    if (!s)
        return;
    free(s->logit);
    free(s->weight);
    free(s->heap);
    free(s);
}

/* ---- logits and weights */

/* Writes exp(x - largest) to s->weight; returns the sum, added in order of the tokens. */
static double weigh(struct weft_sampler *s, const float *x, float largest)
{
    double sum = 0;
    for (int64_t i = 0; i < s->vocab; i += VLANES) {
        vstore_f32(s->weight + i, s->vocab - i, vexp(vload_f32(x + i, s->vocab - i) - vset(largest)));
        for (int64_t j = i; j < weft_min(s->vocab, i + VLANES); j++)
            sum += s->weight[j];
    }
    return sum;
}

static int32_t most_likely(const float *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return (int32_t)best;
}

/* Clamps values that extreme penalties or temperatures would make infinite. */
static float bounded(float x) { return fminf(fmaxf(x, -FLT_MAX), FLT_MAX); }

/* Each token that occurred is penalised once, however often it occurred, because the penalty is applied to the given
 * logits. */
static void penalise(struct weft_sampler *s, const float *logits, const int32_t *past, int64_t count)
{
    float by = (float)s->how.repetition;
    for (int64_t i = 0; i < count; i++) {
        float x = logits[past[i]];
        s->logit[past[i]] = bounded(x > 0 ? x / by : x * by);
    }
}

static enum weft_status take_logits(struct weft_sampler *s, const float *logits, const int32_t *past, int64_t count)
{
    for (int64_t i = 0; i < s->vocab; i++)
        if (!isfinite(logits[i]))
            return FAIL(WEFT_INVALID, "the logit of token %lld is not finite", (long long)i);
    for (int64_t i = 0; i < count; i++)
        if (past[i] < 0 || past[i] >= s->vocab)
            return FAIL(WEFT_INVALID, "token %lld of the past is %d, but the vocabulary is 0 to %lld", (long long)i,
                        (int)past[i], (long long)s->vocab - 1);
    memcpy(s->logit, logits, (size_t)s->vocab * sizeof *logits);
    if (s->how.repetition > 0 && s->how.repetition != 1)
        penalise(s, logits, past, count);
    return WEFT_OK;
}

/* ---- candidates */

static bool before(const float *x, int32_t a, int32_t b) { return x[a] > x[b] || (x[a] == x[b] && a < b); }

static void sift(const float *x, int32_t *heap, int64_t n, int64_t at)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(x, heap[child + 1], heap[child]))
            child++;
        if (!before(x, heap[child], heap[at]))
            return;
        int32_t above = heap[at];
        heap[at] = heap[child];
        heap[child] = above;
    }
}

/* Moves the most likely tokens to the end of the heap, the most likely one last, until there are enough; returns their
 * number. */
static int64_t take_top(struct weft_sampler *s, double all)
{
    int64_t n = s->vocab, most = s->how.top_k ? weft_min(s->how.top_k, n) : n, taken = 0;
    double sum = 0, wanted = s->how.top_k ? INFINITY : s->how.top_p * all;
    for (int64_t i = 0; i < n; i++)
        s->heap[i] = (int32_t)i;
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sift(s->logit, s->heap, n, i);
    while (taken < most && (taken == 0 || sum < wanted)) {
        int32_t first = s->heap[0];
        int64_t last = n - 1 - taken++;
        sum += s->weight[first];
        s->heap[0] = s->heap[last];
        s->heap[last] = first;
        sift(s->logit, s->heap, last, 0);
    }
    return taken;
}

/* Returns how many of the tokens left by top_k, most likely first, are needed until their weights sum to at least top_p
 * of the total. */
static int64_t cut_top_p(const struct weft_sampler *s, int64_t taken)
{
    double all = 0, sum = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < taken; i++)
        all += s->weight[s->heap[s->vocab - 1 - i]];
    while (n < taken && (n == 0 || sum < s->how.top_p * all))
        sum += s->weight[s->heap[s->vocab - 1 - n++]];
    return n;
}

/* Returns the i-th of the remaining tokens. */
static int32_t token_at(const struct weft_sampler *s, int which, int64_t i)
{
    return which == KEEP_ALL ? (int32_t)i : s->heap[s->vocab - 1 - i];
}

static int32_t draw(struct weft_sampler *s, double all, uint64_t key, uint64_t counter)
{
    int which = s->how.top_k || s->how.top_p > 0 ? KEEP_TOP : KEEP_ALL;
    int64_t n = which == KEEP_ALL ? s->vocab : take_top(s, all);
    if (which == KEEP_TOP && s->how.top_k && s->how.top_p > 0)
        n = cut_top_p(s, n);
    double sum = 0, so_far = 0;
    int32_t last = token_at(s, which, 0);
    for (int64_t i = 0; i < n; i++) {
        float *w = &s->weight[token_at(s, which, i)]; /* weights are relative to the largest, which is 1 */
        *w = *w >= s->how.min_p ? *w : 0;
        sum += *w;
    }
    double wanted = weft_uniform(key, counter) * sum;
    for (int64_t i = 0; i < n; i++) {
        int32_t token = token_at(s, which, i);
        if (s->weight[token] > 0)
            last = token;
        so_far += s->weight[token];
        if (so_far > wanted)
            return token;
    }
    return last;
}

static int32_t choose(struct weft_sampler *s, uint64_t key, uint64_t counter)
{
    if (s->how.temperature == 0)
        return most_likely(s->logit, s->vocab);
    float by = fmaxf((float)s->how.temperature, FLT_MIN);
    for (int64_t i = 0; i < s->vocab; i++)
        s->logit[i] = bounded(s->logit[i] / by);
    double all = weigh(s, s->logit, s->logit[most_likely(s->logit, s->vocab)]);
    return draw(s, all, key, counter);
}

enum weft_status weft_sampler_draw(struct weft_sampler *s, const float *logits, const int32_t *past, int64_t past_count,
                                   uint64_t key, uint64_t counter, int32_t *token, double *logprob)
{
    GIVEN(s);
    GIVEN(logits);
    GIVEN(token);
    if (past_count < 0)
        return FAIL(WEFT_INVALID, "past_count is %lld: pass 0 or more", (long long)past_count);
    GIVEN(past || past_count == 0);
    TRY(take_logits(s, logits, past, past_count));
    *token = choose(s, key, counter);
    if (logprob) {
        float largest = logits[most_likely(logits, s->vocab)];
        *logprob = (double)logits[*token] - largest - weft_log(weigh(s, logits, largest));
    }
    return WEFT_OK;
}
