/* SPDX-License-Identifier: MIT
 *
 * ladder.c - compute multipliers and their trend in simulated ladders on power laws with known multipliers. STUDIES
 * sets the number of ladders.
 *
 * run-tests: 9 s, asan 3 s
 */
#include "stats/stats.h"
#include "test.h"

#include <math.h>

enum { MOST_SEEDS = 12 };

static int64_t studies(void)
{
    const char *asked = getenv("STUDIES");
    return asked ? atoll(asked) : SANITIZED ? 20 : 400;
}

/* A world: the base's loss is 2 + 2 C^-0.25, and the arm is as good as the base with m(C) times the compute. */
struct world {
    const char *name;
    double first, growth; /* m = first * C^growth */
    double noise;         /* deviation of a run; half of its variance is the seed's, which both arms share */
    int rungs;
    int64_t seeds;
};

static double base_loss(double compute) { return 2 + 2 * pow(compute, -0.25); }

struct count {
    int64_t ladders, covered_rung, covered_trend, covered_mean, verdicts[4];
};

static void draw(const struct world *w, int64_t ladder, double *compute, double *base, double *arm)
{
    for (int r = 0; r < w->rungs; r++) {
        compute[r] = pow(4, r);
        for (int64_t i = 0; i < w->seeds; i++) {
            uint64_t run = ((uint64_t)ladder * WEFT_MAX_RUNGS + (uint64_t)r) * MOST_SEEDS + (uint64_t)i;
            double shared = weft_normal(1, run), half = w->noise * sqrt(0.5);
            base[r * w->seeds + i] = base_loss(compute[r]) + half * (shared + weft_normal(2, run));
            arm[r * w->seeds + i] =
                base_loss(compute[r] * w->first * pow(compute[r], w->growth)) + half * (shared + weft_normal(3, run));
        }
    }
}

static bool covers(struct weft_estimate_of e, double truth)
{
    return e.interval.low <= truth && truth <= e.interval.high;
}

static struct count simulate(const struct world *w)
{
    struct count n = {0};
    for (n.ladders = 0; n.ladders < studies(); n.ladders++) {
        double compute[WEFT_MAX_RUNGS], base[WEFT_MAX_RUNGS * MOST_SEEDS], arm[WEFT_MAX_RUNGS * MOST_SEEDS];
        draw(w, n.ladders, compute, base, arm);
        struct weft_ladder l = {.rungs = w->rungs,
                                .seeds = w->seeds,
                                .base_compute = compute,
                                .arm_compute = compute,
                                .base = base,
                                .arm = arm};
        check(weft_ladder(&l));
        int last = w->rungs - 1;
        n.covered_rung += covers(l.multiplier[last], log(w->first) + w->growth * log(compute[last]));
        n.covered_trend += covers(l.trend, w->growth);
        n.covered_mean += covers(l.mean, log(w->first) + w->growth * log(compute[last]) / 2);
        n.verdicts[l.verdict]++;
    }
    print_message(
        "%s, noise %g, %d rungs, %lld seeds: covers last %.3f, mean %.3f, trend %.3f; unknown %.3f, holds %.3f, "
        "grows %.3f, shrinks %.3f\n",
        w->name, w->noise, w->rungs, (long long)w->seeds, (double)n.covered_rung / (double)n.ladders,
        (double)n.covered_mean / (double)n.ladders, (double)n.covered_trend / (double)n.ladders,
        (double)n.verdicts[0] / (double)n.ladders, (double)n.verdicts[1] / (double)n.ladders,
        (double)n.verdicts[2] / (double)n.ladders, (double)n.verdicts[3] / (double)n.ladders);
    return n;
}

/* Between 93 and 97 %, and three standard errors of the count. */
static void assert_coverage(const struct count *n, int64_t hits)
{
    double rate = (double)hits / (double)n->ladders, error = 3 * sqrt(0.95 * 0.05 / (double)n->ladders);
    assert_true(rate >= 0.93 - error && rate <= 0.97 + error);
}

static double share(const struct count *n, enum weft_trend verdict)
{
    return (double)n->verdicts[verdict] / (double)n->ladders;
}

/* A case is clear if the noise is small compared with the trend's effect over all rungs. */
static void assert_verdicts(const struct world *w, const struct count *n)
{
    enum weft_trend right = w->growth > 0 ? WEFT_TREND_GROWS : w->growth < 0 ? WEFT_TREND_SHRINKS : WEFT_TREND_HOLDS;
    double wrong = 1 - share(n, right) - share(n, WEFT_TREND_UNKNOWN);
    double error = 3 * sqrt(0.05 * 0.95 / (double)n->ladders);
    assert_true(wrong <= 0.05 + error);
    if (w->noise < 0.004 && w->rungs > 3)
        assert_true(share(n, right) >= 0.9);
    if (w->noise >= 0.02 && w->seeds == 3 && w->growth == 0)
        assert_true(share(n, WEFT_TREND_UNKNOWN) > 0.5);
}

