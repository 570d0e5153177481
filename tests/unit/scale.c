/* SPDX-License-Identifier: MIT
 *
 * scale.c - predictions for many threads and ranks: schedules of known tiles, and the arithmetic of a step.
 *
 * run-tests: 1 s
 */
#include "bench/scale.h"
#include "bench/slack.h"
#include "stage.h"

#include <math.h>

/* One op with one call of equal tiles. */
static double scheduled(int64_t tiles, double each, double before, int threads, struct weft_team_cost cost)
{
    double times[1000], ops[1];
    for (int64_t t = 0; t < tiles; t++)
        times[t] = each;
    struct weft_slack_call call = {0, before, tiles, 0};
    struct weft_slack_op op = {.name = "op", .alone = 0.5};
    struct weft_slack s = {.calls = &call, .call_count = 1, .times = times, .ops = &op, .op_count = 1};
    weft_slack_schedule(&s, &cost, threads, ops);
    return ops[0] - op.alone - before;
}

static void tiles_are_scheduled(void **state)
{
    (void)state;
    struct weft_team_cost none = {0};
    assert_float_equal(scheduled(96, 1, 0, 1, none), 96, 1e-9);
    assert_float_equal(scheduled(96, 1, 0, 64, none), 2, 1e-9);
    assert_float_equal(scheduled(96, 1, 0, 128, none), 1, 1e-9);
    assert_float_equal(scheduled(96, 1, 0, 5, none), 20, 1e-9);
    assert_float_equal(scheduled(1, 3, 0, 64, none), 3, 1e-9);
    assert_float_equal(scheduled(0, 3, 0, 64, none), 0, 1e-9);
    assert_float_equal(scheduled(1000, 1, 0, 4096, none), 1, 1e-9);
}

static void a_team_has_a_price(void **state)
{
    (void)state;
    struct weft_team_cost cost = {.call = 2e-6, .line = 1e-7, .wake = 5e-5};
    assert_float_equal(scheduled(2, 1, 0, 2, cost), 1 + 2e-6, 1e-9);
    assert_float_equal(scheduled(2, 1, 1e-3, 2, cost), 1 + 5.2e-5, 1e-9); /* the other thread sleeps by then */
    double eight = scheduled(8, 1, 0, 8, cost), sixty = scheduled(60, 1, 0, 60, cost);
    assert_true(eight > 1 + 2e-6 && sixty > eight && sixty < 1 + 4e-5);
    assert_float_equal(scheduled(1, 1, 1, 2, cost), 1, 1e-9); /* nobody is called */
}

static void open_load(struct stage *s, struct weft_scale_load *load, const char *settings)
{
    *s = (struct stage){0};
    check(add_settings(&s->settings, "width=64 heads=4 context=64 recall_length=64 batch=2"));
    check(add_settings(&s->settings, settings));
    open_recipe(s, "gpt2");
    *load = (struct weft_scale_load){s->model, &s->recipe, 1000};
}

static void a_step_adds_up(void **state)
{
    (void)state;
    struct stage s;
    struct weft_scale_load load;
    struct weft_scale one, two, eight;
    struct weft_scale_machine m = {.micro_batch = 2, .memory = 1e9, .network = 1e3, .wait = 0.5, .disk = 1e6};
    open_load(&s, &load, "layers=2 micro_batches=8 grad_groups=8");
    double weights = 4 * (double)s.model->params.total;
    check(weft_scale_predict(&load, &m, 1, &one));
    check(weft_scale_predict(&load, &m, 2, &two));
    check(weft_scale_predict(&load, &m, 8, &eight));
    assert_float_equal(one.step, 16 + 7 * weights / 1e9, 1e-6);
    assert_float_equal(one.efficiency, 1, 1e-9);
    assert_float_equal(one.gradients + one.weights + one.hidden, 0, 1e-9);
    assert_float_equal(two.compute, 8, 1e-9);
    assert_float_equal(two.gradients, weights / 2 / 1e3 + 0.5, 1e-6);
    assert_float_equal(two.weights, weights / 2 / 1e3 + 0.5, 1e-6);
    assert_int_equal(two.sent_bytes, (int64_t)weights);
    assert_float_equal(eight.gradients, weights * 7 / 8 / 1e3 + 3.5, 1e-6);
    assert_true(one.bytes_per_rank > two.bytes_per_rank - 2 * (int64_t)weights &&
                eight.bytes_per_rank < two.bytes_per_rank);
    assert_float_equal(one.checkpoint, 12 * (double)s.model->params.elements / 1e6, 1e-6);
    close_stage(&s);
}

static void more_ranks_than_groups_are_refused(void **state)
{
    (void)state;
    struct stage s;
    struct weft_scale_load load;
    struct weft_scale scale;
    struct weft_scale_machine m = {1, 1, 1, 1, 1};
    open_load(&s, &load, "layers=2 micro_batches=6 grad_groups=4");
    check(weft_scale_predict(&load, &m, 4, &scale));
    assert_float_equal(scale.compute, 2, 1e-9); /* groups of 1 and 2 */
    check(weft_scale_predict(&load, &m, 3, &scale));
    assert_float_equal(scale.compute, 3, 1e-9);
    assert_int_equal(weft_scale_predict(&load, &m, 5, &scale), WEFT_INVALID);
    assert_non_null(strstr(weft_error(), "grad_groups and micro_batches to 5"));
    close_stage(&s);
}

static void a_model_is_measured(void **state)
{
    (void)state;
    struct stage s;
    struct weft_scale_load load;
    struct weft_speedup p;
    open_load(&s, &load, "layers=4");
    check(weft_speedup_measure(s.model->spec, 3, 1e-6, &p));
    assert_int_equal(p.teams[p.asked], 3);
    assert_int_equal(p.team_count, 9);
    assert_true(p.op_count > 5 && p.seconds[0] > 0 && p.cost.call > 0 && p.cost.line > 0);
    for (int o = 1; o < p.op_count; o++)
        assert_true(p.ops[o].seconds[p.asked] <= p.ops[o - 1].seconds[p.asked]);
    for (int t = 0; t < p.team_count; t++)
        assert_true(p.seconds[t] > p.seconds[0] / (1.001 * p.teams[t]));
    close_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_are_scheduled), cmocka_unit_test(a_team_has_a_price),
        cmocka_unit_test(a_step_adds_up),      cmocka_unit_test(more_ranks_than_groups_are_refused),
        cmocka_unit_test(a_model_is_measured),
    };
    return cmocka_run_group_tests_name("scale", tests, NULL, NULL);
}
