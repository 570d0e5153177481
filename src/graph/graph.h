/* SPDX-License-Identifier: MIT
 *
 * graph.h - the static graph: built once, differentiated, planned, then run many times.
 *
 * Invariants:
 *  - Nodes are in execution order: a node's inputs exist before it. The order of floating-point work is this order.
 *  - Builders never fail visibly: they return NULL, accept NULL, and the first story stays in the graph; whoever
 *    plans asks weft_graph_status. So model code reads as formulas.
 *  - A dimension is `times` or `times x symbol`; a symbol has a maximum at plan time and a count at run time. One plan
 *    serves every count up to the maximum, creating nothing.
 *  - dtypes: the graph's compute dtype (f32 or bf16) is what ops give activations; residual stream, statistics and
 *    parameters are f32. In a reference execution every float is f64, whatever the graph says.
 *  - Nodes that depend on parameters and constants alone run in weft_exec_prepare, once per weight change: that is how
 *    weights are packed once per optimiser step.
 *  - A state is memory that outlives a run. An op that updates it gives its memory another value; who reads the state
 *    as it was must be emitted before, who reads it as it is takes the new value. A stale read breaks the graph.
 *  - An executable graph is one buffer; offsets come from liveness; running allocates nothing.
 */
#ifndef WEFT_GRAPH_H
#define WEFT_GRAPH_H

#include "graph/op.h"

#include <stdio.h>

/* ---- building (graph.c) */

struct weft_dim {
    int symbol; /* 0: none */
    int64_t times;
};
struct weft_shape {
    int ndim;
    struct weft_dim dim[WEFT_MAX_DIMS];
};

enum weft_kind {
    WEFT_INPUT, /* written by the host before a run; lives in the buffer */
    WEFT_PARAM, /* bound by the host: f32 master weights */
    WEFT_GRAD,  /* bound by the host: f32 gradient sums, added to by every run */
    WEFT_STATE, /* bound by the host, read and written by nodes: keeps its content between runs */
    WEFT_VALUE, /* made by a node */
};

struct weft_value {
    const char *name; /* unique for inputs, params and states, may be NULL for values */
    enum weft_kind kind;
    enum weft_dtype dtype;
    struct weft_shape shape;
    size_t packed_bytes; /* not 0: an opaque layout of this many bytes on the fast path (see ops/pack) */
    int id;
    struct weft_node *node;    /* producer; NULL for inputs, params, grads, states */
    struct weft_value *grad;   /* of params and differentiated inputs, after weft_graph_backward */
    struct weft_value *latest; /* of a state: its value after the updates emitted so far, NULL before the first */
    bool wants_grad;           /* params, and inputs that a check differentiates */
    bool is_output;
};

struct weft_node {
    const struct weft_op *op;
    bool backward;
    bool every_run; /* never moved to prepare although it depends on nothing (zeroing an accumulator) */
    bool reverse;   /* of the reverse pass, whichever kernel it runs: emitted by differentiation, or made again in it */
    bool remake;    /* weft_graph_remake */
    const void *attr;
    int index;
    int label; /* what the host said with weft_graph_label, e.g. the layer; -1: none */
    struct weft_graph *graph;
    struct weft_value *in[WEFT_MAX_ARGS], *out[WEFT_MAX_ARGS], *gout[WEFT_MAX_ARGS], *gin[WEFT_MAX_ARGS];
};

/* The two ops that differentiation itself emits, so that this room never names one: a constant, and a + b, whose
 * backward kernel adds gout[0] to gin[0]. */
struct weft_fill {
    double value;
    struct weft_shape shape;
};
struct weft_arithmetic {
    const struct weft_op *fill, *add;
};
struct weft_graph *weft_graph_create(enum weft_dtype compute, const struct weft_arithmetic *arithmetic);
void weft_graph_free(struct weft_graph *g);
enum weft_status weft_graph_status(const struct weft_graph *g);
enum weft_dtype weft_graph_compute(const struct weft_graph *g);
void *weft_graph_alloc(struct weft_graph *g, size_t bytes); /* from the graph's arena, zeroed */

