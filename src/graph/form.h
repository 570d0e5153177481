/* SPDX-License-Identifier: MIT
 *
 * form.h - the meaning of ops: an op's `lower` writes it as a short program of atoms (atoms.def). Models are exported
 * to other programs by printing these programs, and `weft check` runs them in f64 against the references of the ops
 * (form_run.c).
 *
 * Invariants:
 *  - A form is pure: it has no memory, and no order except that inputs precede their readers.
 *  - Builders do not report errors: on failure they return NULL, and they accept NULL inputs. The form keeps the first
 *    error in `status`.
 *  - REAL numbers are exact: dtypes, roundings and packed layouts have no meaning here.
 *  - Equal atoms (kind, attributes, inputs) are one atom.
 *
 * Rows. The rows [rows, W] of a graph are [BATCH, NEW, W] in a form: NEW rows of each of BATCH sequences. The rows of a
 * key store are [BATCH, ALL, W]: a column for every position of the row's sequence, including earlier calls; or
 * [BATCH, RING, W] if the store is a ring that keeps only the last positions. One row per sequence is [SEQUENCES, W].
 * SEQUENCES equals BATCH, except that a form can also be run on ragged sequences: then every row is a batch of its own,
 * BATCH = rows and NEW = 1. So only the atoms for rows may combine different rows of a batch.
 *
 * Graphs declare their rows by the names of symbols: "rows", "all rows" (rows that only make sense together), "store",
 * "ring" and "sequences".
 */
#ifndef WEFT_FORM_H
#define WEFT_FORM_H

#include "base/base.h"

struct weft_graph;
struct weft_node;
struct weft_value;
struct weft_form;

/* A dimension is `times`, or `times` x a size that is only known when the form is run. */
enum weft_size { WEFT_FIXED, WEFT_BATCH, WEFT_NEW, WEFT_ALL, WEFT_RING, WEFT_SEQUENCES, WEFT_SIZES };
struct weft_extent {
    enum weft_size size;
    int64_t times;
};
enum weft_kind_of { WEFT_REAL, WEFT_WHOLE, WEFT_TRUTH };
enum { WEFT_FORM_DIMS = 6 };
struct weft_type {
    enum weft_kind_of of;
    int ndim;
    struct weft_extent dim[WEFT_FORM_DIMS];
};

enum weft_pooling { WEFT_POOL_SUM, WEFT_POOL_MAX };

/* A dropout mask. It has an element for column c of each row [BATCH, NEW, C] or, for `scores`, for column j and head h
 * of [BATCH, H, NEW, ALL]. */
struct weft_drop {
    double p;
    int layer, site;
    bool scores;
};

typedef void weft_fill_fn(const void *context, double *to);

enum weft_atom_kind {
#define ATOM(name, parameters) WEFT_ATOM_##name,
#include "graph/atoms.def"
#undef ATOM
    WEFT_ATOMS
};

struct weft_atom {
    enum weft_atom_kind kind;
    struct weft_type type;
    struct weft_atom *in[3];
    /* Attributes; those that the kind does not have are 0: */
    double value;
    const char *name;   /* of a weight, input or state; recipe of an array; for store, the input with the indices */
    const double *data; /* of an array */
    int axis, axes[WEFT_FORM_DIMS];
    int64_t first, count; /* of slice; zeros before and after for pad; k of top is `count` */
    bool transposed;
    enum weft_pooling pooling;
    struct weft_drop drop;

    const struct weft_node *from; /* the node whose `lower` created it; NULL: a source */
    int id;                       /* index in the form's list */
    int readers;                  /* number of inputs that it is, and of outputs of the graph */
    struct weft_atom *next;       /* in the hash table */
};

#define ATOM(name, parameters) struct weft_atom *weft_##name##_of parameters;
#include "graph/atoms.def"
#undef ATOM

/* ---- for an op's lower() */

