/* SPDX-License-Identifier: MIT
 *
 * noise.c - estimates the noise of the test set, in addition to the noise of the seeds, from the test items recorded by
 * every run, paired item by item with the first arm. The verdict is always based on the seeds; if a different test set
 * could change it, a note warns of this.
 *
 * If all seeds have the same items (text), an item's difference is its mean over seeds, and more seeds do not remove
 * this noise. If every seed draws its own items (recall), the interval over seeds already contains this noise.
 */
#include "report/read/results.h"
#include "train/score/items.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the items of a run */

/* The file must belong to this run: the mean of its items is the test loss. A missing file is not an error, because
 * earlier releases wrote none. */
static enum weft_status load(const struct weft_finished *run, struct weft_items *items, bool *missing)
{
    char path[4096];
    *items = (struct weft_items){0};
    *missing = !run->folder || snprintf(path, sizeof path, "%s/%s", run->folder, WEFT_ITEMS_FILE) >= (int)sizeof path ||
               access(path, F_OK);
    if (*missing)
        return WEFT_OK;
    TRY(weft_items_load(items, path));
    double off = fabs(weft_items_loss(items) - run->test_loss);
    if (!(off <= 1e-9 + 1e-6 * fabs(run->test_loss)))
        return FAIL(WEFT_FORMAT, "%s: the mean of its items, %.6g, is not the test loss of the run, %.6g", path,
                    weft_items_loss(items), run->test_loss);
    return WEFT_OK;
}

/* ---- sets of items */

struct pool {
    int64_t sets, items;
    double *cost, *weight; /* costs and weights of the first set, or sums over all sets if they have the same items */
    struct weft_item_noise *noise;
    char (*hash)[65];
    bool same;      /* all sets have the same items */
    bool different; /* no two sets have the same items */
};

static enum weft_status pool_init(struct pool *p, struct weft_arena *arena, int64_t sets)
{
    *p = (struct pool){.same = true, .different = true};
    p->noise = weft_arena_alloc(arena, (size_t)weft_max(1, sets) * sizeof *p->noise);
    p->hash = weft_arena_alloc(arena, (size_t)weft_max(1, sets) * sizeof *p->hash);
    return p->noise && p->hash ? WEFT_OK : WEFT_NOMEM;
}

static enum weft_status take_first(struct pool *p, const double *weight, int64_t items, struct weft_arena *arena)
{
    p->items = items;
    p->cost = weft_arena_alloc(arena, 2 * (size_t)items * sizeof *p->cost);
    if (!p->cost)
        return WEFT_NOMEM;
    p->weight = p->cost + items;
    memcpy(p->weight, weight, (size_t)items * sizeof *weight);
    return WEFT_OK;
}

/* Adds a set of items with its noise. */
static enum weft_status pool_add(struct pool *p, const double *cost, const double *weight, const struct weft_items *t,
                                 struct weft_item_noise noise, struct weft_arena *arena)
{
    for (int64_t i = 0; i < p->sets; i++)
        *(strcmp(p->hash[i], t->items_sha256) ? &p->same : &p->different) = false;
    if (!p->sets)
        TRY(take_first(p, weight, t->count, arena));
    for (int64_t i = 0; p->same && i < t->count; i++) {
        p->same = t->count == p->items && p->weight[i] == weight[i]; /* otherwise the hash does not match the items */
        p->cost[i] += p->same ? cost[i] : 0;
    }
    p->noise[p->sets] = noise;
    snprintf(p->hash[p->sets++], sizeof *p->hash, "%s", t->items_sha256);
    return WEFT_OK;
}

/* If only some seeds have the same items, neither rule applies and the noise is unknown. */
static struct weft_item_noise pool_result(struct pool *p)
{
    struct weft_item_noise none = {0};
    for (int64_t i = 0; p->same && i < p->items; i++)
        p->cost[i] /= (double)p->sets;
    if (!p->sets || (!p->same && !p->different))
        return none;
    return p->same ? weft_item_noise(p->cost, p->weight, p->items) : weft_item_noise_join(p->noise, p->sets);
}

/* ---- an arm */

struct arm_noise {
    struct weft_results *r;
    struct weft_result_arm *arm;
    struct pool loss, difference;
    double *cost, *weight; /* costs and weights of one run's items */
    bool missing;
};

static const struct weft_finished *find_pair(const struct arm_noise *n, const struct weft_finished *run)
{
    const struct weft_finding *base = &n->r->arm[0].found;
    for (int i = 0; n->arm != n->r->arm && i < base->seeds; i++)
        if (base->run[i].seed == run->seed)
            return &base->run[i];
    return NULL;
}

static enum weft_status add_pair(struct arm_noise *n, const struct weft_finished *run, const struct weft_items *a,
                                 const struct weft_items *b, bool counts, struct weft_item_noise *noise)
{
    if (!weft_items_same(a, b))
        return FAIL(WEFT_FORMAT, "with seed %lld it was not scored on the same items as %s", (long long)run->seed,
                    n->r->arm[0].name);
    for (int64_t i = 0; i < a->count; i++)
        n->cost[i] = a->nll[i] - b->nll[i];
    *noise = weft_item_noise(n->cost, n->weight, a->count);
    if (counts)
        TRY(pool_add(&n->difference, n->cost, n->weight, a, *noise, &n->r->arena));
    return WEFT_OK;
}