static void intervals_cover_and_verdicts_are_right(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double first, growth;
    } kinds[] = {
        {"constant", 1.5, 0}, {"growing", 1.2, 0.12}, {"vanishing", 2, -0.16}, {"none", 1, 0}, {"worse", 0.6, 0}};
    static const double noise[] = {0.001, 0.003, 0.02};
    static const int64_t seeds[] = {3, 5, 8, 12};
    static const int rungs[] = {3, 4, 6};
    for (int c = 0; c < 5 * 3 * 4 * 3; c++) {
        struct world w = {kinds[c % 5].name, kinds[c % 5].first, kinds[c % 5].growth,
                          noise[c / 5 % 3],  rungs[c / 15 % 3],  seeds[c / 45]};
        struct count n = simulate(&w);
        assert_coverage(&n, n.covered_rung);
        assert_coverage(&n, n.covered_trend);
        assert_coverage(&n, n.covered_mean);
        assert_verdicts(&w, &n);
    }
}

/* Without noise the results equal the parameters of the simulated world. */
static void a_quiet_ladder_is_exact(void **state)
{
    (void)state;
    struct world w = {"quiet", 1.2, 0.12, 1e-9, 4, 3};
    double compute[WEFT_MAX_RUNGS], half[WEFT_MAX_RUNGS], base[WEFT_MAX_RUNGS * MOST_SEEDS],
        arm[WEFT_MAX_RUNGS * MOST_SEEDS];
    draw(&w, 0, compute, base, arm);
    for (int r = 0; r < 4; r++) {
        compute[r] *= 1e15; /* FLOPs */
        half[r] = compute[r] / 2;
    }
    struct weft_ladder l = {
        .rungs = 4, .seeds = 3, .base_compute = compute, .arm_compute = compute, .base = base, .arm = arm};
    check(weft_ladder(&l));
    assert_true(fabs(l.floor - 2) < 1e-5 && fabs(l.exponent[0] - 0.25) < 1e-5 && fabs(l.exponent[1] - 0.28) < 1e-5);
    assert_true(fabs(l.multiplier[3].value - log(1.2) - 0.12 * log(64)) < 1e-5 && fabs(l.trend.value - 0.12) < 1e-5);
    assert_true(fabs(l.prediction_error) < 1e-5 && fabs(l.residual[0][1]) < 1e-6 && l.verdict == WEFT_TREND_GROWS);
    double before = l.multiplier[3].value;
    l.arm_compute = half; /* the same losses for half of the compute */
    check(weft_ladder(&l));
    assert_true(fabs(l.multiplier[3].value - before - log(2)) < 1e-5);
}

/* Noise that decreases with size, as in practice: every rung has the same weight, and still no trend may be found if
 * there is none. */
static void noise_may_fall_with_size(void **state)
{
    (void)state;
    enum { RUNGS = 4, SEEDS = 5 };
    int64_t n = studies(), wrong = 0;
    for (int64_t k = 0; k < n; k++) {
        double compute[RUNGS], base[RUNGS * SEEDS], arm[RUNGS * SEEDS];
        for (int r = 0; r < RUNGS; r++) {
            compute[r] = pow(4, r);
            for (int i = 0; i < SEEDS; i++) {
                uint64_t run = (uint64_t)((k * RUNGS + r) * SEEDS + i);
                double noise = 0.01 * pow(compute[r], -0.3);
                base[r * SEEDS + i] = base_loss(compute[r]) + noise * weft_normal(5, run);
                arm[r * SEEDS + i] = base_loss(1.3 * compute[r]) + noise * weft_normal(6, run);
            }
        }
        struct weft_ladder l = {
            .rungs = RUNGS, .seeds = SEEDS, .base_compute = compute, .arm_compute = compute, .base = base, .arm = arm};
        check(weft_ladder(&l));
        wrong += l.verdict == WEFT_TREND_GROWS || l.verdict == WEFT_TREND_SHRINKS;
    }
    print_message("noise that falls with size: a trend is found in %.3f\n", (double)wrong / (double)n);
    assert_true((double)wrong / (double)n <= 0.05 + 3 * sqrt(0.05 * 0.95 / (double)n));
}

static void wrong_ladders_are_refused(void **state)
{
    (void)state;
    double compute[] = {1, 2, 2}, losses[9] = {0};
    struct weft_ladder l = {
        .rungs = 2, .seeds = 3, .base_compute = compute, .arm_compute = compute, .base = losses, .arm = losses};
    check_error(weft_ladder(&l), WEFT_INVALID, "a ladder cannot have 2 rungs");
    l.rungs = 3;
    check_error(weft_ladder(&l), WEFT_INVALID, "rung 3 has compute 2");
    compute[2] = 4;
    l.seeds = 2;
    check_error(weft_ladder(&l), WEFT_INVALID, "a ladder cannot have 2 seeds");
    l.seeds = 3;
    losses[4] = NAN;
    check_error(weft_ladder(&l), WEFT_INVALID, "rung 2, seed number 2");
    losses[4] = 0; /* all the same: there is no curve */
    check(weft_ladder(&l));
    assert_int_equal(l.verdict, WEFT_TREND_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_cover_and_verdicts_are_right), cmocka_unit_test(a_quiet_ladder_is_exact),
        cmocka_unit_test(noise_may_fall_with_size), cmocka_unit_test(wrong_ladders_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
