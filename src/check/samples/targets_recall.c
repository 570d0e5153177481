/* SPDX-License-Identifier: MIT
 *
 * targets_recall.c - the definitions of recall and mqar.
 */
#include "check/samples/samples.h"

#include <math.h>

/* ---- recall: S distinct tokens, then the same without the last; the repetition is scored */

static const char *wrong_recall(const struct weft_drawn *d, void *context)
{
    int64_t S = weft_drawn_option(d, "recall_length");
    (void)context;
    if (d->length != 2 * S - 1)
        return "the sample has the wrong length";
    for (int64_t i = 0; i < d->length; i++) {
        int64_t seen = 0; /* position of the first occurrence of the token */
        while (seen < i && d->tokens[seen] != d->tokens[i])
            seen++;
        if (i < S ? seen < i : seen != i - S)
            return "the tokens are not S distinct tokens followed by a repetition";
        if (d->targets[i] != (i < S ? -1 : d->tokens[seen + 1]))
            return "a target is not the token that followed the first occurrence";
    }
    return NULL;
}

static double first_token(const struct weft_drawn *d) { return d->tokens[0]; }

static void uniform(int64_t first, int64_t count, double *mean, double *deviation)
{
    double n = (double)count;
    *mean = (double)first + (n - 1) / 2;
    *deviation = sqrt((n * n - 1) / 12);
}

static void expected_recall(const struct weft_drawn *d, double *mean, double *deviation)
{
    uniform(0, d->spec->vocab, mean, deviation);
}

static bool recall_from(const struct weft_drawn *d, int64_t position, int64_t *first, int64_t *count)
{
    *first = 0;
    *count = d->spec->vocab;
    return 2 * position < d->length; /* later tokens are repetitions */
}

const struct weft_definition weft_definition_recall = {"recall",
                                                       true,
                                                       .wrong = wrong_recall,
                                                       .number = first_token,
                                                       .expected = expected_recall,
                                                       .drawn_from = recall_from};

/* ---- mqar: n keys with their values, then every key again at an even distance, with its value as the target */

static bool contains(const int32_t *tokens, int64_t stride, int64_t n, int32_t token)
{
    for (int64_t i = 0; i < n; i++)
        if (tokens[i * stride] == token)
            return true;
    return false;
}

static const char *wrong_pairs(const struct weft_drawn *d, int64_t n)
{
    int64_t half = d->spec->vocab / 2;
    for (int64_t m = 0; m < n; m++) {
        const int32_t *pair = d->tokens + 2 * m;
        if (pair[0] < 1 || pair[0] >= half || contains(d->tokens, 2, m, pair[0]))
            return "the keys are not distinct tokens from 1 to V/2-1";
        if (pair[1] < half || pair[1] >= d->spec->vocab || contains(d->tokens + 1, 2, m, pair[1]))
            return "the values are not distinct tokens from V/2 to V-1";
        if (d->targets[2 * m] != -1 || d->targets[2 * m + 1] != -1)
            return "a key or value is scored";
    }
    return NULL;
}

static const char *wrong_mqar(const struct weft_drawn *d, void *context)
{
    int64_t n = weft_drawn_option(d, "mqar_pairs"), scored = 0;
    bool zeros = weft_drawn_option(d, "mqar_fill") == 0;
    (void)context;
    if (d->length != weft_drawn_option(d, "mqar_length"))
        return "the sample has the wrong length";
    const char *wrong = wrong_pairs(d, n);
    for (int64_t i = 2 * n; !wrong && i < d->length; i++) {
        int64_t m = 0;
        while (m < n && d->tokens[2 * m] != d->tokens[i])
            m++;
        if (d->targets[i] == -1)
            wrong = zeros && d->tokens[i] ? "an unscored slot is not 0" : NULL;
        else if (m == n || (i - 2 * n) % 2 || d->targets[i] != d->tokens[2 * m + 1])
            wrong = "a target is not the value of the key";
        for (int64_t j = 2 * n; d->targets[i] != -1 && j < i; j++)
            if (d->targets[j] == d->targets[i])
                wrong = "a key is queried twice";
        scored += d->targets[i] != -1;
    }
    return wrong ? wrong : scored == n ? NULL : "not every key is queried exactly once";
}

/* Returns the gap of the first key in slots of two tokens; short gaps are more likely. */
static double first_gap(const struct weft_drawn *d)
{
    int64_t n = weft_drawn_option(d, "mqar_pairs"), i = 2 * n;
    while (i < d->length && d->targets[i] != d->tokens[1])
        i++;
    return (double)(i - 2 * n) / 2;
}

static void expected_mqar(const struct weft_drawn *d, double *mean, double *deviation)
{
    int64_t gaps = d->length / 2 - weft_drawn_option(d, "mqar_pairs");
    double weights = 0, sum = 0, squares = 0;
    for (int64_t i = 1; i <= gaps; i++) {
        double weight = pow((double)i, 0.01 - 1), gap = (double)(i - 1);
        weights += weight;
        sum += weight * gap;
        squares += weight * gap * gap;
    }
    *mean = sum / weights;
    *deviation = sqrt(fmax(0, squares / weights - *mean * *mean));
}

static bool mqar_from(const struct weft_drawn *d, int64_t position, int64_t *first, int64_t *count)
{
    int64_t pairs = weft_drawn_option(d, "mqar_pairs"), half = d->spec->vocab / 2;
    bool key = position < 2 * pairs && position % 2 == 0, value = position < 2 * pairs && position % 2;
    *first = key ? 1 : value ? half : 0;
    *count = key ? half - 1 : value ? d->spec->vocab - half : d->spec->vocab;
    return key || value || (d->targets[position] == -1 && weft_drawn_option(d, "mqar_fill") != 0);
}

const struct weft_definition weft_definition_mqar = {
    "mqar", true, .wrong = wrong_mqar, .number = first_gap, .expected = expected_mqar, .drawn_from = mqar_from};
