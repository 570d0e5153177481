/* SPDX-License-Identifier: MIT
 *
 * gates.c - runs the gates on a small copy of the model and on the model itself.
 */
#include "check/probe/gate.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *summary;
    weft_gate_fn *twin, *itself; /* itself may be NULL */
} gates[WEFT_GATE_COUNT] = {
    [WEFT_GATE_LIVE] = {"live", "every weight, mechanism and loss has an effect", weft_gate_live,
                        weft_gate_live_itself},
    [WEFT_GATE_CAUSAL] = {"causal", "no row depends on later tokens", weft_gate_causal, weft_gate_causal_itself},
    [WEFT_GATE_ISOLATED] = {"isolated", "no sequence depends on the others in its batch", weft_gate_isolated,
                            weft_gate_isolated_itself},
    [WEFT_GATE_CACHED] = {"cached", "chunks and single tokens give the same logits as the whole sequence",
                          weft_gate_cached, weft_gate_cached_itself},
    [WEFT_GATE_EXACT] = {"exact", "the same bits with any number of threads and ranks", weft_gate_exact,
                         weft_gate_exact_itself},
    [WEFT_GATE_GRADIENT] = {"gradient", "gradients are the derivatives of the loss", weft_gate_gradient,
                            weft_gate_gradient_itself},
    [WEFT_GATE_SCALED] = {"scaled", "with scaling=mup, the effect of a step does not depend on the width",
                          weft_gate_scaled},
    [WEFT_GATE_STEPPED] = {"stepped", "the trainer follows its definition", weft_gate_stepped,
                           weft_gate_stepped_itself},
    [WEFT_GATE_FORMED] = {"formed", "the forms from which models are exported compute what the model computes",
                          weft_gate_formed},
    [WEFT_GATE_ACCOUNTED] = {"accounted", "weights, FLOPs, memory and cache are as predicted", weft_gate_accounted,
                             weft_gate_accounted_itself},
};

const char *weft_gate_at(int i, const char **summary)
{
    if (i >= WEFT_GATE_COUNT)
        return NULL;
    *summary = gates[i].summary;
    return gates[i].name;
}

bool weft_gates_skipped(void)
{
    const char *asked = getenv("WEFT_TEST_SKIP_GATES");
    return asked && strcmp(asked, "1") == 0;
}

/* ---- failures, with the part that causes them */

enum { HELD = 16 };

/* Holds back the first HELD failed checks of a gate until it has ended; all other checks are reported immediately. */
struct held {
    struct weft_gates *report;
    struct weft_check failed[HELD];
    int count;
};

static void pass_on(struct weft_gates *report, const struct weft_check *c)
{
    report->checks++;
    report->failed += !c->passed;
    if (report->on_check)
        report->on_check(report->context, c);
}

static void hold(void *context, const struct weft_check *c)
{
    struct held *held = context;
    if (c->passed || held->count == HELD)
        pass_on(held->report, c);
    else
        held->failed[held->count++] = *c;
}

/* Returns whether a single part can cause a failure of the gate by mishandling its rows. */
static bool has_culprit(const char *gate)
{
    static const enum weft_gate those[] = {WEFT_GATE_CAUSAL, WEFT_GATE_ISOLATED, WEFT_GATE_CACHED, WEFT_GATE_GRADIENT,
                                           WEFT_GATE_FORMED};
    for (size_t i = 0; i < sizeof those / sizeof *those; i++)
        if (strcmp(gate, gates[those[i]].name) == 0)
            return true;
    return false;
}

static void release(struct held *held, const struct weft_trial *t, weft_gate_fn *gate)
{
    char culprit[128] = "";
    if (held->count > 0 && has_culprit(t->gate))
        weft_culprit_find(t, gate, held->failed[0].name, culprit);
    for (int i = 0; i < held->count; i++) {
        struct weft_check *c = &held->failed[i];
        size_t length = strlen(c->where);
        snprintf(c->where + length, sizeof c->where - length, "%s", culprit);
        pass_on(held->report, c);
    }
}

/* Graph runs inside a gate return no status; their failures are deferred until the gate has ended. */
static enum weft_status run_gate(weft_gate_fn *gate, const struct weft_trial *t)
{
    struct held held = {.report = t->report};
    struct weft_gates inner = {.on_check = hold, .context = &held};
    enum weft_status status = gate ? gate(&(struct weft_trial){t->gate, t->model, t->itself, &inner}) : WEFT_OK;
    if (status == WEFT_OK)
        status = weft_deferred();
    release(&held, t, gate);
    return status;
}

/* `accounted`, the last gate, runs first, because memory that a process allocates only once is visible only if nothing
 * has run yet. */
static enum weft_status run_on_twin(const struct weft_nn *twin, unsigned which, struct weft_gates *report)
{
    for (int turn = 0; turn < WEFT_GATE_COUNT; turn++) {
        int i = (turn + WEFT_GATE_ACCOUNTED) % WEFT_GATE_COUNT;
        if (which >> i & 1)
            TRY(run_gate(gates[i].twin, &(struct weft_trial){gates[i].name, twin, NULL, report}));
    }
    return WEFT_OK;
}

static enum weft_status check_twin(const struct weft_spec *spec, unsigned which, struct weft_gates *report)
{
    struct weft_spec tiny;
    struct weft_nn *twin = NULL;
    struct weft_threads_scope one;
    enum weft_status status = weft_spec_shrink(&tiny, spec);
    weft_threads_enter(&one, 1); /* a model this small gains nothing from more threads */
    tiny.dropout = 0;            /* gates that need masks turn dropout on */
    if (status == WEFT_OK)
        status = weft_twin_create(&twin, &tiny);
    if (status == WEFT_OK)
        status = run_on_twin(twin, which, report);
    weft_nn_free(twin);
    weft_spec_release(&tiny);
    weft_threads_leave(&one);
    return status;
}

static enum weft_status check_itself(const struct weft_spec *spec, const struct weft_recipe *recipe, unsigned which,
                                     struct weft_gates *report)
{
    struct weft_itself it;
    enum weft_status status = weft_itself_init(&it, spec, recipe);
    for (int i = 0; status == WEFT_OK && i < WEFT_GATE_COUNT; i++) {
        it.gate_begun = weft_seconds();
        if (which >> i & 1)
            status = run_gate(gates[i].itself, &(struct weft_trial){gates[i].name, NULL, &it, report});
    }
    if (status == WEFT_OK)
        weft_itself_describe(&it, report->sizes);
    weft_itself_release(&it);
    return status;
}

/* If a token sees only itself, attention has nothing to choose from, and most checks would fail without explaining
 * why. */
static bool has_context(const struct weft_spec *spec, unsigned which, struct weft_gates *report)
{
    int first = 0;
    while (first < WEFT_GATE_COUNT - 1 && !(which >> first & 1))
        first++;
    if (spec->context < 2)
        weft_trial_report(&(struct weft_trial){gates[first].name, NULL, NULL, report}, false, (double)spec->context, 2,
                          "tokens of the context",
                          "with context=1 a token sees only itself, so attention and the order of tokens cannot be "
                          "checked: set context=2 or more");
    return spec->context >= 2;
}

enum weft_status weft_gates_run(const struct weft_spec *spec, const struct weft_recipe *recipe, unsigned which,
                                struct weft_gates *report)
{
    if (!has_context(spec, which, report))
        return WEFT_OK;
    TRY(check_twin(spec, which, report));
    if (recipe)
        TRY(check_itself(spec, recipe, which, report));
    return WEFT_OK;
}
