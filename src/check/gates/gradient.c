/* SPDX-License-Identifier: MIT
 *
 * gradient.c - checks that gradients are the derivatives of the loss.
 *
 * In f64, along random directions in every weight, a central difference of the loss is compared with the gradient in
 * that direction. Then the fast f32 gradients are compared with those in f64. Choices between near ties (the k largest
 * routes) make the loss jump. If a difference spans a jump, a smaller step is tried. It is enough if one of a few token
 * sequences has no jump and makes the same choices in f32 as in f64. With dropout, one direction through all weights is
 * checked.
 */
#include "check/probe/gate.h"

#include <math.h>

enum { SEQUENCES = 2, LENGTH = 10, TOKENS_KEY = 51, DIRECTIONS = 2, ATTEMPTS = 3 };
#define RATE 0.2
#define NO_RATE 1e-12 /* smaller than the resolution of the random numbers of masks */

static enum weft_status open_probe(struct weft_probe *p, const struct weft_nn *model, enum weft_use use,
                                   enum weft_mode mode)
{
    int64_t length = weft_min(LENGTH, model->spec->context);
    TRY(weft_probe_open(p, model, use, (struct weft_net_size){.sequences = SEQUENCES, .length = length}, mode));
    weft_probe_rows(p, SEQUENCES, length, NULL);
    weft_probe_fill(p, TOKENS_KEY);
    return WEFT_OK;
}

/* ---- differences */

static double loss_of(struct weft_probe *p)
{
    weft_defer(weft_exec_prepare(p->exec));
    weft_defer(weft_exec_run(p->exec));
    return weft_tensor_get(weft_exec_tensor(p->exec, p->net.loss), 0);
}

static double sign(uint64_t key, int64_t i) { return weft_uniform(key, (uint64_t)i) < 0.5 ? -1 : 1; }

static void move(double *w, int64_t n, uint64_t key, double by)
{
    for (int64_t i = 0; i < n; i++)
        w[i] += by * sign(key, i);
}

/* Returns the slope of the loss along a direction. */
static double difference(struct weft_probe *p, const struct weft_param *w, uint64_t key, double step)
{
    double *at = (double *)p->weights + w->offset;
    move(at, w->count, key, step);
    double above = loss_of(p);
    move(at, w->count, key, -2 * step);
    double below = loss_of(p);
    move(at, w->count, key, step);
    return (above - below) / (2 * step);
}

/* Returns the error in one direction, relative to the tolerance. */
static double error_along(const struct weft_probe *trained, struct weft_probe *loss, int i, uint64_t key)
{
    const struct weft_param *w = &trained->model->params.list[i];
    const struct weft_tensor *grad = weft_probe_grad(trained, i);
    double slope = 0, least = INFINITY,
           scale = fabs(weft_tensor_get(weft_exec_tensor(trained->exec, trained->net.loss), 0));
    for (int64_t e = 0; grad && e < w->count; e++)
        slope += weft_tensor_get(grad, e) * sign(key, e);
    for (double step = 1e-5; step >= 1e-7 && !(least <= 1); step /= 10) {
        double wanted = difference(loss, w, key, step);
        /* the difference has at least the rounding error of the loss */
        double allowed = 1e-6 * (fabs(slope) + fabs(wanted)) + 1e-13 * scale / step;
        least = fmin(least, fabs(slope - wanted) / allowed);
    }
    return least;
}

static double worst_error(const struct weft_probe *trained, struct weft_probe *loss, int *at)
{
    const struct weft_params *p = &trained->model->params;
    double worst = 0;
    for (int i = 0; i < p->count; i++)
        for (uint64_t d = 0; trained->net.weights[i] && d < DIRECTIONS; d++) {
            double error = error_along(trained, loss, i, weft_key_name(d, p->list[i].name));
            if (!(error <= worst)) {
                worst = error;
                *at = i;
            }
        }
    return worst;
}

static void check_differences(const struct weft_trial *t, struct weft_probe *trained, struct weft_probe *loss)
{
    double worst = INFINITY;
    int at = 0;
    for (uint64_t i = 0; i < ATTEMPTS && !(worst <= 1); i++) {
        weft_probe_fill(trained, TOKENS_KEY + i);
        weft_probe_fill(loss, TOKENS_KEY + i);
        weft_probe_run(trained);
        worst = worst_error(trained, loss, &at);
    }
    weft_trial_report(t, worst <= 1, 1e-6 * worst, 1e-6, "gradients against differences of the loss in f64", "%s",
                      trained->model->params.list[at].name);
}

/* ---- f32 */

static double largest_of(const struct weft_tensor *x)
{
    double largest = 0;
    for (int64_t e = 0; x && e < weft_tensor_count(x); e++)
        largest = fmax(largest, fabs(weft_tensor_get(x, e)));
    return largest;
}

/* Returns the largest error of an f32 gradient, relative to the largest element of its tensor, and sets *at to the
 * tensor. If large terms cancel, the error is relative to the terms, so the scale is at least a thousandth of the
 * largest gradient. */
