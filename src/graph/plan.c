/* SPDX-License-Identifier: MIT
 *
 * plan.c - plans execution: the order of the nodes, the lifetime of each value, and one buffer for all of them.
 *
 * Time is the list of steps: first the steps that depend only on parameters (prepare), then the others (run). A value
 * lives from the step that computes it to the last step that reads it; inputs, outputs, and prepared values that runs
 * read live until the end. Values that share memory (views, in-place results) are one storage. Scratch is a storage
 * that lives for one step.
 */
#include "graph/internal.h"

#include <limits.h>
#include <string.h>

enum { PIECE_ALIGN = 64 };

struct storage {
    size_t bytes;
    int first, last; /* first and last step of its lifetime */
    int piece;
    bool shared_ok; /* false if the host reads or writes it; then no other value may be computed in its memory */
};

struct planner {
    struct weft_exec *exec;
    struct weft_arena arena; /* freed when planning ends */
    bool *alive, *early;     /* by node: whether its result is needed, and whether it depends only on parameters */
    bool *prepared;          /* by value: whether it is computed in prepare */
    int *last;               /* by value: the last step that touches it */
    int *storage_of;         /* index of the storage by value; -1: none */
    struct storage *storages;
    int storage_count;
    struct step *steps; /* the steps of prepare, then those of run */
    int step_count, prepare_count;
};

static enum weft_status set_tensor(struct weft_exec *exec, const struct weft_value *v)
{
    struct weft_tensor *t = &exec->tensors[v->id];
    bool to_f64 = weft_mode_is_reference(exec->mode) && weft_dtype_is_float(v->dtype);
    *t = (struct weft_tensor){.dtype = to_f64 ? WEFT_F64 : v->dtype, .ndim = v->shape.ndim};
    for (int i = 0; i < t->ndim; i++) {
        size_t n;
        TRY(weft_size_mul((size_t)v->shape.dim[i].times, (size_t)exec->graph->symbols[v->shape.dim[i].symbol].max, &n));
        t->dim[i] = (int64_t)n;
    }
    return WEFT_OK;
}

static enum weft_status value_bytes(const struct weft_exec *exec, const struct weft_value *v, size_t *bytes)
{
    if (v->packed_bytes && !weft_mode_is_reference(exec->mode))
        *bytes = v->packed_bytes;
    else
        TRY(weft_tensor_bytes(&exec->tensors[v->id], bytes));
    return WEFT_OK;
}

/* Backward sweep: a node is alive if it writes an output, a gradient, a state, or a value that an alive node reads. */
static void find_alive(struct planner *p, bool *read)
{
    const struct weft_graph *g = p->exec->graph;
    for (int n = g->node_count - 1; n >= 0; n--) {
        struct weft_value *list[MAX_TOUCHED];
        int w = weft_node_writes(g->nodes[n], list);
        p->alive[n] = g->nodes[n]->op->updates;
        for (int i = 0; i < w; i++)
            p->alive[n] |= list[i]->is_output || list[i]->kind == WEFT_GRAD || read[list[i]->id];
        if (!p->alive[n])
            continue;
        int r = weft_node_reads(g->nodes[n], list);
        for (int i = 0; i < r; i++)
            read[list[i]->id] = true;
    }
}

/* Skips the nodes whose values the other execution has already prepared. */
static void borrow(struct planner *p)
{
    const struct weft_graph *g = p->exec->graph;
    for (int n = 0; p->exec->other && n < g->node_count; n++) {
        const struct weft_node *node = g->nodes[n];
        const struct weft_value *from = p->alive[n] ? weft_exec_prepared(p->exec->other, node) : NULL;
        if (!from)
            continue;
        p->alive[n] = false;
        p->prepared[node->out[0]->id] = true;
        p->exec->tensors[node->out[0]->id].data = p->exec->other->tensors[from->id].data;
    }
}

static bool can_prepare(const struct planner *p, const struct weft_node *node)
{
    struct weft_value *list[MAX_TOUCHED];
    if (node->every_run || node->backward)
        return false;
    int r = weft_node_reads(node, list);
    for (int i = 0; i < r; i++)
        if (list[i]->kind != WEFT_PARAM && !p->prepared[list[i]->id])
            return false;
    return true;
}

