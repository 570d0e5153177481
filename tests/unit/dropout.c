/* SPDX-License-Identifier: MIT
 *
 * dropout.c - checks the statistics of dropout. There are no golden values, since PyTorch draws different masks.
 *
 * run-tests: 1 s
 */
#include "ops/ops.h"
#include "test.h"

#include <math.h>

enum { TRIAL_ROWS = 128, TRIAL_WIDTH = 128, TRIALS = TRIAL_ROWS * TRIAL_WIDTH };

/* With an input and a cotangent of ones, both the output and the gradient are the mask divided by 1 - p. */
static void count_kept(const struct weft_tensor *y, const struct weft_tensor *dx, double p)
{
    int64_t kept = 0, wrong = 0;
    for (int64_t i = 0; i < TRIALS; i++) {
        double mask = weft_tensor_get(y, i) * (1 - p);
        kept += mask > 0.5;
        wrong += fabs(mask - (mask > 0.5)) > 1e-6 || weft_tensor_get(dx, i) != weft_tensor_get(y, i);
    }
    double sigmas = ((double)kept / TRIALS - (1 - p)) / sqrt(p * (1 - p) / TRIALS);
    print_message("# kept %lld of %d: %.2f sigma\n", (long long)kept, TRIALS, sigmas);
    assert_int_equal(wrong, 0);
    assert_true(fabs(sigmas) < 4);
}

static enum weft_status try_dropout(struct weft_graph *g, struct weft_exec **exec)
{
    const double p = 0.25;
    struct weft_dim m = weft_fixed(TRIAL_ROWS), c = weft_fixed(TRIAL_WIDTH);
    struct weft_value *x = weft_graph_input(g, "x", WEFT_F32, WEFT_SHAPE(m, c));
    struct weft_value *seed = weft_graph_input(g, "cotangent", WEFT_F32, WEFT_SHAPE(m, c));
    struct weft_rows at = {.seq = weft_graph_input(g, "seq", WEFT_I32, WEFT_SHAPE(m)),
                           .pos = weft_graph_input(g, "pos", WEFT_I32, WEFT_SHAPE(m)),
                           .sample = weft_graph_input(g, "sample", WEFT_I32, WEFT_SHAPE(weft_fixed(1))),
                           .step_key = weft_graph_input(g, "step_key", WEFT_I32, WEFT_SHAPE(weft_fixed(4)))};
    TRY(weft_graph_status(g));
    x->wants_grad = true;
    struct weft_value *y = weft_dropout(g, x, &at, p, 0, 0);
    weft_graph_output(g, y);
    TRY(weft_graph_backward_from(g, 1, &y, &seed));
    weft_graph_output(g, weft_graph_gradient(x));
    TRY(weft_exec_create(exec, g, WEFT_FAST));
    for (int64_t i = 0; i < TRIALS; i++) {
        weft_tensor_set(weft_exec_tensor(*exec, x), i, 1);
        weft_tensor_set(weft_exec_tensor(*exec, seed), i, 1);
    }
    for (int i = 0; i < TRIAL_ROWS; i++) /* one sequence; seed, step and sample 0 */
        ((int32_t *)weft_exec_tensor(*exec, at.pos)->data)[i] = i;
    weft_exec_prepare(*exec);
    weft_exec_run(*exec);
    count_kept(weft_exec_tensor(*exec, y), weft_exec_tensor(*exec, weft_graph_gradient(x)), p);
    return WEFT_OK;
}

static void keeps_its_share(void **state)
{
    (void)state;
    struct weft_exec *exec = NULL;
    struct weft_graph *g = weft_graph_new(WEFT_F32);
    check(try_dropout(g, &exec));
    weft_exec_free(exec);
    weft_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_its_share)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
