/* SPDX-License-Identifier: MIT
 *
 * audit.c - a run again, and its log against what comes of it.
 *
 * A segment begins at a checkpoint (the first one at the initial weights) and ends at the next. The log has the hashes
 * of weights and moments at both ends, and that of the loss of every step between them.
 */
#include "run/audit.h"
#include "ckpt/ckpt.h"
#include "train/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 4096 };

/* ---- one segment */

struct replay {
    struct weft_audit *audit;
    int64_t last;
    atomic_int stop;
};

static void follow(void *context, const struct weft_progress *now)
{
    struct replay *r = context;
    if (now->step >= r->last)
        atomic_store(&r->stop, 1);
    r->audit->steps_done++;
    if (r->audit->on_progress)
        r->audit->on_progress(r->audit->context, now);
}

static enum weft_status train(struct replay *r, struct weft_learner *t, struct weft_record *record)
{
    struct weft_loop loop;
    struct weft_scores scores;
    bool finished;
    TRY(weft_loop_init(&loop, t));
    loop.folder = record->folder;
    loop.record = record;
    loop.report = follow;
    loop.context = r;
    loop.stop = &r->stop;
    TRY(weft_loop_run(&loop, &finished, &scores));
    TRY(weft_record_replayed(record, r->last));
    return WEFT_OK;
}

static enum weft_status replay(struct weft_audit *a, struct weft_learner *t, int64_t first, int64_t last)
{
    struct weft_record record = {0};
    struct replay r = {.audit = a, .last = last};
    char checkpoint[ROOM];
    snprintf(checkpoint, sizeof checkpoint, "%s/step-%09" PRId64, a->folder, first);
    enum weft_status status = weft_record_replay(&record, a->folder, first ? checkpoint : NULL, t, a->settings);
    if (status == WEFT_OK)
        status = train(&r, t, &record);
    weft_record_close(&record);
    return status;
}

static enum weft_status replay_segment(struct weft_audit *a, int64_t first, int64_t last)
{
    struct weft_nn *model = NULL;
    struct weft_learner *t = NULL;
    if (a->on_segment)
        a->on_segment(a->context, first, last);
    enum weft_status status = weft_nn_create(&model, a->spec);
    if (status == WEFT_OK)
        status = weft_recipe_weights(a->recipe, model, NULL, NULL);
    if (status == WEFT_OK)
        status = weft_learner_create(&t, model, a->recipe, NULL);
    if (status == WEFT_OK)
        status = replay(a, t, first, last);
    weft_learner_free(t);
    weft_nn_free(model);
    return status;
}

/* ---- what passed before: a line per segment, with the hash of the log that it was compared with */

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

/* ---- which */

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

/* `wanted` of the segments, in the order given. */
static enum weft_status replay_list(struct weft_audit *a, const int64_t *ends, const int64_t *order, int64_t wanted)
{
    for (int64_t i = 0; i < wanted; i++) {
        int64_t first = order[i] ? ends[order[i] - 1] : 0, last = ends[order[i]];
        bool before;
        TRY(passed_before(a, first, last, &before));
        if (!before) {
            TRY(replay_segment(a, first, last));
            TRY(note_passed(a, first, last));
        }
        a->segments_before += before;
        a->segments_done++;
    }
    return WEFT_OK;
}

static enum weft_status replay_some(struct weft_audit *a, const int64_t *ends, int64_t *order)
{
    int64_t wanted = a->segments ? weft_min(a->segments, a->segments_there) : a->segments_there;
    for (int64_t i = 0; i < a->segments_there; i++)
        order[i] = i;
    if (a->segments)
        draw(order, a->segments_there, wanted, a->seed);
    return replay_list(a, ends, order, wanted);
}

/* From the start to the end: no checkpoint needs to be read. */
static enum weft_status replay_all(struct weft_audit *a, int64_t last)
{
    TRY(replay_segment(a, 0, last));
    a->segments_done = a->segments_there;
    return WEFT_OK;
}

enum weft_status weft_audit_run(struct weft_audit *a)
{
    int64_t *ends = NULL;
    int count = 0;
    TRY(weft_recipe_open(a->recipe, a->spec));
    TRY(weft_ckpt_steps(a->folder, &ends, &count));
    if (count == 0) {
        free(ends);
        return FAIL(WEFT_INVALID, "%s has no checkpoint: there is nothing to compare with", a->folder);
    }
    a->segments_there = count;
    a->steps_there = ends[count - 1];
    int64_t *order = malloc((size_t)count * sizeof *order);
    enum weft_status status = order ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a list of segments");
    if (status == WEFT_OK)
        status = a->segments || a->passed ? replay_some(a, ends, order) : replay_all(a, ends[count - 1]);
    free(order);
    free(ends);
    return status;
}
