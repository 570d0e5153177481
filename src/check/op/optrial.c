/* SPDX-License-Identifier: MIT
 *
 * optrial.c - builds the graph of an op's case, differentiates, plans, fills and runs it.
 */
#include "check/op/optrial.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_gradient(const struct weft_value *v)
{
    if (!v->node || !weft_dtype_is_float(v->dtype))
        return false;
    for (int o = 0; o < WEFT_MAX_ARGS; o++)
        if (v->node->out[o] == v)
            return !(v->node->op->no_grad_out >> o & 1);
    return false;
}

/* Adds a cotangent for every differentiable output, then the backward pass. */
static enum weft_status differentiate(struct weft_optrial *t)
{
    struct weft_value *const *all;
    int n = weft_graph_values(t->graph, &all);
    bool wanted = false;
    for (int i = 0; i < n; i++) {
        wanted |= all[i]->wants_grad;
        if (all[i]->is_output && has_gradient(all[i]))
            t->seeded[t->seed_count++] = all[i];
    }
    if (!wanted || !t->seed_count || (!t->op->grad && !t->op->bwd.run))
        return WEFT_OK;
    for (int i = 0; i < t->seed_count; i++) {
        char name[16];
        snprintf(name, sizeof name, "seed%d", i);
        t->seeds[i] = weft_graph_input(t->graph, name, WEFT_F32, t->seeded[i]->shape);
    }
    return weft_graph_backward_from(t->graph, t->seed_count, t->seeded, t->seeds);
}

enum weft_status weft_optrial_build(struct weft_optrial *t, enum weft_dtype dtype)
{
    t->graph = weft_graph_new(dtype);
    TRY(weft_graph_status(t->graph));
    weft_graph_consume_inputs(t->graph);
    t->op->build(t->graph, t->c);
    TRY(weft_graph_status(t->graph));
    TRY(differentiate(t));
    struct weft_value *const *all;
    int n = weft_graph_values(t->graph, &all);
    for (int i = 0; i < n; i++) {
        if (t->filled_count == WEFT_OPTRIAL_VALUES || t->result_count == WEFT_OPTRIAL_VALUES)
            return FAIL(WEFT_INVALID, "%s: case %s has too many values for the harness", t->op->name, t->c->name);
        if (all[i]->kind != WEFT_VALUE)
            t->filled[t->filled_count++] = all[i];
        if (all[i]->is_output)
            t->result[t->result_count++] = all[i];
    }
    return WEFT_OK;
}

enum weft_status weft_oprun_open(struct weft_optrial *t, struct weft_oprun *r, enum weft_mode mode, int threads)
{
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, threads);
    enum weft_status status = weft_exec_create(&r->exec, t->graph, mode);
    weft_threads_leave(&scope);
    TRY(status);
    for (int i = 0; i < t->filled_count; i++) {
        const struct weft_value *v = t->filled[i];
        if (v->kind == WEFT_INPUT)
            continue;
        size_t bytes;
        TRY(weft_tensor_bytes(weft_exec_tensor(r->exec, v), &bytes));
        r->bound[i] = malloc(bytes + 2 * WEFT_OPTRIAL_FENCE);
        if (!r->bound[i])
            return FAIL(WEFT_NOMEM, "not enough memory for the op harness");
        memset(r->bound[i], 0xff, bytes + 2 * WEFT_OPTRIAL_FENCE);
        weft_exec_bind(r->exec, v, r->bound[i] + WEFT_OPTRIAL_FENCE);
    }
    return WEFT_OK;
}

void weft_oprun_close(struct weft_oprun *r)
{
    for (int i = 0; i < WEFT_OPTRIAL_VALUES; i++)
        free(r->bound[i]);
    weft_exec_free(r->exec);
    memset(r, 0, sizeof *r);
}

void weft_oprun_fill(struct weft_optrial *t, struct weft_oprun *r)
{
    for (int i = 0; i < t->filled_count; i++) {
        const struct weft_value *v = t->filled[i];
        struct weft_tensor *to = weft_exec_tensor(r->exec, v);
        int64_t n = weft_tensor_count(to);
        if (v->kind != WEFT_GRAD && t->op->fill && t->op->fill(t->c, v->name, to))
            continue;
        uint64_t key = weft_key_name(v->kind, v->name);
        for (int64_t e = 0; e < n; e++) {
            float x = weft_dtype_is_float(v->dtype) ? (float)weft_normal(key, (uint64_t)e) : 0;
            weft_tensor_set(to, e, v->dtype == WEFT_BF16 ? weft_f32_from_bf16(weft_bf16_from_f32(x)) : x);
        }
    }
}

void weft_oprun_run(struct weft_optrial *t, struct weft_oprun *r)
{
    weft_oprun_fill(t, r);
    weft_defer(weft_exec_prepare(r->exec));
    weft_defer(weft_exec_run(r->exec));
}
