/* SPDX-License-Identifier: MIT
 *
 * curves.c - computes losses over steps: for each arm, at its learning rate, the mean, the smallest and the largest
 * loss over seeds.
 *
 * Steps are divided into as many equal intervals as a chart has points. The loss of a run in an interval is the mean of
 * its logged losses there, so a point does not depend on a single batch.
 */
#include "report/read/results.h"

#include <math.h>
#include <string.h>

/* Number of points of a chart; fewer with very many arms, to keep the page small. */
enum { MOST = 300, FEWEST = 60, POINTS_OF_ALL = 4800 };

/* A run's losses by interval; NAN: nothing was logged in the interval. */
struct pieces {
    int64_t seed;
    double *train, *val;
};
struct thinned {
    int count, points;
    int64_t steps; /* number of steps that are divided into intervals, the same for all arms */
    struct pieces *run;
    double *train_step, *val_step; /* the last step that any run logged in an interval */
};

static int piece_of(int64_t step, int64_t steps, int points)
{
    int64_t at = weft_min(weft_max(step, 1), steps);
    return (int)weft_min((int64_t)((double)(at - 1) / (double)steps * points), points - 1); /* 2^60 rounds up */
}

static void thin(const struct weft_curve *curve, int64_t steps, int points, double *loss, double *last)
{
    int count[MOST] = {0};
    for (int i = 0; i < points; i++)
        loss[i] = NAN;
    for (int64_t i = 0; i < curve->count; i++) {
        int piece = piece_of(curve->step[i], steps, points);
        loss[piece] = count[piece]++ ? loss[piece] + curve->loss[i] : curve->loss[i];
        last[piece] = fmax(last[piece], (double)curve->step[i]);
    }
    for (int i = 0; i < points; i++)
        loss[i] /= count[i] ? count[i] : 1;
}

static double *numbers(struct weft_arena *arena, int count)
{
    return weft_arena_alloc(arena, (size_t)count * sizeof(double));
}

static enum weft_status thin_arm(struct thinned *t, const struct weft_result_arm *arm, int64_t steps, int points,
                                 struct weft_arena *arena)
{
    *t = (struct thinned){.points = points,
                          .steps = steps,
                          .run = weft_arena_alloc(arena, (size_t)(arm->found.seeds + 1) * sizeof *t->run),
                          .train_step = numbers(arena, points),
                          .val_step = numbers(arena, points)};
    if (!t->run || !t->train_step || !t->val_step)
        return WEFT_NOMEM;
    for (int i = 0; i < arm->found.seeds; i++) {
        const struct weft_finished *run = &arm->found.run[i];
        struct pieces *p = &t->run[t->count];
        struct weft_runlog log;
        TRY(weft_runlog_load(&log, run->folder, arena));
        *p = (struct pieces){run->seed, numbers(arena, points), numbers(arena, points)};
        if (!p->train || !p->val)
            return WEFT_NOMEM;
        thin(&log.train, steps, points, p->train, t->train_step);
        thin(&log.val, steps, points, p->val, t->val_step);
        t->count += log.exists;
    }
    return WEFT_OK;
}

/* ---- bands */

/* Computes one point of a curve over the seeds. */
struct point {
    int count;
    double sum, low, high;
};
static void add(struct point *p, double loss)
{
    if (isnan(loss))
        return;
    p->low = p->count ? fmin(p->low, loss) : loss;
    p->high = p->count ? fmax(p->high, loss) : loss;
    p->sum += loss;
    p->count++;
}

enum weft_status weft_curve_thin(const struct weft_curve *curve, int64_t steps, struct weft_band *band,
                                 struct weft_arena *arena)
{
    *band = (struct weft_band){.step = numbers(arena, MOST),
                               .mean = numbers(arena, MOST),
                               .low = numbers(arena, MOST),
                               .high = numbers(arena, MOST)};
    if (!band->step || !band->mean || !band->low || !band->high)
        return WEFT_NOMEM;
    for (int64_t i = 0, begin = 0; i < curve->count; i++) {
        bool last = i + 1 == curve->count;
        if (!last && piece_of(curve->step[i], steps, MOST) == piece_of(curve->step[i + 1], steps, MOST))
            continue;
        struct point p = {0};
        for (; begin <= i; begin++)
            add(&p, curve->loss[begin]);
        if (!p.count || band->count == MOST)
            continue;
        band->step[band->count] = (double)curve->step[i];
        band->mean[band->count] = p.sum / p.count;
        band->low[band->count] = p.low;
        band->high[band->count++] = p.high;
    }
    return WEFT_OK;
}