/* A symbol such as "rows" or "sequences"; asking again for a name gives the same symbol and the larger maximum. */
int weft_graph_symbol(struct weft_graph *g, const char *name, int64_t max);
static inline struct weft_dim weft_fixed(int64_t n) { return (struct weft_dim){0, n}; }
static inline struct weft_dim weft_times(int symbol, int64_t times) { return (struct weft_dim){symbol, times}; }
#define WEFT_SHAPE(...)                                                                                                \
    ((struct weft_shape){(int)(sizeof((struct weft_dim[]){__VA_ARGS__}) / sizeof(struct weft_dim)), {__VA_ARGS__}})
bool weft_dim_same(struct weft_dim a, struct weft_dim b);
bool weft_shape_same(const struct weft_shape *a, const struct weft_shape *b);
/* All dimensions but the last as one (`rows`), and the last (`width`, always fixed). */
struct weft_dim weft_shape_rows(const struct weft_shape *s);
int64_t weft_shape_width(const struct weft_shape *s);

struct weft_value *weft_graph_input(struct weft_graph *g, const char *name, enum weft_dtype dtype, struct weft_shape s);
struct weft_value *weft_graph_param(struct weft_graph *g, const char *name, struct weft_shape s);
/* Any float dtype (f64 in a reference execution). Never differentiated; nodes that read it never run in prepare. */
struct weft_value *weft_graph_state(struct weft_graph *g, const char *name, enum weft_dtype dtype, struct weft_shape s);
void weft_graph_output(struct weft_graph *g, struct weft_value *v); /* readable after a run */
/* On the fast path inputs need not survive a run: their memory may be reused. Checks say so, since work in place on an
 * input is the sharpest test of it. */
void weft_graph_consume_inputs(struct weft_graph *g);
void weft_graph_label(struct weft_graph *g, int label); /* of the nodes emitted from here on */
/* All values, in order of their ids, for those who look a graph through. */
int weft_graph_values(const struct weft_graph *g, struct weft_value *const **values);
int64_t weft_graph_symbol_max(const struct weft_graph *g, int symbol);

/* Emits a node and returns it (NULL after a failure). `attr` is copied. Inputs may be NULL where the op says so. */
struct weft_node *weft_graph_emit(struct weft_graph *g, const struct weft_op *op, const void *attr, int inputs,
                                  struct weft_value *const *in);