static void order_steps(struct planner *p)
{
    const struct weft_graph *g = p->exec->graph;
    int early = 0, late = 0;
    for (int n = 0; n < g->node_count; n++) {
        if (!p->alive[n])
            continue;
        struct weft_value *list[MAX_TOUCHED];
        p->early[n] = can_prepare(p, g->nodes[n]);
        int w = p->early[n] ? weft_node_writes(g->nodes[n], list) : 0;
        for (int i = 0; i < w; i++)
            p->prepared[list[i]->id] = true;
        early += p->early[n];
    }
    p->prepare_count = early;
    early = 0;
    for (int n = 0; n < g->node_count; n++) {
        if (!p->alive[n])
            continue;
        int s = p->early[n] ? early++ : p->prepare_count + late++;
        p->steps[s].node = g->nodes[n];
    }
    p->step_count = early + late;
}

static enum weft_status new_storage(struct planner *p, const struct weft_value *v, int first)
{
    struct storage *s = &p->storages[p->storage_count];
    *s = (struct storage){.first = first, .last = first, .shared_ok = true};
    TRY(value_bytes(p->exec, v, &s->bytes));
    p->storage_of[v->id] = p->storage_count++;
    return WEFT_OK;
}

/* Finds the last step that touches each value; for values that outlive a run, this is the number of steps. A view keeps
 * its input alive, so a view's last step also counts for its input. */
static void find_last_touches(struct planner *p)
{
    const struct weft_graph *g = p->exec->graph;
    int *last = p->last;
    for (int s = 0; s < p->step_count; s++) {
        struct weft_value *list[2 * MAX_TOUCHED];
        int n = weft_node_reads(p->steps[s].node, list);
        n += weft_node_writes(p->steps[s].node, list + n);
        for (int i = 0; i < n; i++)
            last[list[i]->id] = s;
    }
    bool keep_inputs = !g->consumes_inputs || p->exec->mode != WEFT_FAST;
    for (int v = 0; v < g->value_count; v++)
        if ((g->values[v]->kind == WEFT_INPUT && keep_inputs) || g->values[v]->is_output ||
            (p->prepared[v] && last[v] >= p->prepare_count))
            last[v] = p->step_count;
    for (int s = p->step_count - 1; s >= 0; s--) {
        const struct weft_node *node = p->steps[s].node;
        if (node->op->is_view && !node->backward)
            last[node->in[0]->id] = (int)weft_max(last[node->in[0]->id], last[node->out[0]->id]);
    }
}

static void touch(struct planner *p, const struct weft_value *v, int last)
{
    struct storage *s = &p->storages[p->storage_of[v->id]];
    s->last = (int)weft_max(s->last, last);
    if (last == p->step_count)
        s->shared_ok = false;
}

/* Returns whether `to` may reuse the memory of `from` at step s: both have the same size, `from` is not needed
 * afterwards, and the node reads it through one input only (a second input might be read after it was overwritten). */
static bool may_share(const struct planner *p, const struct weft_value *from, const struct weft_value *to, int s)
{
    if (p->exec->mode == WEFT_GUARDED || !from || !to || p->storage_of[from->id] < 0)
        return false;
    const struct storage *st = &p->storages[p->storage_of[from->id]];
    struct weft_value *reads[MAX_TOUCHED];
    int n = weft_node_reads(p->steps[s].node, reads), uses = 0;
    for (int i = 0; i < n; i++)
        uses += p->storage_of[reads[i]->id] == p->storage_of[from->id];
    size_t bytes;
    return st->shared_ok && st->last == s && uses == 1 && value_bytes(p->exec, to, &bytes) == WEFT_OK &&
           st->bytes == bytes;
}

static struct weft_value *shared_source(const struct planner *p, const struct weft_node *node,
                                        const struct weft_value *v, int s)
{
    const struct weft_op *op = node->op;
    if (!node->backward && v == node->out[0]) {
        if (op->is_view || op->updates)
            return node->in[0];
        if (op->inplace && may_share(p, node->in[op->inplace - 1], v, s))
            return node->in[op->inplace - 1];
    }
    if (node->backward && v == node->gin[0] && op->inplace_grad && may_share(p, node->gout[op->inplace_grad - 1], v, s))
        return node->gout[op->inplace_grad - 1];
    return NULL;
}

