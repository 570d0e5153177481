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

#include <inttypes.h>
#include <stdlib.h>

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

static enum weft_status train(struct replay *r, struct weft_trainer *t, struct weft_record *record)
{
    struct weft_loop loop;
    struct weft_scores scores;
    bool finished;
    TRY(weft_loop_init(&loop, t));
    loop.record = record;
    loop.report = follow;
    loop.context = r;
    loop.stop = &r->stop;
    TRY(weft_train(&loop, &finished, &scores));
    TRY(weft_record_replayed(record, r->last));
    return WEFT_OK;
}

static enum weft_status replay(struct weft_audit *a, struct weft_trainer *t, int64_t first, int64_t last)
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
    struct weft_model *model = NULL;
    struct weft_trainer *t = NULL;
    if (a->on_segment)
        a->on_segment(a->context, first, last);
    enum weft_status status = weft_model_create(&model, a->spec);
    if (status == WEFT_OK)
        status = weft_model_init(model);
    if (status == WEFT_OK)
        status = weft_trainer_create(&t, model, a->recipe);
    if (status == WEFT_OK)
        status = replay(a, t, first, last);
    weft_trainer_free(t);
    weft_model_free(model);
    return status;
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

static enum weft_status replay_some(struct weft_audit *a, const int64_t *ends, int64_t *order)
{
    int64_t wanted = weft_min(a->segments, a->segments_there);
    for (int64_t i = 0; i < a->segments_there; i++)
        order[i] = i;
    draw(order, a->segments_there, wanted, a->seed);
    for (int64_t i = 0; i < wanted; i++) {
        TRY(replay_segment(a, order[i] ? ends[order[i] - 1] : 0, ends[order[i]]));
        a->segments_done++;
    }
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
    if (status == WEFT_OK && a->segments)
        status = replay_some(a, ends, order);
    else if (status == WEFT_OK)
        status = replay_segment(a, 0, ends[count - 1]);
    if (status == WEFT_OK && !a->segments)
        a->segments_done = count;
    free(order);
    free(ends);
    return status;
}
