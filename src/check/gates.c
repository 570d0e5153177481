/* SPDX-License-Identifier: MIT
 *
 * gates.c - the table of gates, and running them on a small copy of the model and on the model itself.
 */
#include "check/gate.h"

#include <stdlib.h>
#include <string.h>

typedef enum weft_status gate_fn(const struct weft_trial *t);

static const struct {
    const char *name, *summary;
    gate_fn *twin, *itself; /* itself may be NULL */
} gates[WEFT_GATE_COUNT] = {
    [WEFT_GATE_LIVE] = {"live", "every weight, mechanism and loss has an effect", weft_gate_live,
                        weft_gate_live_itself},
    [WEFT_GATE_CAUSAL] = {"causal", "no row depends on later tokens", weft_gate_causal, weft_gate_causal_itself},
    [WEFT_GATE_ISOLATED] = {"isolated", "no sequence depends on the others of its batch", weft_gate_isolated,
                            weft_gate_isolated_itself},
    [WEFT_GATE_CACHED] = {"cached", "chunks and single tokens give the whole sequence's logits", weft_gate_cached,
                          weft_gate_cached_itself},
    [WEFT_GATE_EXACT] = {"exact", "the same bits with any number of threads and ranks", weft_gate_exact,
                         weft_gate_exact_itself},
    [WEFT_GATE_GRADIENT] = {"gradient", "gradients are the derivatives of the loss", weft_gate_gradient,
                            weft_gate_gradient_itself},
    [WEFT_GATE_SCALED] = {"scaled", "with scaling=mup, steps do as much at every width", weft_gate_scaled},
    [WEFT_GATE_STEPPED] = {"stepped", "the trainer does what its definition says", weft_gate_stepped,
                           weft_gate_stepped_itself},
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

/* Runs inside a gate return nothing: what failed there is found afterwards. */
static enum weft_status run_gate(gate_fn *gate, const struct weft_trial *t)
{
    if (gate)
        TRY(gate(t));
    TRY(weft_deferred());
    return WEFT_OK;
}

/* `accounted`, the last, comes first: memory that a process takes once is seen only when nothing has run yet. */
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
    weft_threads_enter(&one, 1); /* a model this small gains nothing from more */
    tiny.dropout = 0;            /* the gate that needs masks turns it on */
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

/* A token that sees itself alone leaves attention nothing to choose from: most checks would fail, and none would say
 * why. */
static bool has_context(const struct weft_spec *spec, unsigned which, struct weft_gates *report)
{
    int first = 0;
    while (first < WEFT_GATE_COUNT - 1 && !(which >> first & 1))
        first++;
    if (spec->context < 2)
        weft_trial_report(&(struct weft_trial){gates[first].name, NULL, NULL, report}, false, (double)spec->context, 2,
                          "tokens of the context",
                          "context=1: a token sees itself alone, so neither attention nor the order of tokens can be "
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
