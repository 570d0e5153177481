/* SPDX-License-Identifier: MIT
 *
 * looks.c - counts how often a study with several looks errs, in simulated studies of equal arms. Like a report, it
 * tests every arm at every look until one is found to differ. STUDIES sets the number of studies.
 *
 * run-tests: 18 s
 */
#include "stats/stats.h"
#include "test.h"

#include <math.h>

enum { MOST_ARMS = 10, MOST_SEEDS = 64 };

static int64_t studies(void)
{
    const char *asked = getenv("STUDIES");
    return asked ? atoll(asked) : SANITIZED ? 1000 : 2500;
}

static struct weft_looks plan(int64_t comparisons, int count, const int64_t *seeds)
{
    struct weft_looks l = {.comparisons = comparisons, .count = count};
    memcpy(l.seeds, seeds, (size_t)count * sizeof *seeds);
    check(weft_looks_init(&l));
    return l;
}

/* Losses of an arm: noise that all arms of a seed share, and its own. */
static double loss(uint64_t study, int arm, int64_t seed)
{
    uint64_t run = study * MOST_SEEDS + (uint64_t)seed;
    return 3 + 0.02 * weft_normal(77, run) + 0.01 * weft_normal(weft_key(78, (uint64_t)arm), run);
}

/* Whether any of the arms from number `first` on is found to differ at any look. */
static bool errs(const struct weft_looks *l, uint64_t study, int first)
{
    double losses[1 + MOST_ARMS][MOST_SEEDS];
    int64_t seeds = l->seeds[l->count - 1];
    for (int a = 0; a <= l->comparisons; a++)
        for (int64_t i = 0; i < seeds; i++)
            losses[a][i] = loss(study, a, i);
    for (int a = first; a <= l->comparisons; a++) {
        struct weft_comparison c = {.arm = losses[a], .base = losses[0], .seeds = seeds};
        int look;
        check(weft_look(l, &c, &look));
        if (c.family.low > 0 || c.family.high < 0)
            return true;
    }
    return false;
}

/* At most 5 %, and three standard errors of the count; and not so few that looks would cost more than they must. */
static void assert_errors(const char *what, const struct weft_looks *l, int first, double least)
{
    int64_t n = studies(), hits = 0;
    for (int64_t s = 0; s < n; s++)
        hits += errs(l, (uint64_t)s, first);
    double rate = (double)hits / (double)n, error = sqrt(0.05 * 0.95 / (double)n);
    print_message("%s: %.4f of %lld studies, at most %.4f\n", what, rate, (long long)n, 0.05 + 3 * error);
    assert_true(rate <= 0.05 + 3 * error);
    assert_true(rate >= least - 3 * error);
}

static const int64_t usual[] = {3, 5, 8, 12, 20};

static void looks_err_in_one_study_of_twenty(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int count;
        int64_t seeds[8];
    } schedules[] = {
        {"5, 8", 2, {5, 8}},
        {"3, 4, 5", 3, {3, 4, 5}},
        {"3 to 10", 8, {3, 4, 5, 6, 7, 8, 9, 10}},
        {"3, 5, 8, 12, 20", 5, {3, 5, 8, 12, 20}},
    };
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        struct weft_looks l = plan(1, schedules[i].count, schedules[i].seeds);
        assert_errors(schedules[i].name, &l, 1, 0.048);
    }
}

/* With the level of a single look at each of them, the same studies err far more often: the count can fail. */
static void peeking_errs_more_often(void **state)
{
    (void)state;
    struct weft_looks l = plan(1, 5, usual);
    int64_t n = weft_min(studies(), 10000), hits = 0;
    for (int k = 0; k < l.count; k++)
        l.alpha[k] = 0.05;
    for (int64_t s = 0; s < n; s++)
        hits += errs(&l, (uint64_t)s, 1);
    print_message("without a boundary: %.4f\n", (double)hits / (double)n);
    assert_true((double)hits / (double)n > 0.1);
}

static void families_err_in_one_study_of_twenty(void **state)
{
    (void)state;
    static const int64_t arms[] = {2, 5, 10};
    char what[80];
    for (size_t i = 0; i < sizeof arms / sizeof *arms; i++) {
        struct weft_looks l = plan(arms[i], 5, usual);
        snprintf(what, sizeof what, "family of %lld, 3, 5, 8, 12, 20", (long long)arms[i]);
        assert_errors(what, &l, 1, 0.02); /* arms with one base err together */
        snprintf(what, sizeof what, "family of %lld, half of the arms dropped", (long long)arms[i]);
        assert_errors(what, &l, (int)(1 + arms[i] / 2), 0.005);
    }
}

/* ---- choosing a learning rate */

enum { SCREEN_SEEDS = 2, JUDGE_SEEDS = 5, MOST_RATES = 8 };

/* A run at a rate: the base has a peak, far sharper than the noise, the arm is flat; at their best they are equal.
 * Seeds with index JUDGE_SEEDS and above choose the rate. */
static double tuned(uint64_t study, int arm, int rates, int rate, int64_t seed)
{
    uint64_t run = (study * MOST_SEEDS + (uint64_t)seed) * MOST_RATES + (uint64_t)rate;
    double off = arm ? 0 : 0.1 * abs(rate - rates / 2);
    return 3 + off + 0.01 * weft_normal(weft_key(79, (uint64_t)arm), run);
}

