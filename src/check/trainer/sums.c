/* SPDX-License-Identifier: MIT
 *
 * sums.c - sums gradient and losses of a step in plain code: one run per micro-batch, each from zero gradients, added
 * up in double precision.
 *
 * The samples of micro-batch m of a step are (step M + m) B to (step M + m) B + B-1. The weight of a scored token is
 * one over the number of scored tokens in the step, the weight of an auxiliary loss is 1/M.
 */
#include "check/trainer/sums.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum weft_status weft_sums_open(struct weft_sums *s, const struct weft_rehearsal *re, enum weft_mode mode)
{
    int64_t batch = re->spec.batch;
    *s = (struct weft_sums){.grads = calloc((size_t)re->model.params.total, sizeof(double))};
    if (!s->grads)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    TRY(weft_probe_open(&s->probe, &re->model, WEFT_TRAIN,
                        (struct weft_net_size){.sequences = batch, .length = re->length}, mode));
    weft_probe_rows(&s->probe, batch, re->length, NULL);
    return WEFT_OK;
}

void weft_sums_close(struct weft_sums *s)
{
    free(s->grads);
    weft_probe_close(&s->probe);
}

/* ---- a micro-batch */

static struct weft_tensor *input(const struct weft_sums *s, const struct weft_value *v)
{
    return weft_exec_tensor(s->probe.exec, v);
}

static uint64_t first_sample(const struct weft_rehearsal *re, int64_t micro_batch)
{
    int64_t before = re->trainer->step * re->recipe.micro_batches + micro_batch;
    return (uint64_t)before * (uint64_t)re->spec.batch;
}

/* Writes the samples. Returns the number of scored tokens. */
static int64_t draw(const struct weft_sums *s, const struct weft_rehearsal *re, int64_t micro_batch)
{
    int32_t *tokens = input(s, s->probe.net.tokens)->data, *targets = input(s, s->probe.net.targets)->data;
    int64_t T = re->length, scored = 0;
    for (int64_t b = 0; b < re->spec.batch; b++) {
        re->recipe.task->sample(&re->spec, re->recipe.task_options, first_sample(re, micro_batch) + (uint64_t)b,
                                tokens + b * T, targets + b * T);
        for (int64_t i = b * T; i < (b + 1) * T; i++)
            scored += targets[i] != -1;
    }
    return scored;
}

/* Writes the key of dropout's masks: seed, step, and the index of every sample. */
static void set_masks(const struct weft_sums *s, const struct weft_rehearsal *re, int64_t micro_batch)
{
    const struct weft_rows *at = &s->probe.net.at;
    uint64_t seed = (uint64_t)re->spec.seed, step = (uint64_t)re->trainer->step;
    uint32_t *key = input(s, at->step_key)->data, *sample = input(s, at->sample)->data;
    key[0] = (uint32_t)seed;
    key[1] = (uint32_t)(seed >> 32);
    key[2] = (uint32_t)step;
    key[3] = (uint32_t)(step >> 32);
    for (int64_t b = 0; b < re->spec.batch; b++)
        sample[b] = (uint32_t)(first_sample(re, micro_batch) + (uint64_t)b);
}

/* ---- the step */

static void add_loss(struct weft_losses *l, const char *name, double value)
{
    int i = 0;
    while (i < l->count && strcmp(l->list[i].name, name) != 0)
        i++;
    if (i == l->count)
        l->list[l->count++] = (struct weft_loss){name, 0};
    l->list[i].value += value;
    if (i > 0)
        l->list[0].value += value;
}

