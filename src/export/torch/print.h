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

#include "export/torch/torch.h"
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

/* Atoms that are printed as one call (print_idioms.c). */
enum weft_idiom_kind {
    WEFT_IDIOM_NONE,
    WEFT_IDIOM_ROTATION,
    WEFT_IDIOM_ATTENTION,
    WEFT_IDIOM_LINEAR,
    WEFT_IDIOM_EMBEDDING,
    WEFT_IDIOM_NORM,
    WEFT_IDIOM_GELU,
    WEFT_IDIOM_SILU,
    WEFT_IDIOM_SWIGLU
};
struct weft_idiom {
    enum weft_idiom_kind kind;
    const struct weft_node *node;
    const struct weft_atom *in[5]; /* that the call reads */
    int count;
    /* For attention, whose inputs are q, k and v [BATCH, heads, rows, width], then optionally the bias of keys, then
     * optionally visible. Unless it is `plain`, queries are scaled. */
    double scale, dropout;
    bool plain, has_bias, has_visible;
};

/* What the printer knows about an atom. */
struct weft_torch_value {
    bool needed, free; /* free: does not depend on weights */
    bool crosses;      /* read in a scope other than its own */
    int uses;          /* number of inputs of atoms that it is */
    int home;          /* the layer of its scope, or WEFT_TORCH_MODEL */
    const char *hint;  /* what its variable is called */
    struct weft_idiom idiom;
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
    int slots; /* number of its slots in the cache */
};

struct weft_torch_printer {
    struct weft_arena arena;
    enum weft_status status;
    enum weft_torch_code code;
    const struct weft_nn *model;
    const struct weft_net *net;
    const struct weft_form *form;
    struct weft_torch_value *of; /* by id of the atom */
    struct weft_torch_layer *layers;
    struct weft_torch_class *classes;
    int layer_count, class_count;
    const char **weight_names;             /* by index of the weight */
    const struct weft_atom *hidden, *head; /* whose product are the logits */
    bool masks_attention; /* everything that reads the mask of visible tokens is scaled_dot_product_attention */
    /* The scope that is being printed: */
    FILE *out;
    int scope; /* the layer, or WEFT_TORCH_MODEL */
    const char *indent;
    struct weft_torch_name *names;
    int name_count;
    bool sizes;                                    /* it needs the sizes of the batch */
    const struct weft_atom *reader;                /* the atom whose expression is being printed */
    int half;                                      /* of the block, for comments */
    const struct weft_part *parts[WEFT_MAX_PARTS]; /* mechanisms that have a comment */
    int part_count;
};

/* ---- text (print_text.c) */