static const struct pieces *find_seed(const struct thinned *t, int64_t seed)
{
    for (int i = 0; i < t->count; i++)
        if (t->run[i].seed == seed)
            return &t->run[i];
    return NULL;
}

/* If there is a base, computes the band of the differences from the base, seed by seed. */
static enum weft_status make_band(struct weft_band *band, const struct thinned *t, const struct thinned *base, bool val,
                                  struct weft_arena *arena)
{
    *band = (struct weft_band){.step = numbers(arena, t->points),
                               .mean = numbers(arena, t->points),
                               .low = numbers(arena, t->points),
                               .high = numbers(arena, t->points)};
    if (!band->step || !band->mean || !band->low || !band->high)
        return WEFT_NOMEM;
    for (int piece = 0; piece < t->points; piece++) {
        struct point p = {0};
        for (int i = 0; i < t->count; i++) {
            const struct pieces *run = &t->run[i], *other = base ? find_seed(base, run->seed) : NULL;
            double loss = (val ? run->val : run->train)[piece];
            if (!base || other)
                add(&p, base ? loss - (val ? other->val : other->train)[piece] : loss);
        }
        if (!p.count)
            continue;
        band->step[band->count] = (val ? t->val_step : t->train_step)[piece];
        band->mean[band->count] = p.sum / p.count;
        band->low[band->count] = p.low;
        band->high[band->count++] = p.high;
    }
    return WEFT_OK;
}

static enum weft_status make_arm(struct weft_curves *c, const struct weft_results *r, int i, const struct thinned *base,
                                 struct weft_arena *scratch)
{
    struct weft_arm_curves *arm = &c->arm[i];
    struct thinned t;
    TRY(thin_arm(&t, &r->arm[i], base->steps, base->points, scratch));
    TRY(make_band(&arm->train, &t, NULL, false, &c->arena));
    TRY(make_band(&arm->val, &t, NULL, true, &c->arena));
    if (i == 0)
        c->difference_in_val = arm->val.count > 1;
    else if (strcmp(r->arm[i].found.verdict, "not paired") != 0)
        TRY(make_band(&arm->difference, &t, base, c->difference_in_val, &c->arena));
    return WEFT_OK;
}

static enum weft_status make_all(struct weft_curves *c, const struct weft_results *r, struct weft_arena *first)
{
    struct thinned base;
    int points = (int)weft_max(FEWEST, weft_min(MOST, POINTS_OF_ALL / r->arm_count));
    int64_t steps = 1;
    for (int i = 0; i < r->arm_count; i++)
        steps = weft_max(steps, weft_result_steps(r, &r->arm[i]));
    TRY(thin_arm(&base, &r->arm[0], steps, points, first));
    for (int i = 0; i < r->arm_count; i++) {
        struct weft_arena scratch = {0};
        enum weft_status status = make_arm(c, r, i, &base, &scratch);
        weft_arena_release(&scratch);
        TRY(status);
    }
    return WEFT_OK;
}

enum weft_status weft_curves_init(struct weft_curves *c, const struct weft_results *r)
{
    struct weft_arena first = {0};
    *c = (struct weft_curves){0};
    c->arm = weft_arena_alloc(&c->arena, (size_t)r->arm_count * sizeof *c->arm);
    if (!c->arm)
        return WEFT_NOMEM;
    enum weft_status status = make_all(c, r, &first);
    weft_arena_release(&first);
    return status;
}

void weft_curves_release(struct weft_curves *c) { weft_arena_release(&c->arena); }
