/* SPDX-License-Identifier: MIT
 *
 * task/mqar - multi-query associative recall (S. Arora et al., arXiv:2312.04927, and their code, zoology): n keys with
 * their values, k0 v0 k1 v1 .., then T - 2n slots in which every key occurs again; its value is the scored answer
 * there.
 *
 *     keys: n distinct of 1 .. V/2-1        values: n distinct of V/2 .. V-1
 *     key m recurs at 2n + 2 g_m, the target there is value m; the g_m are drawn in turn from 0 .. (T-2n)/2 - 1
 *     without replacement, g with weight (g+1)^(0.01-1), so most queries come early
 *
 * The other slots are 0, or uniform over the vocabulary.
 */
#include "train/task/draw_inl.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { FILL_ZERO, FILL_UNIFORM };

struct mqar {
    int64_t length, pairs;
    int fill;
    double *reach; /* [space]: cumulative weights of the gaps */
};

static const char *const fills[] = {"zero", "uniform", NULL};

#define AT(field) offsetof(struct mqar, field)
static const struct weft_opt options[] = {
    {"mqar_length", WEFT_OPT_INT, AT(length), "64", 4, 1 << 20,
     .help = "T, number of tokens in a sample; even, and less than vocab"},
    {"mqar_pairs", WEFT_OPT_INT, AT(pairs), "4", 1, 1 << 18, .help = "n, number of key-value pairs; at most T/4"},
    {"mqar_fill", WEFT_OPT_CHOICE, AT(fill), "zero", .choices = fills,
     .help = "tokens between the queries: token 0, or uniformly random tokens"},
};

static int64_t space(const struct mqar *o) { return (o->length - 2 * o->pairs) / 2; }

static enum weft_status resolve(const struct weft_spec *spec, void *opts, struct weft_arena *arena)
{
    struct mqar *o = opts;
    long long length = o->length, pairs = o->pairs;
    if (length % 2)
        return FAIL(WEFT_INVALID, "mqar_length=%lld is odd, but keys and values come in pairs: set %lld", length,
                    length + 1);
    if (4 * pairs > length)
        return FAIL(WEFT_INVALID, "mqar_pairs=%lld needs mqar_length=%lld or more, not %lld", pairs, 4 * pairs, length);
    if (spec->vocab <= length)
        return FAIL(WEFT_INVALID, "mqar_length=%lld needs a larger vocabulary than vocab=%lld: 8192 is usual", length,
                    (long long)spec->vocab);
    o->reach = weft_arena_alloc(arena, (size_t)space(o) * sizeof *o->reach);
    if (!o->reach)
        return FAIL(WEFT_NOMEM, "not enough memory for a task");
    double sum = 0;
    for (int64_t g = 0; g < space(o); g++)
        o->reach[g] = sum += weft_pow((double)(g + 1), 0.01 - 1);
    return WEFT_OK;
}

static int64_t length(const void *opts) { return ((const struct mqar *)opts)->length; }

/* Returns the first gap whose cumulative weight exceeds a uniform number. */
static int64_t draw_gap(struct draw *d, const struct mqar *o)
{
    int64_t low = 0, high = space(o) - 1;
    double at = weft_uniform(d->key, d->drawn++) * o->reach[high];
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (o->reach[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void sample(const struct weft_spec *spec, const void *opts, uint64_t index, int32_t *tokens, int32_t *targets)
{
    const struct mqar *o = opts;
    int64_t n = o->pairs, half = spec->vocab / 2;
    struct draw d = draw_begin(spec, "task.mqar", index);
    memset(tokens, 0, (size_t)o->length * sizeof *tokens);
    for (int64_t i = 0; i < o->length; i++)
        targets[i] = -1;
    for (int64_t m = 0; m < n; m++) { /* no key is a value; each draw differs from all earlier ones */
        tokens[2 * m] = draw_other(&d, 1, half - 1, tokens, 2 * m);
        tokens[2 * m + 1] = draw_other(&d, half, spec->vocab - half, tokens, 2 * m);
    }
    for (int64_t m = 0; m < n; m++) {
        int64_t at;
        do /* if the gap is taken, draws again, which keeps the other gaps' relative weights */
            at = 2 * n + 2 * draw_gap(&d, o);
        while (tokens[at]);
        tokens[at] = tokens[2 * m];
        targets[at] = tokens[2 * m + 1];
    }
    for (int64_t i = 2 * n; o->fill == FILL_UNIFORM && i < o->length; i++)
        if (!tokens[i])
            tokens[i] = (int32_t)draw_below(&d, spec->vocab);
}

/* Counts choices of keys, values and gaps; different tokens in the other slots do not make a different sample. */
static double different(const struct weft_spec *spec, const void *opts)
{
    const struct mqar *o = opts;
    int64_t half = spec->vocab / 2;
    return draw_ways(half - 1, o->pairs) * draw_ways(spec->vocab - half, o->pairs) * draw_ways(space(o), o->pairs);
}

static struct weft_floor find_floor(const struct weft_spec *spec, const void *opts)
{
    (void)spec;
    return (struct weft_floor){.accuracy = 1, .chance = 1 / (double)((const struct mqar *)opts)->pairs};
}

const struct weft_task weft_task_mqar = {
    .name = "mqar",
    .summary = "answer n queries with the values that followed their keys",
    .owner = WEFT_OWNER("task=mqar", options),
    .options_bytes = sizeof(struct mqar),
    .resolve = resolve,
    .length = length,
    .sample = sample,
    .different = different,
    .floor = find_floor,
};