/* For an op's shape(): declares out[o]; fails with the op's name and where in the graph it stands. */
enum weft_status weft_node_output(struct weft_node *node, int o, enum weft_dtype dtype, struct weft_shape s);
enum weft_status weft_node_fail(const struct weft_node *node, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- differentiating (autodiff.c) */

/* Emits the reverse pass of a scalar. Afterwards param->grad is set for every param the loss depends on. */
enum weft_status weft_graph_backward(struct weft_graph *g, struct weft_value *loss);
/* The same from several values at once, each with its own cotangent (an input of its shape): the derivative of
 * sum over o of <values[o], seeds[o]>. How checks differentiate an op that is no loss. */
enum weft_status weft_graph_backward_from(struct weft_graph *g, int count, struct weft_value *const *values,
                                          struct weft_value *const *seeds);
/* The gradient of a param or of an input with wants_grad, NULL when nothing depends on it. */
struct weft_value *weft_graph_gradient(const struct weft_value *v);

/* Says that v is made again in the reverse pass instead of being kept for it: worth it where v is large and cheap to
 * make from what is kept anyway. The whole node is made again; outputs and what depends on states are kept. */
void weft_graph_remake(struct weft_value *v);
/* After weft_graph_backward: puts copies of the nodes so marked into the reverse pass (recompute.c). Same bits, less
 * memory, the copies' work more. */
enum weft_status weft_graph_recompute_marked(struct weft_graph *g);
/* The same for all of each labelled layer but what other layers read: one more forward pass. */
enum weft_status weft_graph_recompute(struct weft_graph *g);

/* For an op's grad(): the gradient of out[o] (NULL: none arrived), whether in[i] needs one, what has been summed for it
 * so far (NULL: nothing, or a param's, whose sum is the host's; an op that can add takes it as addend and hands the sum
 * to weft_grad_set), and two ways to hand one over: add (the graph emits the sum) or set (replaces what
 * weft_grad_partial gave). */
struct weft_value *weft_grad_out(struct weft_grads *grads, int o);
bool weft_grad_wanted(struct weft_grads *grads, int i);
struct weft_value *weft_grad_partial(struct weft_grads *grads, int i);
void weft_grad_add(struct weft_grads *grads, int i, struct weft_value *gradient);
void weft_grad_set(struct weft_grads *grads, int i, struct weft_value *gradient);
/* A buffer to add into: the param's own gradient, or a zeroed value. For ops that emit accumulating nodes. */
struct weft_value *weft_grad_accumulator(struct weft_grads *grads, int i);
/* f32 where gradients of several users meet, else the value's own dtype. */
enum weft_dtype weft_grad_dtype(struct weft_grads *grads, int i);
/* Emits this op's backward node with the given gin targets (NULL where none is wanted). */
struct weft_node *weft_grad_emit(struct weft_grads *grads, struct weft_value *const *gout,
                                 struct weft_value *const *gin);

/* ---- planning and running (plan.c, exec.c) */

/* WEFT_REFERENCE runs the reference kernels, every float f64. WEFT_ROUNDED does too, and rounds each result to the
 * dtype the graph gives it: what exact kernels would make of bf16 storage. WEFT_GUARDED is fast, but no two values
 * share memory and all lie between guard bytes (NaN when read as floats). WEFT_UNBACKED is planned and counted as fast
 * is, but has no memory and cannot run: for models larger than the machine. */
enum weft_mode { WEFT_FAST, WEFT_UNBACKED, WEFT_GUARDED, WEFT_REFERENCE, WEFT_ROUNDED };
static inline bool weft_mode_is_reference(enum weft_mode mode) { return mode >= WEFT_REFERENCE; }
struct weft_exec;

enum weft_status weft_exec_create(struct weft_exec **exec, struct weft_graph *g, enum weft_mode mode);
void weft_exec_free(struct weft_exec *exec);
/* Gives a param, grad or state its memory: params and grads f32, states their dtype; f64 in a reference execution. */
void weft_exec_bind(struct weft_exec *exec, const struct weft_value *v, void *data);
void weft_exec_count(struct weft_exec *exec, int symbol, int64_t count);
/* Run-time shape and memory of any value; values that are neither inputs nor outputs may have been overwritten. */
struct weft_tensor *weft_exec_tensor(struct weft_exec *exec, const struct weft_value *v);
void weft_exec_prepare(struct weft_exec *exec); /* after every change of a param */
void weft_exec_run(struct weft_exec *exec);
size_t weft_exec_bytes(const struct weft_exec *exec); /* of the one buffer */
/* After guarded runs: the first value or scratch whose guard bytes were written over, or NULL. */
const char *weft_exec_overrun(const struct weft_exec *exec);

/* ---- looking at it (bad.c, profile.c, print.c) */

/* Prepares and runs once more, step by step, and tells the first value that is not finite; false: there is none. What
 * the host wrote into inputs must be there again; gradients are added to as by any run. */
bool weft_exec_find_bad(struct weft_exec *exec, char *text, size_t size);

/* Time, FLOPs and bytes per op since the profile was switched on, as a table ordered by time. */
void weft_exec_profile(struct weft_exec *exec, bool on);
void weft_exec_profile_print(const struct weft_exec *exec, FILE *to);
/* FLOPs and bytes of one run at the current counts. */
struct weft_cost weft_exec_cost(const struct weft_exec *exec);
/* The matrix products of one run at the current counts; writes at most `room`, returns how many there are. */
int weft_exec_products(const struct weft_exec *exec, struct weft_product *list, int room);
void weft_graph_print(const struct weft_graph *g, FILE *to);
void weft_graph_print_dot(const struct weft_graph *g, FILE *to);

#endif
