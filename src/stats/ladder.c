/* SPDX-License-Identifier: MIT
 *
 * ladder.c - compares two arms at several sizes: how much more compute the base would need to reach the arm's loss, and
 * whether that factor grows with size.
 *
 * As a function of compute C, a loss follows E + A C^-a. Both arms have the same irreducible loss E, a property of the
 * data, but separate factors and exponents: if an arm's gain grows or shrinks with size, its exponent differs, and a
 * common exponent would bias exactly this result. The base's curve converts the loss difference at a rung into a
 * compute factor. All results are functions of the means over seeds. Their uncertainty is estimated by leaving out one
 * seed at a time (jackknife, with Student's t), which includes the uncertainty of the curves.
 */
#include "stats/stats.h"

#include <math.h>

/* ---- the curves */

/* The curves of base and arm: floor + exp(factor - exponent x), where x is the logarithm of compute. */
enum { FLOOR, FACTOR, EXPONENT = FACTOR + 2, PARAMETERS = EXPONENT + 2 };
struct curve {
    double at[PARAMETERS];
};

/* Means over seeds; average() leaves out seed `without` unless it is negative. */
struct means {
    int rungs;
    double x[2][WEFT_MAX_RUNGS], loss[2][WEFT_MAX_RUNGS]; /* by arm (base, arm) and rung */
};

static void average(const struct weft_ladder *l, int64_t without, double middle, struct means *m)
{
    double n = (double)(l->seeds - (without >= 0));
    m->rungs = l->rungs;
    for (int a = 0; a < 2; a++)
        for (int r = 0; r < l->rungs; r++) {
            const double *loss = (a ? l->arm : l->base) + r * l->seeds;
            m->x[a][r] = log((a ? l->arm_compute : l->base_compute)[r]) - middle;
            m->loss[a][r] = 0;
            for (int64_t i = 0; i < l->seeds; i++)
                m->loss[a][r] += i == without ? 0 : loss[i] / n;
        }
}

static double height(const struct curve *c, int a, double x)
{
    return exp(c->at[FACTOR + a] - c->at[EXPONENT + a] * x);
}

static double loss_at(const struct curve *c, int a, double x) { return c->at[FLOOR] + height(c, a, x); }

static double sum_squares(const struct means *m, const struct curve *c)
{
    double sum = 0;
    for (int a = 0; a < 2; a++)
        for (int r = 0; r < m->rungs; r++) {
            double off = m->loss[a][r] - loss_at(c, a, m->x[a][r]);
            sum += off * off;
        }
    return sum;
}

/* Fits straight lines to the logarithms of the losses above a floor. */
static void draw_lines(const struct means *m, double floor, struct curve *c)
{
    c->at[FLOOR] = floor;
    for (int a = 0; a < 2; a++) {
        double x = 0, y = 0, xx = 0, xy = 0;
        for (int r = 0; r < m->rungs; r++) {
            x += m->x[a][r] / m->rungs;
            y += log(m->loss[a][r] - floor) / m->rungs;
        }
        for (int r = 0; r < m->rungs; r++) {
            double off = m->x[a][r] - x;
            xx += off * off;
            xy += off * (log(m->loss[a][r] - floor) - y);
        }
        c->at[EXPONENT + a] = -xy / xx;
        c->at[FACTOR + a] = y + c->at[EXPONENT + a] * x;
    }
}

/* Tries several floors below all losses and returns the best curve. */
static struct curve begin(const struct means *m)
{
    double low = INFINITY, high = -INFINITY;
    struct curve best = {{0}}, c;
    for (int a = 0; a < 2; a++)
        for (int r = 0; r < m->rungs; r++) {
            low = fmin(low, m->loss[a][r]);
            high = fmax(high, m->loss[a][r]);
        }
    for (double below = 0.02; below < 20; below *= 1.5) {
        draw_lines(m, low - below * (high - low), &c);
        if (below == 0.02 || sum_squares(m, &c) < sum_squares(m, &best))
            best = c;
    }
    return best;
}

