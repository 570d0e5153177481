/* SPDX-License-Identifier: MIT
 *
 * own_size.c - the model itself, as the gates check it: its initial weights, the graphs that train and score it, and
 * the time limit of its checks.
 *
 * The limit depends on the duration of the training, which is estimated from one run of the training graph: 10 s if it
 * takes less than 10 minutes, else 60 s or 2% of it, whichever is more. Checks that sample continue until their
 * fraction of the limit is used up, but take a few samples in any case.
 */
#include "check/probe/gate.h"

#include <math.h>
#include <stdio.h>

enum { ROWS = 1024, TOKENS_KEY = 71 };
#define MOST_SAMPLING 0.8 /* fraction of the time limit; the rest is for mandatory checks of later gates */

enum weft_status weft_itself_init(struct weft_itself *it, const struct weft_spec *spec,
                                  const struct weft_recipe *recipe)
{
    *it = (struct weft_itself){.unpruned = *recipe, .pruning = recipe->prune, .begun = weft_seconds()};
    it->unpruned.prune = (struct weft_pruning){0};
    it->recipe = &it->unpruned;
    it->length = spec->context;
    it->sequences = weft_max(2, weft_min(spec->batch, ROWS / it->length));
    TRY(weft_nn_create(&it->model, spec));
    TRY(weft_nn_init(it->model));
    return WEFT_OK;
}

void weft_itself_release(struct weft_itself *it)
{
    weft_itself_make_room(it);
    weft_nn_free(it->model);
    *it = (struct weft_itself){0};
}

/* ---- graphs */

static enum weft_status open_graph(const struct weft_itself *it, struct weft_probe *p, enum weft_use use)
{
    struct weft_net_size size = {.sequences = it->sequences, .length = it->length};
    TRY(use == WEFT_TRAIN ? weft_probe_open_traced(p, it->model, size)
                          : weft_probe_open(p, it->model, use, size, WEFT_FAST));
    weft_probe_rows(p, it->sequences, it->length, NULL);
    weft_probe_fill(p, TOKENS_KEY);
    return WEFT_OK;
}

/* Runs the graph and returns the duration. */
static double run_graph(struct weft_probe *p)
{
    double start = weft_seconds();
    weft_probe_run(p);
    return weft_seconds() - start;
}

/* Sets the time limit from the estimated duration of the training. */
static void allow_time(struct weft_itself *it)
{
    const struct weft_recipe *r = it->recipe;
    double rows = (double)(r->steps * r->micro_batches * it->model->spec->batch);
    rows *= (double)r->task->length(r->task_options);
    double training = rows * it->run_seconds / (double)(it->sequences * it->length);
    it->seconds = WEFT_SANITIZED ? 1 : training < 600 ? 10 : fmax(60, 0.02 * training);
}

enum weft_status weft_itself_train(struct weft_itself *it)
{
    if (it->train.exec)
        return WEFT_OK;
    TRY(open_graph(it, &it->train, WEFT_TRAIN));
    if (it->seconds > 0)
        return WEFT_OK;
    it->run_seconds = run_graph(&it->train);
    if (it->run_seconds < 1)
        it->run_seconds = run_graph(&it->train); /* the first run includes the time of the first access to its memory */
    allow_time(it);
    return WEFT_OK;
}

enum weft_status weft_itself_measure(struct weft_itself *it)
{
    return it->seconds > 0 ? WEFT_OK : weft_itself_train(it);
}

void weft_itself_make_room(struct weft_itself *it)
{
    weft_probe_close(&it->train);
    weft_probe_close(&it->eval);
}

enum weft_status weft_itself_eval(struct weft_itself *it)
{
    if (it->eval.exec)
        return WEFT_OK;
    TRY(open_graph(it, &it->eval, WEFT_EVAL));
    weft_defer(weft_exec_prepare(it->eval.exec));
    return WEFT_OK;
}

/* ---- time */

bool weft_itself_has_time(const struct weft_itself *it, double share)
{
    double now = weft_seconds();
    return now - it->gate_begun < share * it->seconds && now - it->begun < MOST_SAMPLING * it->seconds;
}

int64_t weft_itself_fits(const struct weft_itself *it, double share, double most, double each, int64_t all)
{
    return (int64_t)fmin((double)all, fmin(share * it->seconds, most) / fmax(each, 1e-9));
}

void weft_itself_describe(const struct weft_itself *it, char text[160])
{
    const struct weft_spec *spec = it->model->spec;
    snprintf(text, 160, "%lld x %lld, %lld x %lld tokens, %s", (long long)spec->layers, (long long)spec->width,
             (long long)it->sequences, (long long)it->length, weft_dtype_name(spec->compute));
}
