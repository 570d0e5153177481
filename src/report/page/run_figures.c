/* SPDX-License-Identifier: MIT
 *
 * run_figures.c - lists the figures of a single run as names and values, and the notes above them.
 */
#include "report/read/results.h"

#include <math.h>
#include <string.h>

struct listing {
    weft_figure_fn *figure;
    void *context;
};

static void list(const struct listing *l, const char *name, const char *value)
{
    if (*value && strcmp(value, "-") != 0)
        l->figure(l->context, name, value, false);
}

static void list_score(const struct listing *l, const char *name, double loss, double accuracy)
{
    char text[80] = "";
    size_t used = 0;
    if (isfinite(loss))
        used = (size_t)snprintf(text, sizeof text, "%s nats", weft_loss_text(loss).text);
    if (used && isfinite(accuracy))
        snprintf(text + used, sizeof text - used, ", accuracy %.1f %%", 100 * accuracy);
    list(l, name, text);
}

static void list_losses(const struct listing *l, const struct weft_runlog *log)
{
    const struct weft_curve *val = &log->val;
    int64_t best = 0;
    char text[80];
    for (int64_t i = 1; i < val->count; i++)
        if (val->loss[i] < val->loss[best])
            best = i;
    if (log->train.count)
        list_score(l, "Training loss", log->train.loss[log->train.count - 1], NAN);
    if (val->count)
        list_score(l, "Validation loss", val->loss[val->count - 1], log->val_accuracy);
    if (val->count && val->loss[best] < val->loss[val->count - 1]) {
        snprintf(text, sizeof text, "%s nats, at step %lld", weft_loss_text(val->loss[best]).text,
                 (long long)val->step[best]);
        list(l, "Smallest validation loss", text);
    }
    list_score(l, "Test loss", log->test_loss, log->test_accuracy);
}

static void list_costs(const struct listing *l, const struct weft_run_report *run)
{
    const struct weft_result_arm *arm = &run->of.arm[0];
    char text[80];
    snprintf(text, sizeof text, "%lld of %lld", (long long)run->log.steps, (long long)run->steps);
    list(l, "Steps", text);
    if (isfinite(run->log.tokens))
        list(l, "Tokens trained on", weft_count_text(run->log.tokens).text);
    list(l, "Parameters", weft_count_text((double)arm->params).text);
    list(l, "FLOPs per token", weft_count_text(arm->flops).text);
    list(l, "Weights, gradients and moments", weft_bytes_text((double)arm->state_bytes).text);
    list(l, "Cache per token", weft_bytes_text(arm->cache_bytes).text);
}

static void list_time(const struct listing *l, const struct weft_runlog *log)
{
    char text[40];
    if (isfinite(log->tokens_per_s))
        l->figure(l->context, "Tokens/s", weft_count_text(log->tokens_per_s).text, true);
    snprintf(text, sizeof text, "%.1f s", log->seconds);
    if (isfinite(log->seconds))
        l->figure(l->context, "Time", text, true);
}

void weft_run_figures(const struct weft_run_report *run, weft_figure_fn *figure, void *context)
{
    struct listing l = {figure, context};
    const struct weft_runlog *log = &run->log;
    char text[80] = "";
    list_losses(&l, log);
    list_costs(&l, run);
    list_time(&l, log);
    if (log->gates_checks >= 0)
        snprintf(text, sizeof text, "%lld of %lld checks passed", (long long)(log->gates_checks - log->gates_failed),
                 (long long)log->gates_checks);
    list(&l, "Gates", text);
    list(&l, "weft", log->version);
    list(&l, "Instruction set", log->isa);
    list(&l, "SHA-256 of the weights", log->weights_sha256);
    list(&l, "SHA-256 of the samples", log->stream_sha256);
}

void weft_run_notes(const struct weft_run_report *run, weft_note_fn *note, void *context)
{
    char text[200];
    if (!run->finished) {
        snprintf(text, sizeof text, "The run is not finished: its log ends at step %lld of %lld%s.",
                 (long long)run->log.steps, (long long)run->steps,
                 run->log.steps >= run->steps ? ", without a score" : "");
        note(context, true, text);
    }
    if (run->log.gates_failed > 0) {
        snprintf(text, sizeof text, "%lld of %lld gate checks failed, so the model does not match its config.",
                 (long long)run->log.gates_failed, (long long)run->log.gates_checks);
        note(context, true, text);
    }
    note(context, false,
         "A single run does not show the noise between seeds: a different seed gives a different loss.");
}
