/* SPDX-License-Identifier: MIT
 *
 * graph.c - builds graphs: symbols, values, nodes, and the checks that ops rely on.
 */
#include "graph/internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct weft_graph *weft_graph_create(enum weft_dtype compute, const struct weft_arithmetic *arithmetic)
{
    struct weft_graph *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->compute = compute;
    g->arithmetic = *arithmetic;
    g->symbol_count = 1;
    g->symbols[0] = (struct symbol){"", 1};
    g->label = -1;
    return g;
}

void weft_graph_free(struct weft_graph *g)
{
    if (!g)
        return;
    weft_arena_release(&g->arena);
    free(g->nodes);
    free(g->values);
    free(g);
}

enum weft_status weft_graph_status(const struct weft_graph *g)
{
    if (!g)
        return FAIL(WEFT_NOMEM, "not enough memory for a graph");
    if (g->status != WEFT_OK)
        return FAIL(g->status, "%s", g->message);
    return WEFT_OK;
}

void weft_graph_fail(struct weft_graph *g, enum weft_status status)
{
    if (g->status != WEFT_OK)
        return;
    g->status = status;
    strncpy(g->message, weft_error(), sizeof g->message - 1);
}

enum weft_dtype weft_graph_compute(const struct weft_graph *g) { return g->compute; }

void *weft_graph_alloc(struct weft_graph *g, size_t bytes)
{
    void *memory = weft_arena_alloc(&g->arena, bytes);
    if (!memory)
        weft_graph_fail(g, WEFT_NOMEM);
    return memory;
}

/* Returns a copy that lives as long as the graph. If out of memory, makes the graph fail and returns NULL. */
static const char *copy_name(struct weft_graph *g, const char *name)
{
    const char *copy = weft_arena_print(&g->arena, "%s", name);
    if (!copy)
        weft_graph_fail(g, WEFT_NOMEM);
    return copy;
}

int weft_graph_symbol(struct weft_graph *g, const char *name, int64_t max)
{
    for (int i = 1; i < g->symbol_count; i++)
        if (strcmp(g->symbols[i].name, name) == 0) {
            g->symbols[i].max = weft_max(g->symbols[i].max, max);
            return i;
        }
    if (g->symbol_count == MAX_SYMBOLS || max < 1) {
        weft_graph_fail(
            g, FAIL(WEFT_INVALID,
                    "cannot add symbol %s with maximum %lld: a maximum must be at least 1, and a graph can have at "
                    "most %d symbols",
                    name, (long long)max, MAX_SYMBOLS - 1));
        return 0;
    }
    const char *copy = copy_name(g, name);
    if (!copy)
        return 0;
    g->symbols[g->symbol_count] = (struct symbol){copy, max};
    return g->symbol_count++;
}

int64_t weft_graph_symbol_max(const struct weft_graph *g, int symbol) { return g->symbols[symbol].max; }

const char *weft_graph_symbol_name(const struct weft_graph *g, int symbol) { return g->symbols[symbol].name; }

int weft_graph_symbols(const struct weft_graph *g) { return g->symbol_count; }

int weft_graph_values(const struct weft_graph *g, struct weft_value *const **values)
{
    *values = g->values;
    return g->value_count;
}

int weft_graph_nodes(const struct weft_graph *g, struct weft_node *const **nodes)
{
    *nodes = g->nodes;
    return g->node_count;
}

bool weft_dim_same(struct weft_dim a, struct weft_dim b) { return a.symbol == b.symbol && a.times == b.times; }

bool weft_shape_same(const struct weft_shape *a, const struct weft_shape *b)
{
    bool same = a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim; i++)
        same = weft_dim_same(a->dim[i], b->dim[i]);
    return same;
}

struct weft_dim weft_shape_rows(const struct weft_shape *s)
{
    struct weft_dim rows = weft_fixed(1);
    for (int i = 0; i + 1 < s->ndim; i++) {
        rows.times *= s->dim[i].times;
        rows.symbol = rows.symbol ? rows.symbol : s->dim[i].symbol;
    }
    return rows;
}

int64_t weft_shape_width(const struct weft_shape *s) { return s->ndim ? s->dim[s->ndim - 1].times : 1; }

/* Appends to a growing array of pointers. If out of memory, makes the graph fail and returns false. */
static bool append(struct weft_graph *g, void ***list, int *count, int *room, void *item)
{
    if (*count == *room) {
        int more = *room ? 2 * *room : 64;
        void **grown = realloc(*list, (size_t)more * sizeof *grown);
        if (!grown) {
            weft_graph_fail(g, FAIL(WEFT_NOMEM, "not enough memory for a graph of %d values or nodes", more));
            return false;
        }
        *list = grown;
        *room = more;
    }
    (*list)[(*count)++] = item;
    return true;
}

struct weft_value *weft_graph_value(struct weft_graph *g, enum weft_kind kind, const char *name, enum weft_dtype dtype,
                                    const struct weft_shape *s)
{
    struct weft_value *v = weft_graph_alloc(g, sizeof *v);
    const char *copy = name ? copy_name(g, name) : NULL;
    if (!v || (name && !copy))
        return NULL;
    v->kind = kind;
    v->name = copy;
    v->dtype = dtype;
    v->shape = *s;
    v->id = g->value_count;
    return append(g, (void ***)&g->values, &g->value_count, &g->value_room, v) ? v : NULL;
}

