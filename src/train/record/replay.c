/* SPDX-License-Identifier: MIT
 *
 * replay.c - replays a run in a folder: everything recorded must match its log.
 */
#include "train/record/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The trainer's model has its initial weights. */
static enum weft_status load(struct weft_record *record, const char *checkpoint, struct weft_learner *t,
                             struct weft_binding *binding)
{
    struct weft_origin before = {0};
    TRY(weft_state_load_from(t, checkpoint, &before, binding));
    record->changes = "";
    TRY(weft_record_compare_origin(record, &before));
    if (record->may_differ)
        return FAIL(WEFT_INVALID,
                    "%s was written by an engine (%s) whose results are not bit-identical to this one's (%s): this "
                    "engine cannot check them",
                    checkpoint, before.text[WEFT_ORIGIN_ISA], record->origin.text[WEFT_ORIGIN_ISA]);
    if (strcmp(binding->config, record->config_sha256) != 0)
        return FAIL(WEFT_CHECK, "%s was saved with options that differ from those in its log", checkpoint);
    return WEFT_OK;
}

static enum weft_status begin(struct weft_record *record, const char *checkpoint, struct weft_learner *t, FILE *log)
{
    struct weft_binding binding = {0};
    const char *initial = weft_record_path(record, "initial.json");
    TRY(initial ? weft_initial_check(t->model, initial) : FAIL(WEFT_NOMEM, "not enough memory for a path"));
    record->log = tmpfile();
    record->events = tmpfile();
    if (!record->log || !record->events)
        return FAIL(WEFT_IO, "cannot create a temporary file: %s", strerror(errno));
    TRY(weft_origin_find(&record->origin, t->recipe, 0));
    if (checkpoint)
        TRY(load(record, checkpoint, t, &binding));
    TRY(weft_log_expect(record, log, checkpoint ? &binding : NULL, t->step));
    if (!checkpoint)
        TRY(weft_log_head(record, t));
    return WEFT_OK;
}

static enum weft_status open_log(struct weft_record *record, FILE **log)
{
    const char *path = weft_record_path(record, "log.jsonl");
    if (!path)
        return FAIL(WEFT_NOMEM, "not enough memory for a path");
    TRY(weft_input_open(path, log));
    return WEFT_OK;
}

enum weft_status weft_record_read(struct weft_record *record, const char *folder)
{
    FILE *log;
    *record = (struct weft_record){.folder = folder, .replays = true};
    TRY(open_log(record, &log));
    enum weft_status status = weft_log_expect(record, log, NULL, 0);
    fclose(log);
    return status;
}

enum weft_status weft_record_replay(struct weft_record *record, const char *folder, const char *checkpoint,
                                    struct weft_learner *t, const struct weft_settings *settings)
{
    FILE *log;
    *record = (struct weft_record){.folder = folder, .replays = true};
    TRY(weft_record_change(record, settings));
    TRY(open_log(record, &log));
    enum weft_status status = begin(record, checkpoint, t, log);
    fclose(log);
    return status;
}

enum weft_status weft_record_change(struct weft_record *record, const struct weft_settings *settings)
{
    free(record->config);
    record->config = NULL;
    record->settings = settings;
    TRY(weft_record_config(settings, &record->config, record->config_sha256));
    return WEFT_OK;
}

enum weft_status weft_record_replayed(const struct weft_record *record, int64_t step)
{
    const struct weft_expected_record *e = record->expected;
    if (e && e->step <= step)
        return FAIL(WEFT_CHECK,
                    "%s/log.jsonl has a record of step %" PRId64 " that training again does not reproduce: %s}",
                    record->folder, e->step, e->text);
    return WEFT_OK;
}
