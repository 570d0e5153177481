/* SPDX-License-Identifier: MIT
 *
 * run.c - carries out a training run: memory, gates, folder, steps, result.
 */
#include "run/run.h"
#include "ckpt/ckpt.h"
#include "dnn/dnn.h"
#include "train/account.h"
#include "train/prune/prune.h"
#include "train/record/internal.h"

#include <stdlib.h>
#include <string.h>

static bool is_first(const struct weft_run *run) { return !run->comm || run->comm->rank == 0; }

/* Fails on every rank if `mine` is an error on any rank. */
static enum weft_status join(const struct weft_run *run, const char *phase, enum weft_status mine)
{
    if (!run->comm)
        return mine;
    run->comm->phase = phase;
    return weft_comm_join(run->comm, mine);
}

static void note(struct weft_run *run, enum weft_run_notice notice)
{
    if (run->on_notice)
        run->on_notice(run->context, run, notice);
}

/* ---- gates: before the first step */

static void report_check(void *context, const struct weft_check *c)
{
    const struct weft_run *run = context;
    if (!c->passed && run->on_failed_check)
        run->on_failed_check(run->context, c);
}

static enum weft_status check_gates(struct weft_run *run, struct weft_gates *gates)
{
    double start = weft_seconds();
    *gates = (struct weft_gates){.on_check = report_check, .context = run};
    if (weft_gates_skipped()) {
        note(run, WEFT_RUN_GATES);
        return WEFT_OK;
    }
    TRY(weft_gates_run(run->spec, run->recipe, WEFT_GATES_ALL, gates));
    run->gates_checks = gates->checks;
    run->gates_failed = gates->failed;
    run->gates_seconds = weft_seconds() - start;
    if (gates->failed && !run->unsafe)
        return FAIL(WEFT_CHECK,
                    "%d of %d gate checks failed: the model does not compute what its options specify. Fix it, or pass "
                    "--unsafe to train it anyway",
                    gates->failed, gates->checks);
    note(run, WEFT_RUN_GATES);
    return WEFT_OK;
}

/* Uses the result in the folder if it is for the same config, program and instruction set. The record keeps the plan of
 * the study that the folder belongs to. */
static enum weft_status check_gates_once(struct weft_run *run, struct weft_record *record, const char *config_sha256)
{
    struct weft_gates before = {0}, gates;
    bool same = false;
    char path[4096];
    snprintf(path, sizeof path, "%s/gates.json", run->folder);
    TRY(weft_gate_record_load(path, config_sha256, &same, &before));
    gates = before;
    if (!same || (gates.failed && !run->unsafe)) {
        TRY(check_gates(run, &gates));
        memcpy(gates.plan_sha256, before.plan_sha256, sizeof gates.plan_sha256);
        if (record)
            TRY(weft_gate_record_save(path, config_sha256, &gates));
    }
    run->gates_checks = gates.checks;
    run->gates_failed = gates.failed;
    if (record) {
        record->gates_checks = gates.checks;
        record->gates_failed = gates.failed;
        memcpy(record->plan_sha256, gates.plan_sha256, sizeof record->plan_sha256);
        TRY(weft_sha256_within(path, WEFT_MAX_CONFIG_BYTES, record->gates_sha256));
    }
    return WEFT_OK;
}

/* ---- steps */

/* Samples are drawn independently, so they repeat if there are only a few distinct ones. */
static void note_repeats(struct weft_run *run)
{
    const struct weft_recipe *r = run->recipe;
    double read = (double)r->steps * (double)r->micro_batches * (double)run->spec->batch;
    run->different = r->task->different ? r->task->different(run->spec, r->task_options) : 0;
    if (run->different > 0 && read > run->different / 100)
        note(run, WEFT_RUN_REPEATS);
}

static enum weft_status resume(struct weft_run *run, struct weft_record *record, struct weft_learner *t)
{
    TRY(weft_record_begin(record, t));
    snprintf(run->changes, sizeof run->changes, "%s", record->changes);
    run->progress.step = t->step;
    if (t->step)
        note(run, WEFT_RUN_RESUMED);
    return WEFT_OK;
}

static enum weft_status take_steps(struct weft_run *run, struct weft_record *record, struct weft_learner *t)
{
    struct weft_loop loop;
    if (run->folder)
        TRY(join(run, "resuming", record ? resume(run, record, t) : weft_state_follow(t)));
    t->verify_every = run->verify_every;
    TRY(weft_loop_init(&loop, t));
    loop.folder = run->folder;
    loop.record = record;
    loop.report = run->on_progress;
    loop.context = run->context;
    loop.stop = run->stop;
    loop.deadline = run->deadline;
    note_repeats(run);
    run->progress = loop.progress;
    weft_dnn_note_speed(run->spec->compute);
    note(run, WEFT_RUN_BEGINS);
    enum weft_status status = weft_loop_run(&loop, &run->finished, &run->scores);
    run->progress = loop.progress;
    run->progress.diagnosis = NULL; /* the learner owns the diagnosis and is about to be freed */
    run->loss = t->loss;
    run->moment_bytes = 2 * t->moment_count * (int64_t)sizeof(float);
    run->seconds = t->seconds;
    memcpy(run->stream_sha256, t->stream, sizeof t->stream);
    return status;
}

