/* SPDX-License-Identifier: MIT
 *
 * results_logs.c - compares the ledger's and the plan's values of a run with its log.
 */
#include "report/read/results.h"

#include <math.h>
#include <string.h>

/* Compares the gates of a run with those of its arm in the plan. A plan for different hosts checks only small copies of
 * the model, and its runs check more. Otherwise, the gates of the run must have passed if and only if those of the plan
 * did; only the number of checks may differ, because it depends on instruction sets, threads and time. */
static enum weft_status check_gates(const struct weft_results *r, struct weft_result_arm *arm,
                                    const struct weft_finished *run, const struct weft_runlog *log)
{
    if (!arm->gates_itself || !weft_results_same_isa(r, log->isa)) {
        arm->gates_checks = (int)weft_max(arm->gates_checks, log->gates_checks);
        arm->gates_failed = (int)weft_max(arm->gates_failed, log->gates_failed);
        return WEFT_OK;
    }
    if (!log->gates_failed == !arm->gates_failed && (log->gates_checks > 0) == (arm->gates_checks > 0))
        return WEFT_OK;
    return FAIL(WEFT_FORMAT,
                "study.json records that %d of %d checks of the gates of %s failed, but the log of %s has %lld of "
                "%lld: one of them was edited",
                arm->gates_failed, arm->gates_checks, arm->name, run->folder, (long long)log->gates_failed,
                (long long)log->gates_checks);
}

/* Checks that the log names the plan that the run was trained for, and that its gates match the arm's. */
static enum weft_status check_bound(const struct weft_results *r, struct weft_result_arm *arm,
                                    const struct weft_finished *run, const struct weft_runlog *log)
{
    if (!*log->plan_sha256 || !*log->gates_sha256)
        return FAIL(WEFT_FORMAT,
                    "%s/log.jsonl does not name the plan that the run was trained for, or its gates: it is not a run "
                    "of this study, or an unreleased version of Weft wrote it",
                    run->folder);
    if (!r->plan_recorded || strcmp(log->plan_sha256, r->plan_sha256) != 0)
        return FAIL(WEFT_FORMAT,
                    "%s was trained for the plan %.16s..., but study.json has the plan %.16s...: the plan was edited "
                    "after the run, or the run belongs to a different study",
                    run->folder, log->plan_sha256, r->plan_recorded ? r->plan_sha256 : "(not recorded)");
    return check_gates(r, arm, run, log);
}

/* Returns the mean of the losses logged between two fractions of the steps; NAN: there are none. */
static double mean_loss(const struct weft_curve *c, double after, double up_to)
{
    double sum = 0;
    int64_t count = 0, steps = c->count ? c->step[c->count - 1] : 0;
    for (int64_t i = 0; i < c->count; i++)
        if ((double)c->step[i] > after * (double)steps && (double)c->step[i] <= up_to * (double)steps) {
            sum += c->loss[i];
            count++;
        }
    return count ? sum / (double)count : NAN;
}

enum weft_status weft_result_check_log(struct weft_results *r, struct weft_result_arm *arm, struct weft_finished *run)
{
    struct weft_runlog log;
    TRY(weft_runlog_load(&log, run->folder, &r->arena));
    run->fall = mean_loss(&log.train, 0.8, 0.9) - mean_loss(&log.train, 0.9, 1);
    if (!*run->chain && !*log.chain) { /* a run of release 0.1.0, or its folder was removed */
        r->unbound++;
        return WEFT_OK;
    }
    const struct {
        const char *name;
        bool same;
    } checks[] = {
        {"chain", strcmp(log.chain, run->chain) == 0},
        {"weights_sha256", strcmp(log.weights_sha256, run->weights_sha256) == 0},
        {"val_loss", log.val.count && log.val.loss[log.val.count - 1] == run->val_loss},
        {"val_accuracy", log.val_accuracy == run->val_accuracy},
        {"test_loss", log.test_loss == run->test_loss},
        {"test_accuracy", log.test_accuracy == run->test_accuracy},
        {"params", log.params == run->params},
        {"steps", log.steps == run->steps},
        {"stream_sha256", strcmp(log.stream_sha256, run->stream_sha256) == 0},
        {"train_loss", log.train_loss == run->train_loss},
        {"config_sha256", strcmp(log.config_sha256, run->config_sha256) == 0},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (!checks[i].same)
            return FAIL(WEFT_FORMAT,
                        "%s/runs.jsonl and the log of %s, seed %lld, do not agree: %s differs%s. One of them was "
                        "changed after the run",
                        r->folder, run->arm, (long long)run->seed, checks[i].name,
                        log.exists ? "" : " (the log is missing)");
    return check_bound(r, arm, run, &log);
}
