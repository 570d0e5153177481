/* SPDX-License-Identifier: MIT
 *
 * audit - repeats runs, or segments of them, and compares the results with their logs.
 */
#include "run/audit.h"
#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/kit/progress.h"
#include "dnn/dnn.h"
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct args {
    struct weft_common common;
    const char *folder, *data, *resume;
    int64_t segments, seed;
};

static const struct weft_arg table[] = {
    {NULL, 0, "DIR", WEFT_ARG_FOLDER, offsetof(struct args, folder), .help = "Folder of a run or of a study",
     .missing = "nothing to audit: pass the folder of a run or of a study"},
    {"segments", 'n', "N", WEFT_ARG_INT, offsetof(struct args, segments), .initial = "0", .min = 1, .max = INFINITY,
     .help = "Repeat only N segments of every run, randomly drawn from those between checkpoints"},
    {"seed", 0, "N", WEFT_ARG_INT, offsetof(struct args, seed), .initial = "0", .min = 0, .max = INFINITY,
     .help = "Draw the segments with this seed"},
    {"data", 'd', "DIR", WEFT_ARG_FOLDER, offsetof(struct args, data),
     .help = "Read the data of task=text from this path if it has moved; it must be the same data"},
    {"resume", 'r', "FILE", WEFT_ARG_FILE, offsetof(struct args, resume),
     .help = "Append the segments that pass to FILE and skip those already in it, so that a stopped audit can be "
             "continued"},
    {0},
};

struct view {
    struct weft_line line;
    const char *folder;
    int64_t last;
};

struct total {
    int64_t arms, runs, failed, missing, segments, segments_done, segments_before, steps, steps_done, changes;
};

static void print_segment(void *context, int64_t first, int64_t last)
{
    struct view *v = context;
    v->last = last;
    weft_line_init(&v->line, (double)first);
}

static void print_progress(void *context, const struct weft_progress *now)
{
    struct view *v = context;
    weft_line_show(&v->line, (double)now->step, (double)v->last, "%s  step %lld/%lld", v->folder, (long long)now->step,
                   (long long)v->last);
}

/* Checks the records that can be compared without training, as reports do. */
static enum weft_status check_records(const char *folder)
{
    struct weft_results r;
    enum weft_status status = weft_results_single(&r, folder);
    weft_results_release(&r);
    return status;
}

static enum weft_status repeat(const struct args *a, struct weft_audit *audit, struct view *v)
{
    *audit = (struct weft_audit){.folder = v->folder,
                                 .data = a->data,
                                 .segments = a->segments,
                                 .seed = (uint64_t)a->seed,
                                 .passed = a->resume,
                                 .context = v,
                                 .on_progress = print_progress,
                                 .on_segment = print_segment};
    enum weft_status status = weft_audit_run(audit);
    weft_line_end(&v->line);
    return status;
}

/* Audits one run. A failure is reported and does not stop the audit of the other runs. */
static enum weft_status audit_run(const struct args *a, const char *folder, struct total *total)
{
    struct weft_audit audit = {0};
    struct view view = {.folder = folder};
    weft_line_init(&view.line, 0);
    enum weft_status status = check_records(folder);
    if (status == WEFT_OK)
        status = repeat(a, &audit, &view);
    total->runs++;
    total->segments += audit.segments_there;
    total->segments_done += audit.segments_done;
    total->segments_before += audit.segments_before;
    total->steps += audit.steps_there;
    total->steps_done += audit.steps_done;
    total->changes += audit.changes;
    if (status == WEFT_NOMEM)
        return status;
    total->failed += status != WEFT_OK;
    if (status != WEFT_OK)
        weft_say(stderr, "FAILED %s: %s\n", folder, weft_error());
    else
        weft_say(stderr, "passed %s\n", folder);
    weft_error_clear();
    return WEFT_OK;
}

static void print_missing(void *context, bool warning, const char *text)
{
    (void)context, (void)warning;
    weft_say(stderr, "MISSING %s\n", text);
}

static enum weft_status audit_gates(const struct args *a, const struct weft_results *r, int arm, struct total *total)
{
    bool there = false;
    enum weft_status status = weft_results_check_gates(r, arm, a->data, &there);
    if (status == WEFT_NOMEM)
        return status;
    total->arms += there;
    total->failed += status != WEFT_OK;
    if (status != WEFT_OK)
        weft_say(stderr, "FAILED gates of %s: %s\n", r->arm[arm].name, weft_error());
    else if (there)
        weft_say(stderr, "passed gates of %s\n", r->arm[arm].name);
    weft_error_clear();
    return WEFT_OK;
}

