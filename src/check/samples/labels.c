/* SPDX-License-Identifier: MIT
 *
 * labels.c - checks tokens and labels of all samples that a run reads against the definition of the task: the training
 * samples, and the held-out ones that are scored.
 *
 * If there is no time for all of them, the range is divided into pieces of equal length and one random sample is taken
 * from each. So, in a run that draws many samples, a defect that affects one sample in several thousand is found
 * wherever it occurs.
 */
#include "check/samples/samples.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAST = 256 /* minimum number of samples */, PLACE_KEY = 98 };

/* Fractions of the time limit for each range. */
#define SHARE_TRAINING 0.02
#define SHARE_HELD_OUT 0.004
#define MOST_SECONDS 0.3 /* enough to find a defect of one sample in 20000 */

struct labels {
    const struct weft_definition *definition; /* NULL: none */
    struct weft_drawn drawn;
    void *context;
    int64_t defects;
    uint64_t defect_at;
    const char *defect;
};

struct range {
    const char *name;
    uint64_t first;
    int64_t count;
    double share;
};

static const char *wrong_numbers(const struct weft_drawn *d)
{
    for (int64_t i = 0; i < d->length; i++) {
        if (d->tokens[i] < 0 || d->tokens[i] >= d->spec->vocab)
            return "a token is outside the vocabulary";
        if (d->targets[i] < -1 || d->targets[i] >= d->spec->vocab)
            return "a target is outside the vocabulary";
    }
    return NULL;
}

const char *weft_drawn_wrong(const struct weft_definition *definition, const struct weft_drawn *d, void *context)
{
    const char *wrong = wrong_numbers(d);
    return !wrong && definition ? definition->wrong(d, context) : wrong;
}

static void look_at(struct labels *l, uint64_t index)
{
    struct weft_drawn *d = &l->drawn;
    d->index = index;
    d->recipe->task->sample(d->spec, d->recipe->task_options, index, d->tokens, d->targets);
    const char *wrong = weft_drawn_wrong(l->definition, d, l->context);
    if (wrong && l->defects++ == 0) {
        l->defect = wrong;
        l->defect_at = index;
    }
}

/* Divides the range into pieces and checks one random sample of each. With as many pieces as samples, all samples are
 * checked. */
static void look_at_pieces(struct labels *l, const struct range *r, int64_t pieces)
{
    uint64_t begin = r->first;
    for (int64_t i = 0; i < pieces; i++) {
        uint64_t samples = (uint64_t)(r->count / pieces + (i < r->count % pieces));
        look_at(l, begin + weft_below(PLACE_KEY, (uint64_t)i, samples));
        begin += samples;
    }
}

/* Returns the number of samples checked. The first samples take longer than others, so the number that fits into the
 * time limit is estimated again after each pass. */
static int64_t look_at_range(const struct weft_trial *t, struct labels *l, const struct range *r)
{
    int64_t looked = 0, next = weft_min(r->count, LEAST);
    while (looked < next && l->defects == 0) {
        double start = weft_seconds();
        look_at_pieces(l, r, next);
        looked = next;
        int64_t more =
            weft_itself_fits(t->itself, r->share, MOST_SECONDS, (weft_seconds() - start) / (double)looked, r->count);
        next = more == r->count || more > 2 * looked ? more : looked;
    }
    return looked;
}

static void check_range(const struct weft_trial *t, struct labels *l, const struct range *r)
{
    char name[160];
    if (r->count <= 0)
        return;
    l->defects = 0;
    snprintf(name, sizeof name, "samples of %s that are wrong (%lld of %lld)", r->name,
             (long long)look_at_range(t, l, r), (long long)r->count);
    weft_trial_report(t, l->defects == 0, (double)l->defects, 0, name, "sample %llu: %s",
                      (unsigned long long)l->defect_at, l->defect);
}

/* Returns the number of samples that training reads. */
static int64_t count_training(const struct weft_drawn *d)
{
    const struct weft_recipe *r = d->recipe;
    return (int64_t)fmin((double)r->steps * (double)r->micro_batches * (double)d->spec->batch, (double)WEFT_HELD_OUT);
}

enum weft_status weft_check_labels(const struct weft_trial *t, const struct weft_definition *definition,
                                   const struct weft_drawn *drawn, void *context)
{
    struct labels l = {.definition = definition, .drawn = *drawn, .context = context, .defect = ""};
    const struct weft_recipe *r = drawn->recipe;
    const struct range ranges[] = {
        {"training", 0, count_training(drawn), SHARE_TRAINING},
        {"validation", WEFT_HELD_OUT, weft_recipe_held_out(r, WEFT_HELD_OUT, r->eval_samples), SHARE_HELD_OUT},
        {"the test", WEFT_TEST, weft_recipe_held_out(r, WEFT_TEST, r->eval_samples), SHARE_HELD_OUT},
    };
    l.drawn.tokens = calloc((size_t)drawn->length, 2 * sizeof *l.drawn.tokens);
    if (!l.drawn.tokens)
        return FAIL(WEFT_NOMEM, "not enough memory for samples");
    l.drawn.targets = l.drawn.tokens + drawn->length;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        check_range(t, &l, &ranges[i]);
    free(l.drawn.tokens);
    return WEFT_OK;
}
