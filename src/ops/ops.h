/* SPDX-License-Identifier: MIT
 *
 * ops.h - the ops: builders and the registry.
 */
#ifndef WEFT_OPS_H
#define WEFT_OPS_H

#include "dnn/dnn.h"
#include "ops/types.h"

/* For a builder: emits a node and returns its first output (NULL after a failure). */
struct weft_value *weft_emit(struct weft_graph *g, const struct weft_op *op, const void *attr, int inputs,
                             struct weft_value *const *in);
/* For the file of op `name`: the op's descriptor that runs on this machine, found via the descriptor of the lowest
 * level. The file does not use the op's id, which depends on the rows of ops.def, so it need not be recompiled when a
 * row is added (see Makefile). */
#define WEFT_SELF(name)                                                                                                \
    ({                                                                                                                 \
        extern const struct weft_op weft_op_##name;                                                                    \
        weft_op_here(&weft_op_##name);                                                                                 \
    })
const struct weft_op *weft_op_here(const struct weft_op *lowest);

/* The ids and builder prototypes of all ops, from ops.def. */
enum weft_op_id {
#define OP(name, parameters) WEFT_OP_##name,
#include "ops/ops.def"
#undef OP
    WEFT_OP_COUNT
};
#define OP(name, parameters) struct weft_value *weft_##name parameters;
#include "ops/ops.def"
#undef OP

/* Index of linear's addend. If the addend is the residual stream, the weight matrix projects into the stream. */
enum { WEFT_LINEAR_ADDEND = 3 };
/* Returns the descriptor that runs on this machine (the highest compiled level that the processor supports). */
const struct weft_op *weft_op(enum weft_op_id id);
/* Replaces a descriptor; NULL restores the original. For tests that break an op on purpose. */
void weft_op_replace(enum weft_op_id id, const struct weft_op *op);
/* For a case's build(): returns an input [rows, width], or [rows] if width is 0, whose first dimension is the symbol
 * "rows". Float inputs get a gradient. */
struct weft_value *weft_case_input(struct weft_graph *g, const char *name, enum weft_dtype dtype, int64_t rows,
                                   int64_t width);
/* For shape(): check that input i, called `name` in messages, has a float type, and that its width is a multiple of
 * `heads`. */
enum weft_status weft_node_float(const struct weft_node *node, int i, const char *name);
enum weft_status weft_node_heads(const struct weft_node *node, int i, const char *name, int64_t heads);
/* For a kernel: divides the `count` elements, rows or columns of a call into tiles of `size` and calls fn for each
 * tile, in parallel. The tile ends before index `end`. */
typedef void weft_span_fn(const struct weft_call *call, int64_t first, int64_t end);
void weft_tiles_run(const struct weft_call *call, int64_t count, int64_t size, weft_span_fn *fn);
/* For a descriptor: sets the table of cases and the function that builds their graphs. */
#define WEFT_CASES(table, function) .cases = (table), .case_count = sizeof(table) / sizeof *(table), .build = (function)
/* Creates a graph that can be differentiated, by passing the ops fill and add to weft_graph_create. */
struct weft_graph *weft_graph_new(enum weft_dtype compute);

#endif
