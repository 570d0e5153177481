/* SPDX-License-Identifier: MIT
 *
 * internal.h - private declarations of src/graph.
 */
#ifndef WEFT_GRAPH_INTERNAL_H
#define WEFT_GRAPH_INTERNAL_H

#include "graph/graph.h"

enum { MAX_SYMBOLS = 16 };

struct symbol {
    const char *name;
    int64_t max;
};

struct weft_graph {
    struct weft_arena arena;
    enum weft_status status;
    char message[1024]; /* message of the first failure */
    enum weft_dtype compute;
    struct weft_arithmetic arithmetic;
    struct symbol symbols[MAX_SYMBOLS]; /* symbols[0] stands for a fixed size */
    int symbol_count;
    struct weft_node **nodes;
    int node_count, node_room;
    struct weft_value **values;
    int value_count, value_room;
    int label, group;
    bool in_backward_pass; /* the nodes being emitted belong to the backward pass */
    bool consumes_inputs;
};

struct weft_value *weft_graph_value(struct weft_graph *g, enum weft_kind kind, const char *name, enum weft_dtype dtype,
                                    const struct weft_shape *s);
struct weft_node *weft_graph_node(struct weft_graph *g, const struct weft_op *op, const void *attr, bool backward);
/* Appends a node; fails if it reads a state's content from before an update. */
bool weft_graph_append(struct weft_graph *g, struct weft_node *node);
bool weft_graph_append_unchecked(struct weft_graph *g, struct weft_node *node); /* for rebuilding the list of nodes */

/* List the values that a node reads or writes, in a fixed order; return the count. */
enum { MAX_TOUCHED = 4 * WEFT_MAX_ARGS };
int weft_node_reads(const struct weft_node *node, struct weft_value *list[MAX_TOUCHED]);
int weft_node_writes(const struct weft_node *node, struct weft_value *list[MAX_TOUCHED]);

/* Returns the value that owns v's memory: follows views and updates of a state. */
const struct weft_value *weft_value_root(const struct weft_value *v);
bool weft_value_is_bound(const struct weft_value *v); /* whether its memory belongs to the host */
bool weft_node_reads_state(const struct weft_node *node);
bool weft_value_is_fixed(
    const struct weft_value *v); /* whether v is a weight, or is computed from weights in prepare */

/* ---- the plan (plan.c), buffer offsets (offsets.c) */

struct piece {    /* a range of the buffer, live from step `first` to step `last` */
    size_t exact; /* bytes requested */
    size_t bytes; /* bytes allocated: rounded up, or including guards */
    size_t offset;
    int first, last;
    const char *name;
};

/* Prints the type and shape of a value, such as "bf16[rows, 64]" (graph.c). */
void weft_shape_print(const struct weft_graph *g, const struct weft_value *v, FILE *to);

/* Assigns offsets so that pieces that are live at the same time do not overlap; *total is the size of the buffer. */
enum weft_status weft_pieces_assign_offsets(struct piece *pieces, int count, struct weft_arena *arena, size_t *total);

struct step {
    const struct weft_node *node;
    struct weft_call call;
    double seconds; /* time spent while profiling */
    int64_t runs;
};

struct weft_exec {
    struct weft_arena arena;
    struct weft_graph *graph;
    enum weft_mode mode;
    int threads; /* number of per-thread scratch areas */
    char *buffer;
    size_t bytes;
    int64_t counts[MAX_SYMBOLS];
    struct weft_tensor *tensors; /* by value id */
    struct step *prepare, *run;
    int prepare_count, run_count;
    struct piece *pieces;
    int piece_count;
    bool profiling;
    bool *kept;                    /* by value id: prepared here and kept for runs */
    const struct weft_exec *other; /* execution whose prepared values this one reads (see borrow.c), or NULL */
};

enum { GUARD = 128 }; /* in guarded execution: guard bytes before each piece, and the minimum after it */

enum weft_status weft_exec_plan(struct weft_exec *exec);
/* Returns the value that `exec` prepares with the same op from the same parameters as a node, or NULL (borrow.c). */
const struct weft_value *weft_exec_prepared(const struct weft_exec *exec, const struct weft_node *node);
void weft_exec_step(struct weft_exec *exec, struct step *step);

#endif
