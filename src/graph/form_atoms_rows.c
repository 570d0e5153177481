/* SPDX-License-Identifier: MIT
 *
 * form_atoms_rows.c - the builders of atoms for training, and of those that combine rows of a sequence.
 */
#include "graph/form_internal.h"

/* ---- training */

struct weft_atom *weft_stop_of(struct weft_form *f, struct weft_atom *x)
{
    if (!x || !f->training)
        return x;
    return weft_form_add(f, &(struct weft_atom){.kind = WEFT_ATOM_stop, .type = x->type, .in = {x}});
}

struct weft_atom *weft_drop_of(struct weft_form *f, struct weft_atom *x, struct weft_drop drop)
{
    if (!x || !f->training || drop.p == 0)
        return x;
    if (x->type.ndim != (drop.scores ? 4 : 3) || x->type.of != WEFT_REAL)
        return weft_form_refuse(f, "drop", x, NULL);
    return weft_form_add(f, &(struct weft_atom){.kind = WEFT_ATOM_drop, .type = x->type, .in = {x}, .drop = drop});
}

/* ---- rows */

static struct weft_atom *pairs(struct weft_form *f, enum weft_atom_kind kind, enum weft_kind_of of)
{
    struct weft_type type = {of, 3, {{WEFT_BATCH, 1}, {WEFT_NEW, 1}, {WEFT_ALL, 1}}};
    return weft_form_add(f, &(struct weft_atom){.kind = kind, .type = type});
}

struct weft_atom *weft_distance_of(struct weft_form *f) { return pairs(f, WEFT_ATOM_distance, WEFT_WHOLE); }
struct weft_atom *weft_visible_of(struct weft_form *f) { return pairs(f, WEFT_ATOM_visible, WEFT_TRUTH); }

static bool begins(const struct weft_atom *x, enum weft_size second)
{
    return x->type.ndim > 1 && weft_extent_same(x->type.dim[0], (struct weft_extent){WEFT_BATCH, 1}) &&
           weft_extent_same(x->type.dim[1], (struct weft_extent){second, 1});
}

struct weft_atom *weft_keys_of(struct weft_form *f, struct weft_atom *x)
{
    if (!x || begins(x, WEFT_ALL))
        return x;
    if (!begins(x, WEFT_NEW) && !begins(x, WEFT_RING))
        return weft_form_refuse(f, "keys", x, NULL);
    struct weft_atom like = {.kind = WEFT_ATOM_keys, .type = x->type, .in = {x}};
    like.type.dim[1].size = WEFT_ALL;
    return weft_form_add(f, &like);
}

struct weft_atom *weft_own_of(struct weft_form *f, struct weft_atom *x)
{
    if (!x || begins(x, WEFT_NEW))
        return x;
    if (!begins(x, WEFT_ALL))
        return weft_form_refuse(f, "own", x, NULL);
    if (x->kind == WEFT_ATOM_keys && begins(x->in[0], WEFT_NEW))
        return x->in[0];
    if (x->kind == WEFT_ATOM_store)
        return x->in[1];
    struct weft_atom like = {.kind = WEFT_ATOM_own, .type = x->type, .in = {x}};
    like.type.dim[1].size = WEFT_NEW;
    return weft_form_add(f, &like);
}

struct weft_atom *weft_store_of(struct weft_form *f, struct weft_atom *state, struct weft_atom *x, const char *index)
{
    if (!state || !x || !index)
        return NULL;
    bool rows = begins(x, WEFT_NEW) && (begins(state, WEFT_ALL) || begins(state, WEFT_RING));
    if (state->kind != WEFT_ATOM_state || (!rows && !weft_type_same(&state->type, &x->type)))
        return weft_form_refuse(f, "store", state, x);
    return weft_form_add(
        f, &(struct weft_atom){.kind = WEFT_ATOM_store, .type = state->type, .in = {state, x}, .name = index});
}

struct weft_atom *weft_cumulate_of(struct weft_form *f, struct weft_atom *x)
{
    if (!x)
        return NULL;
    if (!begins(x, WEFT_NEW) || x->type.of != WEFT_REAL)
        return weft_form_refuse(f, "cumulate", x, NULL);
    return weft_form_add(f, &(struct weft_atom){.kind = WEFT_ATOM_cumulate, .type = x->type, .in = {x}});
}

struct weft_atom *weft_pool_of(struct weft_form *f, struct weft_atom *x, enum weft_pooling how)
{
    if (!x)
        return NULL;
    if (!begins(x, WEFT_NEW) || x->type.of != WEFT_REAL)
        return weft_form_refuse(f, "pool", x, NULL);
    struct weft_atom like = {.kind = WEFT_ATOM_pool, .in = {x}, .pooling = how};
    like.type = (struct weft_type){WEFT_REAL, x->type.ndim - 1, {{WEFT_SEQUENCES, 1}}};
    for (int i = 2; i < x->type.ndim; i++)
        like.type.dim[i - 1] = x->type.dim[i];
    return weft_form_add(f, &like);
}

struct weft_atom *weft_spread_of(struct weft_form *f, struct weft_atom *x)
{
    if (!x)
        return NULL;
    if (!x->type.ndim || !weft_extent_same(x->type.dim[0], (struct weft_extent){WEFT_SEQUENCES, 1}) ||
        x->type.ndim == WEFT_FORM_DIMS)
        return weft_form_refuse(f, "spread", x, NULL);
    struct weft_atom like = {.kind = WEFT_ATOM_spread, .in = {x}};
    like.type = (struct weft_type){x->type.of, x->type.ndim + 1, {{WEFT_BATCH, 1}, {WEFT_NEW, 1}}};
    for (int i = 1; i < x->type.ndim; i++)
        like.type.dim[i + 1] = x->type.dim[i];
    return weft_form_add(f, &like);
}
