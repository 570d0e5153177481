/* SPDX-License-Identifier: MIT
 *
 * graph.h - the static graph: built once, differentiated, planned, then run many times.
 *
 * Invariants:
 *  - Nodes are in execution order: a node's inputs are computed before it. Floating-point operations run in this order.
 *  - Builders do not report errors: on failure they return NULL, and they accept NULL inputs. The graph keeps the first
 *    error; check weft_graph_status before planning. This lets model code read like formulas.
 *  - A dimension is `times` or `times x symbol`; a symbol has a maximum at plan time and a count at run time. One plan
 *    serves every count up to the maximum.
 *  - dtypes: activations have the graph's compute dtype (f32 or bf16); the residual stream, statistics and parameters
 *    are f32. In a reference execution every float is f64.
 *  - Nodes that depend only on parameters and constants run in weft_exec_prepare, once per weight change. This is how
 *    weights are packed once per optimiser step.
 *  - A state is memory that outlives a run. An op that updates it returns the same memory as a new value. Emit readers
 *    of the old content before the update; readers of the new content must use the new value. A stale read is an error.
 *  - An executable graph has one buffer, with offsets from liveness analysis. Running it allocates nothing.
 */
#ifndef WEFT_GRAPH_H
#define WEFT_GRAPH_H

#include "graph/op.h"

#include <stdio.h>

/* ---- building (graph.c) */

struct weft_dim {
    int symbol; /* 0: the size is fixed */
    int64_t times;
};
struct weft_shape {
    int ndim;
    struct weft_dim dim[WEFT_MAX_DIMS];
};

enum weft_kind {
    WEFT_INPUT, /* written by the host before a run; lives in the buffer */
    WEFT_PARAM, /* bound by the host: f32 master weights */
    WEFT_GRAD,  /* bound by the host: f32 gradient sums; every run accumulates into them */
    WEFT_STATE, /* bound by the host, read and written by nodes: keeps its content between runs */
    WEFT_VALUE, /* output of a node */
};

struct weft_value {
    const char *name; /* unique among the inputs, params or states; may be NULL for values */
    enum weft_kind kind;
    enum weft_dtype dtype;
    struct weft_shape shape;
    size_t packed_bytes; /* size in bytes of an opaque layout on the fast path (see ops/pack); 0: a plain layout */
    int id;
    struct weft_node *node;    /* producer; NULL for inputs, params, grads, states */
    struct weft_value *grad;   /* gradient of params and differentiated inputs, after weft_graph_backward */
    struct weft_value *latest; /* a state's value after the updates emitted so far, NULL before the first */
    bool wants_grad;           /* set for params, and for inputs whose gradient a check needs */
    bool is_output;
};

struct weft_node {
    const struct weft_op *op;
    bool backward;
    bool every_run;        /* never moved to prepare, even if it has no inputs (zeroing an accumulator) */
    bool in_backward_pass; /* emitted by differentiation or recomputed for it; the node may run any kernel */
    bool recompute;        /* marked by weft_graph_mark_recompute */
    const void *attr;
    int index;
    int label; /* set by weft_graph_label, e.g. the layer; -1: none */
    int group; /* set by weft_graph_group, for counting FLOPs; 0 unless set */
    struct weft_graph *graph;
    struct weft_value *in[WEFT_MAX_ARGS], *out[WEFT_MAX_ARGS], *gout[WEFT_MAX_ARGS], *gin[WEFT_MAX_ARGS];
};

/* The two ops that differentiation emits: a constant, and a + b, whose backward kernel accumulates gout[0] into gin[0].
 * These ops are passed in, so that this room never names an op. */
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
void *weft_graph_alloc(struct weft_graph *g, size_t bytes); /* zeroed memory from the graph's arena */

/* Returns a symbol such as "rows" or "sequences". A second call with the same name returns the same symbol and keeps
 * the larger maximum. */
int weft_graph_symbol(struct weft_graph *g, const char *name, int64_t max);
static inline struct weft_dim weft_fixed(int64_t n) { return (struct weft_dim){0, n}; }
static inline struct weft_dim weft_times(int symbol, int64_t times) { return (struct weft_dim){symbol, times}; }
#define WEFT_SHAPE(...)                                                                                                \
    ((struct weft_shape){(int)(sizeof((struct weft_dim[]){__VA_ARGS__}) / sizeof(struct weft_dim)), {__VA_ARGS__}})
bool weft_dim_same(struct weft_dim a, struct weft_dim b);
bool weft_shape_same(const struct weft_shape *a, const struct weft_shape *b);
/* weft_shape_rows returns the product of all dimensions but the last; weft_shape_width returns the last dimension,
 * which is always fixed. */
struct weft_dim weft_shape_rows(const struct weft_shape *s);
int64_t weft_shape_width(const struct weft_shape *s);

