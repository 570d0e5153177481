/* SPDX-License-Identifier: MIT
 *
 * runlog.c - reads a run's log.jsonl: curves and final scores.
 */
#define _GNU_SOURCE
#include "base/fields.h"
#include "report/read/results.h"
#include "train/record/record.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum weft_status add_point(struct weft_curve *c, struct weft_arena *arena, int64_t step, double loss)
{
    if (c->count == 0 || (c->count >= 64 && (c->count & (c->count - 1)) == 0)) {
        size_t room = (size_t)weft_max(64, 2 * c->count);
        int64_t *steps = weft_arena_alloc(arena, room * sizeof *steps);
        double *losses = weft_arena_alloc(arena, room * sizeof *losses);
        if (!steps || !losses)
            return WEFT_NOMEM;
        if (c->count) {
            memcpy(steps, c->step, (size_t)c->count * sizeof *steps);
            memcpy(losses, c->loss, (size_t)c->count * sizeof *losses);
        }
        c->step = steps;
        c->loss = losses;
    }
    c->step[c->count] = step;
    c->loss[c->count++] = loss;
    return WEFT_OK;
}

static bool has(const struct weft_fields *f, const char *name) { return json_object_get(f->object, name) != NULL; }

/* A non-finite score is stored as null. */
static bool has_number(const struct weft_fields *f, const char *name)
{
    return has(f, name) && !json_is_null(json_object_get(f->object, name));
}

static void take_real(struct weft_fields *f, const char *name, double *to)
{
    if (has_number(f, name))
        *to = weft_field_real(f, name);
}

static void take_hash(struct weft_fields *f, const char *name, char to[65])
{
    const char *hash = has(f, name) ? weft_field_text(f, name) : NULL;
    if (hash && weft_is_sha256(hash))
        memcpy(to, hash, 65);
    else if (hash)
        weft_field_refuse(f, name, "is not a SHA-256");
}

static void take_text(struct weft_fields *f, const char *name, char *to, size_t size)
{
    if (has(f, name))
        snprintf(to, size, "%s", weft_field_text(f, name));
}

static void take_gates(struct weft_runlog *log, struct weft_fields *f)
{
    const char *text = has(f, "gates") ? weft_field_text(f, "gates") : NULL;
    log->gates_skipped |= text && strcmp(text, WEFT_GATES_NOT_RUN) == 0;
    if (!has(f, "gates_checks"))
        return;
    log->gates_checks = weft_field_int(f, "gates_checks", 0, INT64_MAX);
    log->gates_failed = weft_field_int(f, "gates_failed", 0, log->gates_checks);
}

/* Returns whether the value is "unknown", as in runs of release 0.1.0 that an older build started. */
static bool is_unknown(const struct weft_fields *f, const char *name)
{
    const char *text = json_string_value(json_object_get(f->object, name));
    return text && strcmp(text, "unknown") == 0;
}

/* The keys of a record identify its kind. */
static enum weft_status read_record(struct weft_runlog *log, struct weft_fields *f, struct weft_arena *arena)
{
    log->steps = weft_field_int(f, "step", 0, INT64_MAX);
    if (has(f, "params"))
        log->params = weft_field_int(f, "params", 0, INT64_MAX);
    if (has_number(f, "main"))
        TRY(add_point(&log->train, arena, log->steps, weft_field_real(f, "main")));
    if (has_number(f, "val_loss"))
        TRY(add_point(&log->val, arena, log->steps, weft_field_real(f, "val_loss")));
    if (has_number(f, "lr"))
        TRY(add_point(&log->rate, arena, log->steps, weft_field_real(f, "lr")));
    if (has_number(f, "grad_norm"))
        TRY(add_point(&log->norm, arena, log->steps, weft_field_real(f, "grad_norm")));
    take_real(f, "tokens", &log->tokens);
    take_real(f, "total", &log->train_loss);
    take_real(f, "val_accuracy", &log->val_accuracy);
    take_real(f, "test_loss", &log->test_loss);
    take_real(f, "test_accuracy", &log->test_accuracy);
    take_real(f, "tokens_per_s", &log->tokens_per_s);
    take_real(f, "seconds", &log->seconds);
    take_text(f, "weft", log->version, sizeof log->version);
    take_text(f, "isa", log->isa, sizeof log->isa);
    take_gates(log, f);
    if (has(f, "changed")) /* earlier releases did not record the config after a change */
        *log->config_sha256 = 0;
    take_hash(f, "config_sha256", log->config_sha256);
    take_hash(f, "data_sha256", log->data_sha256);
    take_hash(f, "plan_sha256", log->plan_sha256);
    take_hash(f, "gates_sha256", log->gates_sha256);
    take_hash(f, "weights_sha256", log->weights_sha256);
    if (!is_unknown(f, "stream_sha256"))
        take_hash(f, "stream_sha256", log->stream_sha256);
    return f->status;
}

