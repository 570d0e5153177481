/* SPDX-License-Identifier: MIT
 *
 * expected.c - computes the results that the queue and the report must give for a simulated study, from the losses of
 * its runs alone.
 */
#include "simulate/studies.h"

#include <math.h>
#include <string.h>

static bool is_done(const struct weft_sim_study *s, int arm, double rate, int64_t seed, bool retried)
{
    return retried || !weft_sim_fails(s, arm, rate, seed);
}

/* ---- learning rates */

/* Chooses the learning rate with the smallest mean validation loss; a failed run rules out its rate. */
static double choose_rate(const struct weft_sim_study *s, int arm, bool retried)
{
    double best = NAN, least = INFINITY;
    int of = s->arm[arm].repeats ? s->arm[arm].repeats - 1 : arm;
    for (int i = 0; i < s->rate_count; i++) {
        double mean = 0;
        for (int64_t k = 0; k < s->screen_seeds; k++) {
            int64_t seed = s->first_seed + WEFT_SIM_SCREENING + k;
            mean += is_done(s, of, s->rate[i], seed, retried) ? weft_sim_val_loss(s, of, s->rate[i], seed) : INFINITY;
        }
        mean /= (double)s->screen_seeds;
        best = mean < least ? s->rate[i] : best;
        least = fmin(least, mean);
    }
    return s->rate_count ? best : WEFT_SIM_RATE;
}

static bool is_edge(const struct weft_sim_study *s, double rate)
{
    int below = 0, above = 0;
    for (int i = 0; i < s->rate_count; i++) {
        below += s->rate[i] < rate;
        above += s->rate[i] > rate;
    }
    return s->rate_count && (!below || !above);
}

/* ---- one arm */

/* Returns the mean of n numbers and computes their standard deviation; NAN: unknown. */
static double mean_of(const double *x, int64_t n, double *deviation)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    for (int64_t i = 0; i < n; i++)
        squares += (x[i] - sum / (double)n) * (x[i] - sum / (double)n);
    *deviation = n > 1 ? sqrt(squares / (double)(n - 1)) : NAN;
    return n ? sum / (double)n : NAN;
}

enum { MOST_SEEDS = 16 };

static void expect_arm(const struct weft_sim_study *s, int arm, bool retried, struct weft_expected *e)
{
    struct weft_expected_arm *a = &e->arm[arm];
    double loss[MOST_SEEDS];
    *a = (struct weft_expected_arm){.rate = choose_rate(s, arm, retried)};
    a->edge = is_edge(s, a->rate);
    for (int64_t seed = s->first_seed; seed < s->first_seed + e->seeds; seed++)
        if (is_done(s, arm, a->rate, seed, retried))
            loss[a->finished++] = weft_sim_test_loss(s, arm, a->rate, seed);
    a->loss = mean_of(loss, a->finished, &a->sd);
}

/* ---- an arm and the base */

/* Compares the first n pairs. A nonzero difference without noise has neither an interval nor a p value. */
static void compare_pairs(const struct weft_sim_study *s, int arm, int64_t n, double level, struct weft_expected *e)
{
    struct weft_expected_arm *a = &e->arm[arm];
    double difference[MOST_SEEDS], own[MOST_SEEDS], base[MOST_SEEDS], own_sd, base_sd;
    for (int64_t i = 0; i < n; i++) {
        own[i] = weft_sim_test_loss(s, arm, a->rate, s->first_seed + i);
        base[i] = weft_sim_test_loss(s, 0, e->arm[0].rate, s->first_seed + i);
        difference[i] = own[i] - base[i];
    }
    a->pairs = n;
    a->mean = mean_of(difference, n, &a->pair_sd);
    mean_of(own, n, &own_sd);
    mean_of(base, n, &base_sd);
    a->over_noise = a->mean / sqrt((own_sd * own_sd + base_sd * base_sd) / 2);
    bool known = a->pair_sd > 1e-12;
    double error = a->pair_sd / sqrt((double)n);
    a->p = known ? weft_naive_beyond(a->mean / error, n - 1) : NAN;
    a->alone = known ? weft_naive_limit(0.05, n - 1) * error : NAN;
    a->half = known ? weft_naive_limit(level, n - 1) * error : NAN;
    a->verdict = !known                  ? "too few seeds"
                 : a->mean + a->half < 0 ? "better"
                 : a->mean - a->half > 0 ? "worse"
                                         : "not resolved";
}

