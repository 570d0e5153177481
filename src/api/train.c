/* SPDX-License-Identifier: MIT
 *
 * train.c - runs training like `weft train`, reports progress by callback, and can be stopped from another thread.
 */
#include "api/api.h"
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

/* ---- stopping */

enum weft_status weft_cancel_create(struct weft_cancel **cancel)
{
    GIVEN(cancel);
    *cancel = calloc(1, sizeof **cancel);
    return *cancel ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory");
}

void weft_cancel_free(struct weft_cancel *cancel) { free(cancel); }

void weft_cancel_set(struct weft_cancel *cancel)
{
    if (cancel)
        cancel->set = 1;
}

/* ---- a run */

static void report_progress(void *context, const struct weft_progress *now)
{
    const struct weft_train_options *o = context;
    struct weft_train_progress p = {.step = now->step,
                                    .steps = now->steps,
                                    .tokens = now->tokens,
                                    .loss = now->losses.list[0].value,
                                    .tokens_per_s = now->tokens_per_s,
                                    .seconds_left = now->seconds_left};
    if (o->on_progress)
        o->on_progress(o->context, &p);
}

static void report_check(void *context, const struct weft_check *check)
{
    const struct weft_train_options *o = context;
    if (o->on_failed_check)
        o->on_failed_check(o->context, check);
}

static void give_result(const struct weft_run *run, struct weft_train_result *to)
{
    *to = (struct weft_train_result){.finished = run->finished,
                                     .steps = run->progress.step,
                                     .loss = run->loss,
                                     .seconds = run->seconds,
                                     .gates_checks = run->gates_checks,
                                     .gates_failed = run->gates_failed};
    if (run->finished) {
        to->val_loss = run->scores.val.loss;
        to->val_accuracy = run->scores.val.accuracy;
        to->test_loss = run->scores.test.loss;
        to->test_accuracy = run->scores.test.accuracy;
    }
    memcpy(to->weights_sha256, run->weights_sha256, sizeof to->weights_sha256);
    memcpy(to->chain, run->chain, sizeof to->chain);
}

static enum weft_status train(struct weft_resolved *r, const struct weft_train_options *o,
                              struct weft_train_result *result)
{
    if (!(o->seconds >= 0)) /* also rejects NAN */
        return FAIL(WEFT_INVALID, "seconds is %g: pass 0 or more", o->seconds);
    struct weft_run run = {.spec = &r->spec,
                           .recipe = &r->recipe,
                           .settings = &r->settings,
                           .folder = o->folder,
                           .resume = o->resume,
                           .unsafe = o->unsafe,
                           .deadline = o->seconds > 0 ? weft_seconds() + o->seconds : 0,
                           .stop = o->cancel ? &o->cancel->set : NULL,
                           .context = (void *)o,
                           .on_failed_check = report_check,
                           .on_progress = report_progress};
    enum weft_status status = weft_run_train(&run);
    if (status == WEFT_OK && result)
        give_result(&run, result);
    bool finished = run.finished;
    long long step = run.progress.step, steps = run.progress.steps;
    weft_run_release(&run);
    TRY(status);
    if (!finished)
        return FAIL(WEFT_STOPPED, "stopped after step %lld of %lld%s", step, steps,
                    o->folder ? ", saved: train with `resume` to continue"
                              : "; nothing was saved, because no folder was passed");
    return WEFT_OK;
}

enum weft_status weft_train(const struct weft_config *config, const struct weft_train_options *options,
                            struct weft_train_result *result)
{
    static const struct weft_train_options none;
    const struct weft_train_options *o = options ? options : &none;
    GIVEN(config);
    TRY(weft_threads_valid(o->threads));
    if (result)
        *result = (struct weft_train_result){.finished = false};
    if (o->resume && !o->folder)
        return FAIL(WEFT_INVALID, "`resume` needs the folder of the run to continue: set `folder`");
    struct weft_resolved r;
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, o->threads);
    enum weft_status status = weft_config_resolve(config, &r);
    if (status == WEFT_OK)
        status = train(&r, o, result);
    weft_resolved_release(&r);
    weft_threads_leave(&scope);
    return status;
}
