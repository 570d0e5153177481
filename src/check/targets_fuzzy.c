/* SPDX-License-Identifier: MIT
 *
 * targets_fuzzy.c - samples of fuzzy by its definition: n keys of m codes with their values, then n queries, each a key
 * with some codes substituted, scored after every code with the value of that key.
 */
#include "check/stepped.h"

#include <math.h>

struct sizes {
    int64_t pairs, tokens, codes; /* n, m, K */
    double noise;
};

static struct sizes sizes_of(const struct weft_drawn *d)
{
    struct sizes s = {weft_drawn_option(d, "fuzzy_pairs"), weft_drawn_option(d, "fuzzy_tokens"),
                      weft_drawn_option(d, "fuzzy_codes"), 0};
    weft_plain_option(&d->recipe->task->owner, d->recipe->task_options, "fuzzy_noise", &s.noise);
    return s;
}

/* The key whose value this is; NULL: none. */
static const int32_t *key_of(const struct weft_drawn *d, const struct sizes *s, int32_t value)
{
    for (int64_t j = 0; j < s->pairs; j++)
        if (d->tokens[j * (s->tokens + 1) + s->tokens] == value)
            return d->tokens + j * (s->tokens + 1);
    return NULL;
}

/* What a position is drawn from: the codes of its place in a key, or the values. */
static void range_of(const struct weft_drawn *d, const struct sizes *s, int64_t position, int64_t *first,
                     int64_t *count)
{
    const int64_t pairs = s->pairs * (s->tokens + 1);
    int64_t place = position < pairs ? position % (s->tokens + 1) : (position - pairs) % s->tokens;
    *first = place * s->codes;
    *count = place < s->tokens ? s->codes : d->spec->vocab - *first;
}

static const char *wrong_fuzzy(const struct weft_drawn *d, void *context)
{
    const struct sizes s = sizes_of(d);
    const int64_t pairs = s.pairs * (s.tokens + 1);
    const int32_t *key = NULL;
    int64_t first, count;
    (void)context;
    if (d->length != pairs + s.pairs * s.tokens)
        return "the sample has another length";
    for (int64_t i = 0; i < d->length; i++) {
        range_of(d, &s, i, &first, &count);
        if (d->tokens[i] < first || d->tokens[i] >= first + count)
            return "a token is not one of the codes or values of its place";
        if (i < pairs && d->targets[i] != -1)
            return "a key or value itself is scored";
        if (i < pairs && i % (s.tokens + 1) == s.tokens && key_of(d, &s, d->tokens[i]) != d->tokens + i - s.tokens)
            return "the values are not different";
        if (i >= pairs && (i - pairs) % s.tokens == 0)
            key = key_of(d, &s, d->targets[i]);
        if (i >= pairs && (!key || d->targets[i] != key[s.tokens]))
            return "the target of a query is not the value of one key";
        if (i >= pairs && s.noise == 0 && d->tokens[i] != key[(i - pairs) % s.tokens])
            return "a code was substituted without noise";
    }
    return NULL;
}

/* Codes of the queries that are not their keys'. */
static double substituted(const struct weft_drawn *d)
{
    const struct sizes s = sizes_of(d);
    const int64_t pairs = s.pairs * (s.tokens + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < s.pairs * s.tokens; i++) {
        const int32_t *key = key_of(d, &s, d->targets[pairs + i]);
        count += !key || d->tokens[pairs + i] != key[i % s.tokens];
    }
    return (double)count;
}

static void expected_fuzzy(const struct weft_drawn *d, double *mean, double *deviation)
{
    const struct sizes s = sizes_of(d);
    const double codes = (double)(s.pairs * s.tokens);
    *mean = codes * s.noise;
    *deviation = sqrt(codes * s.noise * (1 - s.noise));
}

static bool fuzzy_from(const struct weft_drawn *d, int64_t position, int64_t *first, int64_t *count)
{
    const struct sizes s = sizes_of(d);
    range_of(d, &s, position, first, count);
    return position < s.pairs * (s.tokens + 1); /* the others are keys again */
}

const struct weft_definition weft_definition_fuzzy = {
    "fuzzy", true, .wrong = wrong_fuzzy, .number = substituted, .expected = expected_fuzzy, .drawn_from = fuzzy_from};