/* Solves a x = b for a symmetric positive definite matrix; returns false if it is not positive definite. */
static bool solve(double a[PARAMETERS][PARAMETERS], double b[PARAMETERS])
{
    for (int i = 0; i < PARAMETERS; i++) {
        for (int k = 0; k < i; k++) {
            double factor = a[i][k] / a[k][k];
            for (int j = k; j < PARAMETERS; j++)
                a[i][j] -= factor * a[k][j];
            b[i] -= factor * b[k];
        }
        if (!(a[i][i] > 0))
            return false;
    }
    for (int i = PARAMETERS - 1; i >= 0; i--) {
        for (int j = i + 1; j < PARAMETERS; j++)
            b[i] -= a[i][j] * b[j];
        b[i] /= a[i][i];
    }
    return true;
}

/* Takes a damped Gauss-Newton step (Levenberg-Marquardt); returns false if that is impossible. */
static bool step(const struct means *m, const struct curve *c, double damping, struct curve *next)
{
    double square[PARAMETERS][PARAMETERS] = {{0}}, right[PARAMETERS] = {0};
    for (int a = 0; a < 2; a++)
        for (int r = 0; r < m->rungs; r++) {
            double h = height(c, a, m->x[a][r]), off = m->loss[a][r] - c->at[FLOOR] - h, slope[PARAMETERS] = {0};
            slope[FLOOR] = 1;
            slope[FACTOR + a] = h;
            slope[EXPONENT + a] = -h * m->x[a][r];
            for (int i = 0; i < PARAMETERS; i++) {
                right[i] += slope[i] * off;
                for (int j = 0; j < PARAMETERS; j++)
                    square[i][j] += slope[i] * slope[j];
            }
        }
    for (int i = 0; i < PARAMETERS; i++)
        square[i][i] *= 1 + damping;
    if (!solve(square, right))
        return false;
    for (int i = 0; i < PARAMETERS; i++)
        next->at[i] = c->at[i] + right[i];
    return isfinite(sum_squares(m, next));
}

static struct curve fit(const struct means *m, struct curve c)
{
    enum { STEPS = 300 };
    double damping = 1e-3, best = sum_squares(m, &c);
    for (int i = 0; i < STEPS && damping < 1e12; i++) {
        struct curve next;
        double now = step(m, &c, damping, &next) ? sum_squares(m, &next) : INFINITY;
        bool better = now < best;
        bool done = better && best - now < 1e-12 * best;
        if (better) {
            c = next;
            best = now;
        }
        damping *= better ? 0.2 : 6;
        if (done)
            break;
    }
    return c;
}

/* ---- results */

enum { TREND = WEFT_MAX_RUNGS, MEAN, ANSWERS };

/* Returns the logarithm of the compute factor at a rung; NAN if the arm's loss is below any loss the base can reach. */
static double log_multiplier(const struct means *m, const struct curve *c, int r)
{
    double above = height(c, 0, m->x[0][r]) + m->loss[1][r] - m->loss[0][r];
    return above > 0 ? (c->at[FACTOR] - log(above)) / c->at[EXPONENT] - m->x[1][r] : NAN;
}

static void answer(const struct means *m, const struct curve *c, double answers[ANSWERS])
{
    double x = 0, y = 0, xx = 0, xy = 0;
    for (int r = 0; r < m->rungs; r++) {
        answers[r] = c->at[EXPONENT] > 0 ? log_multiplier(m, c, r) : NAN;
        x += m->x[0][r] / m->rungs;
        y += answers[r] / m->rungs;
    }
    for (int r = 0; r < m->rungs; r++) {
        double off = m->x[0][r] - x;
        xx += off * off;
        xy += off * (answers[r] - y);
    }
    answers[TREND] = xy / xx;
    answers[MEAN] = y;
}

/* Returns the mean of the seeds' contributions, with a Student's t interval. */
static struct weft_estimate_of jackknife(const struct weft_ladder *l, double all, const double *without)
{
    int64_t n = l->seeds;
    double alpha = WEFT_FAMILY_ALPHA / (double)weft_max(1, l->comparisons);
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        mean += ((double)n * all - (double)(n - 1) * without[i]) / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double off = (double)n * all - (double)(n - 1) * without[i] - mean;
        squares += off * off;
    }
    double half = -weft_t_quantile(alpha / 2, (double)n - 1) * sqrt(squares / (double)(n - 1) / (double)n);
    return (struct weft_estimate_of){all, {mean - half, mean + half}};
}