static enum weft_status assign_storages(struct planner *p)
{
    const struct weft_graph *g = p->exec->graph;
    for (int v = 0; v < g->value_count; v++) {
        p->storage_of[v] = -1;
        if (g->values[v]->kind != WEFT_INPUT)
            continue;
        TRY(new_storage(p, g->values[v], 0));
        touch(p, g->values[v], p->last[v]);
    }
    for (int s = 0; s < p->step_count; s++) {
        struct weft_value *list[MAX_TOUCHED];
        int w = weft_node_writes(p->steps[s].node, list);
        for (int i = 0; i < w; i++) {
            if (list[i]->kind != WEFT_VALUE || p->storage_of[list[i]->id] >= 0)
                continue;
            const struct weft_value *source = shared_source(p, p->steps[s].node, list[i], s);
            if (source && weft_value_is_bound(source))
                continue; /* the value shares the bound memory */
            if (source && p->storage_of[source->id] < 0) {
                /* a view of a borrowed value */
                p->exec->tensors[list[i]->id].data = p->exec->tensors[source->id].data;
                continue;
            }
            if (source)
                p->storage_of[list[i]->id] = p->storage_of[source->id];
            else
                TRY(new_storage(p, list[i], s));
            touch(p, list[i], p->last[list[i]->id]);
        }
    }
    return WEFT_OK;
}

