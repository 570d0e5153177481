/* SPDX-License-Identifier: MIT
 *
 * gate_accounted.c - what is predicted without running is what running takes: weights, FLOPs, memory, cache.
 */
#include "infer/infer.h"
#include "lab/gate.h"

#include <math.h>
#include <stdlib.h>

enum { TOKENS_KEY = 61, LEAST_BYTES = 32 << 20 };

/* Sanitizers keep books of every byte in memory, so what a process grows by is not its own. */
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) ||               \
    __has_feature(thread_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static void tell_equal(const struct weft_trial *t, double found, double predicted, const char *name)
{
    weft_trial_tell(t, found == predicted, found, predicted, name, "%.17g were predicted, %.17g found", predicted,
                    found);
}

/* ---- weights */

static void check_weights(const struct weft_trial *t, const struct weft_probe *p)
{
    const struct weft_params *params = &t->model->params;
    double declared = 0, bound = 0;
    for (int i = 0; i < params->count; i++) {
        const struct weft_param *w = &params->list[i];
        double count = 1;
        for (int d = 0; d < w->ndim; d++)
            count *= (double)w->dim[d];
        declared += count;
        /* what is in no graph has no shape but the declared one */
        bound += p->net.weights[i] ? (double)weft_tensor_count(weft_exec_tensor(p->exec, p->net.weights[i])) : count;
    }
    tell_equal(t, bound, declared, "weights");
    tell_equal(t, (double)params->elements, declared, "weights counted");
}

/* ---- a step: FLOPs and memory */

static struct weft_net_size sized(const struct weft_model *model, int64_t sequences)
{
    return (struct weft_net_size){.sequences = sequences, .length = model->spec->context};
}

/* A step planned without memory: what one knows before there is any. */
static enum weft_status predict(const struct weft_model *model, int64_t sequences, double *flops, double *bytes)
{
    struct weft_net net;
    struct weft_exec *exec = NULL;
    enum weft_status status = weft_net_init(&net, model, WEFT_TRAIN, sized(model, sequences));
    if (status == WEFT_OK)
        status = weft_exec_create(&exec, net.g, WEFT_UNBACKED);
    if (status == WEFT_OK) {
        *flops = weft_exec_cost(exec).flops;
        *bytes = (double)weft_exec_bytes(exec) + 2.0 * sizeof(float) * (double)model->params.total;
    }
    weft_exec_free(exec);
    weft_net_release(&net);
    return status;
}

static void check_memory(const struct weft_trial *t, double grown, double planned)
{
    const double limit = 0.05;
    double error = fabs(grown / planned - 1);
    weft_trial_tell(t, error <= limit, error, limit, "memory of a step, off what was planned",
                    "%.1f MiB were planned, resident memory grew by %.1f MiB", planned / 1048576, grown / 1048576);
}

/* With a batch so large that the books of the process do not matter beside it. */
static enum weft_status check_step(const struct weft_trial *t)
{
    struct weft_probe p;
    double flops, bytes;
    int64_t sequences = 8;
    TRY(predict(t->model, sequences, &flops, &bytes));
    while (bytes < LEAST_BYTES) {
        sequences = (int64_t)ceil(1.1 * (double)sequences * LEAST_BYTES / bytes);
        TRY(predict(t->model, sequences, &flops, &bytes));
    }
    int64_t before = weft_resident_bytes();
    enum weft_status status = weft_probe_open(&p, t->model, WEFT_TRAIN, sized(t->model, sequences), WEFT_FAST);
    if (status == WEFT_OK) {
        weft_probe_rows(&p, sequences, t->model->spec->context, NULL);
        weft_probe_fill(&p, TOKENS_KEY);
        weft_probe_run(&p);
        int64_t after = weft_resident_bytes();
        check_weights(t, &p);
        tell_equal(t, weft_exec_cost(p.exec).flops, flops, "FLOPs of a step");
        if (before >= 0 && !SANITIZED)
            check_memory(t, (double)(after - before), bytes);
    }
    weft_probe_close(&p);
    return status;
}

/* ---- cache */

/* Bytes of a token in one layer, from the graph alone. */
static enum weft_status predict_cache(const struct weft_model *model, double *bytes)
{
    struct weft_net net;
    struct weft_net_size size = sized(model, 1);
    size.store_rows = size.ring_rows = weft_round_up(size.length, WEFT_KEY_TILE);
    enum weft_status status = weft_net_init(&net, model, WEFT_PREFILL, size);
    *bytes = 0;
    for (int i = 0; status == WEFT_OK && i < net.slot_count; i++)
        if (net.slots[i].lifetime == WEFT_PER_TOKEN)
            *bytes += (double)net.slots[i].width * (double)weft_dtype_bytes(net.slots[i].state->dtype);
    *bytes /= (double)model->spec->layers;
    weft_net_release(&net);
    return status;
}

static enum weft_status check_cache(const struct weft_trial *t)
{
    const struct weft_spec *spec = t->model->spec;
    struct weft_session *session = NULL;
    struct weft_session_size size = {.sequences = 2, .length = spec->context, .chunk = 8};
    double predicted, tokens = 2 * (double)weft_round_up(spec->context, WEFT_KEY_TILE);
    TRY(predict_cache(t->model, &predicted));
    enum weft_status status = weft_session_create(&session, t->model, size);
    if (status == WEFT_OK)
        tell_equal(t, (double)weft_session_cache_bytes(session).store / tokens / (double)spec->layers, predicted,
                   "cache bytes of a token in a layer");
    weft_session_free(session);
    return status;
}

enum weft_status weft_gate_accounted(const struct weft_trial *t)
{
    TRY(check_step(t));
    TRY(check_cache(t));
    return WEFT_OK;
}