/* Returns text in the printer's arena; "" after a failure. */
const char *weft_torch_text(struct weft_torch_printer *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *weft_torch_real(struct weft_torch_printer *p, double value);
/* Returns whether Python code can use a name for an attribute of a module; text like it that can be used (names.c). */
bool weft_torch_is_name(const char *text, int length);
const char *weft_torch_identifier(struct weft_torch_printer *p, const char *text);
/* Redirects p->out to text; weft_torch_close returns the text, and p->out is the file that it was before. */
struct weft_torch_output {
    FILE *before;
    char *text;
    size_t bytes;
};
void weft_torch_open(struct weft_torch_printer *p, struct weft_torch_output *o);
const char *weft_torch_close(struct weft_torch_printer *p, struct weft_torch_output *o);
/* Returns a call: in one line, with the arguments in a line of their own, or with a line for each. */
const char *weft_torch_call(struct weft_torch_printer *p, int indent, const char *start, const char *const *args,
                            int count, const char *end);

/* ---- atoms, weights and modules (lookup.c, print_modules.c) */

/* Returns the atom of a graph's value; NULL if it is absent. */
const struct weft_atom *weft_torch_of(const struct weft_torch_printer *p, const struct weft_value *v);
/* Returns the weight that an atom is. */
const struct weft_param *weft_torch_weight(const struct weft_torch_printer *p, const struct weft_atom *a);
/* Return the layer of a weight, and its name in the block, such as "attn.wq.weight". */
void weft_torch_name_weights(struct weft_torch_printer *p);
int weft_torch_layer_of(const struct weft_param *w);
const char *weft_torch_local_name(const struct weft_torch_printer *p, const struct weft_param *w);
/* Returns the expression of a module's call: "self.attn.wq" for Linear and Embedding, and norms; NULL if a weight is
 * not the weight of such a module in this scope. */
const char *weft_torch_linear(struct weft_torch_printer *p, const struct weft_atom *w, const struct weft_atom *bias);
const char *weft_torch_embedding(struct weft_torch_printer *p, const struct weft_atom *w);
const char *weft_torch_norm(struct weft_torch_printer *p, const struct weft_node *node);
/* Prints the modules of a scope, and the loop that initialises all weights (print_draws.c). */
void weft_torch_modules(struct weft_torch_printer *p, int scope);
void weft_torch_draws(struct weft_torch_printer *p);

/* ---- atoms (print_tidy.c, print_reads.c, print_hints.c) */

/* Simplifies a form for batches of whole sequences; compares dimensions in such a batch. */
enum weft_status weft_torch_tidy(struct weft_form *f, enum weft_torch_code code);
bool weft_torch_is_same(const struct weft_torch_printer *p, struct weft_extent a, struct weft_extent b);
/* Returns whether all elements of an atom are the same constant. */
bool weft_torch_constant(const struct weft_atom *a, double *value);
/* Lists the different atoms that the expression of an atom reads; returns their number. */
int weft_torch_reads(const struct weft_torch_printer *p, const struct weft_atom *a,
                     const struct weft_atom *list[WEFT_TORCH_READS]);
/* Returns whether an atom is printed wherever it is read: a constant, an array or a weight. */
bool weft_torch_is_source(const struct weft_atom *a);
const char *weft_torch_hint(struct weft_torch_printer *p, const struct weft_atom *a);
/* Marks the atoms that the file needs, and finds their scopes and what crosses them. */
void weft_torch_divide(struct weft_torch_printer *p);

/* ---- expressions: print_operands.c, print_atoms.c, print_shapes.c, print_rows.c, print_idioms.c, print_attention.c */

void weft_torch_find_idiom(struct weft_torch_printer *p, const struct weft_atom *a);
bool weft_torch_find_attention(const struct weft_torch_printer *p, const struct weft_atom *a, struct weft_idiom *s);
struct weft_py weft_torch_expression(struct weft_torch_printer *p, const struct weft_atom *a);
struct weft_py weft_torch_shape(struct weft_torch_printer *p, const struct weft_atom *a);
struct weft_py weft_torch_rows(struct weft_torch_printer *p, const struct weft_atom *a);
struct weft_py weft_torch_input(struct weft_torch_printer *p, const struct weft_atom *a);
struct weft_py weft_torch_idiom(struct weft_torch_printer *p, const struct weft_atom *a);
/* Fails unless the first entry of the cache of a decoder has a row per token, which transformers counts. */
enum weft_status weft_torch_check_slots(const struct weft_net *net);
/* Returns the number of a layer's slots in the cache of a decoder. */
int weft_torch_slots(const struct weft_torch_printer *p, int layer);
/* Returns whether an atom is a statement without a value: a row per sequence of the cache is replaced. */
bool weft_torch_is_statement(const struct weft_atom *a);
/* Returns the text of an atom, in parentheses if its operator does not bind as tightly as `binding`. */
const char *weft_torch_operand(struct weft_torch_printer *p, const struct weft_atom *a, enum weft_binding binding);
/* A size, and the sizes of a type as a tuple's items; with `infers`, one that depends on the batch is -1. */
const char *weft_torch_size(struct weft_torch_printer *p, struct weft_extent e);
const char *weft_torch_sizes(struct weft_torch_printer *p, const struct weft_type *t, int first, int end, bool infers);

/* ---- scopes (print_scope.c) */

/* Begins a scope. */
void weft_torch_begin(struct weft_torch_printer *p, int scope);
void weft_torch_count(struct weft_torch_printer *p, const struct weft_atom *a, int times);
/* Prints an atom as a variable, and as a line of its own or a part of its reader's line. */
void weft_torch_define(struct weft_torch_printer *p, const struct weft_atom *a);
void weft_torch_line(struct weft_torch_printer *p, const struct weft_atom *a);
/* Names an atom in the scope. */
const char *weft_torch_name(struct weft_torch_printer *p, const struct weft_atom *a, const char *hint);
const char *weft_torch_reserve(struct weft_torch_printer *p, const char *hint);
/* Ends a line that reads an atom. */
void weft_torch_release(struct weft_torch_printer *p, const struct weft_atom *a);

/* ---- the file (print_block.c, print_model.c, print_tables.c) */

void weft_torch_blocks(struct weft_torch_printer *p);
/* Print the embedding of the tokens of a decoder, and forward() up to the logits. */
void weft_torch_inputs(struct weft_torch_printer *p);
void weft_torch_body(struct weft_torch_printer *p);
void weft_torch_loss(struct weft_torch_printer *p);
/* Print the method tables() of a scope, if it has tables, and the lines of __init__ that make buffers of them. */
void weft_torch_tables(struct weft_torch_printer *p, int scope);
void weft_torch_buffers(struct weft_torch_printer *p, int scope);
const char *weft_torch_table_name(struct weft_torch_printer *p, const struct weft_atom *a);

#endif