struct weft_value *weft_graph_input(struct weft_graph *g, const char *name, enum weft_dtype dtype, struct weft_shape s);
struct weft_value *weft_graph_param(struct weft_graph *g, const char *name, struct weft_shape s);
/* A state can have any float dtype (f64 in a reference execution). It is never differentiated, and nodes that read it
 * never run in prepare. */
struct weft_value *weft_graph_state(struct weft_graph *g, const char *name, enum weft_dtype dtype, struct weft_shape s);
/* Makes the graph fail: from then on, builders return NULL, and planning the graph returns the first error. */
void weft_graph_fail(struct weft_graph *g, enum weft_status status);
void weft_graph_output(struct weft_graph *g, struct weft_value *v); /* makes v readable after a run */
/* Lets the fast path reuse the memory of inputs during a run. Checks use this, because running in place on an input is
 * the strictest test of in-place kernels. */
void weft_graph_consume_inputs(struct weft_graph *g);
/* Set the label or group of all nodes emitted afterwards and of their derivatives. A group is below WEFT_MAX_GROUPS;
 * weft_graph_group returns the previous one. */
void weft_graph_label(struct weft_graph *g, int label);
enum { WEFT_MAX_GROUPS = 8 };
int weft_graph_group(struct weft_graph *g, int group);
/* Point to all values in order of their ids, or to all nodes in execution order; return their number. */
int weft_graph_values(const struct weft_graph *g, struct weft_value *const **values);
int weft_graph_nodes(const struct weft_graph *g, struct weft_node *const **nodes);
int64_t weft_graph_symbol_max(const struct weft_graph *g, int symbol);
const char *weft_graph_symbol_name(const struct weft_graph *g, int symbol);
int weft_graph_symbols(const struct weft_graph *g); /* one more than the largest symbol */

/* Emits a node and returns it (NULL after a failure). `attr` is copied. Optional inputs may be NULL. */
struct weft_node *weft_graph_emit(struct weft_graph *g, const struct weft_op *op, const void *attr, int inputs,
                                  struct weft_value *const *in);
/* For an op's shape(): weft_node_output declares out[o]; weft_node_fail sets an error message that names the op, the
 * node and the layer. */
