/* SPDX-License-Identifier: MIT
 *
 * simulate.c - the simulated studies pass, and their checks notice broken functions of plan, statistics and pairing.
 * The functions below replace library functions and can break their results. tests/long/source_mutants.py has many
 * more.
 *
 * run-tests: 6 s, asan 16 s
 */
#define _GNU_SOURCE
#include "simulate/simulate.h"
#include "report/read/results.h"
#include "test.h"

#include <dlfcn.h>

static enum { SOUND, FREEDOM, SEEDS, PAIRING } broken;

/* The function of the library that has this name. */
#define LIBRARY(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

double weft_t_quantile(double p, double freedom) { return LIBRARY(weft_t_quantile)(p, freedom + (broken == FREEDOM)); }

struct weft_study_run weft_study_run_at(const struct weft_study *s, int64_t i)
{
    struct weft_study_run run = LIBRARY(weft_study_run_at)(s, i);
    if (broken == SEEDS && run.arm == 1) {
        run.seed++;
        weft_run_folder(s->arm[run.arm].name, run.lr, run.seed, run.folder);
    }
    return run;
}

enum weft_status weft_pairing_check(struct weft_results *r, const struct weft_result_arm *arm, const char **reason)
{
    enum weft_status status = LIBRARY(weft_pairing_check)(r, arm, reason);
    *reason = broken == PAIRING ? NULL : *reason;
    return status;
}

struct found {
    const char *name; /* part of a check's name */
    int failed;       /* checks of that name */
};

static void count(void *context, const struct weft_check *c)
{
    struct found *f = context;
    f->failed += !c->passed && strstr(c->name, f->name);
    if (!c->passed && broken == SOUND)
        print_error("%s: %g, limit %g: %s\n", c->name, c->figure, c->limit, c->where);
}

static void sound(void **state)
{
    struct weft_gates report = {.on_check = count, .context = &(struct found){""}};
    (void)state;
    broken = SOUND;
    check(weft_simulate(&report));
    assert_int_equal(report.failed, 0);
    assert_true(report.checks > 250);
}

static void notices(int what, const char *name)
{
    struct found f = {name};
    struct weft_gates report = {.on_check = count, .context = &f};
    broken = what;
    check(weft_simulate(&report));
    broken = SOUND;
    assert_true(f.failed > 0);
    assert_true(report.failed >= f.failed);
}

static void degrees_of_freedom(void **state) { notices(FREEDOM, "intervals and p values"); }
static void shifted_seeds(void **state) { notices(SEEDS, "runs that the queue trains"); }
static void pairs_unchecked(void **state) { notices(PAIRING, "not paired: verdicts"); }

/* ---- once for each program and folder */

static void once(void **state)
{
    struct weft_simulated s;
    (void)state;
    broken = FREEDOM;
    check_error(weft_simulate_once(scratch, false, &s), WEFT_CHECK, "intervals and p values");
    check(weft_simulate_once(scratch, true, &s));
    assert_true(s.failed > 0);
    check(weft_simulate_record(scratch, &s));
    broken = SOUND;
    check(weft_simulate_once(scratch, false, &s)); /* recorded as failed, so it does not count */
    assert_true(s.checks > 250 && s.failed == 0);
    check(weft_simulate_record(scratch, &s));
    broken = FREEDOM;
    check(weft_simulate_once(scratch, false, &s)); /* recorded as passed by this program */
    assert_int_equal(s.checks, 0);
    broken = SOUND;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound),
        cmocka_unit_test(degrees_of_freedom),
        cmocka_unit_test(shifted_seeds),
        cmocka_unit_test(pairs_unchecked),
        cmocka_unit_test_setup_teardown(once, make_scratch, remove_scratch),
    };
    unsetenv("WEFT_TEST_SKIP_GATES");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
