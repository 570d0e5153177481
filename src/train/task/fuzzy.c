/* SPDX-License-Identifier: MIT
 *
 * task/fuzzy - recall with noisy keys: n keys of m tokens, then n queries. Each query is a copy of a key in which every
 * token is replaced with probability p; the index of its key is scored after every token of the query.
 *
 *     k1 .. km  k1 .. km  ..    q1 .. qm  q1 .. qm  ..         each query copies a random key, drawn independently
 *     ki: one of the K codes (i-1)K .. iK-1, as a product quantiser gives one for each part of a vector
 *     qi: ki, or with probability p one of the other K-1 codes: (K-1)/K is maximum noise
 *     the answers: mK for the first key .. mK+n-1 for the last
 *
 * The information in i tokens of a query is the number of tokens that each key has in common with it. This number h is
 * binomial, with probability 1-p for the right key and 1/K for each other key, because keys are drawn independently.
 * With w = (1-p)(K-1)/p, the factor by which a common token multiplies the odds, key j has the probability w^h_j / sum
 * of w^h. The mean of its negative logarithm at the right key is the smallest possible loss. The best guess is the key
 * with the most tokens in common, whatever p is; its accuracy counts a tie as the probability of guessing right. Both
 * are means over i = 1 .. m.
 *
 * Answers are key indices rather than separate value tokens, so one layer can answer from one token, and a model does
 * not first have to learn where values are. With values, models needed many times as many samples to do better than
 * guessing.
 */
#include "train/task/draw_inl.h"

#include <math.h>
#include <stddef.h>

enum { MOST_TOKENS = 16 };

struct fuzzy {
    int64_t keys, tokens, codes;
    double noise;
};

#define AT(field) offsetof(struct fuzzy, field)
static const struct weft_opt options[] = {
    {"fuzzy_keys", WEFT_OPT_INT, AT(keys), "4", 2, 1 << 16, .help = "n, number of keys and of queries"},
    {"fuzzy_tokens", WEFT_OPT_INT, AT(tokens), "4", 1, MOST_TOKENS, .help = "m, number of tokens in a key"},
    {"fuzzy_codes", WEFT_OPT_INT, AT(codes), "8", 2, 1 << 16, .help = "K, number of codes for each token of a key"},
    {"fuzzy_noise", WEFT_OPT_REAL, AT(noise), "0.1", 0, 1,
     .help = "p, probability that a token of a query differs from the key's; at most (K-1)/K"},
};

static int64_t first_answer(const struct fuzzy *o) { return o->tokens * o->codes; }

static enum weft_status resolve(const struct weft_spec *spec, void *opts, struct weft_arena *arena)
{
    const struct fuzzy *o = opts;
    const long long least = first_answer(o) + o->keys;
    const double most = (double)(o->codes - 1) / (double)o->codes;
    (void)arena;
    if (spec->vocab < least)
        return FAIL(WEFT_INVALID, "%lld tokens of %lld codes and %lld answers need vocab=%lld or more, not %lld",
                    (long long)o->tokens, (long long)o->codes, (long long)o->keys, least, (long long)spec->vocab);
    if (o->noise > most)
        return FAIL(WEFT_INVALID,
                    "fuzzy_noise=%g is more than %g, at which queries carry no information about keys of %lld codes",
                    o->noise, most, (long long)o->codes);
    return WEFT_OK;
}

static int64_t length(const void *opts)
{
    const struct fuzzy *o = opts;
    return 2 * o->keys * o->tokens;
}

static int32_t draw_substitute(struct draw *d, const struct fuzzy *o, int64_t i, int32_t token)
{
    int64_t first = i * o->codes, others = 1 + draw_below(d, o->codes - 1);
    return (int32_t)(first + (token - first + others) % o->codes);
}

static void sample(const struct weft_spec *spec, const void *opts, uint64_t index, int32_t *tokens, int32_t *targets)
{
    const struct fuzzy *o = opts;
    const int64_t n = o->keys, m = o->tokens;
    struct draw d = draw_begin(spec, "task.fuzzy", index);
    for (int64_t i = 0; i < n * m; i++) {
        tokens[i] = (int32_t)(i % m * o->codes + draw_below(&d, o->codes));
        targets[i] = -1;
    }
    for (int64_t at = n * m; at < 2 * n * m; at += m) {
        const int64_t j = draw_below(&d, n);
        for (int64_t i = 0; i < m; i++) {
            const int32_t token = tokens[j * m + i];
            bool substituted = weft_uniform(d.key, d.drawn++) < o->noise;
            tokens[at + i] = substituted ? draw_substitute(&d, o, i, token) : token;
            targets[at + i] = (int32_t)(first_answer(o) + j);
        }
    }
}