static enum weft_status add_items(struct arm_noise *n, const struct weft_finished *run, const struct weft_items *a)
{
    struct weft_run_noise *noise = &n->arm->run_noise[run - n->arm->run];
    const struct weft_finished *pair = find_pair(n, run);
    struct weft_items b = {0};
    for (int64_t i = 0; i < a->count; i++)
        n->weight[i] = a->tokens[i];
    n->arm->found.test.kind = a->kind;
    noise->loss = weft_item_noise(a->nll, n->weight, a->count);
    TRY(pool_add(&n->loss, a->nll, n->weight, a, noise->loss, &n->r->arena));
    if (!pair)
        return WEFT_OK;
    bool missing, counts = n->difference.sets < n->arm->found.against.seeds;
    enum weft_status status = load(pair, &b, &missing);
    if (status == WEFT_OK && !missing)
        status = add_pair(n, run, a, &b, counts, &noise->difference);
    n->missing |= missing;
    weft_items_release(&b);
    return status;
}

static enum weft_status add_runs(struct arm_noise *n)
{
    const struct weft_finding *f = &n->arm->found;
    TRY(pool_init(&n->loss, &n->r->arena, f->seeds));
    TRY(pool_init(&n->difference, &n->r->arena, f->seeds));
    for (int i = 0; i < f->seeds; i++) {
        struct weft_items items;
        bool missing;
        enum weft_status status = load(&f->run[i], &items, &missing);
        if (status == WEFT_OK && !missing)
            status = add_items(n, &f->run[i], &items);
        n->missing |= missing;
        weft_items_release(&items);
        TRY(status);
    }
    return WEFT_OK;
}

/* ---- notes for the reader */

__attribute__((format(printf, 4, 5))) static enum weft_status note(struct weft_results *r, struct weft_test_noise *t,
                                                                   bool warning, const char *format, ...)
{
    char text[800], safe[900];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weft_text_escape(text, safe, sizeof safe);
    t->note = weft_arena_print(&r->arena, "%s", safe);
    t->warning = warning;
    return t->note ? WEFT_OK : WEFT_NOMEM;
}

static double width(struct weft_interval i) { return i.high - i.low; }

/* Returns whether the interval that decides the verdict could contain 0 with a different test set. */
static bool is_fragile(const struct weft_finding *f)
{
    enum weft_verdict verdict = weft_verdict(&f->against);
    double near = fmin(fabs(f->against.family.low), fabs(f->against.family.high));
    return (verdict == WEFT_BETTER || verdict == WEFT_WORSE) && near < width(f->test.difference.another) / 2;
}

static enum weft_status judge_noise(struct weft_results *r, struct weft_result_arm *arm)
{
    struct weft_finding *f = &arm->found;
    struct weft_test_noise *t = &f->test;
    struct weft_interval another = t->difference.another;
    if (t->own || !(width(another) > 0) || isnan(f->against.alone.low))
        return WEFT_OK;
    bool fragile = is_fragile(f), large = width(t->difference.interval) > width(f->against.alone) / 2;
    if (!fragile && !large)
        return WEFT_OK;
    return note(
        r, t, fragile,
        "%s: with a different test set of this size (%lld %s), the difference would be between %+.3g and %+.3g nats "
        "for the same runs in 95 %% of cases%s",
        arm->name, (long long)t->difference.items, t->kind, another.low, another.high,
        fragile ? ", and the verdict could change. More seeds would not help; a larger test set (eval_samples) would"
                : "");
}

/* If a file of items cannot be trusted, the figures of the arm are omitted and a note gives the reason. The report is
 * still written, because its verdicts do not depend on the file. */
static enum weft_status leave_out(struct weft_results *r, struct weft_result_arm *arm, enum weft_status status)
{
    char story[500];
    if (status == WEFT_NOMEM)
        return status;
    snprintf(story, sizeof story, "%s", weft_error());
    weft_error_clear();
    arm->found.test = (struct weft_test_noise){0};
    memset(arm->run_noise, 0, (size_t)arm->run_count * sizeof *arm->run_noise);
    return note(r, &arm->found.test, true, "%s: the noise of its test set is unknown (%s)", arm->name, story);
}

static enum weft_status judge_arm(struct arm_noise *n)
{
    struct weft_test_noise *t = &n->arm->found.test;
    n->arm->run_noise = weft_arena_alloc(&n->r->arena, (size_t)(n->arm->run_count + 1) * sizeof *n->arm->run_noise);
    if (!n->arm->run_noise)
        return WEFT_NOMEM;
    enum weft_status status = add_runs(n);
    if (status != WEFT_OK)
        return leave_out(n->r, n->arm, status);
    if (n->missing)
        return WEFT_OK;
    if (!n->loss.same && !n->loss.different)
        return note(n->r, t, false,
                    "%s: the noise of its test set is unknown, because only some of its seeds have the same items",
                    n->arm->name);
    t->loss = pool_result(&n->loss);
    t->own = n->loss.sets > 1 && n->loss.different;
    if (n->arm->found.against.seeds && n->difference.sets == n->arm->found.against.seeds)
        t->difference = pool_result(&n->difference);
    return judge_noise(n->r, n->arm);
}

enum weft_status weft_results_test_noise(struct weft_results *r)
{
    double *room = malloc(2 * WEFT_MOST_ITEMS * sizeof *room);
    enum weft_status status = room ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for the test items");
    for (int i = 0; i < r->arm_count && status == WEFT_OK; i++)
        status =
            judge_arm(&(struct arm_noise){.r = r, .arm = &r->arm[i], .cost = room, .weight = room + WEFT_MOST_ITEMS});
    free(room);
    return status;
}
