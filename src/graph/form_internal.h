/* SPDX-License-Identifier: MIT
 *
 * form_internal.h - private declarations of the files form*.c.
 */
#ifndef WEFT_FORM_INTERNAL_H
#define WEFT_FORM_INTERNAL_H

#include "graph/graph.h"

/* Returns the atom that is equal to `like`, or NULL. */
struct weft_atom *weft_form_find(const struct weft_form *f, const struct weft_atom *like);
/* Returns the atom that is equal to `like`, which is added if there is none. */
struct weft_atom *weft_form_add(struct weft_form *f, const struct weft_atom *like);

void *weft_form_alloc(struct weft_form *f, size_t bytes); /* zeroed; NULL after a failure */
/* Fails with the types of an atom's inputs, of which the second may be NULL. Returns NULL. */
struct weft_atom *weft_form_refuse(struct weft_form *f, const char *what, const struct weft_atom *a,
                                   const struct weft_atom *b);

bool weft_extent_same(struct weft_extent a, struct weft_extent b);
static inline bool weft_extent_is_one(struct weft_extent e) { return e.size == WEFT_FIXED && e.times == 1; }
/* Computes the broadcast dimensions of two types, without the last `skip` ones; returns whether they agree. */
bool weft_type_broadcast(const struct weft_type *a, const struct weft_type *b, int skip, struct weft_type *result);
/* Returns an axis counted from 0. */
static inline int weft_atom_axis(const struct weft_atom *x, int axis) { return axis < 0 ? axis + x->type.ndim : axis; }
static inline bool weft_atom_has_axis(const struct weft_atom *x, int axis)
{
    return weft_atom_axis(x, axis) >= 0 && weft_atom_axis(x, axis) < x->type.ndim;
}

bool weft_type_same(const struct weft_type *a, const struct weft_type *b);
/* A type as text, such as "real [BATCH, NEW, 64]". */
struct weft_type_text {
    char text[128];
};
struct weft_type_text weft_type_text(const struct weft_type *t);

#endif
