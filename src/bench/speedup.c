/* SPDX-License-Identifier: MIT
 *
 * speedup.c - predicts the time of a model's forward and backward passes on more threads than the machine has.
 *
 * All layers are alike, so a model with many layers is recorded once with two layers and once with three; the
 * difference shows how often each op runs per layer and outside the layers. How work is divided depends on the number
 * of threads, so each op is recorded with the division for one thread and with the division for the requested threads.
 * The faster recording counts for every team.
 */
#include "bench/slack.h"

#include <math.h>

enum { FEW_LAYERS = 2, MOST = 128 };
#define LONG 2.0 /* seconds: a step that takes longer is recorded only once */

static void choose_teams(struct weft_speedup *s, int threads)
{
    *s = (struct weft_speedup){.asked = -1};
    for (int n = 1; n <= MOST; n *= 2)
        s->teams[s->team_count++] = n;
    for (int i = 0; i < s->team_count; i++)
        if (s->teams[i] == threads)
            s->asked = i;
    if (s->asked < 0) {
        s->asked = s->team_count;
        s->teams[s->team_count++] = threads;
    }
}

/* Sets each op's time per run to the best of all recordings. */
static enum weft_status enter(const struct weft_slack *r, struct weft_speedup *s)
{
    double ops[WEFT_SPEEDUP_OPS];
    bool first = !s->op_count;
    if (r->op_count > WEFT_SPEEDUP_OPS || (!first && r->op_count != s->op_count))
        return FAIL(WEFT_UNSUPPORTED, "the model has more than %d kinds of ops, or its layers differ",
                    WEFT_SPEEDUP_OPS);
    s->op_count = (int)r->op_count;
    for (int t = 0; t < s->team_count; t++) {
        weft_slack_schedule(r, &s->cost, s->teams[t], ops);
        for (int o = 0; o < s->op_count; o++)
            s->ops[o].seconds[t] = fmin(first ? INFINITY : s->ops[o].seconds[t], ops[o] / (double)r->ops[o].runs);
    }
    for (int o = 0; o < s->op_count; o++) {
        s->ops[o].name = r->ops[o].name;
        s->ops[o].backward = r->ops[o].backward;
        s->ops[o].tiles = r->ops[o].tiles;
        s->ops[o].runs = r->ops[o].runs;
    }
    return WEFT_OK;
}

static enum weft_status record(const struct weft_stage *stage, int cut, struct weft_speedup *s)
{
    struct weft_slack slack;
    double start = weft_seconds();
    enum weft_status status = weft_slack_record(&slack, stage, cut, 1);
    if (status == WEFT_OK && weft_seconds() - start < LONG) { /* the first run was only a warm-up */
        weft_slack_release(&slack);
        status = weft_slack_record(&slack, stage, cut, 3);
    }
    if (status == WEFT_OK)
        status = enter(&slack, s);
    weft_slack_release(&slack);
    return status;
}

static void ignore_step(struct weft_observer *o, const char *name, bool backward)
{
    (void)o;
    (void)name;
    (void)backward;
}

static void ignore_call(struct weft_observer *o, int64_t tiles)
{
    (void)o;
    (void)tiles;
}

static void ignore_tile(struct weft_observer *o) { (void)o; }

/* Plans the stage for the finer of the two divisions of work that are recorded. */
static enum weft_status measure(const struct weft_spec *spec, int64_t layers, struct weft_speedup *s)
{
    struct weft_spec twin = *spec;
    struct weft_stage stage;
    int asked = s->teams[s->asked] > 1 ? s->teams[s->asked] : MOST;
    struct weft_observer planning = {asked, ignore_step, ignore_call, ignore_tile};
    twin.layers = layers;
    weft_observer_set(&planning);
    enum weft_status status = weft_stage_open(&stage, &twin, false);
    weft_observer_set(NULL);
    if (status == WEFT_OK)
        status = record(&stage, 1, s);
    if (status == WEFT_OK)
        status = record(&stage, asked, s);
    weft_stage_close(&stage);
    return status;
}

static enum weft_status measure_alone(const struct weft_spec *spec, int64_t layers, struct weft_speedup *s)
{
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, 1);
    enum weft_status status = measure(spec, layers, s);
    weft_threads_leave(&scope);
    return status;
}

/* Converts seconds per run to seconds per step, for a model with `more` additional layers compared with the last
 * recording; `fewer` contains the number of runs of each op with one layer fewer. */
static void add_up(struct weft_speedup *s, const int64_t *fewer, int64_t more)
{
    for (int o = 0; o < s->op_count; o++) {
        struct weft_speedup_op *op = &s->ops[o];
        op->runs += more * (op->runs - fewer[o]);
        for (int t = 0; t < s->team_count; t++) {
            op->seconds[t] *= (double)op->runs;
            s->seconds[t] += op->seconds[t];
        }
    }
}

/* Sorts ops by descending time on the requested threads. */
static void sort_ops(struct weft_speedup *s)
{
    for (int o = 1; o < s->op_count; o++)
        for (int i = o; i > 0 && s->ops[i].seconds[s->asked] > s->ops[i - 1].seconds[s->asked]; i--) {
            struct weft_speedup_op swap = s->ops[i];
            s->ops[i] = s->ops[i - 1];
            s->ops[i - 1] = swap;
        }
}

enum weft_status weft_speedup_measure(const struct weft_spec *spec, int threads, double call, struct weft_speedup *s)
{
    bool few = spec->layers <= FEW_LAYERS + 1;
    int64_t fewer[WEFT_SPEEDUP_OPS] = {0};
    choose_teams(s, threads);
    weft_team_measure(&s->cost);
    s->cost.call = call > 0 ? call : s->cost.call;
    TRY(measure_alone(spec, few ? spec->layers : FEW_LAYERS, s));
    for (int o = 0; o < s->op_count; o++)
        fewer[o] = s->ops[o].runs;
    if (!few)
        TRY(measure_alone(spec, FEW_LAYERS + 1, s));
    add_up(s, fewer, few ? 0 : spec->layers - FEW_LAYERS - 1);
    sort_ops(s);
    return WEFT_OK;
}
