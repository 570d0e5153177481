/* SPDX-License-Identifier: MIT
 *
 * sweep.c - runs the gates on many small models, each as a job of a crew.
 */
#include "check/check.h"

#include <stdio.h>
#include <string.h>

static const enum weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16};
enum { DTYPES = 2 };

struct sweep {
    const struct weft_combinations *combinations;
    weft_sweep_fn *report;
    void *context;
};

static void note(void *context, const struct weft_check *c)
{
    struct weft_sweep_result *r = context;
    if (!c->passed && !r->message[0])
        snprintf(r->message, sizeof r->message, "%s: %s: %.3g, limit %.3g; %s", c->gate, c->name, c->figure, c->limit,
                 c->where);
}

static void work(void *context, int job, void *result)
{
    const struct sweep *s = context;
    struct weft_sweep_result *r = result;
    struct weft_gates report = {.on_check = note, .context = r};
    struct weft_spec spec;
    struct weft_recipe recipe = {0};
    enum weft_status status = weft_combination_spec(&spec, s->combinations->rows[job / DTYPES], dtypes[job % DTYPES]);
    if (status == WEFT_OK)
        status = weft_recipe_plain(&recipe, &spec);
    if (status == WEFT_OK)
        status = weft_gates_run(&spec, &recipe, WEFT_GATES_ALL, &report);
    weft_recipe_release(&recipe);
    weft_spec_release(&spec);
    r->checks = report.checks;
    r->failed = report.failed + (status != WEFT_OK);
    if (status != WEFT_OK)
        snprintf(r->message, sizeof r->message, "%s", weft_error());
}

static void lose(void *context, int job, void *result, int signal)
{
    struct weft_sweep_result *r = result;
    (void)context, (void)job;
    r->failed++;
    snprintf(r->message, sizeof r->message, "the process running the check ended without a result (signal %d)", signal);
}

static enum weft_status report(void *context, int job, void *result)
{
    const struct sweep *s = context;
    struct weft_sweep_result *r = result;
    r->row = job / DTYPES;
    r->dtype = dtypes[job % DTYPES];
    s->report(s->context, r);
    return WEFT_OK;
}

enum weft_status weft_sweep(const struct weft_combinations *c, weft_sweep_fn *report_to, void *context)
{
    struct sweep s = {c, report_to, context};
    const struct weft_crew crew = {c->count * DTYPES, sizeof(struct weft_sweep_result), work, lose, report, &s};
    return weft_crew_run(&crew);
}