/* ---- the whole run */

/* A run with a checkpoint does not need the source of its initial weights. */
static enum weft_status find_adopts(const struct weft_run *run, bool *adopts)
{
    char newest[4096];
    int64_t step = -1;
    if (run->folder && run->resume)
        TRY(weft_ckpt_latest(run->folder, NULL, NULL, &step, newest, sizeof newest));
    *adopts = step < 0 && *run->recipe->init;
    return WEFT_OK;
}

/* Checks the source of the initial weights before time is spent on gates. */
static enum weft_status check_adopts(const struct weft_run *run)
{
    bool adopts;
    TRY(find_adopts(run, &adopts));
    if (adopts)
        TRY(weft_nn_adopt(run->model, run->recipe->init, run->recipe->init_leave, NULL, NULL));
    return WEFT_OK;
}

static enum weft_status make_weights(struct weft_run *run)
{
    bool adopts;
    TRY(find_adopts(run, &adopts));
    if (!adopts)
        return weft_nn_init(run->model);
    TRY(weft_recipe_weights(run->recipe, run->model, run->on_weight, run->context));
    note(run, WEFT_RUN_ADOPTED);
    return WEFT_OK;
}

/* Fails before the first step if the ranks' configs, data, programs or initial weights differ. */
static enum weft_status agree(const struct weft_run *run, const char *config_sha256)
{
    struct weft_origin origin;
    char weights[65];
    if (!run->comm)
        return WEFT_OK;
    run->comm->phase = "comparing settings across ranks";
    TRY(weft_origin_find(&origin, run->recipe, 0));
    weft_params_hash(&run->model->params, weights);
    TRY(weft_comm_agree(run->comm, "config", config_sha256));
    TRY(weft_comm_agree(run->comm, "data", origin.text[WEFT_ORIGIN_DATA]));
    TRY(weft_comm_agree(run->comm, "program", origin.text[WEFT_ORIGIN_PROGRAM]));
    TRY(weft_comm_agree(run->comm, "set of initial weights", weights));
    return WEFT_OK;
}

static enum weft_status train(struct weft_run *run, struct weft_record *record, const char *config_sha256)
{
    struct weft_learner *t = NULL;
    struct weft_gates gates;
    TRY(join(run, "checking gates",
             run->folder ? check_gates_once(run, record, config_sha256) : check_gates(run, &gates)));
    TRY(join(run, "initialising weights", make_weights(run)));
    TRY(agree(run, config_sha256));
    enum weft_status status = weft_learner_create(&t, run->model, run->recipe, run->comm);
    if (status == WEFT_OK)
        status = take_steps(run, record, t);
    if (status == WEFT_OK)
        weft_params_hash(&run->model->params, run->weights_sha256);
    weft_learner_free(t);
    return status;
}

static enum weft_status train_in_folder(struct weft_run *run, const char *config_sha256)
{
    struct weft_record record = {0};
    enum weft_status status =
        join(run, "opening the folder",
             is_first(run) ? weft_record_open(&record, run->folder, run->resume, run->recipe, run->settings) : WEFT_OK);
    if (status == WEFT_OK)
        status = train(run, is_first(run) ? &record : NULL, config_sha256);
    if (status == WEFT_OK && is_first(run))
        memcpy(run->chain, record.chain.head, sizeof run->chain);
    if (is_first(run))
        weft_record_close(&record);
    return status;
}

static enum weft_status prepare(struct weft_run *run)
{
    if (run->comm)
        TRY(weft_recipe_ranks(run->recipe, run->comm->size));
    TRY(weft_recipe_open(run->recipe, run->spec));
    TRY(weft_nn_create(&run->model, run->spec));
    TRY(check_adopts(run));
    TRY(weft_pruning_check(run->recipe, run->model));
    TRY(weft_account_fit(run->model, run->recipe, run->comm ? run->comm->size : 1, weft_available_bytes()));
    return WEFT_OK;
}

enum weft_status weft_run_train(struct weft_run *run)
{
    char *config = NULL, config_sha256[65] = "";
    TRY(join(run, "preparing", prepare(run)));
    if (run->settings)
        TRY(weft_record_config(run->settings, &config, config_sha256));
    free(config);
    TRY(run->folder ? train_in_folder(run, config_sha256) : train(run, NULL, config_sha256));
    return WEFT_OK;
}

void weft_run_release(struct weft_run *run)
{
    weft_nn_free(run->model);
    run->model = NULL;
}
