/* SPDX-License-Identifier: MIT
 *
 * nomem.c - whichever allocation fails, planning returns an error, and the op harness does not count a case that it
 * could not run as passed.
 *
 * This program defines malloc and related functions, so that any call can be made to fail.
 *
 * run-tests: 5 s
 */
#include "check/check.h"
#include "ops/ops.h"
#include "test.h"

#include <stdatomic.h>

static atomic_long countdown; /* allocations until the one that fails; 0 or less: none will */

#if !SANITIZED
static bool fails(void) { return atomic_load(&countdown) > 0 && atomic_fetch_sub(&countdown, 1) == 1; }

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
void *calloc(size_t n, size_t bytes) { return fails() ? NULL : __libc_calloc(n, bytes); }
void *realloc(void *old, size_t bytes) { return fails() ? NULL : __libc_realloc(old, bytes); }
void *aligned_alloc(size_t align, size_t bytes) { return fails() ? NULL : __libc_memalign(align, bytes); }
#endif

/* Builds enough nodes to make every array of the plan a block of its own. */
static void planning_says_that_memory_is_out(void **state)
{
    (void)state;
    enum { NODES = 70000 };
    if (SANITIZED)
        skip();
    struct weft_graph *g = weft_graph_new(WEFT_F32);
    struct weft_value *x = weft_graph_input(g, "x", WEFT_F32, WEFT_SHAPE(weft_fixed(2)));
    for (int i = 0; i < NODES; i++)
        x = weft_scale(g, x, 1);
    weft_graph_output(g, x);
    assert_int_equal(weft_graph_status(g), WEFT_OK);
    long failed = 0;
    for (enum weft_status status = WEFT_NOMEM; status != WEFT_OK; failed++) {
        struct weft_exec *exec;
        weft_error_clear();
        atomic_store(&countdown, failed + 1);
        status = weft_exec_create(&exec, g, WEFT_UNBACKED);
        bool reached = atomic_exchange(&countdown, 0) <= 0;
        assert_int_equal(status, reached ? WEFT_NOMEM : WEFT_OK);
        assert_true(status == WEFT_OK || strstr(weft_error(), "memory") || strstr(weft_error(), "cannot allocate"));
        weft_exec_free(exec);
    }
    assert_true(failed > 10); /* the arrays of the plan */
    weft_graph_free(g);
}

static void ignore(void *context, const struct weft_opcheck_case *c)
{
    (void)context;
    (void)c;
}

/* (The first run creates the team of threads; without memory for one, calls run on one thread.) */
static void a_case_that_was_not_run_has_not_passed(void **state)
{
    (void)state;
    if (SANITIZED)
        skip();
    struct weft_opcheck whole, sum;
    assert_int_equal(weft_opcheck_run("add", 1, &whole, ignore, NULL), WEFT_OK);
    assert_int_equal(whole.failed, 0);
    for (long n = 1;; n += 1 + n / 10) {
        atomic_store(&countdown, n);
        enum weft_status status = weft_opcheck_run("add", 1, &sum, ignore, NULL);
        if (atomic_exchange(&countdown, 0) > 0) {
            assert_int_equal(status, WEFT_OK); /* there were no more allocations */
            assert_true(n > 100);
            break;
        }
        assert_int_equal(status, WEFT_NOMEM);
        assert_int_equal(sum.failed, 0);
        assert_true(sum.cases < whole.cases);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planning_says_that_memory_is_out),
        cmocka_unit_test(a_case_that_was_not_run_has_not_passed),
    };
    return cmocka_run_group_tests_name("nomem", tests, NULL, NULL);
}
