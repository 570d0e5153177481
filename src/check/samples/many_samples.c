/* SPDX-License-Identifier: MIT
 *
 * many_samples.c - checks samples of the real task up to the end of training: each is a function of its index, has no
 * defect and occurs once.
 *
 * It looks at the first few thousand samples, at held-out ones, and at others spread up to the last of the recipe and
 * around powers of two. A task whose samples repeat with period P is detected if P is less than the number of first
 * samples times the number of spread samples. If a task has few distinct samples, sequences of them are compared
 * instead.
 */
#include "check/samples/samples.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TOKENS = 1 << 20, MOST = 4096, LEAST = 8, GROUP = 64, FAR = 1 << 22, SPREAD_KEY = 96 };
#define PLENTY 1e10 /* number of distinct samples */
#define SKEW 32     /* factor by which equal samples are more frequent, because some are more likely than others */

/* A sample, or a sequence of them, that starts at an index. */
struct seen {
    uint64_t hash, index;
};

struct many {
    const struct weft_definition *definition; /* NULL: none */
    struct weft_drawn drawn;
    void *context;
    struct weft_marginals *marginals;
    int64_t first, held_out, spread; /* numbers of first, held-out and spread samples (or starts of sequences) */
    bool compares;                   /* equal samples are a defect, unlike in texts */
    int group;                       /* number of samples in a sequence */
    double different;
    struct seen *seen, *begun; /* sequences; first sample of each spread sequence */
    int64_t seen_count, begun_count;
    int64_t defects;
    uint64_t defect_at;
    const char *defect;
};

/* ---- drawing */

static uint64_t draw(struct many *m, uint64_t index)
{
    struct weft_drawn *d = &m->drawn;
    uint64_t hash = 1;
    d->index = index;
    d->recipe->task->sample(d->spec, d->recipe->task_options, index, d->tokens, d->targets);
    for (int64_t i = 0; i < 2 * d->length; i++) /* tokens, followed by targets */
        hash = (hash ^ (uint32_t)d->tokens[i]) * 0x9e3779b97f4a7c15u + (hash >> 29);
    return hash ^ hash >> 32;
}

/* Draws consecutive samples and hashes every sequence of m->group of them. */
static void draw_row(struct many *m, uint64_t first, int64_t count, bool counts)
{
    const uint64_t base = 0xd1342543de82ef95u;
    uint64_t last[GROUP] = {0}, highest = 1, hash = 0;
    for (int i = 0; i < m->group; i++)
        highest *= base;
    for (int64_t i = 0; i < count; i++) {
        uint64_t *old = &last[i % m->group], new = draw(m, first + (uint64_t)i);
        hash = hash * base + new - *old *highest;
        *old = new;
        if (counts && m->marginals)
            weft_marginals_add(m->marginals, &m->drawn);
        if (i + 1 >= m->group)
            m->seen[m->seen_count++] = (struct seen){hash, first + (uint64_t)(i + 1 - m->group)};
    }
}

static void look_for_defects(struct many *m, uint64_t index)
{
    m->begun[m->begun_count++] = (struct seen){draw(m, index), index};
    const char *wrong = weft_drawn_wrong(m->definition, &m->drawn, m->context);
    if (wrong && m->defects++ == 0) {
        m->defect = wrong;
        m->defect_at = index;
    }
}

/* ---- the samples to draw */

/* Returns one past the last sample that training may draw. */
static uint64_t end_of(const struct many *m)
{
    const struct weft_recipe *r = m->drawn.recipe;
    double all = (double)r->steps * (double)r->micro_batches * (double)m->drawn.spec->batch;
    if (m->definition) /* without a definition, later samples may not exist */
        all = fmax(all, FAR);
    return (uint64_t)fmin(all, (double)WEFT_HELD_OUT);
}

/* Returns the index of the i-th spread sample: the last, those around powers of two, then random ones. */
static uint64_t spread_index(const struct many *m, int64_t i)
{
    uint64_t group = (uint64_t)m->group, end = end_of(m), most = end > group ? end - group : 0;
    uint64_t near = ((uint64_t)1 << (i / 3 % 40)) + (uint64_t)(i % 3) - 1;
    if (i == 0)
        return most;
    return i < 120 && near < most ? near : weft_below(SPREAD_KEY, (uint64_t)i, most + 1);
}

static void draw_held_out(struct many *m, uint64_t first)
{
    int64_t there = weft_recipe_held_out(m->drawn.recipe, first, m->drawn.recipe->eval_samples);
    draw_row(m, first, weft_min(there, m->held_out), false);
    if (there > 0)
        look_for_defects(m, first + (uint64_t)there - 1);
}

