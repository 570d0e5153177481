/* SPDX-License-Identifier: MIT
 *
 * slope.c - compares gradients of a reference with differences of its loss, along one direction through all weights.
 */
#include "check/probe/gate.h"

#include <math.h>
#include <stdlib.h>

enum { DIRECTION_KEY = 91 };
#define SHORT_STEP 3e-6

static double loss_along(struct weft_probe *eval, const double *weights, const double *direction, double h)
{
    double *w = eval->weights;
    for (int64_t i = 0; i < eval->model->params.total; i++)
        w[i] = weights[i] + h * direction[i];
    weft_probe_run(eval);
    return weft_tensor_get(weft_exec_tensor(eval->exec, eval->net.loss), 0);
}

/* Chooses a direction along which every weight, relative to its gradient, changes the loss by about the same amount:
 * the sum of its normalised gradient and a random direction. Returns the slope that the gradients predict. */
static double choose_direction(const struct weft_probe *p, double *direction)
{
    const struct weft_params *params = &p->model->params;
    double slope = 0;
    for (int i = 0; i < params->count; i++) {
        const struct weft_tensor *g = weft_probe_grad(p, i);
        double norm = g ? weft_tensor_rms(g) * sqrt((double)weft_tensor_count(g)) : 0;
        uint64_t key = weft_key_name(DIRECTION_KEY, params->list[i].name);
        double *d = direction + params->list[i].offset, root = sqrt((double)params->list[i].count);
        for (int64_t e = 0; norm > 0 && e < params->list[i].count; e++) {
            d[e] = weft_tensor_get(g, e) / norm + weft_normal(key, (uint64_t)e) / root;
            slope += d[e] * weft_tensor_get(g, e);
        }
    }
    return slope;
}

/* Returns the difference of the loss between the points h and -h along the direction. */
static double difference(struct weft_probe *train, struct weft_probe *eval, const double *direction, double h)
{
    return loss_along(eval, train->weights, direction, h) - loss_along(eval, train->weights, direction, -h);
}

/* Returns the relative error of the predicted slope, estimated from the cheapest difference and, if that is not close
 * enough, from differences of fourth order. A discrete choice may change within a step, which is less likely if the
 * step is shorter; a wrong gradient is wrong at every step size. */
static double error_along(struct weft_probe *train, struct weft_probe *eval, double *direction)
{
    double error;
    weft_tensor_set(weft_exec_tensor(train->exec, train->net.share), 0, 0);
    if (eval->net.share)
        weft_tensor_set(weft_exec_tensor(eval->exec, eval->net.share), 0, 0);
    weft_probe_run(train);
    double predicted = choose_direction(train, direction);
    error = fabs(difference(train, eval, direction, SHORT_STEP) / (2 * SHORT_STEP) / predicted - 1);
    for (double h = 1e-4; h > 1e-9 && !(error <= WEFT_SLOPE_LIMIT); h /= 100) {
        double near = difference(train, eval, direction, h), far = difference(train, eval, direction, 2 * h);
        error = fmin(error, fabs((8 * near - far) / (12 * h) / predicted - 1));
    }
    return error;
}

enum weft_status weft_slope_error(struct weft_probe *train, struct weft_probe *loss, double *error)
{
    double *direction = calloc((size_t)train->model->params.total, sizeof *direction);
    if (!direction)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    *error = error_along(train, loss, direction);
    free(direction);
    return WEFT_OK;
}
