/* SPDX-License-Identifier: MIT
 *
 * targets.c - checks the samples that the model itself is trained and scored on: the rules for all tasks and, for tasks
 * with a definition (targets_*.c), tokens and targets by that definition.
 */
#include "check/samples/samples.h"
#include "check/trainer/stepped.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRAINING = 64, HELD_OUT = 16, SAMPLES = TRAINING + 2 * HELD_OUT, MANY = 512, MOST_TOKENS = 1 << 22 };
#define PLENTY 1e10 /* number of distinct samples above which no two are equal by chance */

int64_t weft_drawn_option(const struct weft_drawn *d, const char *name)
{
    double value = -1;
    weft_plain_option(&d->recipe->task->owner, d->recipe->task_options, name, &value);
    return (int64_t)value;
}

static const struct weft_definition *const definitions[] = {&weft_definition_recall, &weft_definition_mqar,
                                                            &weft_definition_fuzzy, &weft_definition_entailment,
                                                            &weft_definition_text};

static const struct weft_definition *definition_of(const struct weft_task *task)
{
    for (size_t i = 0; i < sizeof definitions / sizeof *definitions; i++)
        if (strcmp(definitions[i]->task, task->name) == 0)
            return definitions[i];
    return NULL;
}

/* Samples one after another, each with its tokens and targets. */
struct samples {
    const struct weft_definition *definition;
    struct weft_drawn drawn;
    int32_t *all;
    void *context;
};

static void draw(struct samples *s, uint64_t index, int i)
{
    struct weft_drawn *d = &s->drawn;
    d->index = index;
    d->tokens = s->all + 2 * d->length * i;
    d->targets = d->tokens + d->length;
    d->recipe->task->sample(d->spec, d->recipe->task_options, index, d->tokens, d->targets);
}

static bool same(const struct samples *s, int i, int j)
{
    size_t count = 2 * (size_t)s->drawn.length;
    return memcmp(s->all + (size_t)i * count, s->all + (size_t)j * count, count * sizeof *s->all) == 0;
}

/* Returns the index of the i-th sample to check; if a task has few held-out samples, some are used twice. */
static uint64_t index_of(const struct samples *s, int i)
{
    if (i < TRAINING)
        return (uint64_t)i;
    uint64_t first = i < TRAINING + HELD_OUT ? WEFT_HELD_OUT : WEFT_TEST;
    int64_t there = weft_recipe_held_out(s->drawn.recipe, first, HELD_OUT);
    return first + (uint64_t)weft_min((i - TRAINING) % HELD_OUT, weft_max(1, there) - 1);
}

static void check_each(const struct weft_trial *t, struct samples *s)
{
    int defects = 0, unlike = 0;
    int64_t scored = 0;
    uint64_t at = 0, unlike_at = 0;
    const char *first = "no token is scored", *wrong;
    char name[160];
    for (int i = 0; i < SAMPLES; i++) {
        draw(s, index_of(s, i), i);
        draw(s, index_of(s, i), SAMPLES); /* again */
        if (!same(s, i, SAMPLES) && unlike++ == 0)
            unlike_at = s->drawn.index;
        wrong = weft_drawn_wrong(s->definition, &s->drawn, s->context);
        if (wrong && defects++ == 0) {
            first = wrong;
            at = s->drawn.index;
        }
        for (int64_t p = 0; p < s->drawn.length; p++)
            scored += s->drawn.targets[p] != -1;
    }
    snprintf(name, sizeof name, "samples of %s against %s (%d of training, %d of validation, %d of the test)",
             s->drawn.recipe->task->name,
             s->definition ? "its definition" : "the vocabulary alone: it has no definition here", TRAINING, HELD_OUT,
             HELD_OUT);
    weft_trial_report(t, defects == 0 && scored > 0, defects, 0, name, "sample %llu: %s", (unsigned long long)at,
                      first);
    weft_trial_report(t, unlike == 0, unlike, 0, "samples that differ when they are drawn again", "sample %llu",
                      (unsigned long long)unlike_at);
}

