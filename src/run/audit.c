/* SPDX-License-Identifier: MIT
 *
 * audit.c - repeats a run and compares the results with its log.
 *
 * A segment begins at a checkpoint (the first one at the initial weights) and ends at the next. The log has the hashes
 * of weights and moments at both ends, and the hash of the loss of every step between them. If the log records that the
 * run was stopped, or resumed with different options, training is also stopped and resumed here.
 */
#include "run/audit.h"
#include "ckpt/ckpt.h"
#include "run/eras.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 4096 };

/* The contents of the run's folder. */
struct found {
    int64_t *step; /* steps of the checkpoints */
    int count;
    struct weft_configured_eras eras;
};

/* ---- one segment */

struct replay {
    struct weft_audit *audit;
    struct found *found;
    struct weft_learner *t;
    struct weft_record record;
    int era;
    int64_t end; /* step at which training stops next */
    atomic_int stop;
};

static void follow(void *context, const struct weft_progress *now)
{
    struct replay *r = context;
    if (now->step >= r->end)
        atomic_store(&r->stop, 1);
    r->audit->steps_done++;
    if (r->audit->on_progress)
        r->audit->on_progress(r->audit->context, now);
}

/* Trains up to a step and stops there; the records of the stop must also match the log. */
static enum weft_status train(struct replay *r, int64_t end)
{
    struct weft_loop loop;
    struct weft_scores scores;
    bool finished;
    int64_t steps = r->t->recipe->steps;
    if (end < r->t->step || end > steps || (end == r->t->step && end == steps))
        return FAIL(WEFT_CHECK,
                    "according to its log, the run in %s was at step %" PRId64 ", but it was at step %" PRId64
                    " of %" PRId64,
                    r->audit->folder, end, r->t->step, steps);
    TRY(weft_loop_init(&loop, r->t));
    loop.folder = r->record.folder;
    loop.record = &r->record;
    loop.report = follow;
    loop.context = r;
    loop.stop = &r->stop;
    r->end = end;
    atomic_store(&r->stop, end == r->t->step);
    TRY(weft_loop_run(&loop, &finished, &scores));
    return WEFT_OK;
}

/* Applies the next change of options. The model is kept, because its bits do not depend on its plan. */
static enum weft_status change(struct replay *r)
{
    struct weft_configured_era *next = &r->found->eras.list[++r->era];
    r->record.expected = r->record.expected->next;
    TRY(weft_configured_eras_open(&r->found->eras, r->era));
    TRY(weft_record_change(&r->record, &next->recorded.settings));
    r->t->recipe = &next->repeated.recipe;
    if (r->t->recipe->steps < r->t->step)
        return FAIL(WEFT_CHECK, "according to the log of %s, steps became %" PRId64 " after step %" PRId64,
                    r->audit->folder, r->t->recipe->steps, r->t->step);
    return WEFT_OK;
}

/* Returns the next record of a stop or of a change of options, up to step `last`; NULL if there is none. */
static const struct weft_expected_record *find_mark(const struct weft_record *record, int64_t last)
{
    const struct weft_expected_record *e = record->expected;
    while (e && e->kind == WEFT_RECORD_STEP)
        e = e->next;
    return e && e->step <= last ? e : NULL;
}

static enum weft_status train_all(struct replay *r, int64_t last)
{
    const struct weft_expected_record *mark;
    while ((mark = find_mark(&r->record, last))) {
        if (mark->step != r->t->step)
            TRY(train(r, mark->step));
        else if (mark != r->record.expected)
            return weft_record_replayed(&r->record, INT64_MAX);
        else if (mark->kind == WEFT_RECORD_STOPPED)
            TRY(train(r, mark->step));
        else
            TRY(change(r));
    }
    if (r->t->step != last)
        TRY(train(r, last));
    TRY(weft_record_replayed(&r->record, last));
    return WEFT_OK;
}

static enum weft_status replay(struct replay *r, int64_t first, int64_t last)
{
    const struct weft_audit *a = r->audit;
    char checkpoint[ROOM];
    int there = 0;
    snprintf(checkpoint, sizeof checkpoint, "%s/step-%09" PRId64, a->folder, first);
    TRY(weft_record_replay(&r->record, a->folder, first ? checkpoint : NULL, r->t,
                           &r->found->eras.list[r->era].recorded.settings));
    TRY(train_all(r, last));
    for (int i = 0; i < r->found->count; i++)
        there += r->found->step[i] <= last && (!first || r->found->step[i] > first);
    if (r->record.checkpoints != there)
        return FAIL(WEFT_CHECK, "%s has %d checkpoints up to step %" PRId64 " that its log has no record of", a->folder,
                    there - r->record.checkpoints, last);
    return WEFT_OK;
}

static enum weft_status begin(struct replay *r, struct weft_nn **model, int64_t first)
{
    char checkpoint[ROOM];
    snprintf(checkpoint, sizeof checkpoint, "%s/step-%09" PRId64, r->audit->folder, first);
    if (first)
        TRY(weft_eras_find(&r->found->eras.eras, checkpoint, &r->era));
    struct weft_configured *c = &r->found->eras.list[r->era].repeated;
    TRY(weft_configured_eras_open(&r->found->eras, r->era));
    TRY(weft_nn_create(model, &c->spec));
    TRY(weft_recipe_weights(&c->recipe, *model, NULL, NULL));
    TRY(weft_learner_create(&r->t, *model, &c->recipe, NULL));
    return WEFT_OK;
}

