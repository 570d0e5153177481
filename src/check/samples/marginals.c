/* SPDX-License-Identifier: MIT
 *
 * marginals.c - checks that tokens which a task draws uniformly are uniform: at every position the halves, parity and
 * eighths of the range, and over all positions with the same range, every token or class of tokens.
 *
 * Tokens of a sample that are drawn without replacement deviate less than chance, never more.
 */
#include "check/probe/dropout.h"
#include "check/samples/samples.h"

#include <stdio.h>
#include <stdlib.h>

enum { EIGHTHS = 8, MOST_SOURCES = 16 /* fuzzy: 16 tokens of a key */, CLASSES = 256 };

struct place {
    int64_t first, count; /* range of tokens */
    int64_t all, low, even, eighth[EIGHTHS];
};
struct source {
    int64_t first, count, all, range[CLASSES], rest[CLASSES]; /* counts of tokens by size, and by remainder */
};
struct weft_marginals {
    const struct weft_definition *definition;
    int64_t length;
    struct source source[MOST_SOURCES];
    int sources;
    struct place place[];
};

enum weft_status weft_marginals_open(struct weft_marginals **m, const struct weft_definition *definition,
                                     int64_t length)
{
    *m = calloc(1, sizeof **m + (size_t)length * sizeof *(*m)->place);
    if (!*m)
        return FAIL(WEFT_NOMEM, "not enough memory for samples");
    (*m)->definition = definition;
    (*m)->length = length;
    return WEFT_OK;
}

void weft_marginals_close(struct weft_marginals *m) { free(m); }

/* ---- counting */

static struct source *source_of(struct weft_marginals *m, int64_t first, int64_t count)
{
    int i = 0;
    while (i < m->sources && (m->source[i].first != first || m->source[i].count != count))
        i++;
    if (i == MOST_SOURCES)
        return &m->source[0];
    if (i == m->sources)
        m->source[m->sources++] = (struct source){.first = first, .count = count};
    return &m->source[i];
}

void weft_marginals_add(struct weft_marginals *m, const struct weft_drawn *d)
{
    int64_t first, count;
    for (int64_t i = 0; i < m->length; i++) {
        if (!m->definition->drawn_from(d, i, &first, &count))
            continue;
        struct place *p = &m->place[i];
        struct source *s = source_of(m, first, count);
        int64_t x = d->tokens[i] - first, classes = weft_min(count, CLASSES);
        p->first = first;
        p->count = count;
        p->all++;
        s->all++;
        if (x < 0 || x >= count)
            continue; /* missing from the other counts */
        p->low += x < count / 2;
        p->even += x % 2 == 0;
        p->eighth[x * EIGHTHS / count]++;
        s->range[x * classes / count]++;
        s->rest[x % classes]++;
    }
}

/* ---- comparing */

struct worst {
    double sigmas;
    int64_t position; /* -1: over all positions */
    const char *what;
};

static void look(struct worst *w, int64_t position, const char *what, double sigmas)
{
    if (!(sigmas <= w->sigmas))
        *w = (struct worst){sigmas, position, what};
}

/* Returns the fraction of the numbers 0 to count-1 that i * parts / count puts into this part. */
static double share(int64_t part, int64_t parts, int64_t count)
{
    return (double)(weft_div_up((part + 1) * count, parts) - weft_div_up(part * count, parts)) / (double)count;
}

static void compare_place(struct worst *w, int64_t position, const struct place *p)
{
    double n = (double)p->count;
    look(w, position, "the lower half", weft_count_sigmas(p->low, p->all, (double)(p->count / 2) / n));
    look(w, position, "every second token", weft_count_sigmas(p->even, p->all, (double)((p->count + 1) / 2) / n));
    for (int64_t i = 0; i < EIGHTHS; i++)
        look(w, position, "an eighth", weft_count_sigmas(p->eighth[i], p->all, share(i, EIGHTHS, p->count)));
}

static void compare_source(struct worst *w, const struct source *s)
{
    int64_t classes = weft_min(s->count, CLASSES);
    for (int64_t i = 0; i < classes; i++) {
        double rest = (double)((s->count - i + classes - 1) / classes) / (double)s->count;
        look(w, -1, "a range of tokens", weft_count_sigmas(s->range[i], s->all, share(i, classes, s->count)));
        look(w, -1, "tokens of one remainder", weft_count_sigmas(s->rest[i], s->all, rest));
    }
}

void weft_marginals_report(const struct weft_trial *t, const struct weft_marginals *m)
{
    struct worst w = {.what = ""};
    for (int64_t i = 0; i < m->length; i++)
        if (m->place[i].all > 0)
            compare_place(&w, i, &m->place[i]);
    for (int i = 0; i < m->sources; i++)
        compare_source(&w, &m->source[i]);
    char where[64] = "over all positions";
    if (w.position >= 0)
        snprintf(where, sizeof where, "at position %lld", (long long)w.position);
    weft_trial_report(t, w.sigmas <= 6, w.sigmas, 6, "tokens that are drawn as often as others, in sigmas", "%s %s",
                      w.what, where);
}
