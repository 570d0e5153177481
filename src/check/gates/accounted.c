/* SPDX-License-Identifier: MIT
 *
 * accounted.c - compares the predicted cost of a model (train/account.c) with the measured one: weights, FLOPs, memory,
 * cache. Multiply-adds are counted where they happen, in matmuls and in the tiles of attention.
 */
#include "check/probe/gate.h"
#include "infer/infer.h"
#include "ops/ops.h"
#include "train/account.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS_KEY = 61, LEAST_BYTES = 16 << 20 };

static void report_equal(const struct weft_trial *t, double found, double predicted, const char *name)
{
    weft_trial_report(t, found == predicted, found, predicted, name, "predicted %.17g, found %.17g", predicted, found);
}

/* The measured cost of running a graph. */
struct taken {
    double weights, flops; /* number of weights; FLOPs per token */
    double bytes;          /* resident memory */
    /* Multiply-adds of a run, counted by the kernels and declared by their ops. */
    double products, declared_products, attention, declared_attention;
    double products_flops; /* FLOPs declared by ops with matmuls */
};

static double sum_products(const struct weft_probe *p)
{
    double sum = 0;
    int n = weft_exec_products(p->exec, NULL, 0);
    struct weft_product *list = calloc((size_t)n + 1, sizeof *list);
    weft_exec_products(p->exec, list, list ? n : 0);
    for (int i = 0; list && i < n; i++) /* skips the matmuls of attention, whose share is 1/2 */
        sum += list[i].share == 1 ? (double)list[i].m * (double)list[i].n * (double)(list[i].k * list[i].batch) : 0;
    free(list);
    return sum;
}

static void run_counted(struct weft_probe *p, struct taken *taken)
{
    struct weft_counter counter = {0};
    weft_probe_prepare(p);
    weft_counter_set(&counter);
    weft_defer(weft_exec_run(p->exec));
    weft_counter_set(NULL);
    taken->products = (double)counter.products;
    taken->attention = (double)counter.attention;
    taken->declared_products = sum_products(p);
    taken->declared_attention = weft_exec_flops_of(p->exec, weft_op(WEFT_OP_attention)) / 2;
    taken->products_flops = weft_exec_flops_of(p->exec, weft_op(WEFT_OP_linear)) +
                            weft_exec_flops_of(p->exec, weft_op(WEFT_OP_cross_entropy));
}

static double count_weights(const struct weft_probe *p)
{
    double sum = 0;
    for (int i = 0; i < p->model->params.count; i++) {
        const struct weft_param *w = &p->model->params.list[i];
        /* a weight that is not in the graph has only its declared shape */
        sum += p->net.weights[i] ? (double)weft_tensor_count(weft_exec_tensor(p->exec, p->net.weights[i]))
                                 : (double)w->count;
    }
    return sum;
}

static enum weft_status take(const struct weft_nn *model, enum weft_use use, int64_t sequences, struct taken *taken)
{
    struct weft_probe p;
    int64_t length = model->spec->context, before = weft_resident_bytes();
    enum weft_status status =
        weft_probe_open(&p, model, use, (struct weft_net_size){.sequences = sequences, .length = length}, WEFT_FAST);
    if (status == WEFT_OK) {
        weft_probe_rows(&p, sequences, length, NULL);
        weft_probe_fill(&p, TOKENS_KEY);
        run_counted(&p, taken);
        taken->bytes = (double)(weft_resident_bytes() - before);
        taken->weights = count_weights(&p);
        taken->flops = weft_exec_cost(p.exec).flops / (double)(sequences * length);
    }
    weft_probe_close(&p);
    return status;
}

static void check_memory(const struct weft_trial *t, double grown, double planned)
{
    const double limit = 0.05;
    double error = fabs(grown / planned - 1);
    weft_trial_report(t, error <= limit, error, limit, "memory of a step, relative difference from the plan",
                      "the plan needs %.1f MiB, but resident memory grew by %.1f MiB", planned / 1048576,
                      grown / 1048576);
}

/* Compares the kernels' counts with the declarations of their ops, on which all predictions are based. Ops with matmuls
 * also declare a few additions. */
static void check_counts(const struct weft_trial *t, const struct taken *taken, const char *graph)
{
    const double limit = 0.1;
    char name[160];
    snprintf(name, sizeof name, "multiply-adds of products, counted in %s", graph);
    report_equal(t, taken->products, taken->declared_products, name);
    snprintf(name, sizeof name, "multiply-adds of attention, counted in %s", graph);
    report_equal(t, taken->attention, taken->declared_attention, name);
    snprintf(name, sizeof name, "declared FLOPs of ops with products in %s, beside these", graph);
    double beside = taken->products_flops / (2 * taken->products) - 1;
    weft_trial_report(t, beside >= 0 && beside <= limit, beside, limit, name, "%.6g declared, %.6g counted",
                      taken->products_flops, 2 * taken->products);
}

static enum weft_status check_runs(const struct weft_trial *t, const struct weft_account *a)
{
    const struct weft_nn *model = t->model;
    struct taken step, forward;
    double planned = (double)a->activation_bytes + 2.0 * sizeof(float) * (double)model->params.total;
    TRY(take(model, WEFT_TRAIN, model->spec->batch, &step));
    TRY(take(model, WEFT_FORWARD, 1, &forward));
    report_equal(t, step.weights, (double)a->params, "weights");
    report_equal(t, step.flops, a->flops_train, "FLOPs of a token in training");
    report_equal(t, forward.flops, a->flops_prefill, "FLOPs of a token in a forward pass");
    check_counts(t, &step, "TRAIN");
    check_counts(t, &forward, "FORWARD");
    if (weft_resident_bytes() >= 0 && !WEFT_SANITIZED) /* sanitizers need additional memory for every byte */
        check_memory(t, step.bytes, planned);
    return WEFT_OK;
}

static enum weft_status check_cache(const struct weft_trial *t, const struct weft_account *a)
{
    const struct weft_spec *spec = t->model->spec;
    struct weft_decoder *session = NULL;
    struct weft_decoder_size size = {.sequences = 2, .length = spec->context, .chunk = 8};
    double rows = 2 * (double)weft_round_up(spec->context, WEFT_KEY_TILE) * (double)spec->layers;
    enum weft_status status = weft_decoder_create(&session, t->model, size);
    if (status == WEFT_OK)
        report_equal(t, (double)weft_decoder_cache_bytes(session).store / rows, a->cache_bytes_layer,
                     "cache bytes of a token in a layer");
    weft_decoder_free(session);
    return status;
}

/* If memory is checked, uses a batch so large that the rest of the process's memory is negligible. */
enum weft_status weft_gate_accounted(const struct weft_trial *t)
{
    struct weft_spec spec = *t->model->spec;
    struct weft_nn model = *t->model;
    struct weft_trial large = {t->gate, &model, NULL, t->report};
    struct weft_account account;
    model.spec = &spec;
    spec.batch = 8;
    TRY(weft_account(&model, NULL, spec.context, &account));
    while (!WEFT_SANITIZED && account.activation_bytes < LEAST_BYTES) {
        spec.batch = (int64_t)ceil(1.1 * (double)spec.batch * LEAST_BYTES / (double)account.activation_bytes);
        TRY(weft_account(&model, NULL, spec.context, &account));
    }
    TRY(check_runs(&large, &account));
    TRY(check_cache(&large, &account));
    return WEFT_OK;
}
