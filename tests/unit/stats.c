/* SPDX-License-Identifier: MIT
 *
 * stats.c - compares distributions with golden values (golden/stats.json), and comparisons and their sentences with
 * results computed by hand; and checks the promised error rates in a hundred thousand simulated studies.
 *
 * run-tests: 9 s
 */
#include "report/report.h"
#include "test.h"

#include <jansson.h>
#include <math.h>

enum { MANY = 100000, FEWER = 20000, MAX_SEEDS = 12, ARMS = 4 };

/* ---- golden values */

static double rate_low(double hits, double trials, double alpha)
{
    return weft_rate_interval((int64_t)hits, (int64_t)trials, alpha).low;
}
static double rate_high(double hits, double trials, double alpha)
{
    return weft_rate_interval((int64_t)hits, (int64_t)trials, alpha).high;
}
static double power(double effect, double seeds, double alpha) { return weft_power(effect, (int64_t)seeds, alpha); }

static double evaluate(const char *name, const double *x)
{
    static const struct {
        const char *name;
        double (*two)(double, double), (*three)(double, double, double);
    } list[] = {
        {"beta_cdf", NULL, weft_beta_cdf},
        {"t_beyond", weft_t_beyond, NULL},
        {"t_cdf", weft_t_cdf, NULL},
        {"t_quantile", weft_t_quantile, NULL},
        {"power", NULL, power},
        {"rate_low", NULL, rate_low},
        {"rate_high", NULL, rate_high},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (strcmp(list[i].name, name) == 0)
            return list[i].two ? list[i].two(x[0], x[1]) : list[i].three(x[0], x[1], x[2]);
    fail_msg("tests/golden/stats.json names %s, which is not known here", name);
    return NAN;
}

static void values_are_golden(void **state)
{
    (void)state;
    json_error_t error;
    json_t *row, *rows = json_load_file("tests/golden/stats.json", 0, &error);
    double worst = 0;
    size_t i;
    if (!rows)
        fail_msg("tests/golden/stats.json: line %d: %s", error.line, error.text);
    assert_true(json_array_size(rows) >= 70);
    json_array_foreach(rows, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "f"));
        double x[3] = {0}, expected = json_real_value(json_object_get(row, "out"));
        for (size_t k = 0; k < json_array_size(json_object_get(row, "in")); k++)
            x[k] = json_number_value(json_array_get(json_object_get(row, "in"), k));
        double off = fabs(evaluate(name, x) / expected - 1);
        if (!(off < 1e-10))
            fail_msg("%s(%g, %g, %g) is off by %.1e of its value", name, x[0], x[1], x[2], off);
        worst = fmax(worst, off);
    }
    print_message("%zu golden values, worst relative error %.1e\n", json_array_size(rows), worst);
    json_decref(rows);
}

static void quantiles_undo_distributions(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2000; i++) {
        double p = weft_uniform(1, i), v = exp(8 * weft_uniform(2, i)), a = exp(6 * weft_uniform(3, i) - 1);
        assert_true(fabs(weft_t_cdf(weft_t_quantile(p, v), v) - p) < 1e-13);
        assert_true(fabs(weft_beta_cdf(a, v, weft_beta_quantile(a, v, p)) - p) < 1e-11);
        assert_true(fabs(weft_beta_cdf(a, v, p) + weft_beta_cdf(v, a, 1 - p) - 1) < 1e-13);
    }
    assert_true(weft_t_quantile(0.5, 3) == 0);
    assert_true(weft_t_beyond(INFINITY, 3) == 0 && weft_t_beyond(0, 3) == 1);
}

/* ---- how many seeds */

