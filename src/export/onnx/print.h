/* SPDX-License-Identifier: MIT
 *
 * print.h - private declarations of the files print*.c, which write the form of a model as an ONNX graph.
 */
#ifndef WEFT_ONNX_PRINT_H
#define WEFT_ONNX_PRINT_H

#include "export/onnx/onnx.h"
#include "graph/form.h"

/* What the printer knows about an atom. */
struct weft_printed {
    const char *value; /* its name in the file; NULL: not printed */
    int readers;       /* number of inputs of needed atoms; 0: the atom is not needed */
    /* The kept rows of a slot, if every reader takes them by heads: such atoms are printed as [batch, heads, rows,
     * width], and only the last one of a chain keys, reshape, permute has a value. */
    int64_t heads;
    bool by_heads;
    struct weft_atom *bias; /* of a matmul: the atom that adds a vector to it, which becomes its third input */
    bool skipped;           /* printed as a part of another atom */
};

/* A slot of the cache: ".N.NAME", and its heads and their width. */
struct weft_printed_slot {
    const char *name;
    int64_t heads, width;
};

struct weft_printer {
    struct weft_onnx *g;
    const struct weft_net *net;
    const struct weft_form *form;
    struct weft_printed *of;         /* by id of the atom */
    struct weft_printed_slot *slots; /* of the net */
    int64_t window;                  /* rows that a ring keeps */
    /* Values that follow from the inputs (print_inputs.c); NULL: not printed yet */
    const char *size[WEFT_SIZES], *past, *mask, *rank, *own_rank, *distance;
};

/* The operators (print.c). */
void weft_print_nodes(struct weft_printer *p);
/* Sources, and the atoms that depend on the sequences of rows (print_rows.c). */
const char *weft_print_source(struct weft_printer *p, const struct weft_atom *a);
const char *weft_print_rows(struct weft_printer *p, const struct weft_atom *a);
/* Sizes, int64 [1], and a type's dimensions, int64 [ndim]; whether a column is visible, [batch, total]; the columns of
 * x that are new; the number of visible tokens up to each new one, itself included, [batch, length]; the same from a
 * column up to a row's own, [batch, length, total], and whether the row sees it (print_inputs.c). */
const char *weft_print_size(struct weft_printer *p, enum weft_size size);
const char *weft_print_dims(struct weft_printer *p, const struct weft_type *type);
const char *weft_print_mask(struct weft_printer *p);
const char *weft_print_fresh_columns(struct weft_printer *p, const char *x);
const char *weft_print_own_rank(struct weft_printer *p);
const char *weft_print_distance(struct weft_printer *p);
const char *weft_print_visible(struct weft_printer *p);
/* Finds the slots that are read by heads; prints a slot's past input, and its update (print_slots.c). */
void weft_print_find_heads(struct weft_printer *p);
const char *weft_print_state(struct weft_printer *p, const struct weft_atom *a);
const char *weft_print_store(struct weft_printer *p, const struct weft_atom *a);
/* Returns x with `count` dimensions, padded at the front of an axis to the number of all tokens. */
const char *weft_print_padded(struct weft_printer *p, const char *x, int axis, int count);

/* Returns the printed value of input i of an atom. */
static inline const char *weft_print_in(const struct weft_printer *p, const struct weft_atom *a, int i)
{
    return p->of[a->in[i]->id].value;
}

#endif