/* ---- the ladder */

static enum weft_status check(const struct weft_ladder *l)
{
    if (l->rungs < WEFT_LEAST_RUNGS || l->rungs > WEFT_MAX_RUNGS)
        return FAIL(WEFT_INVALID, "a ladder cannot have %d rungs: expected %d to %d", l->rungs, WEFT_LEAST_RUNGS,
                    WEFT_MAX_RUNGS);
    if (l->seeds < WEFT_LEAST_SEEDS || l->seeds > WEFT_LADDER_SEEDS)
        return FAIL(WEFT_INVALID, "a ladder cannot have %lld seeds: expected %d to %d", (long long)l->seeds,
                    WEFT_LEAST_SEEDS, WEFT_LADDER_SEEDS);
    for (int r = 0; r < l->rungs; r++) {
        if (!(l->base_compute[r] > 0) || !(l->arm_compute[r] > 0) ||
            (r && l->base_compute[r] <= l->base_compute[r - 1]))
            return FAIL(WEFT_INVALID,
                        "rung %d has compute %g, and the previous rung %g: compute must be positive and ascending",
                        r + 1, l->base_compute[r], r ? l->base_compute[r - 1] : 0);
        for (int64_t i = 0; i < l->seeds; i++)
            if (!isfinite(l->base[r * l->seeds + i]) || !isfinite(l->arm[r * l->seeds + i]))
                return FAIL(WEFT_INVALID, "rung %d, seed number %lld has a non-finite loss", r + 1, (long long)i + 1);
    }
    return WEFT_OK;
}

/* Predicts the base's loss on the largest rung from the smaller rungs. */
static double predict(const struct means *m)
{
    struct means fewer = *m;
    fewer.rungs--;
    struct curve c = fit(&fewer, begin(&fewer));
    return loss_at(&c, 0, m->x[0][m->rungs - 1]);
}

static enum weft_trend judge(struct weft_interval trend)
{
    const double margin = log(WEFT_TREND_MARGIN) / log(10);
    if (isnan(trend.low))
        return WEFT_TREND_UNKNOWN;
    if (trend.low > -margin && trend.high < margin)
        return WEFT_TREND_HOLDS;
    return trend.low > 0 ? WEFT_TREND_GROWS : trend.high < 0 ? WEFT_TREND_SHRINKS : WEFT_TREND_UNKNOWN;
}

enum weft_status weft_ladder(struct weft_ladder *l)
{
    double all[ANSWERS], without[ANSWERS][WEFT_LADDER_SEEDS], middle = 0;
    struct means m, fewer;
    TRY(check(l));
    for (int r = 0; r < l->rungs; r++)
        middle += log(l->base_compute[r]) / l->rungs; /* keeps powers near 1 */
    average(l, -1, middle, &m);
    struct curve c = fit(&m, begin(&m));
    answer(&m, &c, all);
    for (int64_t i = 0; i < l->seeds; i++) {
        double one[ANSWERS];
        average(l, i, middle, &fewer);
        struct curve other = fit(&fewer, c);
        answer(&fewer, &other, one);
        for (int k = 0; k < ANSWERS; k++)
            without[k][i] = one[k];
    }
    l->floor = c.at[FLOOR];
    for (int a = 0; a < 2; a++) {
        l->exponent[a] = c.at[EXPONENT + a];
        for (int r = 0; r < l->rungs; r++)
            l->residual[a][r] = m.loss[a][r] - loss_at(&c, a, m.x[a][r]);
    }
    for (int r = 0; r < l->rungs; r++)
        l->multiplier[r] = jackknife(l, all[r], without[r]);
    l->trend = jackknife(l, all[TREND], without[TREND]);
    l->mean = jackknife(l, all[MEAN], without[MEAN]);
    l->prediction_error = l->rungs > WEFT_LEAST_RUNGS ? predict(&m) - m.loss[0][l->rungs - 1] : NAN;
    l->verdict = judge(l->trend.interval);
    return WEFT_OK;
}