static void seeds_needed_and_effects_resolved_agree(void **state)
{
    (void)state;
    for (int64_t n = 2; n <= 40; n++) {
        double effect = weft_effect_resolved(n, 0.05);
        assert_true(fabs(weft_power(effect, n, 0.05) - 0.8) < 1e-10);
        assert_int_equal(weft_seeds_needed(effect * 1.0001, 0.05), n);
        assert_int_equal(weft_seeds_needed(-effect * 0.9999, 0.05), n + 1);
    }
    assert_int_equal(weft_seeds_needed(1, 0.05), 10); /* as G*Power and Cohen's tables have it */
    assert_int_equal(weft_seeds_needed(0.5, 0.05), 34);
    assert_int_equal(weft_seeds_needed(0.2, 0.05), 199);
    assert_true(weft_seeds_needed(1, 0.05 / 4) > 10);
    assert_int_equal(weft_seeds_needed(0, 0.05), 0);
    assert_int_equal(weft_seeds_needed(1e-4, 0.05), 0);
    assert_int_equal(weft_seeds_needed(INFINITY, 0.05), 2);
    assert_int_equal(weft_seeds_needed(1e9, 1e-6), 2);
    assert_true(isnan(weft_effect_resolved(1, 0.05)));
    assert_true(weft_power(3, 1, 0.05) == 0);
    assert_true(fabs(weft_power(0, 7, 0.03) - 0.03) < 1e-12);
}

/* ---- comparisons by hand */

static struct weft_comparison compare(const double *arm, const double *base, int64_t seeds)
{
    struct weft_comparison c = {.arm = arm, .base = base, .seeds = seeds};
    check(weft_compare(&c, 1, 1));
    return c;
}

static const double zeros[MAX_SEEDS];

