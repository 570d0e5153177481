/* SPDX-License-Identifier: MIT
 *
 * log.c - log.jsonl, a record a line: the head (step 0), losses, scores, diagnoses, fingerprints of the weights.
 *
 * Every record begins with its step and is a function of that step, except for `tokens_per_s` and `seconds`, which
 * stand last. So the log of a run that was killed and resumed, cut back to where it was resumed, is that of one never
 * killed.
 */
#define _GNU_SOURCE
#include "base/json.h"
#include "train/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A record while it is made. Its numbers are also events for TensorBoard, "train/loss" and the like. */
struct draft {
    struct weft_record *record;
    int64_t step;
    struct weft_result *r;
    enum weft_status status; /* of the events */
};

static struct draft begin(struct weft_record *record, int64_t step)
{
    struct draft draft = {record, step, weft_result_create(), WEFT_OK};
    weft_result_int(draft.r, "step", step);
    return draft;
}

static void add_event(struct draft *draft, const char *group, const char *name, double value)
{
    char tag[96];
    snprintf(tag, sizeof tag, "%s/%s", group, name);
    if (draft->status == WEFT_OK)
        draft->status = weft_events_add(draft->record, draft->step, tag, value);
}

static void add_real(struct draft *draft, const char *group, const char *name, double value)
{
    weft_result_real(draft->r, name, value);
    add_event(draft, group, name, value);
}

static void add_int(struct draft *draft, const char *group, const char *name, int64_t value)
{
    weft_result_int(draft->r, name, value);
    add_event(draft, group, name, (double)value);
}

static enum weft_status finish(struct draft *draft)
{
    enum weft_status status = weft_result_print(draft->r, draft->record->log, true);
    weft_result_free(draft->r);
    if (status != WEFT_OK)
        return FAIL(WEFT_IO, "%s/log.jsonl cannot be written: is the disk full?", draft->record->folder);
    TRY(draft->status);
    return WEFT_OK;
}

enum weft_status weft_log_head(struct weft_record *record, const struct weft_trainer *t)
{
    struct draft draft = begin(record, 0);
    weft_result_text(draft.r, "weft", weft_version());
    weft_result_text(draft.r, "isa", weft_dnn_path());
    weft_result_text(draft.r, "preset", t->model->spec->preset);
    weft_result_text(draft.r, "task", t->recipe->task->name);
    add_int(&draft, "run", "params", t->model->params.elements);
    add_int(&draft, "run", "gates_checks", record->gates_checks);
    add_int(&draft, "run", "gates_failed", record->gates_failed);
    return finish(&draft);
}

/* A kill may have come between this record and the change. */
enum weft_status weft_log_change(struct weft_record *record, int64_t step)
{
    char *text = NULL;
    size_t bytes;
    struct draft draft = begin(record, step);
    weft_result_text(draft.r, "changed", record->changes);
    FILE *memory = open_memstream(&text, &bytes);
    enum weft_status status =
        memory ? weft_result_print(draft.r, memory, true) : FAIL(WEFT_NOMEM, "not enough memory for a record");
    if (memory)
        fclose(memory);
    bool again = status == WEFT_OK && record->last && strcmp(text, record->last) == 0;
    free(text);
    if (status == WEFT_OK && !again)
        return finish(&draft);
    weft_result_free(draft.r);
    return status;
}

enum weft_status weft_log_losses(struct weft_record *record, const struct weft_trainer *t,
                                 const struct weft_progress *now)
{
    struct draft draft = begin(record, t->step);
    const struct weft_loss *total = now->losses.list;
    weft_result_real(draft.r, total->name, total->value);
    add_event(&draft, "train", "loss", total->value);
    for (int i = 1; i < now->losses.count; i++)
        add_real(&draft, "train", now->losses.list[i].name, now->losses.list[i].value);
    add_real(&draft, "train", "lr", weft_recipe_lr(t->recipe, t->step));
    add_real(&draft, "train", "grad_norm", t->grad_norm);
    add_int(&draft, "train", "tokens", now->tokens);
    add_real(&draft, "train", "tokens_per_s", now->tokens_per_s);
    add_real(&draft, "train", "seconds", t->seconds);
    return finish(&draft);
}

static void add_score(struct draft *draft, const char *split, const struct weft_score *score)
{
    char name[32];
    snprintf(name, sizeof name, "%s_loss", split);
    weft_result_real(draft->r, name, score->loss);
    add_event(draft, split, "loss", score->loss);
    snprintf(name, sizeof name, "%s_accuracy", split);
    weft_result_real(draft->r, name, score->accuracy);
    add_event(draft, split, "accuracy", score->accuracy);
}

enum weft_status weft_log_scores(struct weft_record *record, const struct weft_trainer *t,
                                 const struct weft_scores *scores)
{
    struct draft draft = begin(record, t->step);
    add_score(&draft, "val", &scores->val);
    if (t->step == t->recipe->steps)
        add_score(&draft, "test", &scores->test);
    add_real(&draft, "val", "seconds", t->seconds);
    return finish(&draft);
}

enum weft_status weft_log_diagnosis(struct weft_record *record, const struct weft_trainer *t)
{
    char name[64];
    const struct weft_diagnosis *d = &t->diagnosis;
    struct draft draft = begin(record, t->step);
    for (const struct weft_metric *m = d->list; m < d->list + d->count; m++) {
        add_real(&draft, "diagnostics", m->name, m->mean);
        for (int layer = 0; layer < d->layers; layer++) {
            snprintf(name, sizeof name, "%s/layer%d", m->name, layer);
            add_real(&draft, "diagnostics", name, m->layer[layer]);
        }
    }
    add_real(&draft, "diagnostics", "seconds", t->seconds);
    return finish(&draft);
}

enum weft_status weft_log_weights(struct weft_record *record, const struct weft_trainer *t, const char *hash)
{
    struct draft draft = begin(record, t->step);
    weft_result_text(draft.r, "weights_sha256", hash);
    weft_result_text(draft.r, "stream_sha256", *t->stream ? t->stream : "unknown");
    add_real(&draft, "weights", "seconds", t->seconds);
    return finish(&draft);
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
