/* SPDX-License-Identifier: MIT
 *
 * op.h - the contract between the graph and an op. The graph accesses an op only through its descriptor.
 *
 * An op is one file in ops/ that ends with one `const struct weft_op WEFT_OP(name)`. The file is compiled once per
 * instruction-set level (see Makefile), so everything but the descriptor and the builder is static.
 *
 * Invariants that a kernel can rely on and must keep:
 *  - A kernel runs only after `shape` and `plan` have succeeded. It cannot fail, allocates nothing, and accesses only
 *    the tensors of its call and the scratch memory that `plan` requested.
 *  - Dimensions in a call are run-time counts, which never exceed those that `plan` was called with. There may be zero
 *    rows.
 *  - The summation order of an output element depends only on reduction lengths, widths and dtypes, never on the number
 *    of rows, the row's index, or the number of threads.
 *  - Outputs are overwritten, except gradients listed in `accumulates`, which are added to.
 *  - `ref` receives every float tensor as f64 and is written in plain loops: it is the specification. If `rounds` is
 *    set in the call, it also rounds to bf16 the same intermediate results as the kernel; these roundings are part of
 *    the specification.
 */
#ifndef WEFT_OP_H
#define WEFT_OP_H

#include "graph/form.h"
#include "tensor/tensor.h"

#define WEFT_MAX_ARGS 16

struct weft_grads;

/* The arguments of a kernel. An absent optional tensor is NULL.
 *   forward:  reads in[], writes out[]
 *   backward: reads gout[] and the elements of in[] and out[] selected by the op's masks (others NULL), writes gin[] */
struct weft_call {
    const void *attr; /* the node's attributes, as passed to weft_graph_emit */
    bool rounds;      /* for ref: round to bf16 the intermediate results that the kernel rounds to bf16 */
    void *plan;       /* result of plan(), or NULL */
    const struct weft_tensor *in[WEFT_MAX_ARGS];
    struct weft_tensor *out[WEFT_MAX_ARGS];
    const struct weft_tensor *gout[WEFT_MAX_ARGS];
    struct weft_tensor *gin[WEFT_MAX_ARGS];
    char *scratch; /* requested memory shared by all threads, 64-byte aligned */
    char *local;   /* the memory of thread t starts at local + t * local_stride */
    size_t local_stride;
};

/* Memory that plan() requests. Allocate `plan` with weft_arena_alloc(arena, ...): it lives as long as the executable
 * graph. */
struct weft_booking {
    struct weft_arena *arena;
    size_t scratch; /* bytes shared by all threads */
    size_t local;   /* bytes per thread */
    void *plan;
};

struct weft_cost {
    double flops; /* a multiply-add counts as two */
    double bytes; /* bytes read and written, counting each tensor once */
};

struct weft_kernel {
    /* Optional: requests memory. Called once, only on the fast path, with every dimension at its maximum and data
     * NULL. */
    enum weft_status (*plan)(const struct weft_call *max, struct weft_booking *booking);
    void (*run)(const struct weft_call *call);
    void (*ref)(const struct weft_call *call);
    /* Optional: returns the FLOPs of this call. The graph counts bytes from the tensors. */
    double (*flops)(const struct weft_call *call);
    /* Optional: lists the matmuls of this call, at most WEFT_MAX_PRODUCTS; returns their number. */
    int (*products)(const struct weft_call *call, struct weft_product *list);
};
#define WEFT_MAX_PRODUCTS 8

/* One size at which the harness tests an op. Each op gives n[] and x[] its own meaning: the comment above its table of
 * cases lists the entries in order. Unused entries are 0. Two conventions:
 *  - A case named "inside" puts other ops before or after the op, so that the op runs in place and gradients have the
 *    op's dtype.
 *  - Sizes named after a constant ("lanes+1", "tile-1", "chunk") are at or next to a boundary of the kernel. */
struct weft_case {
    const char *name;
    int64_t n[12]; /* sizes and options */
    double x[4];   /* real-valued attributes */
};

struct weft_op {
    const char *name;
    const char *summary; /* the formula in one line, for `weft help ops` and docs/ops.md */
    size_t attr_bytes;

    /* Checks inputs and sets dtype and shape of every output (weft_node_output). Only shape and plan can fail. */
    enum weft_status (*shape)(struct weft_node *node);

    struct weft_kernel fwd, bwd;

    /* Emits the nodes of the derivative. If `grad` is NULL and bwd.run is set, the graph emits one backward node; if
     * both are NULL, the op has no derivative (integers, statistics). */
    void (*grad)(struct weft_graph *graph, struct weft_node *node, struct weft_grads *grads);
    uint32_t grad_only_in;   /* bit i: forward does not read in[i]; only the derivative does */
    uint32_t bwd_reads_in;   /* bit i: backward reads in[i] */
    uint32_t bwd_reads_out;  /* bit o: backward reads out[o] */
    uint32_t differentiable; /* bit i: in[i] has a gradient */
    uint32_t accumulates;    /* bit i: gin[i] is added to, not overwritten: weights, and inputs that rows share */
    uint32_t no_grad_out;    /* bit o: out[o] has no gradient (statistics, predictions) */
    /* The backward kernel also writes the forward outputs, at no extra cost (for example, a loss that computes its
     * gradient along with its value). After differentiation, the forward node is dropped, and the backward node
     * provides out[]. */
    bool bwd_writes_out;

    int8_t inplace;      /* 1 + index of the input, of the same size, that out[0] may alias; 0: none */
    int8_t inplace_grad; /* 1 + o if gin[0] may alias gout[o]; 0: none */
    bool is_view;        /* out[0] is in[0]'s memory with a different shape; run is never called */
    bool updates; /* out[0] is in[0]'s memory, a state that run changes; the op runs even if nothing reads out[0] */

    /* Writes what the op means: defines every output by atoms (form.h). */
    void (*lower)(struct weft_form *f, const struct weft_node *node);

    /* For the test harness: `build` builds a graph around the op for a case and marks its outputs with
     * weft_graph_output. `fill` sets the content of an input and returns true; if it returns false, floats are normally
     * distributed and integers 0. */
    const struct weft_case *cases;
    int case_count;
    void (*build)(struct weft_graph *graph, const struct weft_case *c);
    bool (*fill)(const struct weft_case *c, const char *input, struct weft_tensor *t);
    double tolerance;      /* relative error allowed against ref in f32; 0: the harness's default */
    double tolerance_bf16; /* the same for bf16 */
};

/* The descriptor's name, for example weft_op_gelu at the base level, and weft_op_gelu_v3 and weft_op_gelu_v4 at the
 * others. */
#ifdef WEFT_LEVEL
#define WEFT_OP_PASTE_(name, level) weft_op_##name##_##level
#define WEFT_OP_PASTE(name, level) WEFT_OP_PASTE_(name, level)
#define WEFT_OP(name) WEFT_OP_PASTE(name, WEFT_LEVEL)
#else
#define WEFT_OP(name) weft_op_##name
#endif

#endif
