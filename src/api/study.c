/* SPDX-License-Identifier: MIT
 *
 * study.c - runs studies like `weft ablate`, and reports their results.
 */
#include "api/api.h"
#include "report/report.h"
#include "simulate/simulate.h"
#include "study/ladder.h"
#include "study/queue.h"

#include <stdlib.h>

/* ---- running */

static void report_jobs(void *context, const struct weft_queue *q, const struct weft_job *job)
{
    const struct weft_ablate_options *o = context;
    (void)job;
    if (o->on_progress)
        o->on_progress(o->context, weft_queue_count(q, WEFT_DONE), q->count);
}

static enum weft_status check_jobs(const struct weft_queue *q)
{
    const struct weft_job *first = weft_queue_failure(q);
    if (first)
        return FAIL(WEFT_CHECK, "%lld of %lld runs failed, the first of them %s: %s",
                    (long long)weft_queue_count(q, WEFT_FAILED), (long long)q->count, first->run.folder,
                    first->message);
    if (!q->concluded)
        return FAIL(WEFT_STOPPED, "stopped and saved with %lld of %lld runs done",
                    (long long)weft_queue_count(q, WEFT_DONE), (long long)q->count);
    return WEFT_OK;
}

static enum weft_status run_queue(struct weft_queue *q, const struct weft_simulated *simulated)
{
    char copy[4096];
    const char *const command[] = {"ablate", "--config", copy, "--out", q->folder, NULL};
    TRY(weft_study_copy_path(q->study->name, q->folder, copy));
    TRY(weft_queue_init(q));
    TRY(weft_study_save(q->study, q->folder, command));
    TRY(weft_simulate_record(q->folder, simulated));
    TRY(weft_queue_run_looks(q));
    TRY(check_jobs(q));
    if (!weft_gates_skipped())
        TRY(weft_report_write(q->folder));
    return WEFT_OK;
}

static enum weft_status check_samples(const struct weft_study *s, bool unsafe)
{
    struct weft_first_samples found;
    enum weft_status status = weft_study_first_samples(s, &found);
    if (status != WEFT_CHECK || !unsafe)
        return status;
    weft_note_once("first samples", "%s", weft_error());
    weft_error_clear();
    return WEFT_OK;
}

static enum weft_status run(struct weft_study *s, const char *folder, const struct weft_ablate_options *o)
{
    struct weft_estimate e;
    struct weft_simulated simulated;
    TRY(weft_study_plan(s));
    TRY(weft_study_estimate(s, false, &e));
    if (*e.obstacle)
        return FAIL(WEFT_INVALID, "the study cannot run here; %s", e.obstacle);
    TRY(weft_study_fix_steps(s, folder, &e));
    TRY(weft_simulate_once(folder, o->unsafe, &simulated));
    TRY(check_samples(s, o->unsafe));
    TRY(weft_study_gates(s, true, NULL, NULL));
    if (!o->unsafe)
        TRY(weft_study_passes(s));
    struct weft_queue q = {.study = s,
                           .folder = folder,
                           .slots = e.slots,
                           .threads = e.threads,
                           .launching = {.unsafe = o->unsafe},
                           .signal = o->cancel ? &o->cancel->set : NULL,
                           .report = report_jobs,
                           .context = (void *)o};
    enum weft_status status = run_queue(&q, &simulated);
    weft_queue_release(&q);
    return status;
}

static enum weft_status conclude(const struct weft_study_ladder *l, const char *folder)
{
    struct weft_rungs *rungs = calloc(1, sizeof *rungs);
    enum weft_status status =
        rungs ? weft_rungs_conclude(rungs, l, folder) : FAIL(WEFT_NOMEM, "not enough memory for a ladder");
    if (rungs)
        weft_rungs_release(rungs);
    free(rungs);
    return status;
}

/* All rungs of a ladder, or the study itself. */
static enum weft_status run_rungs(struct weft_study_ladder *l, const char *folder, const struct weft_ablate_options *o)
{
    char path[4096];
    for (int i = 0; i < l->count; i++) {
        TRY(weft_study_ladder_folder(l, i, folder, path));
        TRY(run(&l->rung[i].study, path, o));
    }
    return l->count > 1 ? conclude(l, folder) : WEFT_OK;
}

enum weft_status weft_ablate(const char *config, const char *folder, const struct weft_ablate_options *options)
{
    static const struct weft_ablate_options none;
    const struct weft_ablate_options *o = options ? options : &none;
    GIVEN(config);
    GIVEN(folder);
    TRY(weft_program_check());
    struct weft_settings over = {0};
    struct weft_study_ladder *l = calloc(1, sizeof *l);
    enum weft_status status = l ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a study");
    for (int i = 0; o->settings && o->settings[i] && status == WEFT_OK; i++)
        status = weft_settings_add(&over, o->settings[i]);
    if (status == WEFT_OK)
        status = weft_study_ladder_init(l, config, &over);
    if (status == WEFT_OK)
        status = run_rungs(l, folder, o);
    if (l)
        weft_study_ladder_release(l);
    free(l);
    weft_settings_release(&over);
    return status;
}

/* ---- results */

static void give_arm(const struct weft_result_arm *arm, weft_arm_fn *fn, void *context)
{
    const struct weft_finding *f = &arm->found;
    fn(context, &(struct weft_arm_result){.name = arm->name,
                                          .settings = arm->description,
                                          .params = arm->params,
                                          .seeds = f->seeds,
                                          .lr = arm->lr,
                                          .loss = f->loss,
                                          .loss_sd = f->loss_sd,
                                          .difference = f->against.mean,
                                          .low = f->against.family.low,
                                          .high = f->against.family.high,
                                          .verdict = f->verdict,
                                          .text = f->text});
}

enum weft_status weft_study_results(const char *folder, weft_arm_fn *fn, void *context)
{
    struct weft_results r = {0};
    GIVEN(folder);
    GIVEN(fn);
    enum weft_status status = weft_results_load(&r, folder);
    if (status == WEFT_OK)
        status = weft_results_judge(&r);
    for (int i = 0; status == WEFT_OK && i < r.arm_count; i++)
        give_arm(&r.arm[i], fn, context);
    weft_results_release(&r);
    return status;
}
