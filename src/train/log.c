/* SPDX-License-Identifier: MIT
 *
 * log.c - log.jsonl, a record a line: the head (step 0), losses, evaluations, diagnoses, fingerprints of the weights.
 *
 * Every record begins with its step and is a function of that step, but for `tokens_per_s` and `seconds`, which stand
 * last. So the log of a run that was killed and went on, cut back to where it went on from, is that of one never
 * killed.
 */
#define _GNU_SOURCE
#include "base/json.h"
#include "train/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum weft_status write_record(struct weft_record *record, struct weft_result *r)
{
    enum weft_status status = weft_result_print(r, record->log, true);
    weft_result_free(r);
    if (status != WEFT_OK)
        return FAIL(WEFT_IO, "%s/log.jsonl cannot be written: is the disk full?", record->folder);
    return WEFT_OK;
}

static struct weft_result *begin_record(int64_t step)
{
    struct weft_result *r = weft_result_create();
    weft_result_int(r, "step", step);
    return r;
}

enum weft_status weft_log_head(struct weft_record *record, const struct weft_trainer *t)
{
    struct weft_result *r = begin_record(0);
    weft_result_text(r, "weft", weft_version());
    weft_result_text(r, "isa", weft_isa_name(weft_isa()));
    weft_result_text(r, "preset", t->model->spec->preset);
    weft_result_text(r, "task", t->recipe->task->name);
    weft_result_int(r, "params", t->model->params.elements);
    weft_result_int(r, "gates_checks", record->gates_checks);
    weft_result_int(r, "gates_failed", record->gates_failed);
    TRY(write_record(record, r));
    return WEFT_OK;
}

/* A kill may have come between this record and what it tells of. */
enum weft_status weft_log_change(struct weft_record *record, int64_t step)
{
    char *text = NULL;
    size_t bytes;
    struct weft_result *r = begin_record(step);
    weft_result_text(r, "changed", record->changes);
    FILE *memory = open_memstream(&text, &bytes);
    enum weft_status status = memory ? weft_result_print(r, memory, true) : FAIL(WEFT_NOMEM, "no memory for a record");
    if (memory)
        fclose(memory);
    bool again = status == WEFT_OK && record->last && strcmp(text, record->last) == 0;
    free(text);
    if (status == WEFT_OK && !again)
        return write_record(record, r);
    weft_result_free(r);
    return status;
}

enum weft_status weft_log_losses(struct weft_record *record, const struct weft_trainer *t,
                                 const struct weft_progress *now)
{
    struct weft_result *r = begin_record(t->step);
    for (int i = 0; i < now->losses.count; i++)
        weft_result_real(r, now->losses.list[i].name, now->losses.list[i].value);
    weft_result_real(r, "lr", weft_recipe_lr(t->recipe, t->step));
    weft_result_real(r, "grad_norm", t->grad_norm);
    weft_result_int(r, "tokens", now->tokens);
    weft_result_real(r, "tokens_per_s", now->tokens_per_s);
    weft_result_real(r, "seconds", t->seconds);
    TRY(write_record(record, r));
    TRY(weft_events_add(record, t->step, "train/loss", now->losses.list[0].value));
    TRY(weft_events_add(record, t->step, "train/lr", weft_recipe_lr(t->recipe, t->step)));
    return WEFT_OK;
}

enum weft_status weft_log_scores(struct weft_record *record, const struct weft_trainer *t,
                                 const struct weft_scores *scores)
{
    struct weft_result *r = begin_record(t->step);
    weft_result_real(r, "val_loss", scores->val.loss);
    weft_result_real(r, "val_accuracy", scores->val.accuracy);
    if (t->step == t->recipe->steps) {
        weft_result_real(r, "test_loss", scores->test.loss);
        weft_result_real(r, "test_accuracy", scores->test.accuracy);
    }
    weft_result_real(r, "seconds", t->seconds);
    TRY(write_record(record, r));
    TRY(weft_events_add(record, t->step, "val/loss", scores->val.loss));
    return WEFT_OK;
}

static enum weft_status log_finding(struct weft_record *record, int64_t step, struct weft_result *r, const char *name,
                                    double value)
{
    char tag[96];
    snprintf(tag, sizeof tag, "diagnostics/%s", name);
    weft_result_real(r, name, value);
    TRY(weft_events_add(record, step, tag, value));
    return WEFT_OK;
}

static enum weft_status log_findings(struct weft_record *record, int64_t step, struct weft_result *r,
                                     const struct weft_metric *f, int layers)
{
    char name[64];
    TRY(log_finding(record, step, r, f->name, f->mean));
    for (int layer = 0; layer < layers; layer++) {
        snprintf(name, sizeof name, "%s/layer%d", f->name, layer);
        TRY(log_finding(record, step, r, name, f->layer[layer]));
    }
    return WEFT_OK;
}

enum weft_status weft_log_diagnosis(struct weft_record *record, const struct weft_trainer *t)
{
    const struct weft_diagnosis *d = &t->diagnosis;
    struct weft_result *r = begin_record(t->step);
    enum weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < d->count; i++)
        status = log_findings(record, t->step, r, &d->list[i], d->layers);
    weft_result_real(r, "seconds", t->seconds);
    if (status == WEFT_OK)
        return write_record(record, r);
    weft_result_free(r);
    return status;
}

enum weft_status weft_log_weights(struct weft_record *record, const struct weft_trainer *t, const char *hash)
{
    struct weft_result *r = begin_record(t->step);
    weft_result_text(r, "weights_sha256", hash);
    weft_result_real(r, "seconds", t->seconds);
    TRY(write_record(record, r));
    return WEFT_OK;
}

enum weft_status weft_log_cut(struct weft_record *record, int64_t step, int64_t *kept)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    long long of;
    *kept = 0;
    rewind(record->log);
    while ((n = getline(&line, &room, record->log)) > 0 && line[n - 1] == '\n' &&
           sscanf(line, "{\"step\": %lld", &of) == 1 && of <= step) {
        *kept += n;
        free(record->last);
        record->last = strdup(line);
    }
    free(line);
    if (ftruncate(fileno(record->log), *kept) || fseek(record->log, 0, SEEK_END))
        return FAIL(WEFT_IO, "%s/log.jsonl cannot be cut back: %s", record->folder, strerror(errno));
    return WEFT_OK;
}