/* Returns the number of distinct samples of the task; 0: unknown. */
static double different(const struct samples *s)
{
    const struct weft_recipe *r = s->drawn.recipe;
    return r->task->different ? r->task->different(s->drawn.spec, r->task_options) : 0;
}

static void check_different(const struct weft_trial *t, const struct samples *s)
{
    int equal = 0, as_first = 0;
    for (int i = 0; i < SAMPLES; i++) {
        as_first += i > 0 && i < TRAINING && same(s, 0, i);
        for (int j = 0; j < i; j++)
            equal += index_of(s, i) != index_of(s, j) && same(s, i, j);
    }
    if (different(s) > PLENTY)
        weft_trial_report(t, equal == 0, equal, 0, "equal samples of training, validation and test",
                          "samples are repeated");
    else
        weft_trial_report(t, as_first < TRAINING - 1, as_first, TRAINING - 2, "training samples equal to the first",
                          "all samples are the same");
}

static void check_seed(const struct weft_trial *t, struct samples *s)
{
    const struct weft_spec *own = s->drawn.spec;
    struct weft_spec other = *own;
    int equal = 0;
    other.seed = own->seed + 1;
    for (int i = 0; i < TRAINING; i++) {
        s->drawn.spec = &other;
        draw(s, (uint64_t)i, SAMPLES);
        s->drawn.spec = own;
        equal += same(s, i, SAMPLES);
    }
    int limit = different(s) > PLENTY ? 0 : TRAINING - 1;
    weft_trial_report(t, equal <= limit, equal, limit, "training samples that another seed gives too",
                      "samples do not depend on the seed");
}

static void check_mean(const struct weft_trial *t, struct samples *s)
{
    const double limit = 6;
    int64_t count = weft_max(32, weft_min(MANY, MOST_TOKENS / s->drawn.length));
    double sum = 0, mean, deviation;
    char name[160];
    for (int64_t i = 0; i < count; i++) {
        draw(s, (uint64_t)i, SAMPLES);
        sum += s->definition->number(&s->drawn);
    }
    s->definition->expected(&s->drawn, &mean, &deviation);
    double away = fabs(sum / (double)count - mean);
    double sigmas = away <= 1e-9 * fabs(mean) ? 0 : away / (deviation / sqrt((double)count));
    snprintf(name, sizeof name, "what %s draws: mean of %lld samples, in sigmas", s->definition->task,
             (long long)count);
    weft_trial_report(t, sigmas <= limit, sigmas, limit, name, "%g, expected %g", sum / (double)count, mean);
}

enum weft_status weft_check_targets(const struct weft_trial *t)
{
    const struct weft_recipe *r = t->itself->recipe;
    struct samples s = {.definition = definition_of(r->task), .drawn = {.spec = t->itself->model->spec, .recipe = r}};
    enum weft_status status = WEFT_OK;
    s.drawn.length = r->task->length(r->task_options);
    s.all = calloc((size_t)s.drawn.length, 2 * (SAMPLES + 1) * sizeof *s.all);
    if (!s.all)
        return FAIL(WEFT_NOMEM, "not enough memory for samples");
    if (s.definition && s.definition->open)
        status = s.definition->open(&s.drawn, &s.context);
    if (status == WEFT_OK)
        check_each(t, &s);
    if (status == WEFT_OK && (!s.definition || s.definition->synthetic)) /* texts may repeat themselves */
        check_different(t, &s);
    if (status == WEFT_OK && s.definition && s.definition->synthetic)
        check_seed(t, &s);
    if (status == WEFT_OK && s.definition && s.definition->number)
        check_mean(t, &s);
    if (status == WEFT_OK)
        status = weft_check_many_samples(t, s.definition, &s.drawn, s.context);
    if (status == WEFT_OK)
        status = weft_check_labels(t, s.definition, &s.drawn, s.context);
    if (status == WEFT_OK && s.definition && s.definition->further)
        status = s.definition->further(t, &s.drawn, s.context);
    if (s.definition && s.definition->close)
        s.definition->close(s.context);
    free(s.all);
    if (status == WEFT_OK && r->task->failure)
        status = r->task->failure(r->task_options);
    return status;
}