/* The plan, the costs of its arms and the ledger are verified when they are read. */
static enum weft_status audit_study(const struct args *a, struct total *total)
{
    struct weft_results r;
    enum weft_status status = weft_results_load(&r, a->folder);
    if (status == WEFT_OK)
        total->missing = weft_results_missing(&r, print_missing, NULL);
    for (int i = 0; status == WEFT_OK && i < r.arm_count; i++)
        status = audit_gates(a, &r, i, total);
    for (int i = 0; status == WEFT_OK && i < r.arm_count; i++)
        for (int k = 0; status == WEFT_OK && k < r.arm[i].run_count; k++)
            status = audit_run(a, r.arm[i].run[k].folder, total);
    weft_results_release(&r);
    return status;
}

static enum weft_status print(const struct args *a, const struct total *t)
{
    struct weft_result *r = weft_result_create();
    weft_result_int(r, "arms", t->arms);
    weft_result_int(r, "runs", t->runs);
    weft_result_int(r, "failed", t->failed);
    weft_result_int(r, "missing", t->missing);
    weft_result_int(r, "segments", t->segments);
    weft_result_int(r, "segments_repeated", t->segments_done - t->segments_before);
    weft_result_int(r, "segments_passed_before", t->segments_before);
    weft_result_int(r, "steps", t->steps);
    weft_result_int(r, "steps_repeated", t->steps_done);
    weft_result_int(r, "changes", t->changes);
    weft_result_real(r, "forged_segment_passes", t->segments ? 1 - (double)t->segments_done / (double)t->segments : 1);
    weft_result_int(r, "seed", a->seed);
    weft_result_text(r, "isa", weft_dnn_path());
    weft_result_int(r, "threads", weft_threads());
    return weft_result_finish(r, stdout, a->common.json);
}

static bool has(const char *folder, const char *name)
{
    char path[4200];
    snprintf(path, sizeof path, "%.4095s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* A folder that is neither a run nor a study is a usage error, not a failed audit. */
static enum weft_status check_folder(const char *folder)
{
    if (access(folder, F_OK))
        return FAIL(WEFT_INVALID, "there is no folder %s", folder);
    TRY(weft_folder_is_plain(folder));
    if (!has(folder, "study.json") && !has(folder, "config.json") && !has(folder, "log.jsonl"))
        return FAIL(WEFT_INVALID,
                    "%s is neither a study folder nor a run folder: it has no study.json, config.json or log.jsonl",
                    folder);
    return WEFT_OK;
}

static enum weft_status run(void *args)
{
    const struct args *a = args;
    struct total total = {0};
    TRY(check_folder(a->folder));
    TRY(has(a->folder, "study.json") ? audit_study(a, &total) : audit_run(a, a->folder, &total));
    TRY(print(a, &total));
    if (total.failed)
        return FAIL(WEFT_CHECK, "%lld of %lld runs and arms did not pass: see the lines above", (long long)total.failed,
                    (long long)(total.runs + total.arms));
    if (total.missing)
        return FAIL(WEFT_CHECK, "the study is incomplete: %lld runs are missing or do not count; they are named above",
                    (long long)total.missing);
    return WEFT_OK;
}

const struct weft_cmd weft_cmd_audit = {
    .name = "audit",
    .summary = "repeat runs and compare them with their logs",
    .doc =
        "Checks the hashes in the folder of a run, or of all runs of a study, and repeats the training: from the "
        "initial weights to the newest checkpoint or, with --segments, between some of the checkpoints. Every record "
        "of the log must be reproduced bit by bit: the loss of every step, scores, weights and moments. Any machine "
        "and any number of threads will do. Parts of a run that was resumed with different options are repeated with "
        "the options in effect at the time. For a study, it also compares the plan, the costs of the arms and the "
        "results of their gates, and fails if a planned run is missing. Nothing in the folder is changed.",
    .notes = "forged_segment_passes is the probability that a run with one forged segment passes: the fraction of "
             "segments that were not repeated. No audit can show that the plan existed before the runs (publish "
             "plan_sha256 beforehand), that no other studies were run and discarded, or on which machine the runs were "
             "made. See docs/trust.md.",
    .args = table,
    .takes = WEFT_TAKES_THREADS | WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