static int choose(uint64_t study, int arm, int rates, int64_t first, int64_t seeds)
{
    int best = 0;
    double least = INFINITY;
    for (int k = 0; k < rates; k++) {
        double sum = 0;
        for (int64_t i = first; i < first + seeds; i++)
            sum += tuned(study, arm, rates, k, i);
        best = sum < least ? k : best;
        least = fmin(least, sum);
    }
    return best;
}

static double tuned_errors(int rates, int64_t first, int64_t seeds)
{
    struct weft_looks l = plan(1, 1, (const int64_t[]){JUDGE_SEEDS});
    int64_t n = studies(), hits = 0;
    for (int64_t s = 0; s < n; s++) {
        double losses[2][JUDGE_SEEDS];
        int look;
        for (int a = 0; a < 2; a++) {
            int rate = choose((uint64_t)s, a, rates, first, seeds);
            for (int64_t i = 0; i < JUDGE_SEEDS; i++)
                losses[a][i] = tuned((uint64_t)s, a, rates, rate, i);
        }
        struct weft_comparison c = {.arm = losses[1], .base = losses[0], .seeds = JUDGE_SEEDS};
        check(weft_look(&l, &c, &look));
        hits += c.family.low > 0 || c.family.high < 0;
    }
    return (double)hits / (double)n;
}

static void seeds_that_choose_do_not_judge(void **state)
{
    (void)state;
    static const int rates[] = {3, 5, 8};
    double error = sqrt(0.05 * 0.95 / (double)studies());
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        double fresh = tuned_errors(rates[i], JUDGE_SEEDS, SCREEN_SEEDS), same = tuned_errors(rates[i], 0, JUDGE_SEEDS);
        print_message("best of %d rates, a flat arm against a peaked one: %.4f; chosen on the judged runs: %.4f\n",
                      rates[i], fresh, same);
        assert_true(fresh <= 0.05 + 3 * error && fresh >= 0.05 - 3 * error);
        assert_true(same > (rates[i] > 3 ? 0.055 : fresh));
    }
}

static void one_look_is_students_t(void **state)
{
    (void)state;
    struct weft_looks l = plan(4, 1, (const int64_t[]){5});
    assert_true(l.alpha[0] == 0.05 / 4);
}

static void levels_are_strict_and_enough(void **state)
{
    (void)state;
    struct weft_looks l = plan(1, 5, usual);
    for (int k = 0; k < l.count; k++) {
        print_message("look %d after %lld seeds: level %.4f, |t| above %.2f\n", k + 1, (long long)l.seeds[k],
                      l.alpha[k], -weft_t_quantile(l.alpha[k] / 2, (double)l.seeds[k] - 1));
        assert_true(l.alpha[k] >= 0.0095 && l.alpha[k] <= 0.05);
        assert_true(k == 0 || l.alpha[k] > l.alpha[k - 1]);
    }
}

static void a_decision_stands(void **state)
{
    (void)state;
    struct weft_looks l = plan(1, 2, (const int64_t[]){3, 5});
    static const double arm[] = {-1, -1.01, -0.99, 40, -37}, base[5] = {0};
    struct weft_comparison c = {.arm = arm, .base = base, .seeds = 5};
    int look;
    check(weft_look(&l, &c, &look));
    assert_int_equal(look, 1);
    assert_int_equal(c.seeds, 3);
    c = (struct weft_comparison){.arm = arm + 2, .base = base, .seeds = 2};
    check(weft_look(&l, &c, &look));
    assert_int_equal(look, 0);
    c = (struct weft_comparison){.arm = (const double[]){1, -1, 0, 1}, .base = base, .seeds = 4};
    check(weft_look(&l, &c, &look)); /* four seeds are the look after three */
    assert_int_equal(look, 1);
    assert_int_equal(c.seeds, 3);
}

static void wrong_plans_are_refused(void **state)
{
    (void)state;
    struct weft_looks l = {.comparisons = 1, .count = 2, .seeds = {2, 5}};
    assert_int_equal(weft_looks_init(&l), WEFT_INVALID);
    l = (struct weft_looks){.comparisons = 1, .count = 2, .seeds = {5, 5}};
    assert_int_equal(weft_looks_init(&l), WEFT_INVALID);
    l = (struct weft_looks){.comparisons = 0, .count = 1, .seeds = {5}};
    assert_int_equal(weft_looks_init(&l), WEFT_INVALID);
    l = (struct weft_looks){.comparisons = 1, .count = WEFT_MAX_LOOKS + 1};
    assert_int_equal(weft_looks_init(&l), WEFT_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_err_in_one_study_of_twenty),
        cmocka_unit_test(peeking_errs_more_often),
        cmocka_unit_test(families_err_in_one_study_of_twenty),
        cmocka_unit_test(seeds_that_choose_do_not_judge),
        cmocka_unit_test(one_look_is_students_t),
        cmocka_unit_test(levels_are_strict_and_enough),
        cmocka_unit_test(a_decision_stands),
        cmocka_unit_test(wrong_plans_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