/* Finds the first look that decides, or else the last one whose pairs are complete. */
static void look(const struct weft_sim_study *s, int arm, int64_t complete, struct weft_expected *e)
{
    struct weft_expected_arm *a = &e->arm[arm];
    if (!s->look_count && complete == s->seeds) {
        compare_pairs(s, arm, complete, 0.05 / e->comparisons, e);
        a->look = 1;
    }
    for (int k = 0; k < s->look_count && s->look[k] <= complete; k++) {
        compare_pairs(s, arm, s->look[k], e->level[k], e);
        a->look = k + 1;
        if (strcmp(a->verdict, "not resolved") != 0)
            return;
    }
}

static void forget(struct weft_expected_arm *a, const char *verdict)
{
    a->verdict = verdict;
    a->pairs = 0;
}

static void judge(const struct weft_sim_study *s, int arm, bool retried, struct weft_expected *e)
{
    struct weft_expected_arm *a = &e->arm[arm];
    enum weft_sim_quirk quirk = s->arm[arm].quirk;
    int64_t complete = 0;
    while (complete < e->seeds && is_done(s, arm, a->rate, s->first_seed + complete, retried) &&
           is_done(s, 0, e->arm[0].rate, s->first_seed + complete, retried))
        complete++;
    if (arm == 0)
        a->verdict = "base";
    else if (s->arm[arm].repeats)
        a->verdict = quirk == WEFT_SIM_OTHER_BITS ? "not reproduced" : "reproduced";
    else if (e->arm[0].edge || a->edge)
        a->verdict = "edge of grid";
    else if (quirk == WEFT_SIM_OTHER_SAMPLES || quirk == WEFT_SIM_SAME_SAMPLES || quirk == WEFT_SIM_OTHER_WEIGHTS)
        a->verdict = "not paired";
    else
        look(s, arm, complete, e);
    if (!a->verdict)
        forget(a, "unfinished");
    if (quirk == WEFT_SIM_NO_EFFECT)
        forget(a, "failed");
}

/* ---- the family */

/* Adjusts p values by Holm's method: the k-th smallest of m, counted from 0, is multiplied by m - k and is at least the
 * previous one. */
static void adjust(const struct weft_sim_study *s, struct weft_expected *e)
{
    for (int i = 1; i < s->arm_count; i++) {
        struct weft_expected_arm *a = &e->arm[i];
        a->p_holm = a->pairs && !s->look_count && !isnan(a->p) ? 0 : NAN;
        for (int k = 1; k < s->arm_count && !isnan(a->p_holm); k++) {
            int smaller = 0;
            if (!e->arm[k].pairs || !(e->arm[k].p <= a->p))
                continue;
            for (int j = 1; j < s->arm_count; j++)
                smaller += e->arm[j].pairs && e->arm[j].p < e->arm[k].p;
            a->p_holm = fmax(a->p_holm, fmin(1, (e->comparisons - smaller) * e->arm[k].p));
        }
    }
}

void weft_expect(const struct weft_sim_study *s, int64_t seeds, bool retried, const double *level,
                 struct weft_expected *e)
{
    *e = (struct weft_expected){.seeds = seeds};
    for (int i = 1; i < s->arm_count; i++)
        e->comparisons += !s->arm[i].repeats;
    memcpy(e->level, level, sizeof e->level);
    for (int i = 0; i < s->arm_count; i++)
        expect_arm(s, i, retried, e);
    for (int i = 0; i < s->arm_count; i++)
        judge(s, i, retried, e);
    adjust(s, e);
}