static double compare(const struct weft_probe *exact, const struct weft_probe *fast, int *at)
{
    int n = exact->model->params.count;
    double worst = 0, floor = 0;
    for (int i = 0; i < n; i++)
        floor = fmax(floor, 1e-3 * largest_of(weft_probe_grad(exact, i)));
    for (int i = 0; i < n; i++) {
        const struct weft_tensor *a = weft_probe_grad(exact, i), *b = weft_probe_grad(fast, i);
        if (!a)
            continue;
        double error = weft_tensor_distance(a, b) / fmax(floor, largest_of(a));
        if (!(error <= worst)) {
            worst = error;
            *at = i;
        }
    }
    return worst;
}

static enum weft_status check_f32(const struct weft_trial *t, struct weft_probe *exact)
{
    const double limit = 2e-3;
    struct weft_probe fast;
    double error = INFINITY;
    int at = 0;
    enum weft_status status = open_probe(&fast, t->model, WEFT_TRAIN, WEFT_FAST);
    for (uint64_t i = 0; status == WEFT_OK && i < ATTEMPTS && !(error <= limit); i++) {
        weft_probe_fill(&fast, TOKENS_KEY + i);
        weft_probe_fill(exact, TOKENS_KEY + i);
        weft_probe_run(&fast);
        weft_probe_run(exact);
        error = compare(exact, &fast, &at);
    }
    if (status == WEFT_OK)
        weft_trial_report(t, error <= limit, error, limit, "f32 gradients against f64's", "%s",
                          t->model->params.list[at].name);
    weft_probe_close(&fast);
    return status;
}

static enum weft_status check(const struct weft_trial *t, struct weft_probe *trained, struct weft_probe *loss)
{
    TRY(open_probe(trained, t->model, WEFT_TRAIN, WEFT_REFERENCE));
    /* evaluation is cheaper, but has no auxiliary losses */
    TRY(open_probe(loss, t->model, trained->net.term_count ? WEFT_TRAIN : WEFT_EVAL, WEFT_REFERENCE));
    check_differences(t, trained, loss);
    if (t->model->spec->compute == WEFT_F32)
        TRY(check_f32(t, trained));
    return WEFT_OK;
}

/* ---- dropout */

/* Masks depend on step and sample only, so they are the same in every run. */
static enum weft_status check_dropped(const struct weft_trial *t, struct weft_probe *trained, struct weft_probe *loss)
{
    double error = INFINITY;
    TRY(open_probe(trained, t->model, WEFT_TRAIN, WEFT_REFERENCE));
    TRY(open_probe(loss, t->model, WEFT_TRAIN, WEFT_REFERENCE));
    for (uint64_t i = 0; i < ATTEMPTS && !(error <= WEFT_SLOPE_LIMIT); i++) {
        weft_probe_fill(trained, TOKENS_KEY + i);
        weft_probe_fill(loss, TOKENS_KEY + i);
        TRY(weft_slope_error(trained, loss, &error));
    }
    weft_trial_report(t, error <= WEFT_SLOPE_LIMIT, error, WEFT_SLOPE_LIMIT,
                      "gradients with dropout against differences of the loss in f64",
                      "the slope along a direction through all weights does not match the gradients");
    return WEFT_OK;
}

/* Checks that TRAIN gives the same losses as EVAL at a dropout rate that drops nothing. */
static enum weft_status check_undropped(const struct weft_trial *t, struct weft_probe *trained, struct weft_probe *eval)
{
    const double limit = 1e-9;
    TRY(open_probe(trained, t->model, WEFT_TRAIN, WEFT_REFERENCE));
    TRY(open_probe(eval, t->model, WEFT_EVAL, WEFT_REFERENCE));
    weft_probe_run(trained);
    weft_probe_run(eval);
    double error = weft_tensor_distance(weft_exec_tensor(trained->exec, trained->net.nll),
                                        weft_exec_tensor(eval->exec, eval->net.nll));
    weft_trial_report(t, error <= limit, error, limit, "losses of TRAIN with dropout that drops nothing, in f64",
                      "dropout changes the loss even at a rate that drops nothing");
    return WEFT_OK;
}

typedef enum weft_status check_fn(const struct weft_trial *t, struct weft_probe *trained, struct weft_probe *loss);

static enum weft_status with_probes(check_fn *how, const struct weft_trial *t)
{
    struct weft_probe trained = {0}, loss = {0};
    enum weft_status status = how(t, &trained, &loss);
    weft_probe_close(&trained);
    weft_probe_close(&loss);
    return status;
}

enum weft_status weft_gate_gradient(const struct weft_trial *t)
{
    struct weft_spec spec = *t->model->spec;
    struct weft_nn model = *t->model;
    const struct weft_trial trial = {t->gate, &model, NULL, t->report};
    spec.detach = false; /* a gradient that is cut off on purpose is not the derivative */
    model.spec = &spec;
    TRY(with_probes(check, &trial));
    spec.dropout = RATE;
    TRY(with_probes(check_dropped, &trial));
    spec.dropout = NO_RATE;
    TRY(with_probes(check_undropped, &trial));
    return WEFT_OK;
}
