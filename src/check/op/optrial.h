/* SPDX-License-Identifier: MIT
 *
 * optrial.h - builds and runs the graph of an op's case, for the op harness (opcheck.c).
 */
#ifndef WEFT_OPTRIAL_H
#define WEFT_OPTRIAL_H

#include "check/check.h"

enum { WEFT_OPTRIAL_VALUES = 64, WEFT_OPTRIAL_FENCE = 64 };

/* One execution of the case's graph, with its own bound memory. */
struct weft_oprun {
    struct weft_exec *exec;
    char *bound[WEFT_OPTRIAL_VALUES]; /* indexed like `filled`: fence | data | fence */
};

struct weft_optrial {
    const struct weft_op *op;
    const struct weft_case *c;
    struct weft_opcheck_case *verdict;
    struct weft_graph *graph;
    struct weft_value *filled[WEFT_OPTRIAL_VALUES]; /* values that the host writes: inputs, params, grads and states */
    struct weft_value *result[WEFT_OPTRIAL_VALUES]; /* values that the host reads: outputs and grads */
    int filled_count, result_count;
    struct weft_value *seeded[WEFT_OPTRIAL_VALUES], *seeds[WEFT_OPTRIAL_VALUES];
    int seed_count;
    struct weft_oprun reference, fast;
};

/* Builds the graph of t->c, differentiated with a cotangent for every differentiable output. */
enum weft_status weft_optrial_build(struct weft_optrial *t, enum weft_dtype dtype);
/* Plans the graph for this number of threads and binds memory between fences of 0xff. Close the run even after a
 * failure. */
enum weft_status weft_oprun_open(struct weft_optrial *t, struct weft_oprun *r, enum weft_mode mode, int threads);
void weft_oprun_close(struct weft_oprun *r);
/* Fills every value with a function of its kind, its name and the element index, rounded to the dtype of the fast
 * graph. */
void weft_oprun_fill(struct weft_optrial *t, struct weft_oprun *r);
/* Fills all values, prepares the graph and runs it; a failure is deferred. */
void weft_oprun_run(struct weft_optrial *t, struct weft_oprun *r);

#endif
