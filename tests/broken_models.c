/* SPDX-License-Identifier: MIT
 *
 * broken_models.c - every mutant of a model is caught by its own gate. Runs one mutant in eight, or all whose names
 * match an argument (make long-whole runs all).
 *
 * run-tests: 28 s, once
 */
#include "check/check.h"
#include "unit/test.h"

#include <assert.h>

static void is_noticed(void **state)
{
    const struct weft_mutant *m = *state;
    struct weft_mutant_result result;
    /* Mutants that an earlier gate may hide run with all gates, as before training. */
    unsigned gates = m->gate == WEFT_GATE_ACCOUNTED ? WEFT_GATES_ALL : 1u << m->gate;
    assert_int_equal(weft_mutant_run(m, gates, &result), WEFT_OK);
    print_message("%s\n", result.message);
    assert_false(result.alarm);
    assert_true(result.caught);
    assert_true(result.named || !result.asked);
}

/* With an argument, the mutants whose names match it. */
int main(int count, char **arguments)
{
    enum { MOST = 256 };
    struct CMUnitTest tests[MOST];
    size_t n = 0;
    const struct weft_mutant *m;
    for (int i = 0, every = count > 1 ? 1 : one_of(8); n < MOST && (m = weft_mutant_at(i)); i += every)
        tests[n++] =
            (struct CMUnitTest){.name = m->name, .test_func = is_noticed, .initial_state = (void *)(uintptr_t)m};
    assert(n < MOST);
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return _cmocka_run_group_tests("broken_models", tests, n, NULL, NULL);
}