static enum weft_status replay_segment(struct weft_audit *a, struct found *f, int64_t first, int64_t last)
{
    struct weft_nn *model = NULL;
    struct replay r = {.audit = a, .found = f};
    if (a->on_segment)
        a->on_segment(a->context, first, last);
    enum weft_status status = begin(&r, &model, first);
    if (status == WEFT_OK)
        status = replay(&r, first, last);
    weft_record_close(&r.record);
    weft_learner_free(r.t);
    weft_nn_free(model);
    return status;
}

/* ---- segments that passed before: one line each, with the hash of the log it was compared with */

static enum weft_status passed_line(const struct weft_audit *a, int64_t first, int64_t last, char line[256])
{
    char path[ROOM], hash[65];
    snprintf(path, sizeof path, "%s/log.jsonl", a->folder);
    TRY(weft_sha256_file(path, hash));
    snprintf(line, 256, "%s numbers %s steps %" PRId64 " to %" PRId64 "\n", hash, WEFT_NUMBERS, first, last);
    return WEFT_OK;
}

static enum weft_status passed_before(const struct weft_audit *a, int64_t first, int64_t last, bool *passed)
{
    char line[256], found[256];
    *passed = false;
    FILE *f = a->passed ? fopen(a->passed, "r") : NULL;
    if (!f)
        return WEFT_OK;
    enum weft_status status = passed_line(a, first, last, line);
    while (status == WEFT_OK && !*passed && fgets(found, sizeof found, f))
        *passed = strcmp(found, line) == 0;
    fclose(f);
    return status;
}

static enum weft_status note_passed(const struct weft_audit *a, int64_t first, int64_t last)
{
    char line[256];
    if (!a->passed)
        return WEFT_OK;
    TRY(passed_line(a, first, last, line));
    FILE *f = fopen(a->passed, "a");
    if (f)
        fputs(line, f);
    if (!f || !weft_output_close(f))
        return FAIL(WEFT_IO, "%s cannot be written: %s", a->passed, strerror(errno));
    return WEFT_OK;
}

/* ---- choosing segments */

/* Moves `wanted` of the numbers to the front, drawn at random. */
static void draw(int64_t *list, int64_t count, int64_t wanted, uint64_t seed)
{
    for (int64_t i = 0; i < wanted; i++) {
        uint64_t left = (uint64_t)(count - i), random = weft_rand(weft_key_name(seed, "audit"), 0, (uint64_t)i).u[0];
        int64_t at = i + (int64_t)(random * left >> 32), kept = list[i];
        list[i] = list[at];
        list[at] = kept;
    }
}

/* Repeats the first `wanted` segments of a list. */
static enum weft_status replay_list(struct weft_audit *a, struct found *f, const int64_t *order, int64_t wanted)
{
    for (int64_t i = 0; i < wanted; i++) {
        int64_t first = order[i] ? f->step[order[i] - 1] : 0, last = f->step[order[i]];
        bool before;
        TRY(passed_before(a, first, last, &before));
        if (!before) {
            TRY(replay_segment(a, f, first, last));
            TRY(note_passed(a, first, last));
        }
        a->segments_before += before;
        a->segments_done++;
    }
    return WEFT_OK;
}

static enum weft_status replay_some(struct weft_audit *a, struct found *f)
{
    int64_t wanted = a->segments ? weft_min(a->segments, f->count) : f->count;
    int64_t *order = malloc((size_t)f->count * sizeof *order);
    if (!order)
        return FAIL(WEFT_NOMEM, "not enough memory for a list of segments");
    for (int64_t i = 0; i < f->count; i++)
        order[i] = i;
    if (a->segments)
        draw(order, f->count, wanted, a->seed);
    enum weft_status status = replay_list(a, f, order, wanted);
    free(order);
    return status;
}

/* Repeats the whole run, without loading a checkpoint. */
static enum weft_status replay_all(struct weft_audit *a, struct found *f)
{
    TRY(replay_segment(a, f, 0, a->steps_there));
    a->segments_done = a->segments_there;
    return WEFT_OK;
}

static enum weft_status replay_found(struct weft_audit *a, struct found *f)
{
    TRY(weft_ckpt_steps(a->folder, &f->step, &f->count));
    if (f->count == 0)
        return FAIL(WEFT_INVALID, "%s has no checkpoint: there is nothing to compare with", a->folder);
    a->segments_there = f->count;
    a->steps_there = f->step[f->count - 1];
    TRY(weft_configured_eras_init(&f->eras, a->folder, a->steps_there, a->data));
    a->changes = f->eras.eras.newest;
    if (f->eras.eras.log.gates_skipped)
        return weft_record_ungated(a->folder);
    TRY(a->segments || a->passed ? replay_some(a, f) : replay_all(a, f));
    return WEFT_OK;
}

enum weft_status weft_audit_run(struct weft_audit *a)
{
    struct found f = {0};
    enum weft_status status = replay_found(a, &f);
    weft_configured_eras_release(&f.eras);
    free(f.step);
    return status;
}
