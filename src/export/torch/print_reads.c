/* SPDX-License-Identifier: MIT
 *
 * print_reads.c - divides the atoms of a form into scopes: what each expression reads, and to which scope it belongs.
 */
#include "export/torch/print.h"
#include "ops/ops.h"

#include <string.h>

static int add(const struct weft_atom *a, const struct weft_atom *list[], int count)
{
    for (int i = 0; i < count; i++)
        if (list[i] == a)
            return count;
    list[count] = a;
    return count + 1;
}

int weft_torch_reads(const struct weft_torch_printer *p, const struct weft_atom *a,
                     const struct weft_atom *list[WEFT_TORCH_READS])
{
    const struct weft_idiom *idiom = &p->of[a->id].idiom;
    int count = 0;
    if (a->kind == WEFT_ATOM_store) /* the state before is in the cache */
        return add(a->in[1], list, 0);
    for (int i = 0; i < idiom->count; i++)
        count = add(idiom->in[i], list, count);
    for (int i = 0; idiom->kind == WEFT_IDIOM_NONE && i < 3 && a->in[i]; i++)
        count = add(a->in[i], list, count);
    return count;
}

/* ---- what is needed */

static void need(struct weft_torch_printer *p, const struct weft_atom *a) { p->of[a->id].needed = true; }

/* Marks the parts of a loss term, which the blocks return; the model adds them. */
static void need_terms(struct weft_torch_printer *p)
{
    for (int i = 0; i < p->net->term_count; i++) {
        const struct weft_value *v = p->net->terms[i].value;
        for (; v->node->op == weft_op(WEFT_OP_add); v = v->node->in[0])
            need(p, weft_torch_of(p, v->node->in[1]));
        need(p, weft_torch_of(p, v));
    }
}

/* Marks the updates of the cache. */
static void need_stores(struct weft_torch_printer *p)
{
    for (int i = 0; i < p->form->count; i++)
        p->of[i].needed = p->of[i].needed || p->form->list[i]->kind == WEFT_ATOM_store;
}

static void need_inputs(struct weft_torch_printer *p)
{
    const struct weft_atom *list[WEFT_TORCH_READS];
    for (int i = p->form->count; i-- > 0;)
        for (int n = p->of[i].needed ? weft_torch_reads(p, p->form->list[i], list) : 0; n-- > 0;)
            p->of[list[n]->id].needed = true;
}

/* Finds out whether only calls of scaled_dot_product_attention read the mask of visible tokens. */
static void find_masks(struct weft_torch_printer *p)
{
    const struct weft_atom *list[WEFT_TORCH_READS];
    p->masks_attention = true;
    for (int i = 0; i < p->form->count; i++)
        for (int n = p->of[i].needed ? weft_torch_reads(p, p->form->list[i], list) : 0; n-- > 0;)
            if (list[n]->kind == WEFT_ATOM_visible && p->of[i].idiom.kind != WEFT_IDIOM_ATTENTION)
                p->masks_attention = false;
}

static void find_idioms(struct weft_torch_printer *p)
{
    for (int i = 0; i < p->form->count; i++)
        for (int k = 0; k < 3; k++)
            if (p->form->list[i]->in[k])
                p->of[p->form->list[i]->in[k]->id].uses++;
    for (int i = 0; i < p->form->count; i++)
        weft_torch_find_idiom(p, p->form->list[i]);
}

/* ---- scopes */

static void find_home(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_atom *list[WEFT_TORCH_READS];
    struct weft_torch_value *v = &p->of[a->id];
    v->free = a->kind != WEFT_ATOM_weight && a->kind != WEFT_ATOM_state;
    for (int n = weft_torch_reads(p, a, list); n-- > 0;)
        v->free = v->free && p->of[list[n]->id].free;
    v->home = v->free || !a->from ? WEFT_TORCH_MODEL : a->from->label;
    if (a->kind == WEFT_ATOM_state)
        sscanf(a->name, "blocks.%d.", &v->home);
}

/* Returns whether an atom must be passed to a scope that reads it. */
static bool is_foreign(const struct weft_torch_printer *p, const struct weft_atom *a, int scope)
{
    const struct weft_atom *w = a->kind == WEFT_ATOM_permute ? a->in[0] : a; /* a source may be a transposed weight */
    if (weft_torch_is_source(a) && w->kind == WEFT_ATOM_weight)
        return scope != WEFT_TORCH_MODEL && weft_torch_layer_of(weft_torch_weight(p, w)) != scope;
    return !weft_torch_is_source(a) && p->of[a->id].home != scope;
}

