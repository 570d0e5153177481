/* SPDX-License-Identifier: MIT
 *
 * formed.h - runs a graph of a model and its form on the same inputs, both in f64, and compares values (formed_run.c).
 */
#ifndef WEFT_FORMED_H
#define WEFT_FORMED_H

#include "check/probe/gate.h"
#include "graph/form.h"

#define WEFT_FORMED_LIMIT 1e-9

struct weft_formed {
    const struct weft_trial *t;
    struct weft_probe probe; /* its graph is not differentiated */
    struct weft_form form;
    struct weft_form_results results;
    struct weft_form_frame frame;
    struct weft_arena arena; /* released after every run */
    double error;            /* largest error of the run */
    char where[160];         /* its place */
};

/* Rows of a value, as the form and the graph compute them. */
struct weft_formed_rows {
    const char *name;
    const double *got, *want;
    int64_t rows, width;
    const int32_t *seq, *pos; /* of every row; NULL: the value has no rows of sequences */
};

/* Draws, plans and lowers a graph. A graph that has no form is a failed check of this name, and *lowered is false.
 * Close it even after a failure. */
enum weft_status weft_formed_open(struct weft_formed *s, const struct weft_trial *t, const struct weft_nn *model,
                                  enum weft_use use, struct weft_net_size size, const char *check, bool *lowered);
void weft_formed_close(struct weft_formed *s);
/* Begins a run, which computes the values that are then asked for. A value may be NULL. */
enum weft_status weft_formed_begin(struct weft_formed *s);
void weft_formed_want(struct weft_formed *s, const struct weft_value *v);
/* Runs the form and then the graph, on the rows that the graph's inputs describe now. With `dense`, the rows of a
 * sequence are one batch; otherwise every row is a batch of its own. A form that cannot be run is a failed check, and
 * *ran is false. */
enum weft_status weft_formed_run(struct weft_formed *s, bool dense, const char *check, bool *ran);
/* Returns the form's elements of a value after a run; NULL, which fails the run's check, if they are not `count`. */
const double *weft_formed_result(struct weft_formed *s, const char *name, const struct weft_value *v, int64_t count);
/* Compare after a run: rows; an output of the graph (NULL: nothing). They keep the largest error, but after a failure
 * nothing more is compared: the first value that is wrong explains the others. */
void weft_formed_compare(struct weft_formed *s, const struct weft_formed_rows *x);
enum weft_status weft_formed_output(struct weft_formed *s, const char *name, const struct weft_value *v);
/* Reports the error, and ends the run. */
void weft_formed_report(struct weft_formed *s, const char *check);

/* Checks the uses that read and write a cache (formed_cached.c). */
enum weft_status weft_check_formed_cached(const struct weft_trial *t);

#endif
