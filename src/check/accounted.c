/* SPDX-License-Identifier: MIT
 *
 * accounted.c - the predicted cost of a model (train/account.c) is what running it takes: weights, FLOPs, memory,
 * cache.
 */
#include "check/gate.h"
#include "infer/infer.h"
#include "train/account.h"

#include <math.h>

enum { TOKENS_KEY = 61, LEAST_BYTES = 32 << 20 };

/* Sanitizers need memory for every byte, so the growth of the process says nothing about the model. */
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) ||               \
    __has_feature(thread_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static void report_equal(const struct weft_trial *t, double found, double predicted, const char *name)
{
    weft_trial_report(t, found == predicted, found, predicted, name, "%.17g were predicted, %.17g found", predicted,
                      found);
}

/* The measured cost of running a graph. */
struct taken {
    double weights, flops; /* FLOPs of a token */
    double bytes;          /* of resident memory */
};

static double count_weights(const struct weft_probe *p)
{
    double sum = 0;
    for (int i = 0; i < p->model->params.count; i++) {
        const struct weft_param *w = &p->model->params.list[i];
        /* a weight that is in no graph has only its declared shape */
        sum += p->net.weights[i] ? (double)weft_tensor_count(weft_exec_tensor(p->exec, p->net.weights[i]))
                                 : (double)w->count;
    }
    return sum;
}

static enum weft_status take(const struct weft_model *model, enum weft_use use, int64_t sequences, struct taken *taken)
{
    struct weft_probe p;
    int64_t length = model->spec->context, before = weft_resident_bytes();
    enum weft_status status =
        weft_probe_open(&p, model, use, (struct weft_net_size){.sequences = sequences, .length = length}, WEFT_FAST);
    if (status == WEFT_OK) {
        weft_probe_rows(&p, sequences, length, NULL);
        weft_probe_fill(&p, TOKENS_KEY);
        weft_probe_run(&p);
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
                      "%.1f MiB were planned, resident memory grew by %.1f MiB", planned / 1048576, grown / 1048576);
}

static enum weft_status check_runs(const struct weft_trial *t, const struct weft_account *a)
{
    const struct weft_model *model = t->model;
    struct taken step, forward;
    double planned = (double)a->activation_bytes + 2.0 * sizeof(float) * (double)model->params.total;
    TRY(take(model, WEFT_TRAIN, model->spec->batch, &step));
    TRY(take(model, WEFT_FORWARD, 1, &forward));
    report_equal(t, step.weights, (double)a->params, "weights");
    report_equal(t, step.flops, a->flops_train, "FLOPs of a token in training");
    report_equal(t, forward.flops, a->flops_prefill, "FLOPs of a token in a forward pass");
    if (weft_resident_bytes() >= 0 && !SANITIZED)
        check_memory(t, step.bytes, planned);
    return WEFT_OK;
}

static enum weft_status check_cache(const struct weft_trial *t, const struct weft_account *a)
{
    const struct weft_spec *spec = t->model->spec;
    struct weft_session *session = NULL;
    struct weft_session_size size = {.sequences = 2, .length = spec->context, .chunk = 8};
    double rows = 2 * (double)weft_round_up(spec->context, WEFT_KEY_TILE) * (double)spec->layers;
    enum weft_status status = weft_session_create(&session, t->model, size);
    if (status == WEFT_OK)
        report_equal(t, (double)weft_session_cache_bytes(session).store / rows, a->cache_bytes_layer,
                     "cache bytes of a token in a layer");
    weft_session_free(session);
    return status;
}

/* With a batch so large that other memory of the process does not matter. */
enum weft_status weft_gate_accounted(const struct weft_trial *t)
{
    struct weft_spec spec = *t->model->spec;
    struct weft_model model = *t->model;
    struct weft_trial large = {t->gate, &model, t->report};
    struct weft_account account;
    model.spec = &spec;
    spec.batch = 8;
    TRY(weft_account(&model, NULL, spec.context, &account));
    while (account.activation_bytes < LEAST_BYTES) {
        spec.batch = (int64_t)ceil(1.1 * (double)spec.batch * LEAST_BYTES / (double)account.activation_bytes);
        TRY(weft_account(&model, NULL, spec.context, &account));
    }
    TRY(check_runs(&large, &account));
    TRY(check_cache(&large, &account));
    return WEFT_OK;
}