enum weft_status weft_node_output(struct weft_node *node, int o, enum weft_dtype dtype, struct weft_shape s);
enum weft_status weft_node_fail(const struct weft_node *node, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- differentiating (autodiff.c) */

/* Emits the backward pass of a scalar. Afterwards, param->grad is set for every param that the loss depends on. */
enum weft_status weft_graph_backward(struct weft_graph *g, struct weft_value *loss);
/* Like weft_graph_backward, but differentiates several values together, each with its own cotangent (an input of its
 * shape): the derivative of sum over o of <values[o], seeds[o]>. Checks use it to differentiate an op that is not a
 * loss. */
enum weft_status weft_graph_backward_from(struct weft_graph *g, int count, struct weft_value *const *values,
                                          struct weft_value *const *seeds);
/* Returns the gradient of a param or of an input with wants_grad; NULL if nothing depends on it. */
struct weft_value *weft_graph_gradient(const struct weft_value *v);

/* Marks v to be recomputed in the backward pass instead of being kept for it. This is useful if v is large and cheap to
 * compute from values that are kept anyway. The whole node is recomputed. Outputs and values that depend on states are
 * kept. */
void weft_graph_mark_recompute(struct weft_value *v);
/* After weft_graph_backward: inserts copies of the marked nodes into the backward pass (recompute.c). This takes less
 * memory but more time; results are bit-identical. */
enum weft_status weft_graph_recompute_marked(struct weft_graph *g);
/* Recomputes all values of each labelled layer except those that other layers read; this costs one more forward
 * pass. */
enum weft_status weft_graph_recompute(struct weft_graph *g);

/* For an op's grad(). The first three return the gradient of out[o] (NULL: none), whether in[i] needs a gradient, and
 * the sum of in[i]'s gradients so far (NULL if there is none, or if in[i] is a param, whose sum the host keeps). An op
 * with an addend passes the partial sum as its addend and the total to weft_grad_set, which replaces the partial sum.
 * Other ops call weft_grad_add, which emits the addition. */
struct weft_value *weft_grad_out(struct weft_grads *grads, int o);
bool weft_grad_wanted(struct weft_grads *grads, int i);
struct weft_value *weft_grad_partial(struct weft_grads *grads, int i);
void weft_grad_add(struct weft_grads *grads, int i, struct weft_value *gradient);
void weft_grad_set(struct weft_grads *grads, int i, struct weft_value *gradient);
/* Returns a buffer to accumulate into, for ops that emit accumulating nodes: the param's own gradient, or a zeroed
 * value. */
struct weft_value *weft_grad_accumulator(struct weft_grads *grads, int i);
/* Returns the dtype of in[i]'s gradient: f32 if the gradients of several users are summed, else the value's own
 * dtype. */
enum weft_dtype weft_grad_dtype(struct weft_grads *grads, int i);
/* Emits this op's backward node with the given gin targets (NULL: gradient not needed). */
struct weft_node *weft_grad_emit(struct weft_grads *grads, struct weft_value *const *gout,
                                 struct weft_value *const *gin);

/* ---- planning and running (plan.c, exec.c) */

/* WEFT_REFERENCE runs the reference kernels with every float as f64. WEFT_ROUNDED also rounds each result to its dtype
 * in the graph, and rounds the operands that a kernel rounds; everything else is exact. WEFT_GUARDED runs the fast
 * kernels, but no two values share memory and each is surrounded by guard bytes (NaN when read as floats).
 * WEFT_UNBACKED is planned and counted like WEFT_FAST but has no memory and cannot run: for models larger than the
 * machine. */
enum weft_mode { WEFT_FAST, WEFT_UNBACKED, WEFT_GUARDED, WEFT_REFERENCE, WEFT_ROUNDED };
static inline bool weft_mode_is_reference(enum weft_mode mode) { return mode >= WEFT_REFERENCE; }
struct weft_exec;

/* Plans the graph for weft_threads() threads, as currently set for the calling thread. It always runs on that number of
 * threads. */
enum weft_status weft_exec_create(struct weft_exec **exec, struct weft_graph *g, enum weft_mode mode);
/* Like weft_exec_create, but in the mode of `other`. Values that both would prepare from parameters with the same names
 * are read from `other`, which must be prepared first and must outlive *exec. */
enum weft_status weft_exec_create_beside(struct weft_exec **exec, struct weft_graph *g, const struct weft_exec *other);
void weft_exec_free(struct weft_exec *exec);
/* Sets the memory of a param, grad or state. It holds f32 for params and grads, and the state's dtype for states; in a
 * reference execution, always f64. */
void weft_exec_bind(struct weft_exec *exec, const struct weft_value *v, void *data);
void weft_exec_count(struct weft_exec *exec, int symbol, int64_t count);
/* Returns the run-time shape and memory of a value. Values other than inputs and outputs may have been overwritten. */
struct weft_tensor *weft_exec_tensor(struct weft_exec *exec, const struct weft_value *v);
enum weft_status weft_exec_prepare(struct weft_exec *exec); /* must be called after every change of a param */
enum weft_status weft_exec_run(struct weft_exec *exec);
/* Runs the graph and calls fn after each step, with the step's index. */
typedef void weft_step_fn(void *context, int step);
enum weft_status weft_exec_run_watched(struct weft_exec *exec, weft_step_fn *fn, void *context);
/* Returns the last step of a run that writes v; -1 if none does. */
int weft_exec_last_write(const struct weft_exec *exec, const struct weft_value *v);
size_t weft_exec_bytes(const struct weft_exec *exec); /* size of the buffer */
/* After guarded runs, returns the name of the first value or scratch with overwritten guard bytes, or NULL. */
const char *weft_exec_overrun(const struct weft_exec *exec);

/* ---- inspecting (inspect.c, profile.c, print.c) */

/* Prepares and runs the graph again, step by step, and describes the first non-finite value in `text`; returns false if
 * there is none. The caller must write the inputs again first. Gradients are accumulated as in any run. */
bool weft_exec_find_nonfinite(struct weft_exec *exec, char *text, size_t size);
/* Likewise, runs two graphs in lockstep, describes the first element in which they differ, and stores its two values in
 * value[]. If only one graph has a node, describes that node and stores NaN in value[]. */
bool weft_exec_find_difference(struct weft_exec *a, struct weft_exec *b, char *text, size_t size, double value[2]);

/* weft_exec_profile turns profiling on or off; weft_exec_profile_print prints the time, FLOPs and bytes per op since
 * profiling was turned on, ordered by time. */
void weft_exec_profile(struct weft_exec *exec, bool on);
void weft_exec_profile_print(const struct weft_exec *exec, FILE *to);
/* Returns the FLOPs and bytes of one run at the current counts. */
struct weft_cost weft_exec_cost(const struct weft_exec *exec);
/* Return the FLOPs of one op's nodes, and of each group of nodes. */
double weft_exec_flops_of(const struct weft_exec *exec, const struct weft_op *op);
void weft_exec_flops_by_group(const struct weft_exec *exec, double flops[WEFT_MAX_GROUPS]);
/* Lists the matmuls of one run at the current counts; writes at most `room` of them and returns their number. */
int weft_exec_products(const struct weft_exec *exec, struct weft_product *list, int room);
void weft_graph_print(const struct weft_graph *g, FILE *to);
void weft_graph_print_dot(const struct weft_graph *g, FILE *to);

#endif
