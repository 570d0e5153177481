/* SPDX-License-Identifier: MIT
 *
 * run.c - reports a single run from its folder: the model, its progress and its figures. The report does not depend on
 * the folder's name, so a copy of the folder gives an identical report.
 */
#include "base/json.h"
#include "report/read/results.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 2, MOST_SAMPLES = 1 << 16 }; /* bytes of samples.txt */

static bool has(const char *folder, const char *name)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && access(path, F_OK) == 0;
}

bool weft_report_is_run(const char *folder) { return !has(folder, "study.json") && has(folder, "config.json"); }

/* ---- the headline */

static const char *option(const struct weft_run_report *run, const char *name)
{
    const char *value = weft_result_option(&run->of.arm[0], name);
    return value ? value : "";
}

static void write_headline(struct weft_run_report *run)
{
    const struct weft_runlog *log = &run->log;
    const struct weft_curve *c = run->finished ? &log->val : &log->train;
    bool test = run->finished && isfinite(log->test_loss);
    double loss = test ? log->test_loss : c->count ? c->loss[c->count - 1] : NAN;
    double accuracy = test ? log->test_accuracy : run->finished ? log->val_accuracy : NAN;
    char of[40] = "", right[40] = "";
    const char *task = option(run, "task");
    snprintf(run->title, sizeof run->title, *task ? "%.50s on %.50s" : "%.50s", option(run, "preset"), task);
    if (!run->finished)
        snprintf(of, sizeof of, " of %lld", (long long)run->steps);
    if (isfinite(accuracy))
        snprintf(right, sizeof right, ", accuracy %.1f %%", 100 * accuracy);
    if (c->count)
        snprintf(run->headline, sizeof run->headline, "%s: %s loss %s nats after %lld%s steps%s.", run->title,
                 test            ? "test"
                 : run->finished ? "validation"
                                 : "not finished, training",
                 weft_loss_text(loss).text, (long long)log->steps, of, right);
    else
        snprintf(run->headline, sizeof run->headline, "%s: no loss has been logged yet (%lld steps planned).",
                 run->title, (long long)run->steps);
}

/* ---- the folder */

/* Reads samples.txt, which the user may have written, for example with `weft generate`; its contents are not
 * trusted. */
static enum weft_status load_samples(struct weft_run_report *run, const char *folder)
{
    char path[4096], *text = NULL;
    size_t bytes, room;
    if (!has(folder, "samples.txt"))
        return WEFT_OK;
    snprintf(path, sizeof path, "%s/samples.txt", folder);
    enum weft_status status = weft_slurp(path, MOST_SAMPLES, &text, &bytes);
    if (status == WEFT_OK) {
        room = 4 * bytes + 1;
        run->samples = malloc(room);
        if (run->samples)
            weft_text_escape(text, run->samples, room);
        else
            status = FAIL(WEFT_NOMEM, "not enough memory for %s", path);
    }
    free(text);
    return status;
}

static enum weft_status load(struct weft_run_report *run, const char *folder)
{
    if (!has(folder, "log.jsonl"))
        return FAIL(WEFT_INVALID,
                    "%s has a config, but no log.jsonl: pass the folder of a run, as `weft train --out` creates it, "
                    "not a checkpoint or a model",
                    folder);
    TRY(weft_results_single(&run->of, folder));
    TRY(weft_runlog_load(&run->log, folder, &run->of.arena));
    TRY(load_samples(run, folder));
    const struct weft_curve *val = &run->log.val;
    run->steps = strtoll(option(run, "steps"), NULL, 10);
    run->finished = run->log.steps >= run->steps && val->count && val->step[val->count - 1] >= run->steps;
    write_headline(run);
    return WEFT_OK;
}

static void add_json(const struct weft_run_report *run, struct weft_result *to)
{
    const struct weft_runlog *log = &run->log;
    const struct weft_curve *train = &log->train, *val = &log->val;
    weft_result_text(to, "headline", run->headline);
    weft_result_text(to, "preset", option(run, "preset"));
    weft_result_text(to, "task", option(run, "task"));
    weft_result_int(to, "finished", run->finished);
    weft_result_int(to, "steps", log->steps);
    weft_result_int(to, "steps_planned", run->steps);
    weft_result_int(to, "params", run->of.arm[0].params);
    weft_result_real(to, "train_loss", train->count ? train->loss[train->count - 1] : NAN);
    weft_result_real(to, "val_loss", val->count ? val->loss[val->count - 1] : NAN);
    weft_result_real(to, "val_accuracy", log->val_accuracy);
    weft_result_real(to, "test_loss", log->test_loss);
    weft_result_real(to, "test_accuracy", log->test_accuracy);
    weft_result_text(to, "weights_sha256", log->weights_sha256);
}

enum weft_status weft_report_write_run(const char *folder, char headline[WEFT_VERDICT_TEXT], struct weft_result *to)
{
    struct weft_run_report run = {0};
    struct weft_report_file files[FILES] = {{0}};
    enum weft_status status = load(&run, folder);
    if (status == WEFT_OK)
        status = weft_report_file_make(&files[0], weft_run_page, &run);
    if (status == WEFT_OK)
        status = weft_report_file_make(&files[1], weft_run_markdown, &run);
    if (status == WEFT_OK)
        status = weft_report_save(folder, files, FILES);
    if (status == WEFT_OK) {
        memcpy(headline, run.headline, sizeof run.headline);
        add_json(&run, to);
    }
    for (int i = 0; i < FILES; i++)
        free(files[i].text);
    free(run.samples);
    weft_results_release(&run.of);
    return status;
}