/* Adds a named value; its name must be unique among the values of its kind. */
static struct weft_value *named(struct weft_graph *g, enum weft_kind kind, const char *name, enum weft_dtype dtype,
                                const struct weft_shape *s)
{
    if (g->status != WEFT_OK)
        return NULL;
    for (int i = 0; i < g->value_count; i++)
        if (g->values[i]->kind == kind && strcmp(g->values[i]->name, name) == 0) {
            weft_graph_fail(g, FAIL(WEFT_INVALID, "the graph already has an input, parameter or state named %s", name));
            return NULL;
        }
    for (int i = 0; i < s->ndim; i++)
        if (s->dim[i].times < 1) {
            weft_graph_fail(g, FAIL(WEFT_INVALID, "%s: dimension %d is %lld; it must be at least 1", name, i,
                                    (long long)s->dim[i].times));
            return NULL;
        }
    return weft_graph_value(g, kind, name, dtype, s);
}

struct weft_value *weft_graph_input(struct weft_graph *g, const char *name, enum weft_dtype dtype, struct weft_shape s)
{
    return named(g, WEFT_INPUT, name, dtype, &s);
}

struct weft_value *weft_graph_param(struct weft_graph *g, const char *name, struct weft_shape s)
{
    struct weft_value *v = named(g, WEFT_PARAM, name, WEFT_F32, &s);
    if (v)
        v->wants_grad = true;
    return v;
}

struct weft_value *weft_graph_state(struct weft_graph *g, const char *name, enum weft_dtype dtype, struct weft_shape s)
{
    if (!weft_dtype_is_float(dtype)) {
        weft_graph_fail(
            g, FAIL(WEFT_INVALID, "state %s is %s; a state must have a float type", name, weft_dtype_name(dtype)));
        return NULL;
    }
    return named(g, WEFT_STATE, name, dtype, &s);
}

void weft_graph_output(struct weft_graph *g, struct weft_value *v)
{
    if (v && g->status == WEFT_OK)
        v->is_output = true;
}

void weft_graph_consume_inputs(struct weft_graph *g) { g->consumes_inputs = true; }

void weft_graph_label(struct weft_graph *g, int label) { g->label = label; }

int weft_graph_group(struct weft_graph *g, int group)
{
    int before = g->group;
    assert(group >= 0 && group < WEFT_MAX_GROUPS);
    g->group = group;
    return before;
}

struct weft_node *weft_graph_node(struct weft_graph *g, const struct weft_op *op, const void *attr, bool backward)
{
    struct weft_node *node = weft_graph_alloc(g, sizeof *node);
    if (!node)
        return NULL;
    *node = (struct weft_node){.op = op,
                               .backward = backward,
                               .in_backward_pass = g->in_backward_pass,
                               .label = g->label,
                               .group = g->group,
                               .graph = g,
                               .index = g->node_count};
    if (backward) {
        node->attr = attr; /* shared with the forward node */
    } else if (op->attr_bytes) {
        void *copy = weft_graph_alloc(g, op->attr_bytes);
        if (!copy)
            return NULL;
        memcpy(copy, attr, op->attr_bytes);
        node->attr = copy;
    }
    return node;
}

bool weft_graph_append_unchecked(struct weft_graph *g, struct weft_node *node)
{
    return append(g, (void ***)&g->nodes, &g->node_count, &g->node_room, node);
}

/* Follows a view to its input and, with `updates`, an updated state to the state before the update. */
static const struct weft_value *origin(const struct weft_value *v, bool updates)
{
    while (v->node && v == v->node->out[0] && !v->node->backward &&
           (v->node->op->is_view || (updates && v->node->op->updates)))
        v = v->node->in[0];
    return v;
}

const struct weft_value *weft_value_root(const struct weft_value *v) { return origin(v, true); }

bool weft_value_is_bound(const struct weft_value *v)
{
    enum weft_kind kind = weft_value_root(v)->kind;
    return kind == WEFT_PARAM || kind == WEFT_GRAD || kind == WEFT_STATE;
}

bool weft_node_reads_state(const struct weft_node *node)
{
    struct weft_value *list[MAX_TOUCHED];
    int n = weft_node_reads(node, list);
    for (int i = 0; i < n; i++)
        if (weft_value_root(list[i])->kind == WEFT_STATE)
            return true;
    return false;
}

bool weft_value_is_fixed(const struct weft_value *v)
{
    if (!v->node)
        return v->kind == WEFT_PARAM;
    struct weft_value *list[MAX_TOUCHED];
    int n = weft_node_reads(v->node, list);
    bool fixed = !v->node->backward && !v->node->every_run;
    for (int i = 0; fixed && i < n; i++)
        fixed = weft_value_is_fixed(list[i]);
    return fixed;
}

