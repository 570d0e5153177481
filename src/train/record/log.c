/* SPDX-License-Identifier: MIT
 *
 * log.c - writes and reads log.jsonl, one record per line: the head (step 0), losses, scores, diagnoses, hashes of the
 * weights.
 *
 * Every record begins with its step, is a function of the run's definition and that step, and ends with the chain
 * (chain.c). Additional information (program, machine, times and changes when a run was resumed) is in records with
 * "environment", which are in the chain but differ between runs of one definition. So except for those, the log of a
 * run that was killed and resumed equals the log of an uninterrupted one. Records cut off when a run is resumed must
 * recur unchanged. A record "change" directly follows the record of the checkpoint from which the run was resumed.
 */
#define _GNU_SOURCE
#include "base/json.h"
#include "dnn/dnn.h"
#include "train/record/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A record under construction. Its numbers are also written as events for TensorBoard, such as "train/loss". */
struct draft {
    struct weft_record *record;
    int64_t step;
    bool compared; /* whether it is compared with the expected records */
    struct weft_result *r;
    enum weft_status status; /* status of writing the events */
};

static struct draft begin(struct weft_record *record, int64_t step)
{
    struct draft draft = {record, step, true, weft_result_create(), WEFT_OK};
    weft_result_int(draft.r, "step", step);
    return draft;
}

