/* SPDX-License-Identifier: MIT
 *
 * ladder.c - evaluates a ladder, which is a set of studies of the same arms at several sizes. For every rung, computes
 * how many times its own compute the first arm would need to reach the loss of an arm, and determines whether that gain
 * survives scale.
 */
#include "base/json.h"
#include "report/read/results.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    [WEFT_TREND_UNKNOWN] = "cannot decide",
    [WEFT_TREND_HOLDS] = "gain holds",
    [WEFT_TREND_GROWS] = "gain grows",
    [WEFT_TREND_SHRINKS] = "gain shrinks",
};
/* For an arm that needs more compute than the first on every rung, a growing multiplier approaches 1. */
static const char *const names_worse[] = {
    [WEFT_TREND_UNKNOWN] = "worse on every rung, cannot decide whether more so with size",
    [WEFT_TREND_HOLDS] = "worse on every rung, by the same factor",
    [WEFT_TREND_GROWS] = "worse on every rung, less so with size",
    [WEFT_TREND_SHRINKS] = "worse on every rung, more so with size",
};

/* ---- reading */

static enum weft_status check_arms(const struct weft_rungs *l, int r)
{
    const struct weft_results *first = &l->rung[0], *rung = &l->rung[r];
    bool same = rung->arm_count == first->arm_count;
    for (int i = 0; same && i < first->arm_count; i++)
        same = strcmp(first->arm[i].name, rung->arm[i].name) == 0;
    if (!same)
        return FAIL(WEFT_INVALID, "%s and %s have different arms: all rungs of a ladder need the same arms",
                    rung->folder, first->folder);
    if (strcmp(first->task, rung->task) != 0)
        return FAIL(WEFT_INVALID, "%s has the task %s, but %s has %s", rung->folder, rung->task, first->folder,
                    first->task);
    for (int i = 0; i < rung->arm_count; i++)
        if (!(rung->arm[i].tokens > 0))
            return FAIL(WEFT_INVALID, "%s does not record the number of tokens per run: run its study again",
                        rung->folder);
    return WEFT_OK;
}

/* Returns the number of seeds compared on every rung: the smallest number on any rung, at most WEFT_LADDER_SEEDS. */
static int64_t count_seeds(const struct weft_rungs *l)
{
    int64_t seeds = WEFT_LADDER_SEEDS;
    for (int r = 0; r < l->count; r++)
        seeds = weft_min(seeds, l->rung[r].seed_count);
    return seeds;
}

/* Finds why an arm has no multiplier: one of the studies has no verdict on it, or fewer seeds than planned. */
static enum weft_status find_obstacle(struct weft_rungs *l, int i, const char **why)
{
    static const char *const verdicts[] = {"better", "worse", "not resolved"};
    *why = NULL;
    for (int r = 0; r < l->count && !*why; r++) {
        const struct weft_finding *f = &l->rung[r].arm[i].found, *base = &l->rung[r].arm[0].found;
        bool judged = false;
        for (size_t k = 0; k < sizeof verdicts / sizeof *verdicts; k++)
            judged |= strcmp(f->verdict, verdicts[k]) == 0;
        if (judged && f->seeds >= l->seeds && base->seeds >= l->seeds)
            continue;
        *why = weft_arena_print(&l->arena, "no verdict: on rung %d, %s", r + 1,
                                judged ? "not all planned seeds were trained" : f->text);
        if (!*why)
            return WEFT_NOMEM;
    }
    return WEFT_OK;
}

static double *collect(struct weft_rungs *l, int i)
{
    double *losses = weft_arena_alloc(&l->arena, (size_t)(l->count * l->seeds) * sizeof *losses);
    for (int r = 0; losses && r < l->count; r++)
        for (int64_t s = 0; s < l->seeds; s++)
            losses[r * l->seeds + s] = l->rung[r].arm[i].found.run[s].test_loss;
    return losses;
}

static double compute(const struct weft_rungs *l, int r, int i)
{
    return l->rung[r].arm[i].flops * l->rung[r].arm[i].tokens;
}

/* Names the verdict; without a fitted curve, the trend is unknown. */
static const char *name_verdict(const struct weft_ladder *of)
{
    bool worse = !isnan(of->trend.interval.low);
    for (int r = 0; r < of->rungs; r++)
        worse = worse && of->multiplier[r].interval.high < 0;
    return (worse ? names_worse : names)[of->verdict];
}

