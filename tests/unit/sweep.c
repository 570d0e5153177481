/* SPDX-License-Identifier: MIT
 *
 * sweep.c - the sweep covers all models even if a check kills its process, and even if SIGCHLD is ignored, so that the
 * exit status of a process is lost.
 *
 * run-tests: 1 s
 */
#include "check/check.h"
#include "ops/ops.h"
#include "test.h"

#include <signal.h>

static void die(const struct weft_call *call)
{
    (void)call;
    raise(SIGKILL);
}

static void count(void *context, const struct weft_sweep_result *result)
{
    int *lost = context;
    *lost += result->failed == 1 && strstr(result->message, "ended without a result") != NULL;
}

static void sweep(void)
{
    static struct weft_combinations one = {.count = 1, .rows = {"ffn=gelu"}};
    struct weft_op broken = *weft_op(WEFT_OP_gelu);
    int lost = 0;
    broken.fwd.run = broken.fwd.ref = die;
    weft_op_replace(WEFT_OP_gelu, &broken);
    alarm(60); /* a sweep that waits for ever must fail, not hang */
    check(weft_sweep(&one, count, &lost));
    alarm(0);
    weft_op_replace(WEFT_OP_gelu, NULL);
    assert_int_equal(lost, 2); /* f32 and bf16 */
}

static void crashes_fail_one_model(void **state)
{
    (void)state;
    sweep();
}

static void sigchld_may_be_ignored(void **state)
{
    (void)state;
    signal(SIGCHLD, SIG_IGN);
    sweep();
    signal(SIGCHLD, SIG_DFL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(crashes_fail_one_model),
                                       cmocka_unit_test(sigchld_may_be_ignored)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
