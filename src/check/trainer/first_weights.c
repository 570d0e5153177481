/* SPDX-License-Identifier: MIT
 *
 * first_weights.c - checks initial weights: each follows its declared rule, and no two use the same random numbers.
 *
 * For the model itself, elements are computed again one by one from seed, init_key, name and element index only; all of
 * them are compared with the declared distribution; and repeated values are searched for in all random weights
 * together. On a model with the size of the twin, different seeds and keys must change every random weight.
 */
#include "check/probe/dropout.h"
#include "check/trainer/stepped.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_ELEMENTS = 1 << 14, CUTS = 7, PIECE = 4, MOST_PIECES = 1 << 18, PLACES_KEY = 95, MANY = 1 << 14 };

static bool is_random(const struct weft_param *w) { return w->init != WEFT_INIT_CONSTANT && w->init_value != 0; }

/* Returns whether the element is outside the randomly initialised square blocks. */
static bool is_left_out(const struct weft_param *w, int64_t element)
{
    if (!w->init_blocks)
        return false;
    int64_t columns = w->dim[w->ndim - 1], side = columns / w->init_blocks;
    int64_t row = element / columns, column = element % columns;
    return column < row / side * side || column >= (row / side + 1) * side;
}

/* ---- by the rule */

static double by_rule(const struct weft_param *w, uint64_t key, int64_t element)
{
    if (is_left_out(w, element))
        return 0;
    switch (w->init) {
    case WEFT_INIT_NORMAL:
        return w->init_value * weft_normal(key, (uint64_t)element);
    case WEFT_INIT_UNIFORM:
        return w->init_value * (2 * weft_uniform(key, (uint64_t)element) - 1);
    default:
        return w->init_value;
    }
}

/* Returns the i-th element to compare: small weights are compared whole; for large ones, the ends and, between them,
 * one random element of each piece. */
static int64_t element_at(const struct weft_param *w, int64_t i)
{
    int64_t each = w->count / MOST_ELEMENTS;
    if (w->count <= MOST_ELEMENTS)
        return i;
    if (i == MOST_ELEMENTS - 1)
        return w->count - 1;
    return i < 64 ? i : i * each + (int64_t)weft_below(PLACES_KEY, (uint64_t)i, (uint64_t)each);
}

/* ---- against the distribution */

static double share_below(const struct weft_param *w, double cut)
{
    return w->init == WEFT_INIT_NORMAL ? erfc(-cut / sqrt(2)) / 2 : (cut + 1) / 2;
}

/* The results for one weight. */
struct found {
    int64_t looked, wrong, wrong_at, drawn;
    double sigmas, squares; /* squares: sum of the deviations of x^2 from its mean, in standard deviations */
};
struct looking {
    const struct weft_params *params;
    uint64_t key;
    struct found *found;
};

static void look_at_rule(const struct looking *l, const struct weft_param *w, struct found *f)
{
    uint64_t key = weft_key_name(l->key, w->name);
    f->looked = weft_min(w->count, MOST_ELEMENTS);
    for (int64_t i = 0; i < f->looked; i++) {
        int64_t at = element_at(w, i);
        if (!(fabs(l->params->weights[w->offset + at] - by_rule(w, key, at)) <= 1e-6 * fabs(w->init_value)) &&
            f->wrong++ == 0)
            f->wrong_at = at;
    }
}

static void look_at_all(const struct looking *l, const struct weft_param *w, struct found *f)
{
    static const double cuts[] = {-2, -1, -0.5, 0, 0.5, 1, 2}; /* in standard deviations, or 0.4 of the bound */
    double unit = w->init == WEFT_INIT_NORMAL ? 1 : 0.4;
    /* mean and standard deviation of the square of a normal or a uniform number, relative to init_value */
    double mean = w->init == WEFT_INIT_NORMAL ? 1 : 1.0 / 3,
           deviation = sqrt(w->init == WEFT_INIT_NORMAL ? 2 : 4.0 / 45);
    int64_t below[CUTS] = {0};
    const float *x = l->params->weights + w->offset;
    for (int64_t i = 0; i < w->count; i++) {
        bool out = is_left_out(w, i);
        double z = x[i] / w->init_value;
        f->drawn += !out;
        f->squares += out ? 0 : (z * z - mean) / deviation;
        for (int c = 0; !out && c < CUTS; c++)
            below[c] += x[i] < cuts[c] * unit * w->init_value;
    }
    for (int c = 0; c < CUTS; c++)
        f->sigmas = fmax(f->sigmas, weft_count_sigmas(below[c], f->drawn, share_below(w, cuts[c] * unit)));
}

static void look_at(void *context, int64_t i, int thread)
{
    const struct looking *l = context;
    const struct weft_param *w = &l->params->list[i];
    (void)thread;
    look_at_rule(l, w, &l->found[i]);
    if (is_random(w))
        look_at_all(l, w, &l->found[i]);
}

static void report_found(const struct weft_trial *t, const struct weft_params *p, const struct found *found)
{
    int64_t looked = 0, wrong = 0, drawn = 0;
    double squares = 0;
    int first = 0, worst = 0;
    char name[160];
    for (int i = 0; i < p->count; i++) {
        first = wrong == 0 ? i : first;
        looked += found[i].looked;
        wrong += found[i].wrong;
        drawn += found[i].drawn;
        squares += found[i].squares;
        worst = found[i].sigmas > found[worst].sigmas ? i : worst;
    }
    snprintf(name, sizeof name, "first weights that are not as declared (%lld of %lld elements)", (long long)looked,
             (long long)p->elements);
    weft_trial_report(t, wrong == 0, (double)wrong, 0, name, "%s, element %lld does not follow from seed and init_key",
                      p->list[first].name, (long long)found[first].wrong_at);
    weft_trial_report(t, found[worst].sigmas <= 6, found[worst].sigmas, 6,
                      "first weights: their distribution against the declared one, in sigmas", "%s",
                      p->list[worst].name);
    squares = fabs(squares) / sqrt((double)weft_max(1, drawn));
    if (drawn >= MANY) /* otherwise the sum is not nearly normal */
        weft_trial_report(t, squares <= 6, squares, 6, "first weights: squares of all random ones, in sigmas",
                          "the scale of random numbers");
}