static bool contains(const struct weft_atom **list, int count, const struct weft_atom *a)
{
    for (int i = 0; i < count; i++)
        if (list[i] == a)
            return true;
    return false;
}

static void pass(struct weft_torch_printer *p, const struct weft_atom *a, int reader)
{
    int home = p->of[a->id].home;
    p->of[a->id].crosses = true;
    if (reader != WEFT_TORCH_MODEL) {
        struct weft_torch_layer *l = &p->layers[reader];
        if (!contains(l->in, l->in_count, a))
            l->in[l->in_count++] = a;
    }
    if (home != WEFT_TORCH_MODEL && !weft_torch_is_source(a)) {
        struct weft_torch_layer *l = &p->layers[home];
        if (!contains(l->out, l->out_count, a))
            l->out[l->out_count++] = a;
    }
}

/* Puts the residual stream first. */
static void stream_first(const struct weft_atom **list, int count, const struct weft_atom *stream)
{
    for (int i = 1; i < count; i++)
        if (list[i] == stream) {
            memmove(list + 1, list, (size_t)i * sizeof *list);
            list[0] = stream;
        }
}

/* Finds the stream before a layer: what its first node reads from outside. */
static const struct weft_atom *find_stream(const struct weft_torch_printer *p, int layer)
{
    struct weft_node *const *nodes;
    int count = weft_graph_nodes(p->net->g, &nodes);
    for (int i = 0; i < count; i++)
        for (int k = 0; nodes[i]->label == layer && k < WEFT_MAX_ARGS; k++) {
            const struct weft_value *v = nodes[i]->in[k];
            if (v && v->kind == WEFT_VALUE && v->node->label != layer && v->shape.ndim == 2 && v->shape.dim[0].symbol)
                return weft_torch_of(p, v);
        }
    return NULL;
}

static void allocate_layers(struct weft_torch_printer *p)
{
    size_t bytes = (size_t)p->form->count * sizeof(void *) + 1;
    p->layer_count = (int)p->model->spec->layers;
    p->layers = weft_arena_alloc(&p->arena, (size_t)p->layer_count * sizeof *p->layers + 1);
    for (int i = 0; p->layers && i < p->layer_count; i++) {
        p->layers[i].in = weft_arena_alloc(&p->arena, bytes);
        p->layers[i].out = weft_arena_alloc(&p->arena, bytes);
        p->layers[i].stream = find_stream(p, i);
        p->layers[i].slots = weft_torch_slots(p, i);
        if (!p->layers[i].in || !p->layers[i].out)
            p->layers = NULL;
    }
    if (!p->layers)
        p->status = WEFT_NOMEM;
}

/* Puts the residual stream first among what blocks read and return. */
static void order(struct weft_torch_printer *p)
{
    for (int i = 0; i < p->layer_count; i++) {
        struct weft_torch_layer *l = &p->layers[i];
        const struct weft_atom *next = i + 1 < p->layer_count ? l[1].stream : NULL;
        for (int k = 0; i + 1 == p->layer_count && k < l->out_count; k++)
            if (l->out[k]->type.ndim == 3 && l->out[k]->type.dim[2].times == p->model->spec->width)
                next = l->out[k];
        stream_first(l->in, l->in_count, l->stream);
        stream_first(l->out, l->out_count, next);
    }
}

void weft_torch_divide(struct weft_torch_printer *p)
{
    const struct weft_form *f = p->form;
    const struct weft_atom *list[WEFT_TORCH_READS];
    allocate_layers(p);
    if (p->status != WEFT_OK)
        return;
    find_idioms(p);
    need(p, p->hidden);
    need(p, p->head);
    need_terms(p);
    for (int i = 0; i < f->count; i++)
        p->of[i].crosses = p->of[i].needed;
    need_stores(p);
    need_inputs(p);
    find_masks(p);
    for (int i = 0; i < f->count; i++)
        if (p->of[i].needed)
            find_home(p, f->list[i]);
    for (int i = 0; i < f->count; i++) {
        for (int n = p->of[i].needed ? weft_torch_reads(p, f->list[i], list) : 0, k = 0; k < n; k++)
            if (is_foreign(p, list[k], p->of[i].home))
                pass(p, list[k], p->of[i].home);
        if (p->of[i].crosses && p->of[i].home != WEFT_TORCH_MODEL)
            pass(p, f->list[i], WEFT_TORCH_MODEL);
    }
    order(p);
}