/* Returns the number of different keys; different queries do not make a different sample. */
static double different(const struct weft_spec *spec, const void *opts)
{
    const struct fuzzy *o = opts;
    (void)spec;
    return weft_pow((double)o->codes, (double)(o->keys * o->tokens));
}

/* ---- the floor */

/* Computes the probabilities of 0 to m successes in m trials. */
static void binomial(int64_t m, double success, double *p)
{
    p[0] = 1;
    for (int64_t n = 1; n <= m; n++) {
        p[n] = p[n - 1] * success;
        for (int64_t h = n - 1; h > 0; h--)
            p[h] = p[h] * (1 - success) + p[h - 1] * success;
        p[0] *= 1 - success;
    }
}

/* Returns the mean of ln(1 + S), where S is the sum of n - 1 numbers that are ratio[k] with probability p[k], by E ln X
 * = integral of (exp(-t) - E exp(-t X)) / t over t > 0. Over u = ln t the trapezoidal rule is exact to rounding: it
 * sums shifted copies of exp(-exp(u)), whose spectrum falls like exp(-pi/2 |frequency|). */
static double mean_log(int64_t n, int64_t m, const double *p, const double *ratio)
{
    const double step = 0.125, highest = 4, tiny = 1e-5;
    double largest = 1, sum = 0;
    for (int64_t k = 0; k <= m; k++)
        largest = fmax(largest, ratio[k]);
    const double lowest = -weft_log(largest) - weft_log((double)n) - 40;
    for (double u = highest; u > lowest; u -= step) {
        double t = weft_exp(u), less = 0;
        for (int64_t k = 0; k <= m; k++)
            less -= p[k] * weft_expm1(-t * ratio[k]);
        double log = less < tiny ? -less - less * less / 2 : weft_log(fmax(1 - less, 1e-300));
        sum -= weft_exp(-t) * weft_expm1((double)(n - 1) * log);
    }
    return sum * step;
}

/* Returns the probability that no other key has more in common with the query than the right key, and that the right
 * key is guessed. Another key has less in common with probability `below`, and at most as much with probability `most`;
 * of c + 1 tied keys, one is right. The sum over c is (most^n - below^n) / (n (most - below)). */
static double share(int64_t n, double below, double most)
{
    double sum = 0, power = 1;
    for (int64_t i = 0; i < n; i++, power *= most)
        sum = sum * below + power;
    return sum / (double)n;
}

/* Adds the smallest loss and the highest accuracy at the last token of a query of m tokens. */
static void add_floor(const struct fuzzy *o, int64_t m, struct weft_floor *f)
{
    const int64_t n = o->keys;
    const double odds = (1 - o->noise) * (double)(o->codes - 1) / o->noise; /* infinite without noise */
    double right[MOST_TOKENS + 1], other[MOST_TOKENS + 1], ratio[MOST_TOKENS + 1], below = 0;
    binomial(m, 1 - o->noise, right);
    binomial(m, 1 / (double)o->codes, other);
    for (int64_t h = 0; h <= m; below += other[h++]) {
        if (right[h] < 1e-30) /* too rare to count, as are ratios above the limit below */
            continue;
        for (int64_t k = 0; k <= m; k++)
            ratio[k] = fmin(weft_pow(odds, (double)(k - h)), 1e300);
        f->loss += right[h] * mean_log(n, m, other, ratio);
        f->accuracy += right[h] * share(n, below, below + other[h]);
    }
}

static struct weft_floor find_floor(const struct weft_spec *spec, const void *opts)
{
    const struct fuzzy *o = opts;
    struct weft_floor f = {.chance = 1 / (double)o->keys};
    (void)spec;
    for (int64_t m = 1; m <= o->tokens; m++)
        add_floor(o, m, &f);
    f.loss /= (double)o->tokens;
    f.accuracy /= (double)o->tokens;
    return f;
}

const struct weft_task weft_task_fuzzy = {
    .name = "fuzzy",
    .summary = "match n noisy queries to their keys of m tokens",
    .owner = WEFT_OWNER("task=fuzzy", options),
    .options_bytes = sizeof(struct fuzzy),
    .resolve = resolve,
    .length = length,
    .sample = sample,
    .different = different,
    .floor = find_floor,
};
