/* SPDX-License-Identifier: MIT
 *
 * gates.c - the table of gates, and running them on a small copy of the model.
 */
#include "check/gate.h"

static const struct {
    const char *name, *summary;
    enum weft_status (*run)(const struct weft_trial *t);
} gates[WEFT_GATE_COUNT] = {
    [WEFT_GATE_LIVE] = {"live", "every weight, mechanism and loss has an effect", weft_gate_live},
    [WEFT_GATE_CAUSAL] = {"causal", "no row depends on later tokens", weft_gate_causal},
    [WEFT_GATE_CACHED] = {"cached", "chunks and single tokens give the whole sequence's logits", weft_gate_cached},
    [WEFT_GATE_EXACT] = {"exact", "the same bits with any number of threads", weft_gate_exact},
    [WEFT_GATE_GRADIENT] = {"gradient", "gradients are the derivatives of the loss", weft_gate_gradient},
    [WEFT_GATE_ACCOUNTED] = {"accounted", "weights, FLOPs, memory and cache are as predicted", weft_gate_accounted},
};

const char *weft_gate_at(int i, const char **summary)
{
    if (i >= WEFT_GATE_COUNT)
        return NULL;
    *summary = gates[i].summary;
    return gates[i].name;
}

static enum weft_status run_on(const struct weft_model *twin, unsigned which, struct weft_gates *report)
{
    for (int i = 0; i < WEFT_GATE_COUNT; i++) {
        if (which >> i & 1)
            TRY(gates[i].run(&(struct weft_trial){gates[i].name, twin, report}));
        TRY(weft_deferred()); /* runs inside a gate return nothing */
    }
    return WEFT_OK;
}

enum weft_status weft_gates_run(const struct weft_spec *spec, unsigned which, struct weft_gates *report)
{
    struct weft_spec tiny;
    struct weft_model *twin = NULL;
    struct weft_threads_scope one;
    enum weft_status status = weft_spec_shrink(&tiny, spec);
    weft_threads_enter(&one, 1); /* a model this small gains nothing from more */
    tiny.dropout = 0;            /* the gate that needs masks turns it on */
    if (status == WEFT_OK)
        status = weft_twin_create(&twin, &tiny);
    if (status == WEFT_OK)
        status = run_on(twin, which, report);
    weft_model_free(twin);
    weft_spec_release(&tiny);
    weft_threads_leave(&one);
    return status;
}
