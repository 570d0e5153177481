/* SPDX-License-Identifier: MIT
 *
 * stats.c - distributions against golden values (golden/stats.json), comparisons and their words against answers done
 * by hand, and studies simulated by the hundred thousand: what is promised about chances is counted.
 */
#include "lab/stats.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_golden),
        cmocka_unit_test(quantiles_undo_distributions),
        cmocka_unit_test(seeds_needed_and_effects_resolved_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