static int add_piece(struct weft_exec *exec, size_t bytes, int first, int last, const char *name)
{
    struct piece *piece = &exec->pieces[exec->piece_count];
    *piece = (struct piece){.exact = bytes, .bytes = bytes, .first = first, .last = last, .name = name};
    if (exec->mode == WEFT_GUARDED) {
        piece->bytes += 2 * GUARD;
        piece->first = 0;
        piece->last = INT_MAX;
    }
    piece->bytes = (piece->bytes + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
    return exec->piece_count++;
}

static void link_call(struct weft_exec *exec, struct step *step)
{
    const struct weft_node *n = step->node;
    struct weft_call *c = &step->call;
    c->attr = n->attr;
    c->rounds = exec->mode == WEFT_ROUNDED && weft_graph_compute(exec->graph) == WEFT_BF16;
    for (int i = 0; i < WEFT_MAX_ARGS; i++) {
        c->in[i] = n->in[i] ? &exec->tensors[n->in[i]->id] : NULL;
        c->out[i] = n->out[i] ? &exec->tensors[n->out[i]->id] : NULL;
        c->gout[i] = n->gout[i] ? &exec->tensors[n->gout[i]->id] : NULL;
        c->gin[i] = n->gin[i] ? &exec->tensors[n->gin[i]->id] : NULL;
    }
}

/* Calls every op's plan() with all dimensions at their maxima, and reserves the scratch that it requests. */
static enum weft_status plan_ops(struct planner *p, int *scratch_piece, int *local_piece)
{
    struct weft_exec *exec = p->exec;
    for (int s = 0; s < p->step_count; s++) {
        struct step *step = &p->steps[s];
        link_call(exec, step);
        const struct weft_kernel *k = step->node->backward ? &step->node->op->bwd : &step->node->op->fwd;
        scratch_piece[s] = local_piece[s] = -1;
        if (!k->plan || weft_mode_is_reference(exec->mode))
            continue;
        struct weft_booking booking = {.arena = &exec->arena};
        TRY(k->plan(&step->call, &booking));
        step->call.plan = booking.plan;
        if (booking.scratch)
            scratch_piece[s] = add_piece(exec, booking.scratch, s, s, step->node->op->name);
        if (booking.local) {
            size_t all, stride = (booking.local + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
            TRY(weft_size_mul(stride, (size_t)exec->threads, &all));
            step->call.local_stride = stride;
            local_piece[s] = add_piece(exec, all, s, s, step->node->op->name);
        }
    }
    return WEFT_OK;
}

static char *piece_start(const struct weft_exec *exec, int piece)
{
    if (piece < 0)
        return NULL;
    return exec->buffer + exec->pieces[piece].offset + (exec->mode == WEFT_GUARDED ? GUARD : 0);
}

static enum weft_status allocate(struct planner *p, const int *scratch_piece, const int *local_piece)
{
    struct weft_exec *exec = p->exec;
    TRY(weft_pieces_assign_offsets(exec->pieces, exec->piece_count, &p->arena, &exec->bytes));
    TRY(weft_size_add(exec->bytes, GUARD, &exec->bytes)); /* so that overruns are detected instead of crashing */
    if (exec->mode == WEFT_UNBACKED)
        return WEFT_OK;
    exec->buffer = weft_pages_alloc(exec->bytes);
    if (!exec->buffer)
        return WEFT_NOMEM;
    for (int s = 0; s < p->step_count; s++) {
        p->steps[s].call.scratch = piece_start(exec, scratch_piece[s]);
        p->steps[s].call.local = piece_start(exec, local_piece[s]);
    }
    for (int v = 0; v < exec->graph->value_count; v++)
        if (p->storage_of[v] >= 0)
            exec->tensors[v].data = piece_start(exec, p->storages[p->storage_of[v]].piece);
    if (exec->mode != WEFT_GUARDED)
        return WEFT_OK;
    memset(exec->buffer, 0xff, exec->bytes); /* NaN, so that a read of unwritten memory shows in the result */
    return WEFT_OK;
}

static enum weft_status plan_steps(struct planner *p)
{
    struct weft_exec *exec = p->exec;
    const struct weft_graph *g = exec->graph;
    size_t values = (size_t)g->value_count, nodes = (size_t)g->node_count;
    bool *read = weft_arena_alloc(&p->arena, values);
    int *scratch = weft_arena_alloc(&p->arena, nodes * sizeof(int));
    int *local = weft_arena_alloc(&p->arena, nodes * sizeof(int));
    p->alive = weft_arena_alloc(&p->arena, nodes);
    p->early = weft_arena_alloc(&p->arena, nodes);
    p->prepared = weft_arena_alloc(&p->arena, values);
    p->last = weft_arena_alloc(&p->arena, values * sizeof(int));
    p->storage_of = weft_arena_alloc(&p->arena, values * sizeof(int));
    p->storages = weft_arena_alloc(&p->arena, values * sizeof(struct storage));
    p->steps = weft_arena_alloc(&exec->arena, nodes * sizeof(struct step));
    exec->pieces = weft_arena_alloc(&exec->arena, (values + 2 * nodes) * sizeof(struct piece));
    exec->tensors = weft_arena_alloc(&exec->arena, values * sizeof(struct weft_tensor));
    exec->kept = weft_arena_alloc(&exec->arena, values);
    if (!read || !scratch || !local || !p->alive || !p->early || !p->prepared || !p->last || !p->storage_of ||
        !p->storages || !p->steps || !exec->pieces || !exec->tensors || !exec->kept)
        return WEFT_NOMEM;
    for (int v = 0; v < g->value_count; v++)
        TRY(set_tensor(exec, g->values[v]));
    find_alive(p, read);
    borrow(p);
    order_steps(p);
    find_last_touches(p);
    TRY(assign_storages(p));
    for (int v = 0; v < g->value_count; v++)
        exec->kept[v] = p->prepared[v] && p->storage_of[v] >= 0 && p->last[v] == p->step_count;
    for (int i = 0; i < p->storage_count; i++) {
        struct storage *s = &p->storages[i];
        s->piece = add_piece(exec, s->bytes, s->first, s->last, "a value");
    }
    TRY(plan_ops(p, scratch, local));
    return allocate(p, scratch, local);
}

enum weft_status weft_exec_plan(struct weft_exec *exec)
{
    struct planner p = {.exec = exec};
    enum weft_status status = plan_steps(&p);
    exec->prepare = p.steps;
    exec->prepare_count = p.prepare_count;
    exec->run = p.steps + p.prepare_count;
    exec->run_count = p.step_count - p.prepare_count;
    weft_arena_release(&p.arena);
    if (status != WEFT_OK)
        weft_trace(__FILE__, __LINE__);
    return status;
}