void weft_sums_add_losses(struct weft_sums *s, const struct weft_rehearsal *re, double weight, double share)
{
    const struct weft_net *net = &s->probe.net;
    double main = 0, z = 0;
    for (int64_t i = 0; i < re->spec.batch * re->length; i++) {
        double lse = weft_tensor_get(input(s, net->lse), i);
        main += weight * weft_tensor_get(input(s, net->nll), i);
        z += weight * re->spec.logits_z * lse * lse;
    }
    add_loss(&s->losses, "total", 0);
    add_loss(&s->losses, "main", main);
    for (int i = 0; i < net->term_count; i++)
        add_loss(&s->losses, net->terms[i].name, share * weft_tensor_get(input(s, net->terms[i].value), 0));
    if (re->spec.logits_z > 0)
        add_loss(&s->losses, "logits_z", z);
}

static void add_gradients(struct weft_sums *s)
{
    const struct weft_params *p = &s->probe.model->params;
    for (int i = 0; i < p->count; i++) {
        const struct weft_tensor *g = weft_probe_grad(&s->probe, i);
        for (int64_t e = 0; g && e < p->list[i].count; e++)
            s->grads[p->list[i].offset + e] += weft_tensor_get(g, e);
    }
}

int64_t weft_sums_begin(struct weft_sums *s, const struct weft_rehearsal *re)
{
    const struct weft_params *p = &re->model.params;
    int64_t scored = 0;
    s->losses.count = 0;
    weft_convert(s->probe.weights, s->probe.dtype, p->weights, WEFT_F32, p->total);
    for (int64_t m = 0; m < re->recipe.micro_batches; m++)
        scored += draw(s, re, m);
    return weft_max(1, scored);
}

void weft_sums_fill(struct weft_sums *s, const struct weft_rehearsal *re, int64_t micro_batch, double weight,
                    double share)
{
    draw(s, re, micro_batch);
    set_masks(s, re, micro_batch);
    weft_tensor_set(input(s, s->probe.net.weight), 0, weight);
    weft_tensor_set(input(s, s->probe.net.share), 0, share);
}

void weft_sums_run(struct weft_sums *s, const struct weft_rehearsal *re)
{
    int64_t M = re->recipe.micro_batches;
    memset(s->grads, 0, (size_t)re->model.params.total * sizeof *s->grads);
    double weight = 1 / (double)weft_sums_begin(s, re), share = 1 / (double)M;
    for (int64_t m = 0; m < M; m++) {
        weft_sums_fill(s, re, m, weight, share);
        weft_probe_run(&s->probe);
        weft_sums_add_losses(s, re, weight, share);
        add_gradients(s);
    }
}

/* ---- comparing */

static double largest_of(const double *x, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(x[i]));
    return largest;
}

/* If large terms cancel, the error is relative to them, so the scale is at least 1e-3 of the largest gradient. */
double weft_sums_error(const struct weft_sums *s, const struct weft_learner *trainer, int *at)
{
    const struct weft_params *p = &s->probe.model->params;
    double worst = 0, floor = 1e-3 * largest_of(s->grads, p->total);
    for (int i = 0; i < p->count; i++) {
        const struct weft_param *w = &p->list[i];
        const double *plain = s->grads + w->offset;
        const float *real = trainer->sums[0].grads + w->offset;
        double scale = fmax(floor, largest_of(plain, w->count)), error = 0;
        for (int64_t e = 0; e < w->count; e++)
            if (!(fabs(plain[e] - real[e]) <= error))
                error = fabs(plain[e] - real[e]);
        if (scale > 0 && !(error / scale <= worst)) {
            worst = error / scale;
            *at = i;
        }
    }
    return worst;
}

double weft_sums_loss_error(const struct weft_sums *s, const struct weft_losses *losses, const char **at)
{
    double worst = 0;
    if (losses->count != s->losses.count) {
        *at = "their number";
        return INFINITY;
    }
    for (int i = 0; i < losses->count; i++) {
        const struct weft_loss *plain = &s->losses.list[i], *real = &losses->list[i];
        double error = fabs(plain->value - real->value) / fmax(1e-3, fabs(plain->value));
        if (strcmp(plain->name, real->name) != 0)
            error = INFINITY;
        if (!(error <= worst)) {
            worst = error;
            *at = plain->name;
        }
    }
    return worst;
}