static void describe(const struct weft_rungs *l, const struct weft_rung_arm *arm, char text[WEFT_VERDICT_TEXT])
{
    const struct weft_ladder *of = &arm->ladder;
    const struct weft_estimate_of *m = &of->multiplier[l->count - 1];
    if (isnan(of->trend.interval.low)) {
        snprintf(text, WEFT_VERDICT_TEXT, "cannot decide: the losses do not follow a curve that falls with compute");
        return;
    }
    snprintf(text, WEFT_VERDICT_TEXT,
             "%s: on the largest rung, %s would need %.3g times [%.3g, %.3g] the compute for the same loss, and this "
             "multiplier changes by a factor of %.3g [%.3g, %.3g] per tenfold increase in compute",
             arm->verdict, l->rung[0].arm[0].name, exp(m->value), exp(m->interval.low), exp(m->interval.high),
             pow(10, of->trend.value), pow(10, of->trend.interval.low), pow(10, of->trend.interval.high));
}

static enum weft_status judge(struct weft_rungs *l, int i)
{
    struct weft_rung_arm *arm = &l->arm[i];
    char text[WEFT_VERDICT_TEXT];
    arm->name = l->rung[0].arm[i].name;
    TRY(find_obstacle(l, i, &arm->text));
    arm->verdict = "no verdict";
    if (arm->text)
        return WEFT_OK;
    for (int r = 0; r < l->count; r++) {
        arm->compute[0][r] = compute(l, r, 0);
        arm->compute[1][r] = compute(l, r, i);
    }
    arm->ladder = (struct weft_ladder){.rungs = l->count,
                                       .seeds = l->seeds,
                                       .comparisons = l->rung[0].looks.comparisons,
                                       .base_compute = arm->compute[0],
                                       .arm_compute = arm->compute[1],
                                       .base = collect(l, 0),
                                       .arm = collect(l, i)};
    if (!arm->ladder.base || !arm->ladder.arm)
        return WEFT_NOMEM;
    TRY(weft_ladder(&arm->ladder));
    arm->judged = true;
    arm->verdict = name_verdict(&arm->ladder);
    describe(l, arm, text);
    arm->text = weft_arena_print(&l->arena, "%s", text);
    return arm->text ? WEFT_OK : WEFT_NOMEM;
}

enum weft_status weft_rungs_load(struct weft_rungs *l, const char *const *folders, int count)
{
    *l = (struct weft_rungs){0};
    if (count < WEFT_LEAST_RUNGS || count > WEFT_MAX_RUNGS)
        return FAIL(WEFT_INVALID, "a ladder cannot have %d studies: expected %d to %d, smallest first", count,
                    WEFT_LEAST_RUNGS, WEFT_MAX_RUNGS);
    for (; l->count < count; l->count++)
        TRY(weft_results_load(&l->rung[l->count], folders[l->count]));
    for (int r = 0; r < count; r++)
        TRY(check_arms(l, r));
    l->seeds = count_seeds(l);
    l->arm = weft_arena_alloc(&l->arena, (size_t)l->rung[0].arm_count * sizeof *l->arm);
    if (!l->arm)
        return WEFT_NOMEM;
    for (int i = 1; i < l->rung[0].arm_count; i++)
        if (!l->rung[0].arm[i].repeats)
            TRY(judge(l, i));
    return WEFT_OK;
}

void weft_rungs_release(struct weft_rungs *l)
{
    for (int r = 0; r < WEFT_MAX_RUNGS; r++)
        weft_results_release(&l->rung[r]);
    weft_arena_release(&l->arena);
}

/* ---- the ranking */

static bool is_ranked(const struct weft_result_arm *arm) { return !arm->repeats && isfinite(arm->found.loss); }

void weft_rungs_ranking(const struct weft_rungs *l, char text[WEFT_VERDICT_TEXT])
{
    const struct weft_results *r = &l->rung[l->count - 1];
    const struct weft_result_arm *last = NULL;
    size_t used = 0;
    *text = '\0';
    for (;;) {
        const struct weft_result_arm *next = NULL;
        for (const struct weft_result_arm *arm = r->arm; arm < r->arm + r->arm_count; arm++) {
            bool later =
                !last || arm->found.loss > last->found.loss || (arm->found.loss == last->found.loss && arm > last);
            if (is_ranked(arm) && later && (!next || arm->found.loss < next->found.loss))
                next = arm;
        }
        if (!next || used >= WEFT_VERDICT_TEXT)
            return;
        used += (size_t)snprintf(text + used, WEFT_VERDICT_TEXT - used, "%s%s %s", last ? ", " : "", next->name,
                                 weft_loss_text(next->found.loss).text);
        if (next != r->arm && used < WEFT_VERDICT_TEXT)
            used += (size_t)snprintf(text + used, WEFT_VERDICT_TEXT - used, " (%s)", next->found.verdict);
        last = next;
    }
}