/* ---- repeated values */

/* A few consecutive elements; no two pieces are equal by chance. */
struct piece {
    uint64_t hash;
    int param;
    int64_t element;
};

static int by_hash(const void *a, const void *b)
{
    uint64_t x = ((const struct piece *)a)->hash, y = ((const struct piece *)b)->hash;
    return (x > y) - (x < y);
}

static uint64_t hash_of(const uint32_t *words)
{
    uint64_t hash = 0;
    for (int i = 0; i < PIECE; i++)
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u + (hash >> 29);
    return hash;
}

/* Selects pieces by their content, so equal pieces are either all selected or all skipped. */
static int64_t collect(const struct weft_params *p, struct piece *pieces)
{
    int64_t count = 0, elements = 0;
    int shift = 0;
    for (int i = 0; i < p->count; i++)
        elements += is_random(&p->list[i]) ? p->list[i].count : 0;
    while (elements >> shift > MOST_PIECES / 2)
        shift++;
    for (int i = 0; i < p->count; i++) {
        const struct weft_param *w = &p->list[i];
        const uint32_t *words = (const uint32_t *)(const void *)(p->weights + w->offset);
        for (int64_t e = 0; is_random(w) && e + PIECE <= w->count && count < MOST_PIECES; e++)
            if (words[e] && words[e + PIECE - 1] && (words[e] * 0x9e3779b1u >> 1) >> (31 - shift) == 0)
                pieces[count++] = (struct piece){hash_of(words + e), i, e};
    }
    return count;
}

static enum weft_status check_recurring(const struct weft_trial *t, const struct weft_params *p)
{
    struct piece *pieces = calloc(MOST_PIECES, sizeof *pieces);
    int64_t equal = 0, at = 0;
    if (!pieces)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    int64_t count = collect(p, pieces);
    qsort(pieces, (size_t)count, sizeof *pieces, by_hash);
    for (int64_t i = 1; i < count; i++)
        if (pieces[i].hash == pieces[i - 1].hash && equal++ == 0)
            at = i;
    if (count > 0)
        weft_trial_report(t, equal == 0, (double)equal, 0, "first weights that recur",
                          "%s from element %lld repeats %s from element %lld", p->list[pieces[at].param].name,
                          (long long)pieces[at].element, p->list[pieces[at ? at - 1 : 0].param].name,
                          (long long)pieces[at ? at - 1 : 0].element);
    free(pieces);
    return WEFT_OK;
}

enum weft_status weft_check_first_weights(const struct weft_trial *t)
{
    const struct weft_nn *model = t->itself->model;
    const struct weft_params *p = &model->params;
    uint64_t seed = (uint64_t)model->spec->seed, init_key = (uint64_t)model->spec->init_key;
    struct looking l = {p, init_key == 0 ? seed : weft_key(seed, init_key), calloc((size_t)p->count, sizeof *l.found)};
    if (!l.found)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    weft_parallel(p->count, look_at, &l);
    report_found(t, p, l.found);
    free(l.found);
    TRY(check_recurring(t, p));
    return WEFT_OK;
}

/* ---- different seeds and keys */

/* Returns the first random weight of which two models share more than one element, not counting zeros; -1: none. */
static int shared(const struct weft_params *a, const struct weft_params *b)
{
    for (int i = 0; i < a->count; i++) {
        const struct weft_param *w = &a->list[i];
        int64_t equal = 0;
        for (int64_t e = w->offset; is_random(w) && e < w->offset + w->count; e++)
            equal += a->weights[e] != 0 && a->weights[e] == b->weights[e];
        if (equal > (w->count > 1))
            return i;
    }
    return -1;
}

enum weft_status weft_check_seeds(const struct weft_trial *t)
{
    enum { MODELS = 4 };
    static const char *const what[] = {"", "the seed", "init_key", "seed and init_key"};
    struct weft_spec specs[MODELS];
    struct weft_nn *models[MODELS] = {NULL};
    enum weft_status status = WEFT_OK;
    int alike = 0, at = 0;
    const char *weight = "";
    for (int i = 0; i < MODELS && status == WEFT_OK; i++) {
        specs[i] = *t->model->spec;
        specs[i].seed ^= i % 2;
        specs[i].init_key ^= i / 2;
        status = weft_nn_create(&models[i], &specs[i]);
        if (status == WEFT_OK)
            status = weft_nn_init(models[i]);
        for (int j = 0; j < i && status == WEFT_OK; j++) {
            int same = shared(&models[i]->params, &models[j]->params);
            if (same >= 0 && alike++ == 0) {
                at = i;
                weight = models[i]->params.list[same].name;
            }
        }
    }
    if (status == WEFT_OK)
        weft_trial_report(t, alike == 0, alike, 0, "seeds and init_keys that give a weight the same first values",
                          "%s does not change with %s", weight, what[at]);
    for (int i = 0; i < MODELS; i++)
        weft_nn_free(models[i]);
    return status;
}