/* The atom of input i, NULL if the input is absent. */
struct weft_atom *weft_form_in(struct weft_form *f, int i);
/* Defines output o as `a`, reshaped to the shape that the op declares. */
void weft_form_out(struct weft_form *f, int o, struct weft_atom *a);
/* Makes the form fail: from then on, builders return NULL. The message is preceded by the op's name. */
void weft_form_fail(struct weft_form *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Types. A shape of a graph as a type; a type with fixed dimensions; x's type with one dimension replaced. */
struct weft_type weft_type_of(struct weft_form *f, const struct weft_value *v);
#define WEFT_FIXED_TYPE(...)                                                                                           \
    weft_type_fixed((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
struct weft_type weft_type_fixed(int ndim, const int64_t *dim);
struct weft_type weft_type_with(const struct weft_atom *x, int axis, struct weft_extent extent);
int64_t weft_last_of(const struct weft_atom *x); /* the size of the last dimension, which is fixed */

/* Combinations of atoms that many ops use. */
struct weft_atom *weft_real_of(struct weft_form *f, double value); /* a number that is REAL, or WHOLE */
struct weft_atom *weft_whole_of(struct weft_form *f, int64_t value);
struct weft_atom *weft_plus_of(struct weft_form *f, struct weft_atom *x, double value);  /* x + value */
struct weft_atom *weft_times_of(struct weft_form *f, struct weft_atom *x, double value); /* x value */
struct weft_atom *weft_mean_of(struct weft_form *f, struct weft_atom *x, int axis);      /* along a fixed dimension */
/* Divides a dimension into two, the second of size `inner`; merges dimensions `axis` and axis + 1; adds a dimension of
 * size 1 so that it becomes dimension `axis`; exchanges two dimensions; repeats a dimension of size 1. */
struct weft_atom *weft_split_of(struct weft_form *f, struct weft_atom *x, int axis, int64_t inner);
struct weft_atom *weft_merge_of(struct weft_form *f, struct weft_atom *x, int axis);
struct weft_atom *weft_unit_of(struct weft_form *f, struct weft_atom *x, int axis);
struct weft_atom *weft_swap_of(struct weft_form *f, struct weft_atom *x, int a, int b);
struct weft_atom *weft_repeat_of(struct weft_form *f, struct weft_atom *x, int axis, int64_t times);
/* [.., heads * width] as [.., heads, width], and back. */
struct weft_atom *weft_heads_of(struct weft_form *f, struct weft_atom *x, int64_t heads);
struct weft_atom *weft_flat_of(struct weft_form *f, struct weft_atom *x);
/* A constant in every element of a type. */
struct weft_atom *weft_constant_of(struct weft_form *f, double value, struct weft_type type);

/* ---- the form of a graph */

enum { WEFT_FORM_TABLE = 4096 };

struct weft_form {
    struct weft_arena arena;
    enum weft_status status; /* the first failure */
    const struct weft_graph *graph;
    bool training;           /* otherwise stop and drop are their inputs */
    int64_t positions;       /* number of rows in tables by position */
    struct weft_atom **list; /* in order */
    int count, room;
    struct weft_atom **of_value;              /* by id of the graph's value; NULL: not used, or not defined */
    const struct weft_node *node;             /* being lowered */
    struct weft_atom *table[WEFT_FORM_TABLE]; /* of equal hashes, chained */
};

/* Lowers every node of a graph that was not differentiated. Release the form even after a failure, and before the
 * graph. */
enum weft_status weft_form_init(struct weft_form *f, const struct weft_graph *g, bool training, int64_t positions);
void weft_form_release(struct weft_form *f);
/* Fails if a value depends on later tokens of its sequence, so that the model cannot be decoded token by token; the
 * message names the op, its layer and the format that the form was to be exported to. */
enum weft_status weft_form_check_causal(const struct weft_form *f, const char *format);
const char *weft_atom_name(enum weft_atom_kind kind);
/* For tests that break forms on purpose: `fn` may change each atom that is about to be added, except its type, and call
 * builders. NULL: nothing is changed. */
typedef void weft_damage_fn(void *context, struct weft_form *f, struct weft_atom *a);
void weft_form_damage(weft_damage_fn *fn, void *context);

/* ---- running a form in f64 (form_run.c) */

/* Values of the caller's inputs, in f64, as the graph declares them: `read` returns those of a weight, input or state,
 * which has `count` elements. */
struct weft_form_frame {
    int64_t batch, fresh, all, sequences; /* BATCH, NEW, ALL (and RING), SEQUENCES */
    const int32_t *seq, *pos;             /* of every row */
    const int32_t *tiles, *ring_tiles; /* [sequences, tile_count]: row of the store and the ring where a tile starts */
    int64_t tile, tile_count;          /* columns of a tile */
    const double *(*read)(void *context, const struct weft_atom *source, int64_t *count);
    bool (*drops)(void *context, const struct weft_drop *drop, int64_t row, int64_t head, int64_t column);
    void *context;
};

/* Results of a form by id of the atom, NULL if they were not asked for. */
struct weft_form_results {
    double **of;
    int64_t *count;   /* number of elements */
    bool *wanted;     /* by id: set before a run */
    double **stopped; /* values of stop in the first run, which later runs of the same sizes keep */
    int64_t *stopped_count;
    int atoms;
};
enum weft_status weft_form_results_init(struct weft_form_results *r, const struct weft_form *f);
void weft_form_results_release(struct weft_form_results *r);
enum weft_status weft_form_run(const struct weft_form *f, const struct weft_form_frame *frame,
                               struct weft_form_results *r);

#endif
