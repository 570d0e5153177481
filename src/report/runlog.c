/* SPDX-License-Identifier: MIT
 *
 * runlog.c - reads a run's log.jsonl: curves and final scores.
 */
#define _GNU_SOURCE
#include "base/fields.h"
#include "report/results.h"
#include "train/record.h"

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

/* A score that was not finite is null. */
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

/* A run of 0.1.0 that an older program had begun. */
static bool is_unknown(const struct weft_fields *f, const char *name)
{
    const char *text = json_string_value(json_object_get(f->object, name));
    return text && strcmp(text, "unknown") == 0;
}

/* The keys of a record say what it is. */
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
    take_hash(f, "weights_sha256", log->weights_sha256);
    if (!is_unknown(f, "stream_sha256"))
        take_hash(f, "stream_sha256", log->stream_sha256);
    return f->status;
}

static enum weft_status read_records(struct weft_runlog *log, FILE *file, const char *path, struct weft_arena *arena)
{
    char *line = NULL, where[4200];
    size_t room = 0, text;
    ssize_t bytes;
    struct weft_chain chain;
    enum weft_status status = WEFT_OK;
    weft_chain_start(&chain);
    for (int64_t number = 1; status == WEFT_OK && (bytes = getline(&line, &room, file)) > 0; number++) {
        json_t *object = NULL;
        if (line[bytes - 1] != '\n')
            break; /* not complete yet */
        snprintf(where, sizeof where, "%s:%lld", path, (long long)number);
        bool continues = weft_chain_read(&chain, line, (size_t)bytes, &text);
        if (number > 1 ? *log->chain && !continues : !continues && strstr(line, "\"chain\": "))
            status = FAIL(WEFT_FORMAT, "%s is not what was written there: the log was edited", where);
        if (continues && chain.lines == number)
            memcpy(log->chain, chain.head, sizeof chain.head);
        if (status == WEFT_OK)
            status = weft_fields_line(path, number, line, (size_t)bytes - 1, &object);
        if (status == WEFT_OK)
            status = read_record(log, &(struct weft_fields){.object = object, .where = where}, arena);
        json_decref(object);
    }
    free(line);
    return status;
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
    enum weft_status status = read_records(log, file, path, arena);
    fclose(file);
    TRY(status);
    return log->gates_skipped ? weft_record_ungated(folder) : WEFT_OK;
}
