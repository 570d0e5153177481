/* SPDX-License-Identifier: MIT
 *
 * print_tidy.c - removes atoms that mean nothing in a batch of whole sequences: the columns of the key store are the
 * rows of the call, and positions for the position scheme are positions.
 */
#include "export/torch/print.h"

#include <string.h>

static enum weft_size size_of(struct weft_extent e)
{
    return e.size == WEFT_SEQUENCES ? WEFT_BATCH : e.size == WEFT_ALL ? WEFT_NEW : e.size;
}

bool weft_torch_is_same(struct weft_extent a, struct weft_extent b)
{
    return size_of(a) == size_of(b) && a.times == b.times;
}

static bool is_same_type(const struct weft_type *a, const struct weft_type *b)
{
    bool same = a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim; i++)
        same = weft_torch_is_same(a->dim[i], b->dim[i]);
    return same;
}

/* Returns what is printed instead of an atom whose inputs are tidy. */
static struct weft_atom *tidy(struct weft_atom *a, struct weft_atom **position)
{
    if (a->kind == WEFT_ATOM_keys || a->kind == WEFT_ATOM_own)
        return a->in[0];
    if (a->kind == WEFT_ATOM_input && (strcmp(a->name, "pos") == 0 || strcmp(a->name, "position") == 0))
        return *position = *position ? *position : a;
    while (a->kind == WEFT_ATOM_reshape && a->in[0]->kind == WEFT_ATOM_reshape)
        a->in[0] = a->in[0]->in[0];
    bool none = a->kind == WEFT_ATOM_reshape && is_same_type(&a->type, &a->in[0]->type);
    return none ? a->in[0] : a;
}

enum weft_status weft_torch_tidy(struct weft_form *f)
{
    struct weft_atom **to = weft_arena_alloc(&f->arena, (size_t)f->count * sizeof *to + 1), *position = NULL;
    struct weft_value *const *values;
    int count = weft_graph_values(f->graph, &values);
    if (!to)
        return WEFT_NOMEM;
    for (int i = 0; i < f->count; i++) {
        struct weft_atom *a = f->list[i];
        for (int k = 0; k < 3; k++)
            a->in[k] = a->in[k] ? to[a->in[k]->id] : NULL;
        to[i] = tidy(a, &position);
    }
    for (int i = 0; i < count; i++)
        if (f->of_value[i])
            f->of_value[i] = to[f->of_value[i]->id];
    return WEFT_OK;
}