/* Checks that a node reads only the latest value of a state, because older values are not kept. */
static enum weft_status check_states(const struct weft_node *node)
{
    struct weft_value *list[MAX_TOUCHED];
    int n = weft_node_reads(node, list);
    for (int i = 0; i < n; i++) {
        const struct weft_value *state = weft_value_root(list[i]);
        if (state->latest && origin(list[i], false) != state->latest)
            return weft_node_fail(node, "reads the content of state %s from before an update; emit the node earlier",
                                  state->name);
    }
    if (node->op->updates && weft_value_root(node->in[0])->kind != WEFT_STATE)
        return weft_node_fail(node, "updates a value that is not a state; only a state can be updated");
    return WEFT_OK;
}

bool weft_graph_append(struct weft_graph *g, struct weft_node *node)
{
    enum weft_status status = check_states(node);
    if (status != WEFT_OK) {
        weft_graph_fail(g, status);
        return false;
    }
    if (node->op->updates)
        g->values[weft_value_root(node->in[0])->id]->latest = node->out[0];
    return weft_graph_append_unchecked(g, node);
}

struct weft_node *weft_graph_emit(struct weft_graph *g, const struct weft_op *op, const void *attr, int inputs,
                                  struct weft_value *const *in)
{
    if (!g || g->status != WEFT_OK)
        return NULL;
    struct weft_node *node = weft_graph_node(g, op, attr, false);
    if (!node)
        return NULL;
    for (int i = 0; i < inputs; i++)
        node->in[i] = in[i];
    enum weft_status status = op->shape(node);
    if (status != WEFT_OK) {
        weft_graph_fail(g, status);
        return NULL;
    }
    return weft_graph_append(g, node) ? node : NULL;
}

enum weft_status weft_node_output(struct weft_node *node, int o, enum weft_dtype dtype, struct weft_shape s)
{
    node->out[o] = weft_graph_value(node->graph, WEFT_VALUE, NULL, dtype, &s);
    if (!node->out[o])
        return WEFT_NOMEM;
    node->out[o]->node = node;
    return WEFT_OK;
}

void weft_shape_print(const struct weft_graph *g, const struct weft_value *v, FILE *to)
{
    fprintf(to, "%s[", weft_dtype_name(v->dtype));
    for (int i = 0; i < v->shape.ndim; i++) {
        struct weft_dim d = v->shape.dim[i];
        if (i)
            fputs(", ", to);
        if (d.symbol && d.times != 1)
            fprintf(to, "%lld*", (long long)d.times);
        if (d.symbol)
            fputs(g->symbols[d.symbol].name, to);
        else
            fprintf(to, "%lld", (long long)d.times);
    }
    fputc(']', to);
}

/* Writes a list such as "; inputs: %3 bf16[rows, 64], blocks.0.ffn.fc f32[256, 64]". */
static void describe_inputs(const struct weft_node *node, char *text, size_t size)
{
    FILE *to = fmemopen(text, size, "w");
    int count = 0;
    text[0] = '\0';
    for (int i = 0; to && i < WEFT_MAX_ARGS; i++) {
        const struct weft_value *v = node->in[i];
        if (!v)
            continue;
        fputs(count++ ? ", " : "; inputs: ", to);
        if (v->name)
            fprintf(to, "%s ", v->name);
        else
            fprintf(to, "%%%d ", v->id);
        weft_shape_print(node->graph, v, to);
    }
    if (to)
        fclose(to);
    text[size - 1] = '\0';
}

enum weft_status weft_node_fail(const struct weft_node *node, const char *format, ...)
{
    char text[400], inputs[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char where[64] = "";
    if (node->label >= 0)
        snprintf(where, sizeof where, " in layer %d", node->label);
    describe_inputs(node, inputs, sizeof inputs);
    return FAIL(WEFT_INVALID, "%s (node %d%s): %s%s", node->op->name, node->index, where, text, inputs);
}

static int collect(struct weft_value *list[], int count, struct weft_value *const *from)
{
    for (int i = 0; i < WEFT_MAX_ARGS; i++)
        if (from[i])
            list[count++] = from[i];
    return count;
}

int weft_node_reads(const struct weft_node *node, struct weft_value *list[MAX_TOUCHED])
{
    int n = 0;
    for (int i = 0; i < WEFT_MAX_ARGS; i++)
        if (node->in[i] && (node->backward || !(node->op->grad_only_in >> i & 1)))
            list[n++] = node->in[i];
    if (!node->backward)
        return n;
    if (!node->op->bwd_writes_out)
        n = collect(list, n, node->out);
    n = collect(list, n, node->gout);
    for (int i = 0; i < WEFT_MAX_ARGS; i++)
        if (node->gin[i] && node->op->accumulates >> i & 1)
            list[n++] = node->gin[i]; /* accumulating into a gradient also reads it */
    return n;
}

int weft_node_writes(const struct weft_node *node, struct weft_value *list[MAX_TOUCHED])
{
    if (!node->backward)
        return collect(list, 0, node->out);
    int n = node->op->bwd_writes_out ? collect(list, 0, node->out) : 0;
    return collect(list, n, node->gin);
}