/* A log has a chain from its first record to its last or, as in release 0.1.0, none. */
static enum weft_status follow_chain(struct weft_runlog *log, struct weft_chain *chain, const struct weft_lines *lines,
                                     const char *where)
{
    size_t text;
    bool continues = weft_chain_read(chain, lines->text, lines->bytes, &text);
    if (lines->number > 1 ? *log->chain && !continues : !continues && strstr(lines->text, "\"chain\": "))
        return FAIL(WEFT_FORMAT, "%s does not match the chain of hashes: the log was edited", where);
    if (continues && chain->lines == lines->number)
        memcpy(log->chain, chain->head, sizeof chain->head);
    return WEFT_OK;
}

/* A log has only a few records per step; a file with many records for one step is not a log. */
static enum weft_status count_records(const struct weft_runlog *log, int64_t before, int *records, const char *where)
{
    enum { MOST = 1000 };
    *records = log->steps == before ? *records + 1 : 0;
    if (log->steps < before || *records > MOST)
        return FAIL(WEFT_FORMAT, "%s: step %lld %s: Weft did not write this log", where, (long long)log->steps,
                    log->steps < before ? "follows a later step" : "has more than 1000 records");
    return WEFT_OK;
}

static enum weft_status read_line(struct weft_runlog *log, const struct weft_lines *lines, const char *where,
                                  struct weft_arena *arena)
{
    json_t *object;
    TRY(weft_fields_line(lines->path, lines->number, lines->text, lines->bytes - 1, &object));
    enum weft_status status = read_record(log, &(struct weft_fields){.object = object, .where = where}, arena);
    json_decref(object);
    return status;
}

static enum weft_status read_records(struct weft_runlog *log, struct weft_lines *lines, struct weft_arena *arena)
{
    char where[4200];
    struct weft_chain chain;
    int records = 0;
    weft_chain_start(&chain);
    TRY(weft_lines_next(lines));
    while (lines->bytes && lines->text[lines->bytes - 1] == '\n') { /* otherwise the last line is incomplete */
        int64_t before = log->steps;
        snprintf(where, sizeof where, "%s:%lld", lines->path, (long long)lines->number);
        TRY(follow_chain(log, &chain, lines, where));
        TRY(read_line(log, lines, where, arena));
        TRY(count_records(log, before, &records, where));
        TRY(weft_lines_next(lines));
    }
    return WEFT_OK;
}

/* Checks the record of the gates against its hash in the log; logs of earlier releases have no such hash. */
static enum weft_status check_gates(const struct weft_runlog *log, const char *folder)
{
    char path[4096], hash[65] = "";
    snprintf(path, sizeof path, "%s/gates.json", folder);
    if (!*log->gates_sha256)
        return WEFT_OK;
    if (access(path, F_OK) == 0)
        TRY(weft_sha256_within(path, WEFT_MAX_CONFIG_BYTES, hash));
    if (strcmp(hash, log->gates_sha256) != 0)
        return FAIL(WEFT_FORMAT, "%s %s, so it was changed after the run", path,
                    *hash ? "does not match the hash recorded in the log" : "is missing, but the log has its hash");
    return WEFT_OK;
}

enum weft_status weft_runlog_load(struct weft_runlog *log, const char *folder, struct weft_arena *arena)
{
    char path[4096];
    *log = (struct weft_runlog){.params = -1,
                                .gates_checks = -1,
                                .train_loss = NAN,
                                .tokens = NAN,
                                .val_accuracy = NAN,
                                .test_loss = NAN,
                                .test_accuracy = NAN,
                                .tokens_per_s = NAN,
                                .seconds = NAN};
    if (snprintf(path, sizeof path, "%s/log.jsonl", folder) >= (int)sizeof path)
        return FAIL(WEFT_INVALID, "the path of a run's folder is too long");
    FILE *file;
    if (access(path, F_OK) && (errno == ENOENT || errno == ENOTDIR))
        return WEFT_OK;
    TRY(weft_input_open(path, &file));
    log->exists = true;
    struct weft_lines lines = {.file = file, .path = path};
    enum weft_status status = read_records(log, &lines, arena);
    weft_lines_release(&lines);
    fclose(file);
    TRY(status);
    TRY(check_gates(log, folder));
    return log->gates_skipped ? weft_record_ungated(folder) : WEFT_OK;
}
