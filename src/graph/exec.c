/* SPDX-License-Identifier: MIT
 *
 * exec.c - runs a planned graph: binds memory, sets counts, executes the steps. Nothing here allocates after
 * weft_exec_create.
 */
#include "graph/internal.h"

#include <assert.h>
#include <stdlib.h>

static enum weft_status create(struct weft_exec **exec, struct weft_graph *g, enum weft_mode mode,
                               const struct weft_exec *other)
{
    *exec = NULL;
    TRY(weft_graph_status(g));
    struct weft_exec *e = calloc(1, sizeof *e);
    if (!e)
        return FAIL(WEFT_NOMEM, "not enough memory for an executable graph");
    e->graph = g;
    e->mode = mode;
    e->other = other;
    e->threads = weft_threads();
    enum weft_status status = weft_exec_plan(e);
    if (status != WEFT_OK) {
        weft_exec_free(e);
        return status;
    }
    for (int s = 1; s < g->symbol_count; s++)
        weft_exec_count(e, s, g->symbols[s].max);
    *exec = e;
    return WEFT_OK;
}

enum weft_status weft_exec_create(struct weft_exec **exec, struct weft_graph *g, enum weft_mode mode)
{
    return create(exec, g, mode, NULL);
}

enum weft_status weft_exec_create_beside(struct weft_exec **exec, struct weft_graph *g, const struct weft_exec *other)
{
    return create(exec, g, other->mode, other);
}

void weft_exec_free(struct weft_exec *exec)
{
    if (!exec)
        return;
    weft_pages_free(exec->buffer, exec->bytes);
    weft_arena_release(&exec->arena);
    free(exec);
}

void weft_exec_bind(struct weft_exec *exec, const struct weft_value *v, void *data)
{
    const struct weft_graph *g = exec->graph;
    assert(v->kind == WEFT_PARAM || v->kind == WEFT_GRAD || v->kind == WEFT_STATE);
    for (int i = 0; i < g->value_count; i++) /* views and updates of a bound value share its memory */
        if (weft_value_root(g->values[i]) == v)
            exec->tensors[i].data = data;
}

void weft_exec_count(struct weft_exec *exec, int symbol, int64_t count)
{
    const struct weft_graph *g = exec->graph;
    assert(symbol > 0 && symbol < g->symbol_count && count >= 0 && count <= g->symbols[symbol].max);
    exec->counts[0] = 1;
    exec->counts[symbol] = count;
    for (int v = 0; v < g->value_count; v++) {
        const struct weft_shape *s = &g->values[v]->shape;
        for (int i = 0; i < s->ndim; i++)
            if (s->dim[i].symbol == symbol)
                exec->tensors[v].dim[i] = s->dim[i].times * count;
    }
}

struct weft_tensor *weft_exec_tensor(struct weft_exec *exec, const struct weft_value *v)
{
    return &exec->tensors[v->id];
}

size_t weft_exec_bytes(const struct weft_exec *exec) { return exec->bytes; }

/* Rounds the results of a node as if they were stored in the graph's dtypes. */
static void round_results(struct weft_exec *exec, const struct weft_node *node)
{
    struct weft_value *list[MAX_TOUCHED];
    int n = weft_node_writes(node, list);
    for (int i = 0; i < n; i++) {
        struct weft_tensor *t = &exec->tensors[list[i]->id];
        double *x = t->data;
        int64_t count = list[i]->dtype == WEFT_BF16 ? weft_tensor_count(t) : 0;
        for (int64_t e = 0; e < count; e++)
            x[e] = weft_f32_from_bf16(weft_bf16_from_f32((float)x[e]));
    }
}

void weft_exec_step(struct weft_exec *exec, struct step *step)
{
    const struct weft_op *op = step->node->op;
    const struct weft_kernel *k = step->node->backward ? &op->bwd : &op->fwd;
    if (op->is_view && !step->node->backward)
        return;
    struct weft_observer *observer = weft_observer();
    if (observer)
        observer->step(observer, op->name, step->node->backward);
    double start = exec->profiling ? weft_seconds() : 0;
    (weft_mode_is_reference(exec->mode) ? k->ref : k->run)(&step->call);
    if (exec->mode == WEFT_ROUNDED)
        round_results(exec, step->node);
    if (exec->profiling) {
        step->seconds += weft_seconds() - start;
        step->runs++;
    }
}

static enum weft_status run_steps(struct weft_exec *exec, struct step *steps, int count, weft_step_fn *fn,
                                  void *context)
{
    enum weft_status status = WEFT_OK;
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, exec->threads);
    for (int s = 0; s < count && status == WEFT_OK; s++) {
        weft_exec_step(exec, &steps[s]);
        status = weft_deferred();
        if (fn)
            fn(context, s);
    }
    weft_threads_leave(&scope);
    return status;
}

enum weft_status weft_exec_prepare(struct weft_exec *exec)
{
    return run_steps(exec, exec->prepare, exec->prepare_count, NULL, NULL);
}

enum weft_status weft_exec_run(struct weft_exec *exec)
{
    return run_steps(exec, exec->run, exec->run_count, NULL, NULL);
}

enum weft_status weft_exec_run_watched(struct weft_exec *exec, weft_step_fn *fn, void *context)
{
    return run_steps(exec, exec->run, exec->run_count, fn, context);
}

int weft_exec_last_write(const struct weft_exec *exec, const struct weft_value *v)
{
    for (int s = exec->run_count - 1; s >= 0; s--) {
        struct weft_value *list[MAX_TOUCHED];
        int n = weft_node_writes(exec->run[s].node, list);
        for (int i = 0; i < n; i++)
            if (weft_value_root(list[i]) == weft_value_root(v))
                return s;
    }
    return -1;
}

static bool untouched(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != (char)0xff)
            return false;
    return true;
}

const char *weft_exec_overrun(const struct weft_exec *exec)
{
    for (int i = 0; exec->mode == WEFT_GUARDED && i < exec->piece_count; i++) {
        const struct piece *p = &exec->pieces[i];
        const char *start = exec->buffer + p->offset, *tail = start + GUARD + p->exact;
        if (!untouched(start, GUARD) || !untouched(tail, p->bytes - GUARD - p->exact))
            return p->name;
    }
    return NULL;
}
