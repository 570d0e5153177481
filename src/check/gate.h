/* SPDX-License-Identifier: MIT
 *
 * gate.h - shared by the gates: the model they check (the twin, a small copy), graphs of it, and reporting checks.
 *
 * Invariants: the weights of the twin are initial values plus noise on every element, functions of (seed, name,
 * element). So no weight is 0 by accident, and two models have the same values in the weights that both have.
 */
#ifndef WEFT_GATE_H
#define WEFT_GATE_H

#include "check/check.h"

struct weft_trial {
    const char *gate;
    const struct weft_model *model; /* the twin */
    struct weft_gates *report;
};

/* Counts and reports one check (trial.c). `where` is a format, used for failures only. */
void weft_trial_report(const struct weft_trial *t, bool passed, double figure, double limit, const char *name,
                       const char *where, ...) __attribute__((format(printf, 6, 7)));

/* A model with noise on its weights. Freed like any. */
enum weft_status weft_twin_create(struct weft_model **model, const struct weft_spec *spec);

/* One graph of a model, planned, with weights and gradients of its own: f32, or f64 in a reference execution. */
struct weft_probe {
    const struct weft_model *model;
    struct weft_net net;
    struct weft_exec *exec;
    enum weft_dtype dtype;
    void *weights, *grads; /* laid out as the model's */
};

/* To be closed even when this fails. */
enum weft_status weft_probe_open(struct weft_probe *p, const struct weft_model *model, enum weft_use use,
                                 struct weft_net_size size, enum weft_mode mode);
void weft_probe_close(struct weft_probe *p);
/* Sequences one after the other, all of the same length or, with `lengths`, each of its own. */
void weft_probe_rows(struct weft_probe *p, int64_t sequences, int64_t length, const int64_t *lengths);
/* Random tokens and targets for all rows, from the key. */
void weft_probe_fill(struct weft_probe *p, uint64_t key);
/* Gradients start from 0. A failure is deferred until the gate has ended. */
void weft_probe_run(struct weft_probe *p);
/* The gradient of the i-th weight; NULL: it has none. */
const struct weft_tensor *weft_probe_grad(const struct weft_probe *p, int i);

/* Of float tensors: the root mean square, and the largest difference between two of the same shape. */
double weft_tensor_rms(const struct weft_tensor *x);
double weft_tensor_distance(const struct weft_tensor *a, const struct weft_tensor *b);

enum weft_status weft_gate_live(const struct weft_trial *t);
enum weft_status weft_gate_causal(const struct weft_trial *t);
enum weft_status weft_gate_cached(const struct weft_trial *t);
enum weft_status weft_gate_exact(const struct weft_trial *t);
enum weft_status weft_gate_gradient(const struct weft_trial *t);
enum weft_status weft_gate_accounted(const struct weft_trial *t);

#endif
