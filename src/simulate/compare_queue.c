/* SPDX-License-Identifier: MIT
 *
 * compare_queue.c - checks the runs that a queue has trained, the learning rates that it has chosen, and the lines of
 * its ledger, read as plain JSON.
 */
#include "simulate/studies.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the runs that must have been trained */

static int count_trained(const struct weft_simulation *m, int first, int end, struct weft_sim_trained run)
{
    int n = 0;
    for (int i = first; i < end; i++)
        n += m->run[i].arm == run.arm && m->run[i].rate == run.rate && m->run[i].seed == run.seed;
    return n;
}

/* Runs that finished before this pass are not trained again. */
static int count_wanted(const struct weft_simulation *m, struct weft_sim_trained run)
{
    return weft_sim_fails(m->of, run.arm, run.rate, run.seed) || !count_trained(m, 0, m->first, run);
}

struct counting {
    const struct weft_sim_case *c;
    struct weft_sim_worst wrong;
    int wanted;
};

static void count_run(struct counting *n, struct weft_sim_trained run)
{
    const struct weft_simulation *m = n->c->runs;
    char what[80];
    int wanted = count_wanted(m, run), trained = count_trained(m, m->first, m->count, run);
    snprintf(what, sizeof what, "times trained, lr %g, seed %lld", run.rate, (long long)run.seed);
    weft_sim_note(&n->wrong, trained, wanted, n->c->of->arm[run.arm].name, what);
    n->wanted += wanted;
}

static void compare_runs(const struct weft_sim_case *c)
{
    const struct weft_sim_study *s = c->of;
    struct counting n = {.c = c};
    for (int arm = 0; arm < s->arm_count; arm++) {
        for (int k = 0; k < s->rate_count && !s->arm[arm].repeats; k++)
            for (int64_t i = 0; i < s->screen_seeds; i++)
                count_run(&n, (struct weft_sim_trained){arm, s->rate[k], s->first_seed + WEFT_SIM_SCREENING + i});
        for (int64_t i = 0; i < c->expected->seeds; i++)
            count_run(&n, (struct weft_sim_trained){arm, c->expected->arm[arm].rate, s->first_seed + i});
    }
    weft_sim_note(&n.wrong, c->runs->count - c->runs->first, n.wanted, "all arms", "number of runs");
    weft_sim_report(c, "runs that the queue trains", &n.wrong);
}

static void compare_rates(const struct weft_sim_case *c, const struct weft_study *s)
{
    struct weft_sim_worst w = {0};
    for (int i = 0; i < s->arm_count && c->of->rate_count; i++)
        if (!c->of->arm[i].repeats)
            weft_sim_note(&w, s->arm[i].lr, c->expected->arm[i].rate, s->arm[i].name, "learning rate");
    weft_sim_report(c, "learning rates that the queue chooses", &w);
}

/* ---- the ledger */

static double number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void compare_line(const struct weft_sim_case *c, const json_t *line, const struct weft_sim_trained *run,
                         struct weft_sim_worst *w)
{
    const struct weft_sim_study *s = c->of;
    const char *arm = json_string_value(json_object_get(line, "arm")), *name = s->arm[run->arm].name;
    double val = weft_sim_val_loss(s, run->arm, run->rate, run->seed);
    weft_sim_note_text(w, arm ? arm : "", name, name, "arm");
    weft_sim_note(w, number(line, "lr"), run->rate, name, "lr");
    weft_sim_note(w, number(line, "seed"), (double)run->seed, name, "seed");
    weft_sim_note(w, number(line, "val_loss"), val, name, "val_loss");
    weft_sim_note(w, number(line, "train_loss"), val - 0.5, name, "train_loss");
    weft_sim_note(w, number(line, "test_loss"), weft_sim_test_loss(s, run->arm, run->rate, run->seed), name,
                  "test_loss");
}

/* Returns the index of the first run, from run i onwards, that has a line in the ledger. Every finished run has one
 * line; the lines are in the order of the runs. */
static int next_finished(const struct weft_simulation *m, int i)
{
    const struct weft_sim_trained *run = m->run;
    while (i < m->count && weft_sim_fails(m->of, run[i].arm, run[i].rate, run[i].seed) && i < m->retried_from)
        i++;
    return i;
}

static void compare_lines(const struct weft_sim_case *c, FILE *from)
{
    struct weft_sim_worst w = {.limit = 1e-12};
    const struct weft_simulation *m = c->runs;
    char line[4096];
    int i = next_finished(m, 0), more = 0;
    while (c->of->strays && more < WEFT_SIM_STRAYS_BEFORE && fgets(line, sizeof line, from))
        more++;
    for (; fgets(line, sizeof line, from); i = i < m->count ? next_finished(m, i + 1) : i) {
        json_t *object = json_loads(line, 0, NULL);
        if (i < m->count)
            compare_line(c, object, &m->run[i], &w);
        else
            more++;
        json_decref(object);
    }
    weft_sim_note(&w, i, m->count, "all arms", "runs up to the last with a line");
    weft_sim_note(&w, more, weft_sim_count_strays(c->of), "all arms", "number of other lines");
    weft_sim_report(c, "lines of the ledger", &w);
}

enum weft_status weft_sim_compare_queue(const struct weft_sim_case *c, const struct weft_study *s, const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/runs.jsonl", folder);
    FILE *from = fopen(path, "re");
    if (!from)
        return FAIL(WEFT_IO, "%s cannot be read", path);
    compare_runs(c);
    compare_rates(c, s);
    compare_lines(c, from);
    fclose(from);
    return WEFT_OK;
}
