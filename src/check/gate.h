/* SPDX-License-Identifier: MIT
 *
 * gate.h - what the gates share: the twin they look at, graphs of it that run, and telling what was found.
 *
 * Invariants: the twin's weights are first values and noise on every element, functions of (seed, name, element): none
 * is 0 by accident, and two models share what they have in common.
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
/* Sequences one behind the other, all of one length or (lengths given) each of its own. */
void weft_probe_rows(struct weft_probe *p, int64_t sequences, int64_t length, const int64_t *lengths);
/* Tokens and targets of all rows, drawn from the key. */
void weft_probe_fill(struct weft_probe *p, uint64_t key);
/* Gradients start from 0. */
void weft_probe_run(struct weft_probe *p);
/* Of the i-th weight; NULL: it has none. */
const struct weft_tensor *weft_probe_grad(const struct weft_probe *p, int i);

/* Of float tensors of the same shape: the root of the mean square, and the largest difference. */
double weft_tensor_rms(const struct weft_tensor *x);
double weft_tensor_distance(const struct weft_tensor *a, const struct weft_tensor *b);

enum weft_status weft_gate_live(const struct weft_trial *t);
enum weft_status weft_gate_causal(const struct weft_trial *t);
enum weft_status weft_gate_cached(const struct weft_trial *t);
enum weft_status weft_gate_exact(const struct weft_trial *t);
enum weft_status weft_gate_gradient(const struct weft_trial *t);
enum weft_status weft_gate_accounted(const struct weft_trial *t);

#endif