/* ---- printing */

static void print_rung(const struct weft_rungs *l, const struct weft_rung_arm *arm, int i, int r, FILE *to)
{
    const struct weft_result_arm *base = &l->rung[r].arm[0], *own = &l->rung[r].arm[i];
    fprintf(to, "%4d  %10s  %11s  %9s  %9s  %+10.4f", r + 1, weft_count_text((double)own->params).text,
            weft_count_text(compute(l, r, i)).text, weft_loss_text(base->found.loss).text,
            weft_loss_text(own->found.loss).text, own->found.loss - base->found.loss);
    if (arm->judged) {
        const struct weft_estimate_of *m = &arm->ladder.multiplier[r];
        fprintf(to, "  %10.3f  [%.3f, %.3f]  %+.4f", exp(m->value), exp(m->interval.low), exp(m->interval.high),
                arm->ladder.residual[1][r]);
    }
    fprintf(to, "  %s\n", own->found.verdict);
}

static void print(const struct weft_rungs *l, FILE *to)
{
    char ranking[WEFT_VERDICT_TEXT];
    weft_rungs_ranking(l, ranking);
    fprintf(to, "%d rungs, %lld seeds each, compared with %s\nranking on the largest rung: %s\n", l->count,
            (long long)l->seeds, l->rung[0].arm[0].name, ranking);
    for (int i = 1; i < l->rung[0].arm_count; i++) {
        const struct weft_rung_arm *arm = &l->arm[i];
        if (!arm->name)
            continue;
        fprintf(to, "\n%s: %s\n%4s  %10s  %11s  %9s  %9s  %10s", arm->name, arm->text, "rung", "parameters", "FLOPs",
                l->rung[0].arm[0].name, arm->name, "difference");
        fprintf(to, arm->judged ? "  %10s  interval, residual, verdict of the rung\n" : "  verdict of the rung\n",
                "multiplier");
        for (int r = 0; r < l->count; r++)
            print_rung(l, arm, i, r, to);
        if (arm->judged)
            fprintf(to, "curves: %.4g + A C^-a, with a = %.3g and %.3g", arm->ladder.floor, arm->ladder.exponent[0],
                    arm->ladder.exponent[1]);
        if (arm->judged && isfinite(arm->ladder.prediction_error))
            fprintf(to,
                    "; the loss of %s on the largest rung, as predicted from the smaller rungs, is off by %+.4f nats",
                    l->rung[0].arm[0].name, arm->ladder.prediction_error);
        fputs(arm->judged ? "\n" : "", to);
    }
}

static void add_estimate(struct weft_result *to, const char *arm, const char *name, const struct weft_estimate_of *e)
{
    const double values[] = {e->value, e->interval.low, e->interval.high};
    static const char *const endings[] = {"", "_low", "_high"};
    char key[160];
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "%s.%s%s", arm, name, endings[i]);
        weft_result_real(to, key, exp(values[i]));
    }
}

static void add(const struct weft_rungs *l, struct weft_result *to)
{
    weft_result_int(to, "rungs", l->count);
    weft_result_int(to, "seeds", l->seeds);
    char ranking[WEFT_VERDICT_TEXT];
    weft_rungs_ranking(l, ranking);
    weft_result_text(to, "ranking", ranking);
    for (int i = 1; i < l->rung[0].arm_count; i++) {
        const struct weft_rung_arm *arm = &l->arm[i];
        char name[40], key[160];
        if (!arm->name)
            continue;
        snprintf(key, sizeof key, "%s.verdict", arm->name);
        weft_result_text(to, key, arm->verdict);
        for (int r = 0; arm->judged && r < l->count; r++) {
            snprintf(name, sizeof name, "multiplier_%d", r + 1);
            add_estimate(to, arm->name, name, &arm->ladder.multiplier[r]);
        }
        struct weft_estimate_of tenfold = arm->ladder.trend;
        tenfold.value *= log(10);
        tenfold.interval.low *= log(10);
        tenfold.interval.high *= log(10);
        if (arm->judged)
            add_estimate(to, arm->name, "change_per_tenfold", &tenfold);
        snprintf(key, sizeof key, "%s.prediction_error", arm->name);
        weft_result_real(to, key, arm->judged ? arm->ladder.prediction_error : NAN);
    }
}

enum weft_status weft_rungs_print(const struct weft_rungs *l, bool json, FILE *to)
{
    if (!json) {
        print(l, to);
        return WEFT_OK;
    }
    struct weft_result *r = weft_result_create();
    add(l, r);
    return weft_result_finish(r, to, true);
}