static struct draft begin_environment(struct weft_record *record, int64_t step, const char *of)
{
    struct draft draft = begin(record, step);
    draft.compared = false;
    weft_result_text(draft.r, "environment", of);
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

/* ---- records that were cut off */

static enum weft_record_kind find_kind(const char *text)
{
    static const char mark[] = ", \"environment\": \"";
    const char *of = strstr(text, mark);
    if (!of)
        return WEFT_RECORD_STEP;
    of += sizeof mark - 1;
    if (strncmp(of, "stopped\"", 8) == 0)
        return WEFT_RECORD_STOPPED;
    return strncmp(of, "change\"", 7) == 0 ? WEFT_RECORD_CHANGE : WEFT_RECORD_OTHER;
}

/* Adds a record that follows a checkpoint to the expected records. */
static enum weft_status expect(struct weft_record *record, struct weft_expected_record found, size_t bytes)
{
    struct weft_expected_record *e = weft_arena_alloc(&record->arena, sizeof *e);
    found.text = e ? weft_arena_print(&record->arena, "%.*s", (int)bytes, found.text) : NULL;
    if (!found.text)
        return FAIL(WEFT_NOMEM, "not enough memory for the records of %s/log.jsonl", record->folder);
    *e = found;
    *record->expected_end = e;
    record->expected_end = &e->next;
    return WEFT_OK;
}

static enum weft_status comes_otherwise(const struct weft_record *record, int64_t step, const char *before,
                                        const char *now)
{
    return FAIL(WEFT_CHECK,
                "step %lld of %s does not match its log: the log was edited, or one of the hosts made an error. The "
                "log has %s%s; the record is now %s}",
                (long long)step, record->folder, before ? before : "nothing", before ? "}" : "", now);
}

/* Compares a record with the expected one. A run's definition gives the same numbers on any machine, but different
 * options may cause different steps to be recorded, and a different engine may compute different numbers. */
static enum weft_status compare_expected(struct weft_record *record, const char *text, int64_t step)
{
    struct weft_expected_record *e = record->may_differ ? NULL : record->expected;
    while (e && e->step < step && !record->replays)
        e = e->next;
    record->expected = e;
    if (!record->replays && (!e || e->step > step))
        return WEFT_OK;
    if (!e || strcmp(e->text, text) != 0)
        return comes_otherwise(record, step, e ? e->text : NULL, text);
    memcpy(record->matched, e->chain, sizeof e->chain);
    record->expected = e->next;
    return WEFT_OK;
}

/* ---- a record */

/* Creates the record's text without the closing brace; the caller frees it. */
static enum weft_status print(const struct draft *draft, char **text, size_t *bytes)
{
    FILE *memory = open_memstream(text, bytes);
    enum weft_status status =
        memory ? weft_result_print(draft->r, memory, true) : FAIL(WEFT_NOMEM, "not enough memory for a record");
    if (memory && fclose(memory) && status == WEFT_OK)
        status = FAIL(WEFT_NOMEM, "not enough memory for a record");
    if (status != WEFT_OK)
        return status;
    *bytes -= 2;
    (*text)[*bytes] = 0;
    return WEFT_OK;
}

/* Fails if the log was removed or replaced while being written, because its records would be lost silently. */
static enum weft_status is_there(const struct weft_record *record)
{
    struct stat open, named;
    char path[4096];
    snprintf(path, sizeof path, "%s/log.jsonl", record->folder);
    if (record->replays || (fstat(fileno(record->log), &open) == 0 && stat(path, &named) == 0 &&
                            open.st_ino == named.st_ino && open.st_dev == named.st_dev))
        return WEFT_OK;
    return FAIL(WEFT_IO,
                "%s was removed or replaced while the run was writing to it. Its records so far are lost, and the "
                "checkpoints alone are not enough to resume. Train it again",
                path);
}

static enum weft_status finish(struct draft *draft)
{
    struct weft_record *record = draft->record;
    char *text = NULL;
    size_t bytes = 0;
    enum weft_status status = print(draft, &text, &bytes);
    if (status == WEFT_OK && draft->compared)
        status = compare_expected(record, text, draft->step);
    if (status == WEFT_OK && !weft_chain_write(&record->chain, text, bytes, record->log))
        status = FAIL(WEFT_IO, "%s/log.jsonl cannot be written: the disk may be full", record->folder);
    if (status == WEFT_OK)
        status = is_there(record);
    free(text);
    weft_result_free(draft->r);
    TRY(status);
    TRY(draft->status);
    return WEFT_OK;
}

/* Adds the hash of gates.json, so that the chain also binds the record of the gates. */
static void add_gates_hash(struct draft *draft)
{
    if (*draft->record->gates_sha256)
        weft_result_text(draft->r, "gates_sha256", draft->record->gates_sha256);
}

enum weft_status weft_log_head(struct weft_record *record, const struct weft_learner *t)
{
    struct draft draft = begin(record, 0);
    weft_result_text(draft.r, "numbers", WEFT_NUMBERS);
    weft_result_text(draft.r, "preset", t->model->spec->preset);
    weft_result_text(draft.r, "task", t->recipe->task->name);
    add_int(&draft, "run", "params", t->model->params.elements);
    weft_result_text(draft.r, "config_sha256", record->config_sha256);
    if (*record->origin.text[WEFT_ORIGIN_DATA])
        weft_result_text(draft.r, "data_sha256", record->origin.text[WEFT_ORIGIN_DATA]);
    if (*t->model->origin)
        weft_result_text(draft.r, "init_sha256", t->model->origin);
    TRY(finish(&draft));
    draft = begin_environment(record, 0, "program");
    weft_result_text(draft.r, "weft", weft_version());
    weft_result_text(draft.r, "program_sha256", record->origin.text[WEFT_ORIGIN_PROGRAM]);
    weft_result_text(draft.r, "isa", weft_dnn_path());
    weft_result_int(draft.r, "threads", weft_threads());
    if (*record->plan_sha256)
        weft_result_text(draft.r, "plan_sha256", record->plan_sha256);
    add_gates_hash(&draft);
    if (record->gates_checks) {
        add_int(&draft, "run", "gates_checks", record->gates_checks);
        add_int(&draft, "run", "gates_failed", record->gates_failed);
    } else {
        weft_result_text(draft.r, "gates", WEFT_GATES_NOT_RUN);
    }
    return finish(&draft);
}

/* Logs changes and the hash of the new config. A reader who undoes the changes to find earlier options can verify the
 * result by the hash. */
enum weft_status weft_log_change(struct weft_record *record, int64_t step)
{
    struct draft draft = begin_environment(record, step, "change");
    weft_result_text(draft.r, "changed", record->changes);
    weft_result_text(draft.r, "config_sha256", record->config_sha256);
    add_gates_hash(&draft);
    return finish(&draft);
}

static enum weft_status log_time(struct weft_record *record, const struct weft_learner *t, double tokens_per_s)
{
    struct draft draft = begin_environment(record, t->step, "time");
    add_real(&draft, "train", "tokens_per_s", tokens_per_s);
    add_real(&draft, "train", "seconds", t->seconds);
    return finish(&draft);
}

enum weft_status weft_log_losses(struct weft_record *record, const struct weft_learner *t,
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
    if (t->mask)
        add_real(&draft, "train", "sparsity", (double)t->pruned / (double)t->model->params.elements);
    TRY(finish(&draft));
    TRY(log_time(record, t, now->tokens_per_s));
    return WEFT_OK;
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

enum weft_status weft_log_scores(struct weft_record *record, const struct weft_learner *t,
                                 const struct weft_scores *scores)
{
    struct draft draft = begin(record, t->step);
    add_score(&draft, "val", &scores->val);
    if (t->step == t->recipe->steps)
        add_score(&draft, "test", &scores->test);
    return finish(&draft);
}

enum weft_status weft_log_diagnosis(struct weft_record *record, const struct weft_learner *t)
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
    return finish(&draft);
}

enum weft_status weft_log_weights(struct weft_record *record, const struct weft_learner *t, const char *hash)
{
    struct draft draft = begin(record, t->step);
    weft_result_text(draft.r, "weights_sha256", hash);
    weft_result_text(draft.r, "stream_sha256", t->stream);
    weft_result_text(draft.r, "losses_sha256", t->loss_chain);
    return finish(&draft);
}

enum weft_status weft_log_checkpoint(struct weft_record *record, const struct weft_learner *t, struct weft_binding *b,
                                     bool due)
{
    struct draft draft = due ? begin(record, t->step) : begin_environment(record, t->step, "stopped");
    draft.compared = due || record->replays;
    weft_result_text(draft.r, "weights_sha256", b->weights);
    weft_result_text(draft.r, "optimizer_sha256", b->optimizer);
    weft_result_text(draft.r, "stream_sha256", b->stream);
    weft_result_text(draft.r, "losses_sha256", b->losses);
    TRY(finish(&draft));
    memcpy(b->chain, record->replays ? record->matched : record->chain.head, sizeof b->chain);
    return WEFT_OK;
}

/* ---- resuming a run */

/* Returns whether a record has the hashes of the checkpoint. */
static bool has_binding(const char *line, const struct weft_binding *b)
{
    const char *const hashes[] = {b->weights, b->optimizer, b->stream, b->losses};
    for (size_t i = 0; i < sizeof hashes / sizeof *hashes; i++)
        if (!strstr(line, hashes[i]))
            return false;
    return true;
}

/* State of reading the log, up to the checkpoint's record and after it. */
struct reading {
    struct weft_record *record;
    const struct weft_binding *from; /* binding of the checkpoint; NULL: from the start */
    int64_t kept;
    bool found, whole; /* whether the checkpoint's record was found; whether everything after it is complete */
    struct weft_chain behind;
};

static enum weft_status read_kept(struct reading *r, const char *line, size_t bytes)
{
    struct weft_record *record = r->record;
    long long of, number = record->chain.lines + 1;
    size_t text;
    if (!weft_chain_read(&record->chain, line, bytes, &text) || sscanf(line, "{\"step\": %lld", &of) != 1)
        return FAIL(WEFT_FORMAT, "line %lld of %s/log.jsonl does not match its chain: the log was edited", number,
                    record->folder);
    r->kept += (int64_t)bytes;
    r->found = strcmp(record->chain.head, r->from->chain) == 0 && has_binding(line, r->from);
    r->behind = record->chain;
    return WEFT_OK;
}

/* Notes that the records that are cut off may have been written with different options or by a different engine. */
static bool note_other(void *context, const char *name, const char *before, const char *now)
{
    struct weft_record *record = context;
    bool isa = strcmp(name, weft_origin_name(WEFT_ORIGIN_ISA)) == 0;
    record->may_differ |= weft_change_option(name) >= 0 || (isa && !weft_dnn_same_bits(before, now));
    return true;
}

/* Reads the records after the kept ones; those that are complete must recur. */
static enum weft_status read_behind(struct reading *r, const char *line, size_t bytes)
{
    struct weft_record *record = r->record;
    enum weft_record_kind kind = find_kind(line);
    long long of;
    size_t text;
    r->whole = r->whole && weft_chain_read(&r->behind, line, bytes, &text) && sscanf(line, "{\"step\": %lld", &of) == 1;
    record->gates_skipped |= kind == WEFT_RECORD_OTHER && strstr(line, ", \"gates\": \"" WEFT_GATES_NOT_RUN "\"");
    if (!r->whole || kind == WEFT_RECORD_OTHER)
        return WEFT_OK;
    if (kind == WEFT_RECORD_CHANGE && !record->replays)
        record->may_differ |= !weft_change_read(line, note_other, record);
    struct weft_expected_record e = {.kind = kind, .step = of, .text = line};
    memcpy(e.chain, r->behind.head, sizeof e.chain);
    if (kind == WEFT_RECORD_STEP || record->replays)
        TRY(expect(record, e, text));
    return WEFT_OK;
}

/* Reads a log: up to the checkpoint's record, then the records that must recur. */
static enum weft_status read_log(struct reading *r, FILE *log, int64_t step)
{
    struct weft_record *record = r->record;
    rewind(log);
    char path[4096];
    struct weft_lines lines = {.file = log, .path = path};
    snprintf(path, sizeof path, "%s/log.jsonl", record->folder);
    enum weft_status status = weft_lines_next(&lines);
    r->found = !r->from;
    r->whole = true;
    record->expected_end = &record->expected;
    weft_chain_start(&record->chain);
    r->behind = record->chain;
    while (status == WEFT_OK && lines.bytes) {
        status = (r->found ? read_behind : read_kept)(r, lines.text, lines.bytes);
        if (status == WEFT_OK)
            status = weft_lines_next(&lines);
    }
    weft_lines_release(&lines);
    TRY(status);
    if (!r->found)
        return FAIL(WEFT_FORMAT,
                    "%s/log.jsonl does not have the record of the checkpoint of step %" PRId64
                    ": the log was cut or replaced",
                    record->folder, step);
    return WEFT_OK;
}

enum weft_status weft_log_cut(struct weft_record *record, const struct weft_binding *from, int64_t step)
{
    struct reading r = {.record = record, .from = from};
    TRY(read_log(&r, record->log, step));
    if (ftruncate(fileno(record->log), r.kept) || fseek(record->log, 0, SEEK_END))
        return FAIL(WEFT_IO, "%s/log.jsonl cannot be truncated: %s", record->folder, strerror(errno));
    return WEFT_OK;
}

enum weft_status weft_log_expect(struct weft_record *record, FILE *log, const struct weft_binding *from, int64_t step)
{
    struct reading r = {.record = record, .from = from};
    TRY(read_log(&r, log, step));
    if (!r.whole)
        return FAIL(WEFT_FORMAT,
                    "%s/log.jsonl does not match its chain after step %" PRId64 ": the log was cut or edited",
                    record->folder, step);
    weft_chain_start(&record->chain);
    return WEFT_OK;
}
