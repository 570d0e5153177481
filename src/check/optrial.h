/* SPDX-License-Identifier: MIT
 *
 * optrial.h - between the files of the op harness: a case of an op as a graph that can be run in several ways.
 */
#ifndef WEFT_OPTRIAL_H
#define WEFT_OPTRIAL_H

#include "check/check.h"

enum { WEFT_OPTRIAL_VALUES = 64, WEFT_OPTRIAL_FENCE = 64 };

struct weft_optrial_run { /* one executable form of the case's graph, with its own bound memory */
    struct weft_exec *exec;
    char *bound[WEFT_OPTRIAL_VALUES]; /* by index in the case's list; fence | data | fence */
};

struct weft_optrial {
    const struct weft_op *op;
    const struct weft_case *c;
    struct weft_opcheck_case *verdict;
    struct weft_graph *graph;
    struct weft_value *filled[WEFT_OPTRIAL_VALUES]; /* inputs, params, grads and states: what the host writes */
    struct weft_value *result[WEFT_OPTRIAL_VALUES]; /* outputs and grads: what it reads */
    int filled_count, result_count;
    struct weft_value *seeded[WEFT_OPTRIAL_VALUES], *seeds[WEFT_OPTRIAL_VALUES];
    int seed_count;
    struct weft_optrial_run reference, fast;
};

/* Records the first defect of the case. */
void weft_optrial_defect(struct weft_optrial *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What messages call a value; `text` may hold it. */
const char *weft_optrial_name(const struct weft_optrial *t, const struct weft_value *v, char text[64]);
/* Builds the case's graph and differentiates it. */
enum weft_status weft_optrial_build(struct weft_optrial *t, enum weft_dtype dtype);
/* Plans a run with memory of its own. Closed also after a failure. */
enum weft_status weft_optrial_open(struct weft_optrial *t, struct weft_optrial_run *r, enum weft_mode mode,
                                   int threads);
void weft_optrial_close(struct weft_optrial_run *r);
/* Fills every input with numbers that depend on its name and the element. */
void weft_optrial_fill(struct weft_optrial *t, struct weft_optrial_run *r);
/* Fills and runs. A failure is deferred. */
void weft_optrial_run(struct weft_optrial *t, struct weft_optrial_run *r);

#endif
