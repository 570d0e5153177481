/* SPDX-License-Identifier: MIT
 *
 * op.h - the contract between the graph and an op. The graph reaches an op only through its descriptor.
 *
 * An op is one file in ops/ that ends in one `const struct weft_op WEFT_OP(name)`. The file is compiled once for every
 * instruction-set level (see Makefile), so all but the descriptor and the builder is static.
 *
 * Invariants a kernel may rely on, and must keep:
 *  - It runs only after `shape` and `plan` agreed: it cannot fail, allocates nothing, and touches only the tensors of
 * its call and the scratch it booked.
 *  - Dimensions in a call are run-time counts, never above the ones `plan` saw. Zero rows are possible.
 *  - An output element's summation order depends on reduction lengths, widths and dtypes alone: never on how many rows
 *    there are, which row it is, or how many threads run.
 *  - Outputs are overwritten, except gradients named in `accumulates`, which are added to.
 *  - `ref` sees every float tensor as f64 and is written in plain loops: it is the specification.
 */
#ifndef WEFT_OP_H
#define WEFT_OP_H

#include "tensor/tensor.h"

#define WEFT_MAX_ARGS 16

struct weft_graph;
struct weft_node;
struct weft_value;
struct weft_grads;

/* What a kernel is granted. An absent optional tensor is NULL.
 *   forward:  reads in[], writes out[]
 *   backward: reads in[] and out[] (only those the op's masks name; others are NULL) and gout[], writes gin[] */
struct weft_call {
    const void *attr; /* the node's attributes, as given to the builder */
    void *plan;       /* what plan() made, or NULL */
    const struct weft_tensor *in[WEFT_MAX_ARGS];
    struct weft_tensor *out[WEFT_MAX_ARGS];
    const struct weft_tensor *gout[WEFT_MAX_ARGS];
    struct weft_tensor *gin[WEFT_MAX_ARGS];
    char *scratch; /* booked bytes shared by all threads, 64-byte aligned */
    char *local;   /* booked bytes of thread t start at local + t * local_stride */
    size_t local_stride;
};

/* What plan() books. `plan` memory comes from weft_arena_alloc(arena, ...) and lives as long as the executable graph.
 */
struct weft_booking {
    struct weft_arena *arena;
    size_t scratch; /* bytes */
    size_t local;   /* bytes per thread */
    void *plan;
};

struct weft_cost {
    double flops; /* multiply and add count as two */
    double bytes; /* read and written, each tensor once */
};

struct weft_kernel {
    /* Optional. Called once, with every dimension at its maximum and data NULL, on the fast path only. */
    enum weft_status (*plan)(const struct weft_call *max, struct weft_booking *booking);
    void (*run)(const struct weft_call *call);
    void (*ref)(const struct weft_call *call);
    /* Optional: FLOPs of this call. Bytes are counted by the graph from the tensors. */
    double (*flops)(const struct weft_call *call);
    /* Optional: the matrix products of this call, at most WEFT_MAX_PRODUCTS; returns how many. */
    int (*products)(const struct weft_call *call, struct weft_product *list);
};
#define WEFT_MAX_PRODUCTS 8

/* One size the harness runs an op at. The meaning of n[] is the op's own (say it beside the table). */
struct weft_case {
    const char *name;
    int64_t n[12];
    double x[4];
};

struct weft_op {
    const char *name;
    const char *summary; /* the formula in one line, for `weft check` and the generated docs */
    size_t attr_bytes;

    /* Checks inputs and sets dtype and shape of every output (weft_node_output). The only place that can fail. */
    enum weft_status (*shape)(struct weft_node *node);

    struct weft_kernel fwd, bwd;

    /* How to differentiate. With `grad` NULL and bwd.run set, the graph emits one backward node. With `grad` set, the
     * op emits ordinary nodes itself. With neither, the op has no derivative (integers, statistics). */
    void (*grad)(struct weft_graph *graph, struct weft_node *node, struct weft_grads *grads);
    uint32_t grad_only_in;   /* bit i: forward does not read in[i], it is there for the derivative alone */
    uint32_t bwd_reads_in;   /* bit i: backward reads in[i] */
    uint32_t bwd_reads_out;  /* bit o: backward reads out[o] */
    uint32_t differentiable; /* bit i: in[i] has a gradient */
    uint32_t accumulates;    /* bit i: gin[i] is added to, not written: weights, and what many rows share */
    uint32_t silent_out;     /* bit o: out[o] has no gradient (statistics, predictions) */
    /* The backward node also yields the forward outputs, at no extra cost: once differentiated, the forward node is
     * dropped and its outputs are taken from the backward node's out[]. (A loss that makes its gradient on the way.) */
    bool bwd_yields_out;

    int8_t inplace;      /* 1 + index of the input whose memory out[0] may share (same bytes), 0: none */
    int8_t inplace_grad; /* 1 + o: gin[0] may share the memory of gout[o], 0: none */
    bool is_view;        /* out[0] is in[0]'s memory with another shape; run is never called */
    bool updates;        /* out[0] is in[0]'s memory, a state's, after run changed it; runs although nobody reads it */

    /* Writes the op as ONNX nodes; NULL until the exporter has it. */
    enum weft_status (*onnx)(const struct weft_node *node, void *writer);

    /* The harness: `build` makes a graph around the op for a case and marks its outputs with weft_graph_output;
     * `fill` writes integer inputs (float inputs are filled with normal numbers unless it returns true). */
    const struct weft_case *cases;
    int case_count;
    void (*build)(struct weft_graph *graph, const struct weft_case *c);
    bool (*fill)(const struct weft_case *c, const char *input, struct weft_tensor *t);
    double tolerance;      /* f32 relative error allowed against ref, 0: the harness's default */
    double tolerance_bf16; /* likewise for bf16: larger where a kernel rounds between its own products */
};

/* weft_op_gelu for the base level, weft_op_gelu_v4 for the others. */
#ifdef WEFT_LEVEL
#define WEFT_OP_PASTE_(name, level) weft_op_##name##_##level
#define WEFT_OP_PASTE(name, level) WEFT_OP_PASTE_(name, level)
#define WEFT_OP(name) WEFT_OP_PASTE(name, WEFT_LEVEL)
#else
#define WEFT_OP(name) weft_op_##name
#endif

#endif
