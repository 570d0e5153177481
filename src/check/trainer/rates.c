/* SPDX-License-Identifier: MIT
 *
 * rates.c - compares the learning rates of a recipe, and of all schedules, with a plain computation.
 */
#include "check/trainer/stepped.h"

#include <math.h>
#include <stdio.h>

enum { RATES = 4096 }; /* maximum number of steps compared */

/* Returns the i-th step to compare: the first ones, those around the end of the warm-up, then evenly up to the last. */
static int64_t step_at(const struct weft_recipe *r, int64_t i)
{
    enum { NEAR = 64 };
    int64_t step = i < NEAR       ? 1 + i
                   : i < 2 * NEAR ? r->warmup + i - NEAR - NEAR / 2
                                  : 1 + (r->steps - 1) / (RATES - 1 - 2 * NEAR) * (i - 2 * NEAR);
    return i == RATES - 1 ? r->steps : weft_max(1, weft_min(step, r->steps));
}

struct rate {
    double error; /* relative to the peak learning rate */
    int64_t tried, of, step;
    double real, plain;
};

static void compare_rates(const struct weft_recipe *r, struct rate *worst)
{
    int64_t tried = weft_min(r->steps, RATES);
    for (int64_t i = 0; i < tried; i++) {
        int64_t step = r->steps <= RATES ? 1 + i : step_at(r, i);
        double real = weft_recipe_lr(r, step), plain = weft_plain_lr(r, step), error = fabs(real - plain);
        if (!(error <= worst->error * r->lr))
            *worst = (struct rate){error / r->lr, worst->tried, worst->of, step, real, plain};
    }
    worst->tried += tried;
    worst->of += r->steps;
}

static void report_rates(const struct weft_trial *t, const struct rate *worst, const char *what)
{
    const double limit = 1e-12;
    char name[160];
    snprintf(name, sizeof name, "%s: learning rate against a plain one (%lld of %lld steps)", what,
             (long long)worst->tried, (long long)worst->of);
    weft_trial_report(t, worst->error <= limit, worst->error, limit, name, "step %lld: %g, expected %g",
                      (long long)worst->step, worst->real, worst->plain);
}

void weft_check_schedule(const struct weft_trial *t, const struct weft_recipe *r)
{
    struct rate worst = {0};
    compare_rates(r, &worst);
    report_rates(t, &worst, "the recipe");
}

/* Checks all schedules, short and long, with and without a warm-up. */
void weft_check_schedules(const struct weft_trial *t, const struct weft_recipe *like)
{
    static const struct {
        int schedule;
        int64_t steps, warmup;
    } cases[] = {{0, 300, 100}, {1, 300, 100}, {2, 300, 100}, {0, 1, 0}, {0, 7, 0}, {1, 50, 1}, {0, 20, 40}};
    struct rate worst = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft_recipe r = *like;
        r.choice.schedule = cases[i].schedule;
        r.steps = cases[i].steps;
        r.warmup = cases[i].warmup;
        compare_rates(&r, &worst);
    }
    report_rates(t, &worst, "all schedules");
}
