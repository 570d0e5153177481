/* SPDX-License-Identifier: MIT
 *
 * targets_fuzzy.c - the definition of fuzzy: n keys of m codes, then n queries, each a key with some codes substituted.
 * The target after every code of a query is the index of its key.
 */
#include "check/samples/samples.h"
#include "check/trainer/definitions.h"

#include <math.h>

struct sizes {
    int64_t keys, tokens, codes; /* n, m, K */
    double noise;
};

static struct sizes sizes_of(const struct weft_drawn *d)
{
    struct sizes s = {weft_drawn_option(d, "fuzzy_keys"), weft_drawn_option(d, "fuzzy_tokens"),
                      weft_drawn_option(d, "fuzzy_codes"), 0};
    weft_plain_option(&d->recipe->task->owner, d->recipe->task_options, "fuzzy_noise", &s.noise);
    return s;
}

/* Returns the token of the key that corresponds to the query token at a position; -1: the target is not a key. */
static int32_t meant(const struct weft_drawn *d, const struct sizes *s, int64_t position)
{
    int64_t key = d->targets[position] - s->tokens * s->codes;
    return key < 0 || key >= s->keys ? -1 : d->tokens[key * s->tokens + position % s->tokens];
}

/* Checks the targets against the keys that the random numbers select, because noise hides them in the tokens. A sample
 * draws the codes of all keys, then for each query its key, and for each of its codes whether it is substituted and, if
 * so, the substitute. */
static const char *wrong_answers(const struct weft_drawn *d, const struct sizes *s)
{
    const uint64_t key = weft_key(weft_key_name((uint64_t)d->spec->seed, "task.fuzzy"), d->index);
    uint64_t drawn = (uint64_t)(s->keys * s->tokens);
    for (int64_t i = s->keys * s->tokens; i < d->length; i++) {
        if (i % s->tokens == 0 &&
            d->targets[i] != s->tokens * s->codes + (int64_t)weft_below(key, drawn++, (uint64_t)s->keys))
            return "a target is not the index of the drawn key";
        drawn += weft_uniform(key, drawn) < s->noise ? 2 : 1;
    }
    return NULL;
}

static const char *wrong_fuzzy(const struct weft_drawn *d, void *context)
{
    const struct sizes s = sizes_of(d);
    const int64_t queries = s.keys * s.tokens;
    (void)context;
    if (d->length != 2 * queries)
        return "the sample has the wrong length";
    for (int64_t i = 0; i < d->length; i++) {
        if (d->tokens[i] / s.codes != i % s.tokens)
            return "a token is not one of the codes of its place in the key";
        if (i < queries && d->targets[i] != -1)
            return "a key is scored";
        if (i >= queries && meant(d, &s, i) < 0)
            return "a target is not the index of a key";
        if (i >= queries && i % s.tokens && d->targets[i] != d->targets[i - 1])
            return "a query has two targets";
        if (i >= queries && s.noise == 0 && d->tokens[i] != meant(d, &s, i))
            return "a code was substituted without noise";
    }
    return wrong_answers(d, &s);
}

/* Returns the number of codes in queries that differ from those of their keys. */
static double substituted(const struct weft_drawn *d)
{
    const struct sizes s = sizes_of(d);
    int64_t count = 0;
    for (int64_t i = s.keys * s.tokens; i < d->length; i++)
        count += d->tokens[i] != meant(d, &s, i);
    return (double)count;
}

static void expected_fuzzy(const struct weft_drawn *d, double *mean, double *deviation)
{
    const struct sizes s = sizes_of(d);
    const double codes = (double)(s.keys * s.tokens);
    *mean = codes * s.noise;
    *deviation = sqrt(codes * s.noise * (1 - s.noise));
}

static bool fuzzy_from(const struct weft_drawn *d, int64_t position, int64_t *first, int64_t *count)
{
    const struct sizes s = sizes_of(d);
    *first = position % s.tokens * s.codes;
    *count = s.codes;
    return position < s.keys * s.tokens; /* later tokens repeat keys */
}

const struct weft_definition weft_definition_fuzzy = {
    "fuzzy", true, .wrong = wrong_fuzzy, .number = substituted, .expected = expected_fuzzy, .drawn_from = fuzzy_from};