static void draw_all(struct many *m)
{
    draw_row(m, 0, weft_min(m->first, (int64_t)end_of(m)), true);
    draw_held_out(m, WEFT_HELD_OUT);
    draw_held_out(m, WEFT_TEST);
    for (int64_t i = 0; i < m->spread; i++) {
        draw_row(m, spread_index(m, i), m->group, false);
        look_for_defects(m, spread_index(m, i));
    }
}

/* ---- reports */

static int by_hash(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash)
                              : (x->index > y->index) - (x->index < y->index);
}

static void check_recurring(const struct weft_trial *t, struct many *m)
{
    double n = (double)m->seen_count, chance = m->group > 1 ? 0 : SKEW * n * n / 2 / m->different;
    double limit = chance > 1e-9 ? floor(3 + chance + 6 * sqrt(chance)) : 0;
    int64_t equal = 0, at = 0;
    char name[160];
    qsort(m->seen, (size_t)m->seen_count, sizeof *m->seen, by_hash);
    for (int64_t i = 1; i < m->seen_count; i++)
        if (m->seen[i].hash == m->seen[i - 1].hash && m->seen[i].index != m->seen[i - 1].index && equal++ == 0)
            at = i;
    snprintf(name, sizeof name, "%s that recur (of %lld, up to sample %llu)",
             m->group > 1 ? "sequences of 64 samples" : "samples", (long long)m->seen_count,
             (unsigned long long)end_of(m) - 1);
    weft_trial_report(t, (double)equal <= limit, (double)equal, limit, name,
                      "starting at sample %llu and at sample %llu", (unsigned long long)m->seen[at].index,
                      (unsigned long long)m->seen[at ? at - 1 : 0].index);
}

/* Draws the spread samples again in reverse order, so that a sample that depends on those before it differs. */
static void check_again(const struct weft_trial *t, struct many *m)
{
    int64_t unlike = 0;
    uint64_t at = 0;
    for (int64_t i = m->begun_count - 1; i >= 0; i--)
        if (draw(m, m->begun[i].index) != m->begun[i].hash && unlike++ == 0)
            at = m->begun[i].index;
    weft_trial_report(t, m->defects == 0, (double)m->defects, 0, "later samples with a defect", "sample %llu: %s",
                      (unsigned long long)m->defect_at, m->defect);
    weft_trial_report(t, unlike == 0, (double)unlike, 0, "later samples that differ when they are drawn again",
                      "sample %llu", (unsigned long long)at);
}

static enum weft_status prepare(struct many *m)
{
    const struct weft_recipe *r = m->drawn.recipe;
    bool makes = m->definition && m->definition->synthetic;
    m->different = r->task->different ? r->task->different(m->drawn.spec, r->task_options) : 0;
    m->compares = makes || m->different > PLENTY;
    m->group = m->different > PLENTY || !makes ? 1 : GROUP;
    m->first = weft_max(LEAST, weft_min(MOST, MOST_TOKENS / m->drawn.length));
    m->spread = weft_max(2, weft_min(m->first / 4, m->different > PLENTY ? MOST : 256));
    m->first = m->compares ? m->first : 0;
    m->held_out = m->first / 4;
    m->seen = calloc((size_t)(2 * m->first + m->spread), sizeof *m->seen);
    m->begun = calloc((size_t)m->spread + 2, sizeof *m->begun);
    m->drawn.tokens = calloc((size_t)m->drawn.length, 2 * sizeof *m->drawn.tokens);
    if (!m->seen || !m->begun || !m->drawn.tokens)
        return FAIL(WEFT_NOMEM, "not enough memory for samples");
    m->drawn.targets = m->drawn.tokens + m->drawn.length;
    if (m->definition && m->definition->drawn_from)
        TRY(weft_marginals_open(&m->marginals, m->definition, m->drawn.length));
    return WEFT_OK;
}

enum weft_status weft_check_many_samples(const struct weft_trial *t, const struct weft_definition *definition,
                                         const struct weft_drawn *drawn, void *context)
{
    struct many m = {.definition = definition, .drawn = *drawn, .context = context, .defect = ""};
    enum weft_status status = prepare(&m);
    if (status == WEFT_OK) {
        draw_all(&m);
        if (m.compares)
            check_recurring(t, &m);
        check_again(t, &m);
        if (m.marginals)
            weft_marginals_report(t, m.marginals);
    }
    weft_marginals_close(m.marginals);
    free(m.seen);
    free(m.begun);
    free(m.drawn.tokens);
    return status;
}