/* Student's own data: hours of sleep gained under two drugs (Biometrika 6, 1908). R's t.test gives these numbers. */
static void students_own_comparison(void **state)
{
    (void)state;
    static const double one[] = {0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
    static const double two[] = {1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};
    struct weft_comparison c = compare(one, two, 10);
    assert_true(fabs(c.mean + 1.58) < 1e-12);
    assert_true(fabs(c.sd - 1.229995) < 1e-6);
    assert_true(fabs(c.p - 0.00283289) < 1e-8);
    assert_true(fabs(c.alone.low + 2.4598858) < 1e-6 && fabs(c.alone.high + 0.7001142) < 1e-6);
    assert_true(c.family.low == c.alone.low && c.family.high == c.alone.high && c.p_holm == c.p);
    assert_true(fabs(c.over_noise + 1.58 / sqrt((1.789010 * 1.789010 + 2.002249 * 2.002249) / 2)) < 1e-6);
    assert_int_equal(weft_verdict(&c), WEFT_BETTER);
}

static void expect_text(const struct weft_comparison *c, const char *expected)
{
    char text[WEFT_VERDICT_TEXT];
    weft_verdict_text(c, "nats", text);
    assert_string_equal(text, expected);
}

static void verdicts_in_words(void **state)
{
    (void)state;
    static const double better[] = {-0.031, -0.046, -0.016, -0.041, -0.021},
                        near[] = {0.004, 0.03, -0.022, 0.02, -0.012};
    static const double close[] = {-0.04, 0, -0.03, -0.01, -0.02}, same[] = {-0.01, -0.01, -0.01};
    double worse[5], shifted[5];
    struct weft_comparison c = compare(better, zeros, 5);
    expect_text(&c, "better by 0.031 nats [0.015, 0.047], 5 seeds");
    for (int i = 0; i < 5; i++)
        worse[i] = -better[i];
    c = compare(worse, zeros, 5);
    expect_text(&c, "worse by 0.031 nats [0.015, 0.047], 5 seeds");
    c = compare(close, zeros, 5);
    expect_text(&c, "better by 0.0200 nats [0.0004, 0.0396], 5 seeds");
    c = compare(near, zeros, 5);
    expect_text(&c, "not resolved: +0.004 nats [-0.023, 0.031], 5 seeds. If the true difference is +0.004, 231 seeds "
                    "would resolve it; 7 seeds if it is +0.031, and no number of seeds if it is 0. These 5 seeds could "
                    "resolve a difference of 0.036 or more");
    c = compare(near, zeros, 1);
    assert_true(isnan(c.sd) && isnan(c.p) && isnan(c.p_holm) && isnan(c.alone.low) && isnan(c.over_noise));
    assert_int_equal(weft_verdict(&c), WEFT_TOO_FEW_SEEDS);
    expect_text(&c, "not enough seeds: +0.0040 nats in 1 seed; a verdict needs 3 or more");
    c = compare(same, zeros, 3);
    assert_int_equal(weft_verdict(&c), WEFT_TOO_FEW_SEEDS);
    expect_text(&c, "not enough seeds: exactly -0.010 nats in each of 3 seeds, so the noise is unknown");
    for (int i = 0; i < 5; i++)
        worse[i] = 3 + better[i];
    for (int i = 0; i < 5; i++)
        shifted[i] = worse[i] - 0.01; /* the same difference but for rounding */
    c = compare(shifted, worse, 5);
    assert_int_equal(weft_verdict(&c), WEFT_TOO_FEW_SEEDS);
    c = compare(better, better, 5);
    assert_true(c.p == 1 && c.alone.low == 0 && c.alone.high == 0);
    expect_text(&c, "not resolved: no difference in any of 5 seeds");
}

/* ---- simulated studies */

/* The noise of a run; base and arms of a study have a key each. */
typedef double noise_fn(uint64_t key, uint64_t run);

/* Most of the deviation belongs to the seed, and pairing removes it. The remaining deviation of a difference is 1. */
static double normal(uint64_t key, uint64_t run) { return 3 * weft_normal(0, run) + sqrt(0.5) * weft_normal(key, run); }

/* This fraction of runs ends in a worse basin. */
static double basins(uint64_t key, uint64_t run, double share)
{
    return 0.1 * weft_normal(key, run) + (weft_uniform(weft_key(key, 1), run) < share);
}
static double even_basins(uint64_t key, uint64_t run) { return basins(key, run, 0.5); }
static double rare_basins(uint64_t key, uint64_t run) { return basins(key, run, 0.2); }

/* The worst for a t test: arm and base are always in different basins. */
static double opposite_basins(uint64_t key, uint64_t run)
{
    return 0.001 * weft_normal(key, run) + (key % 2 ? 1 : -1) * (weft_uniform(0, run) < 0.5 ? 1 : -1);
}

/* One run in ten fails, and none of the base. The mean is taken out of the noise. */
static double failing_arm(uint64_t key, uint64_t run) { return basins(key, run, key ? 0.1 : 0) - (key ? 0.1 : 0); }

/* Losses of the base and of the arms after it. */
static void draw(noise_fn *noise, int study, int arms, int64_t seeds, double loss[][MAX_SEEDS])
{
    for (int a = 0; a <= arms; a++)
        for (int64_t i = 0; i < seeds; i++)
            loss[a][i] = 10 + noise((uint64_t)a, (uint64_t)(study * MAX_SEEDS + i));
}

/* The fractions of studies with one arm, planted to be better by `effect`, that call it better and worse. */
struct tally {
    int64_t studies, better, worse;
};
static struct tally tally(noise_fn *noise, int studies, int64_t seeds, double effect)
{
    struct tally t = {.studies = studies};
    double loss[2][MAX_SEEDS];
    for (int s = 0; s < studies; s++) {
        draw(noise, s, 1, seeds, loss);
        for (int64_t i = 0; i < seeds; i++)
            loss[1][i] -= effect;
        struct weft_comparison c = compare(loss[1], loss[0], seeds);
        t.better += weft_verdict(&c) == WEFT_BETTER;
        t.worse += weft_verdict(&c) == WEFT_WORSE;
    }
    return t;
}

/* Holds for all but one key in a million, and the keys are fixed. */
static void assert_rate(const char *what, int64_t hits, int64_t studies, double least, double most)
{
    struct weft_interval rate = weft_rate_interval(hits, studies, 1e-6);
    print_message("%s: %.4f, %.4f to %.4f are right\n", what, (double)hits / (double)studies, least, most);
    assert_true(rate.high >= least && rate.low <= most);
}

static void assert_false_alarms(const char *what, noise_fn *noise, int studies, int64_t seeds, double least,
                                double most)
{
    struct tally t = tally(noise, studies, seeds, 0);
    assert_rate(what, t.better + t.worse, studies, least, most);
}

static void equal_arms_differ_in_one_study_of_twenty(void **state)
{
    (void)state;
    assert_false_alarms("false alarms, normal noise, 5 seeds", normal, MANY, 5, 0.05, 0.05);
    assert_false_alarms("false alarms, normal noise, 3 seeds", normal, FEWER, 3, 0.05, 0.05);
}

/* The t test promises nothing here. With independent basins it errs less often than its level; with opposite ones
 * whenever all seeds fall on one side, however few there are. */
static void basins_are_no_normal_noise(void **state)
{
    (void)state;
    assert_false_alarms("false alarms, even basins, 5 seeds", even_basins, FEWER, 5, 0.02, 0.05);
    assert_false_alarms("false alarms, rare basins, 5 seeds", rare_basins, FEWER, 5, 0.01, 0.05);
    assert_false_alarms("false alarms, opposite basins, 3 seeds", opposite_basins, FEWER, 3, 0.25, 0.25);
    assert_false_alarms("false alarms, opposite basins, 5 seeds", opposite_basins, FEWER, 5, 0.0625, 0.0625);
    assert_false_alarms("misses the mean, arm that fails in a tenth, 5 seeds", failing_arm, FEWER, 5, 0.12, 0.15);
}

static void a_planted_effect_is_found_as_often_as_predicted(void **state)
{
    (void)state;
    int64_t seeds = weft_seeds_needed(1, 0.05);
    assert_in_range(seeds, 3, MAX_SEEDS);
    double chance = weft_power(1, seeds, 0.05), fewer = weft_power(1, seeds - 1, 0.05);
    assert_true(fewer < 0.8 && chance >= 0.8 && chance < 0.81);
    struct tally t = tally(normal, MANY, seeds, 1);
    assert_rate("one deviation found, seeds as needed", t.better, MANY, chance, chance);
    assert_true(t.worse <= MANY / 10000);
    t = tally(normal, FEWER, seeds - 1, 1);
    assert_rate("one deviation found, one seed fewer", t.better, FEWER, fewer, fewer);
}

/* ---- families */

/* Number of errors in families of arms with one base. */
struct errors {
    int64_t holm, words,
        coverage; /* an arm that equals the base has a small p, is found to differ; an interval is wrong */
    int64_t found_holm, found_words;
};
static struct errors count_errors(int families, const double effects[ARMS])
{
    struct errors e = {0};
    double loss[1 + ARMS][MAX_SEEDS];
    for (int s = 0; s < families; s++) {
        struct weft_comparison c[ARMS];
        bool holm = false, words = false, wrong = false;
        draw(normal, s, ARMS, 5, loss);
        for (int a = 0; a < ARMS; a++) {
            for (int i = 0; i < 5; i++)
                loss[1 + a][i] -= effects[a];
            c[a] = (struct weft_comparison){.arm = loss[1 + a], .base = loss[0], .seeds = 5};
        }
        check(weft_compare(c, ARMS, ARMS));
        for (int a = 0; a < ARMS; a++) {
            bool resolved = weft_verdict(&c[a]) != WEFT_NOT_RESOLVED, small = c[a].p_holm <= 0.05;
            assert_true(resolved == (ARMS * c[a].p < 0.05)); /* words, interval and p are of one mind */
            assert_true(!resolved || small);
            holm |= small && effects[a] == 0;
            words |= resolved && effects[a] == 0;
            wrong |= c[a].family.low > -effects[a] || c[a].family.high < -effects[a];
            e.found_holm += small && effects[a] != 0;
            e.found_words += resolved && effects[a] != 0;
        }
        e.holm += holm;
        e.words += words;
        e.coverage += wrong;
    }
    return e;
}

static void families_err_in_one_study_of_twenty(void **state)
{
    (void)state;
    struct errors e = count_errors(FEWER, (const double[ARMS]){0});
    assert_rate("four equal arms, any Holm's p below 0.05", e.holm, FEWER, 0.03, 0.05);
    assert_rate("four equal arms, any found to differ", e.words, FEWER, 0.03, 0.05);
    assert_int_equal(e.words, e.coverage);
    e = count_errors(FEWER, (const double[ARMS]){6, 0, 4, 0});
    assert_rate("two of four equal, either's p below 0.05", e.holm, FEWER, 0.02, 0.05);
    assert_rate("two of four equal, any interval wrong", e.coverage, FEWER, 0.03, 0.05);
    assert_true(e.words < e.holm && e.found_words < e.found_holm);
}

static void holm_by_hand(void **state)
{
    (void)state;
    static const double d[ARMS][5] = {{1, 2, 1, 2, 1}, {1, 2, 1, 2, 1}, {1, -1, 2, -2, 1}, {5, 5.1, 5.2, 5.1, 5}};
    struct weft_comparison c[ARMS + 1];
    for (int a = 0; a < ARMS; a++)
        c[a] = (struct weft_comparison){.arm = d[a], .base = zeros, .seeds = 5};
    c[ARMS] = (struct weft_comparison){.arm = d[0], .base = zeros, .seeds = 1};
    check(weft_compare(c, ARMS + 1, ARMS + 1)); /* a comparison without p also counts: there were five */
    assert_true(c[3].p_holm == 5 * c[3].p);
    assert_true(c[0].p_holm == 4 * c[0].p && c[1].p_holm == c[0].p_holm);
    assert_true(c[2].p_holm == fmin(1, 2 * c[2].p) && isnan(c[4].p_holm));
    double half = (c[0].family.high - c[0].family.low) / 2;
    assert_true(fabs(half - weft_t_quantile(1 - 0.01 / 2, 4) * c[0].sd / sqrt(5)) < 1e-12);
}

static void what_is_not_finite_is_refused(void **state)
{
    (void)state;
    const double bad[] = {1, NAN, 2};
    struct weft_comparison c = {.arm = bad, .base = zeros, .seeds = 3};
    assert_int_equal(weft_compare(&c, 1, 1), WEFT_INVALID);
    assert_non_null(strstr(weft_error(), "seed number 2"));
    c.seeds = 0;
    assert_int_equal(weft_compare(&c, 1, 1), WEFT_INVALID);
}

/* ---- bootstrap */

static void bootstrap_moves_with_the_data(void **state)
{
    (void)state;
    double skewed[8] = {0, 0.1, 0.2, 0.1, 0.3, 0.2, 0, 4}, moved[8];
    struct weft_comparison c = compare(skewed, zeros, 8);
    struct weft_interval one = weft_bootstrap(&c), again = weft_bootstrap(&c);
    assert_memory_equal(&one, &again, sizeof one);
    assert_true(one.low > c.alone.low && one.low > 0 && one.high > c.mean); /* no difference was below 0 */
    expect_text(&c, "not resolved: +0.6 nats [-0.5, 1.8], 8 seeds. If the true difference is +0.6, 42 seeds would "
                    "resolve it; 7 seeds if it is +1.8, and no number of seeds if it is 0. These 8 seeds could resolve "
                    "a difference of 1.6 or more (for this arm alone, the t interval is [-0.54, 1.76] but the "
                    "bootstrap interval is [0.05, 2.07]: check the individual seeds)");
    for (int i = 0; i < 8; i++)
        moved[i] = 4 * skewed[i] - 16;
    c = compare(moved, zeros, 8);
    again = weft_bootstrap(&c);
    assert_true(fabs(again.low - (4 * one.low - 16)) < 1e-12 && fabs(again.high - (4 * one.high - 16)) < 1e-12);
    c = compare(skewed, zeros, 7);
    assert_true(isnan(weft_bootstrap(&c).low));
}

static void bootstrap_covers_the_mean(void **state)
{
    (void)state;
    enum { STUDIES = 400 };
    int64_t covered = 0;
    double loss[2][MAX_SEEDS], width = 0;
    for (int s = 0; s < STUDIES; s++) {
        draw(normal, s, 1, WEFT_BOOTSTRAP_SEEDS, loss);
        struct weft_comparison c = compare(loss[1], loss[0], WEFT_BOOTSTRAP_SEEDS);
        struct weft_interval i = weft_bootstrap(&c);
        covered += i.low <= 0 && i.high >= 0;
        width += (i.high - i.low) / (c.alone.high - c.alone.low) / STUDIES;
    }
    assert_rate("bootstrap covers the mean, normal noise, 8 seeds", covered, STUDIES, 0.93, 0.96);
    print_message("its width is %.3f of the t interval's\n", width);
    assert_true(width > 0.9 && width < 1.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_golden),
        cmocka_unit_test(quantiles_undo_distributions),
        cmocka_unit_test(seeds_needed_and_effects_resolved_agree),
        cmocka_unit_test(students_own_comparison),
        cmocka_unit_test(verdicts_in_words),
        cmocka_unit_test(equal_arms_differ_in_one_study_of_twenty),
        cmocka_unit_test(basins_are_no_normal_noise),
        cmocka_unit_test(a_planted_effect_is_found_as_often_as_predicted),
        cmocka_unit_test(families_err_in_one_study_of_twenty),
        cmocka_unit_test(holm_by_hand),
        cmocka_unit_test(what_is_not_finite_is_refused),
        cmocka_unit_test(bootstrap_moves_with_the_data),
        cmocka_unit_test(bootstrap_covers_the_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
