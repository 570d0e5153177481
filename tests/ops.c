/* SPDX-License-Identifier: MIT
 *
 * ops.c - runs the harness of `weft check` on every op of the registry, one test per op: on every second case, under
 * sanitizers every eighth, starting with the first. WEFT_EVERY sets that number.
 *
 * run-tests: 21 s, asan 79 s, emulated 100 s
 */
#include "ops/ops.h"
#include "check/check.h"
#include "unit/test.h"

static void print_failure(void *context, const struct weft_opcheck_case *c)
{
    (void)context;
    if (c->failed)
        print_error("%s, %s, %s: %s\n", c->op, c->name, weft_dtype_name(c->dtype), c->message);
}

static void passes(void **state)
{
    struct weft_opcheck sum;
    const struct weft_op *op = *state;
    int every = one_of(SANITIZED ? 8 : 2);
    assert_int_equal(weft_opcheck_run(op->name, every, &sum, print_failure, NULL), WEFT_OK);
    assert_int_equal(sum.ops, 1);
    assert_true(sum.cases >= 16 / every); /* eight sizes, two types */
    assert_int_equal(sum.failed, 0);
    assert_int_equal(sum.thread_mismatches, 0);
    assert_int_equal(sum.row_mismatches, 0);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_OP_COUNT];
    for (int id = 0; id < WEFT_OP_COUNT; id++) {
        const struct weft_op *op = weft_op((enum weft_op_id)id);
        tests[id] = (struct CMUnitTest){.name = op->name, .test_func = passes, .initial_state = (void *)(uintptr_t)op};
    }
    return cmocka_run_group_tests_name("ops", tests, NULL, NULL);
}
