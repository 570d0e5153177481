/* SPDX-License-Identifier: MIT
 *
 * print.h - private declarations of the files print*.c, which write the form of a model as Python.
 *
 * The form's atoms are divided into scopes: each block is one, and all other atoms belong to the model. Atoms that do
 * not depend on weights, such as masks, belong to the model even if a block's op created them; the model passes them to
 * the blocks. In a scope, an atom with one reader becomes a part of its reader's line if that line is short enough, and
 * any other atom becomes a line of its own.
 */
#ifndef WEFT_TORCH_PRINT_H
#define WEFT_TORCH_PRINT_H

#include "graph/form.h"
#include "nn/net.h"

#include <stdio.h>

/* Python's operators, from the tightest to the loosest. */
enum weft_binding {
    WEFT_BINDS_CALL,
    WEFT_BINDS_SIGN,
    WEFT_BINDS_PRODUCT,
    WEFT_BINDS_SUM,
    WEFT_BINDS_AND,
    WEFT_BINDS_COMPARISON
};
struct weft_py {
    const char *text; /* NULL: nothing, or a failure */
    enum weft_binding binding;
};

enum { WEFT_TORCH_READS = 8, WEFT_TORCH_LINE = 100, WEFT_TORCH_MODEL = -1 };

/* What the printer knows about an atom. */
struct weft_torch_value {
    bool needed, free; /* free: does not depend on weights */
    bool crosses;      /* read in a scope other than its own */
    int home;          /* the layer of its scope, or WEFT_TORCH_MODEL */
    const char *hint;  /* what its variable is called */
    /* In the scope that is being printed: */
    struct weft_py py; /* its name or its expression */
    bool named;
    const struct weft_atom *reader; /* one of its readers */
    int left;                       /* number of lines that have yet to read it */
};

/* A variable of a scope. */
struct weft_torch_name {
    const char *text;
    const struct weft_atom *holds; /* NULL: reserved */
};

/* A class of blocks. */
struct weft_torch_class {
    const char *name, *init, *forward; /* the two methods as text */
    int first, count;                  /* its first layer, and the number of its layers */
};

/* A layer: what its block reads and returns. */
struct weft_torch_layer {
    int class;
    const struct weft_atom *stream; /* the residual stream before the block */
    const struct weft_atom **in, **out;
    int in_count, out_count;
};

struct weft_torch_printer {
    struct weft_arena arena;
    enum weft_status status;
    const struct weft_nn *model;
    const struct weft_net *net;
    const struct weft_form *form;
    struct weft_torch_value *of; /* by id of the atom */
    struct weft_torch_layer *layers;
    struct weft_torch_class *classes;
    int layer_count, class_count;
    const struct weft_atom *hidden, *head; /* whose product are the logits */
    /* The scope that is being printed: */
    FILE *out;
    int scope; /* the layer, or WEFT_TORCH_MODEL */
    const char *indent;
    struct weft_torch_name *names;
    int name_count;
    bool sizes;                     /* it needs the sizes of the batch */
    const struct weft_atom *reader; /* the atom whose expression is being printed */
    int half;                       /* of the block, for comments */
};

/* Attention as scaled_dot_product_attention: heads [BATCH, heads, NEW, width], and a bias of each key or NULL. Unless
 * it is `plain`, queries and keys get the bias as a further column. */
struct weft_torch_attention {
    const struct weft_atom *q, *k, *v, *bias;
    double scale, dropout;
    bool plain;
};
/* Returns whether an atom is the result of such attention (print_attention.c). */
bool weft_torch_find_attention(const struct weft_torch_printer *p, const struct weft_atom *a,
                               struct weft_torch_attention *s);

/* Returns text in the printer's arena; "" after a failure. */
const char *weft_torch_print(struct weft_torch_printer *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *weft_torch_real(struct weft_torch_printer *p, double value);

/* ---- atoms (print_reads.c) */

/* Simplifies a form for batches of whole sequences (print_tidy.c); compares dimensions in such a batch. */
enum weft_status weft_torch_tidy(struct weft_form *f);
bool weft_torch_is_same(struct weft_extent a, struct weft_extent b);
/* Returns whether all elements of an atom are the same constant. */
bool weft_torch_constant(const struct weft_atom *a, double *value);
/* Lists the different atoms that the expression of an atom reads; returns their number. */
int weft_torch_reads(const struct weft_torch_printer *p, const struct weft_atom *a,
                     const struct weft_atom *list[WEFT_TORCH_READS]);
/* Returns the node whose usual expression is printed instead of its atoms, if `a` is its result; else NULL. */
const struct weft_node *weft_torch_idiom(const struct weft_torch_printer *p, const struct weft_atom *a);
/* Returns whether an atom is printed wherever it is read: a constant, an array or a weight. */
bool weft_torch_is_source(const struct weft_atom *a);
/* Returns the atom of a node's input; NULL if it is absent. */
const struct weft_atom *weft_torch_of(const struct weft_torch_printer *p, const struct weft_value *v);
const char *weft_torch_hint(struct weft_torch_printer *p, const struct weft_atom *a);
/* Marks the atoms that the file needs, and finds their scopes and what crosses them. */
void weft_torch_divide(struct weft_torch_printer *p);

/* ---- expressions (print_atoms.c, print_shapes.c, print_idioms.c) */

struct weft_py weft_torch_expression(struct weft_torch_printer *p, const struct weft_atom *a);
struct weft_py weft_torch_shape(struct weft_torch_printer *p, const struct weft_atom *a);
struct weft_py weft_torch_node(struct weft_torch_printer *p, const struct weft_atom *a, const struct weft_node *node);
/* Returns the text of an atom, in parentheses if its operator does not bind as tightly as `binding`. */
const char *weft_torch_text(struct weft_torch_printer *p, const struct weft_atom *a, enum weft_binding binding);
/* Returns a call: in one line, with the arguments in a line of their own, or with a line for each. */
const char *weft_torch_call(struct weft_torch_printer *p, int indent, const char *start, const char *const *args,
                            int count, const char *end);
/* A size, and the sizes of a type as a tuple's items; with `infers`, one that depends on the batch is -1. */
const char *weft_torch_size(struct weft_torch_printer *p, struct weft_extent e);
const char *weft_torch_sizes(struct weft_torch_printer *p, const struct weft_type *t, int first, int end, bool infers);

/* ---- scopes (print_scope.c) */

/* Begins a scope, in which `list` is read at the end. */
void weft_torch_begin(struct weft_torch_printer *p, int scope);
void weft_torch_count(struct weft_torch_printer *p, const struct weft_atom *a, int times);
/* Prints what a list of atoms needs, and these atoms themselves as variables. */
void weft_torch_define(struct weft_torch_printer *p, const struct weft_atom *a);
void weft_torch_line(struct weft_torch_printer *p, const struct weft_atom *a);
/* Names an atom in the scope. */
const char *weft_torch_name(struct weft_torch_printer *p, const struct weft_atom *a, const char *hint);
const char *weft_torch_reserve(struct weft_torch_printer *p, const char *hint);
/* Ends a line that reads an atom. */
void weft_torch_release(struct weft_torch_printer *p, const struct weft_atom *a);

/* ---- the file (print_block.c, print_model.c, print_tables.c) */

void weft_torch_blocks(struct weft_torch_printer *p);
void weft_torch_init(struct weft_torch_printer *p, int scope);
void weft_torch_model(struct weft_torch_printer *p);
void weft_torch_tables(struct weft_torch_printer *p, int scope);
const char *weft_torch_table_name(struct weft_torch_printer *p, const struct weft_atom *a);

#endif
