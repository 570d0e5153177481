/* SPDX-License-Identifier: MIT
 *
 * slack.c - records a step of one thread: every call of weft_parallel with the time of each tile, and the time between
 * calls. Times are CPU times of the thread, so waiting for other processes does not count. Other processes also evict
 * data from its caches, so the smallest time of several runs is kept.
 */
#include "bench/slack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct recorder {
    struct weft_observer observer; /* must be first, because callbacks cast its address to the recorder */
    struct weft_slack *s;
    int64_t call, time; /* indices of the next call and time */
    bool again;         /* not the first run of these calls */
    int op;             /* -1: none yet */
    double last;
    enum weft_status status;
};

static double own_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double passed(const struct recorder *r) { return own_seconds() - r->last; }

/* Makes room for one more element. */
static void *grow(struct recorder *r, void *list, int64_t count, int64_t *room, size_t size)
{
    int64_t more = 2 * *room + 256;
    void *grown = count < *room ? list : realloc(list, (size_t)more * size);
    if (!grown)
        r->status = WEFT_NOMEM;
    else if (count == *room)
        *room = more;
    return grown ? grown : list;
}

static void end_step(struct recorder *r)
{
    double alone = passed(r);
    if (r->op >= 0 && !r->again)
        r->s->ops[r->op].alone += alone;
}

static void see_step(struct weft_observer *observer, const char *name, bool backward)
{
    struct recorder *r = (struct recorder *)observer;
    struct weft_slack *s = r->s;
    int o = 0;
    end_step(r);
    while (o < s->op_count && (s->ops[o].backward != backward || strcmp(s->ops[o].name, name) != 0))
        o++;
    if (o == s->op_count) {
        s->ops = grow(r, s->ops, s->op_count, &s->op_room, sizeof *s->ops);
        if (r->status == WEFT_OK)
            s->ops[s->op_count++] = (struct weft_slack_op){.name = name, .backward = backward};
    }
    r->op = r->status == WEFT_OK ? o : -1;
    if (r->op >= 0 && !r->again)
        s->ops[o].runs++;
    r->last = own_seconds();
}

static void see_call(struct weft_observer *observer, int64_t tiles)
{
    struct recorder *r = (struct recorder *)observer;
    struct weft_slack *s = r->s;
    double before = passed(r);
    if (!r->again) {
        s->calls = grow(r, s->calls, s->call_count, &s->call_room, sizeof *s->calls);
        if (r->status == WEFT_OK)
            s->calls[s->call_count++] = (struct weft_slack_call){r->op, before, tiles, r->time};
    } else if (r->call < s->call_count) {
        s->calls[r->call].before = fmin(s->calls[r->call].before, before);
    }
    r->call++;
    r->last = own_seconds();
}

static void see_tile(struct weft_observer *observer)
{
    struct recorder *r = (struct recorder *)observer;
    struct weft_slack *s = r->s;
    double seconds = passed(r);
    if (!r->again) {
        s->times = grow(r, s->times, s->time_count, &s->time_room, sizeof *s->times);
        if (r->status == WEFT_OK)
            s->times[s->time_count++] = seconds;
    } else if (r->time < s->time_count) {
        s->times[r->time] = fmin(s->times[r->time], seconds);
    }
    r->time++;
    r->last = own_seconds();
}

static double call_seconds(const struct weft_slack *s, const struct weft_slack_call *call)
{
    double sum = call->before;
    for (int64_t t = 0; t < call->tiles; t++)
        sum += s->times[call->first + t];
    return sum;
}

static void count_ops(struct weft_slack *s)
{
    for (int64_t o = 0; o < s->op_count; o++)
        s->ops[o].seconds = s->ops[o].alone;
    for (int64_t c = 0; c < s->call_count; c++)
        s->ops[s->calls[c].op].seconds += call_seconds(s, &s->calls[c]);
    for (int64_t c = 0; c < s->call_count; c++) {
        struct weft_slack_op *op = &s->ops[s->calls[c].op];
        double all = 0; /* seconds in calls of this op with at most as many tiles as call c */
        for (int64_t d = 0; d < s->call_count; d++)
            if (s->calls[d].op == s->calls[c].op && s->calls[d].tiles <= s->calls[c].tiles)
                all += call_seconds(s, &s->calls[d]);
        if (all >= 0.05 * op->seconds && (!op->tiles || s->calls[c].tiles < op->tiles))
            op->tiles = s->calls[c].tiles;
    }
}

static enum weft_status run(struct recorder *r, const struct weft_stage *stage, int runs)
{
    for (int i = 0; i < runs; i++) {
        r->call = r->time = 0;
        r->again = i > 0;
        r->op = -1;
        weft_observer_set(&r->observer);
        enum weft_status status = weft_exec_run(stage->exec);
        weft_observer_set(NULL);
        TRY(status);
        end_step(r);
        if (r->status != WEFT_OK)
            return FAIL(r->status, "not enough memory to record a step");
    }
    return WEFT_OK;
}

enum weft_status weft_slack_record(struct weft_slack *s, const struct weft_stage *stage, int threads, int runs)
{
    *s = (struct weft_slack){0};
    struct recorder r = {.observer = {threads, see_step, see_call, see_tile}, .s = s};
    TRY(run(&r, stage, runs));
    count_ops(s);
    return WEFT_OK;
}

void weft_slack_release(struct weft_slack *s)
{
    free(s->calls);
    free(s->times);
    free(s->ops);
    *s = (struct weft_slack){0};
}
