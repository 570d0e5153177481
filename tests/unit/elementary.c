/* SPDX-License-Identifier: MIT
 *
 * elementary.c - compares the elementary functions, which do not use libm, with libm in long double.
 *
 * run-tests: 1 s, aarch64 13 s, asan 1 s
 */
#include "test.h"

#include <math.h>

/* Returns the error in ulps of a double near `exact`. */
static double ulps(double got, long double exact)
{
    int e;
    frexpl(exact, &e);
    return (double)(fabsl(got - exact) / ldexpl(1, (e < -1021 ? -1021 : e) - 53));
}

static long double exact_cos_pi(long double x) { return cosl(3.14159265358979323846264338327950288L * x); }

static void errors(void **state)
{
    (void)state;
    static const struct function {
        const char *name;
        double (*own)(double x);
        long double (*exact)(long double x);
        double low, high, ulps;
    } functions[] = {
        {"exp", weft_exp, expl, -745, 709, 2},     {"exp2", weft_exp2, exp2l, -990, 990, 2},
        {"expm1", weft_expm1, expm1l, -20, 20, 4}, {"log", weft_log, logl, 1e-300, 1e300, 3},
        {"log near 1", weft_log, logl, 0.5, 2, 3}, {"cos_pi", weft_cos_pi, exact_cos_pi, -0.45, 0.45, 3},
    };
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        const struct function *fn = &functions[f];
        double worst = 0;
        for (uint64_t i = 0; i < 100000; i++) {
            double share = weft_uniform(5, i);
            double x = fn->low > 0 && fn->high > 100
                           ? fn->low * pow(fn->high / fn->low, share / 2) * pow(fn->high / fn->low, share / 2)
                           : fn->low + share * (fn->high - fn->low);
            if (isinf(x))
                x = fn->high * share;
            worst = fmax(worst, ulps(fn->own(x), fn->exact(x)));
        }
        print_message("# %s: %.2f units in the last place\n", fn->name, worst);
        assert_true(worst <= fn->ulps);
    }
}

static void powers(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 10000; i++) {
        double x = 0.5 + weft_uniform(6, i), y = 200 * weft_uniform(7, i) - 100;
        assert_true(fabs(weft_pow(x, y) / pow(x, y) - 1) < 1e-13);
        assert_true(fabs(weft_pow(x, floor(y)) / pow(x, floor(y)) - 1) < 1e-13);
    }
    assert_true(weft_pow(10000, 0) == 1 && weft_pow(2, 10) == 1024 && weft_pow(2, -3) == 0.125);
    assert_true(weft_pow(-2, 3) == -8);
}

static void exact_values(void **state)
{
    (void)state;
    assert_true(weft_exp(0) == 1 && weft_exp(-INFINITY) == 0 && weft_exp(INFINITY) == INFINITY && isnan(weft_exp(NAN)));
    assert_true(weft_exp(-800) == 0 && weft_exp(800) == INFINITY && weft_exp(-744) > 0);
    assert_true(weft_log(1) == 0 && weft_log(0) == -INFINITY && weft_log(INFINITY) == INFINITY);
    assert_true(isnan(weft_log(-1)) && isnan(weft_log(NAN)) && fabs(weft_log(0x1p-1074) + 744.4400719213812) < 1e-10);
    assert_true(weft_expm1(0) == 0 && weft_expm1(-800) == -1 && weft_expm1(1e-300) == 1e-300);
    for (int k = -500; k <= 500; k++)
        assert_true(weft_exp2(k) == ldexp(1, k));
    assert_true(weft_cos_pi(0) == 1 && weft_cos_pi(1) == -1 && weft_cos_pi(0.5) == 0 && weft_cos_pi(-1.5) == 0);
    assert_true(weft_cos_pi(2) == 1 && weft_cos_pi(1e15) == 1 && fabs(weft_cos_pi(1.0 / 3) - 0.5) < 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors),
        cmocka_unit_test(powers),
        cmocka_unit_test(exact_values),
    };
    return cmocka_run_group_tests_name("elementary", tests, NULL, NULL);
}
