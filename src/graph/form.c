/* SPDX-License-Identifier: MIT
 *
 * form.c - the form of a graph: lowers its nodes one after another.
 */
#include "graph/form_internal.h"

#include <stdlib.h>

#include <string.h>

/* ---- shapes of the graph as types */

static void add_rows(const struct weft_graph *g, struct weft_type *t, struct weft_dim d)
{
    static const struct {
        const char *symbol;
        int count;
        enum weft_size size[2];
    } rows[] = {{"rows", 2, {WEFT_BATCH, WEFT_NEW}},
                {"all rows", 2, {WEFT_BATCH, WEFT_NEW}},
                {"store", 2, {WEFT_BATCH, WEFT_ALL}},
                {"ring", 2, {WEFT_BATCH, WEFT_RING}},
                {"sequences", 1, {WEFT_SEQUENCES, 0}}};
    const char *symbol = weft_graph_symbol_name(g, d.symbol);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < rows[i].count && strcmp(rows[i].symbol, symbol) == 0; k++)
            t->dim[t->ndim++] = (struct weft_extent){rows[i].size[k], k == rows[i].count - 1 ? d.times : 1};
}

struct weft_type weft_type_of(struct weft_form *f, const struct weft_value *v)
{
    struct weft_type t = {.of = weft_dtype_is_float(v->dtype) ? WEFT_REAL : WEFT_WHOLE};
    for (int i = 0; i < v->shape.ndim; i++) {
        int before = t.ndim;
        if (t.ndim > WEFT_FORM_DIMS - 2) {
            weft_form_fail(f, "a value has too many dimensions");
            return t;
        }
        if (v->shape.dim[i].symbol)
            add_rows(f->graph, &t, v->shape.dim[i]);
        else
            t.dim[t.ndim++] = (struct weft_extent){WEFT_FIXED, v->shape.dim[i].times};
        if (t.ndim == before)
            weft_form_fail(f, "rows called \"%s\" have no meaning in a form",
                           weft_graph_symbol_name(f->graph, v->shape.dim[i].symbol));
    }
    return t;
}

/* ---- lowering */

static struct weft_atom *source(struct weft_form *f, const struct weft_value *v)
{
    struct weft_type type = weft_type_of(f, v);
    const struct weft_node *node = f->node;
    f->node = NULL;
    struct weft_atom *a = NULL;
    if (v->kind == WEFT_PARAM)
        a = weft_weight_of(f, v->name, type);
    else if (v->kind == WEFT_INPUT)
        a = weft_input_of(f, v->name, type);
    else if (v->kind == WEFT_STATE)
        a = weft_state_of(f, v->name, type);
    f->node = node;
    return a;
}

struct weft_atom *weft_form_in(struct weft_form *f, int i)
{
    const struct weft_value *v = f->node->in[i];
    if (!v || f->status != WEFT_OK)
        return NULL;
    struct weft_atom **a = &f->of_value[v->id];
    if (!*a && v->kind != WEFT_VALUE)
        *a = source(f, v);
    if (!*a)
        weft_form_fail(f, "input %d is not defined", i);
    return *a;
}

void weft_form_out(struct weft_form *f, int o, struct weft_atom *a)
{
    const struct weft_value *v = f->node->out[o];
    if (f->status != WEFT_OK)
        return;
    struct weft_type type = weft_type_of(f, v);
    if (!a)
        weft_form_fail(f, "output %d is absent", o);
    else if (a->type.of != type.of)
        weft_form_fail(f, "output %d is %s; the op declares %s", o, weft_type_text(&a->type).text,
                       weft_type_text(&type).text);
    else
        f->of_value[v->id] = weft_reshape_of(f, a, type);
}

static void lower_node(struct weft_form *f, const struct weft_node *node)
{
    f->node = node;
    if (node->in_backward_pass || node->backward)
        weft_form_fail(f, "the graph is differentiated already");
    else if (!node->op->lower)
        weft_form_fail(f, "the op has no form");
    else
        node->op->lower(f, node);
    for (int o = 0; o < WEFT_MAX_ARGS && f->status == WEFT_OK; o++)
        if (node->out[o] && !f->of_value[node->out[o]->id])
            weft_form_fail(f, "output %d is not defined", o);
    f->node = NULL;
}

enum weft_status weft_form_init(struct weft_form *f, const struct weft_graph *g, bool training, int64_t positions)
{
    struct weft_node *const *nodes;
    struct weft_value *const *values;
    int count = weft_graph_nodes(g, &nodes), value_count = weft_graph_values(g, &values);
    *f = (struct weft_form){.graph = g, .training = training, .positions = positions};
    f->of_value = weft_form_alloc(f, (size_t)value_count * sizeof *f->of_value + 1);
    for (int i = 0; i < count && f->status == WEFT_OK; i++)
        lower_node(f, nodes[i]);
    for (int i = 0; i < value_count && f->status == WEFT_OK; i++)
        if (values[i]->is_output && f->of_value[i])
            f->of_value[i]->readers++;
    return f->status;
}

void weft_form_release(struct weft_form *f)
{
    weft_arena_release(&f->arena);
    *f = (struct weft_form){0};
}

/* ---- causality */

enum weft_status weft_form_check_causal(const struct weft_form *f, const char *format)
{
    bool *later = calloc((size_t)f->count + 1, sizeof *later); /* by id: depends on rows that follow in the same call */
    enum weft_status status = later ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a list of values");
    for (int i = 0; i < f->count && status == WEFT_OK; i++) {
        const struct weft_atom *a = f->list[i];
        later[i] = a->kind == WEFT_ATOM_pool;
        for (int k = 0; k < 3; k++)
            later[i] = later[i] || (a->in[k] && later[a->in[k]->id]);
        if (a->kind == WEFT_ATOM_spread && later[i])
            status =
                FAIL(WEFT_INVALID,
                     "%s in layer %d reads later tokens, so the model cannot be decoded token by token or exported "
                     "to %s",
                     a->from->op->name, a->from->label, format);
    }
    free(later);
    return status;
}
