/* SPDX-License-Identifier: MIT
 *
 * compare_results.c - checks the report's conclusions about a simulated study: learning rates, means, pairs, intervals,
 * p values, looks, verdicts and their sentences.
 */
#include "report/report.h"
#include "simulate/studies.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Tolerance for rounding; losses are about 2. */
static const double rounding = 1e-9;

struct arm {
    const struct weft_sim_case *c;
    const struct weft_expected_arm *expected;
    const struct weft_result_arm *found;
};

static struct arm arm_at(const struct weft_sim_case *c, const struct weft_results *r, int i)
{
    return (struct arm){c, &c->expected->arm[i], &r->arm[i]};
}

/* ---- single arms */

static void compare_counts(const struct weft_sim_case *c, const struct weft_results *r)
{
    struct weft_sim_worst w = {0};
    const struct weft_sim_study *s = c->of;
    int64_t planned = 0, finished = 0;
    for (int i = 0; i < s->arm_count; i++)
        planned += s->seeds + (s->arm[i].repeats ? 0 : s->rate_count * s->screen_seeds);
    for (int i = 0; i < c->runs->count; i++) {
        const struct weft_sim_trained *run = &c->runs->run[i];
        finished += i >= c->runs->retried_from || !weft_sim_fails(s, run->arm, run->rate, run->seed);
    }
    weft_sim_note(&w, r->arm_count, s->arm_count, "all arms", "number of arms");
    weft_sim_note(&w, (double)r->planned, (double)planned, "all arms", "runs planned");
    weft_sim_note(&w, (double)r->finished, (double)finished, "all arms", "runs finished");
    weft_sim_note(&w, (double)r->left_out, weft_sim_count_strays(s), "all arms", "lines left out");
    for (int i = 0; i < s->arm_count && i < r->arm_count; i++)
        weft_sim_note_text(&w, r->arm[i].name, s->arm[i].name, s->arm[i].name, "name");
    weft_sim_report(c, "arms and runs that the report counts", &w);
}

static void compare_rates(const struct weft_sim_case *c, const struct weft_results *r)
{
    struct weft_sim_worst w = {0};
    for (int i = 0; i < c->of->arm_count; i++) {
        struct arm a = arm_at(c, r, i);
        weft_sim_note(&w, a.found->lr, a.expected->rate, a.found->name, "learning rate");
        weft_sim_note(&w, a.found->lr_at_edge, a.expected->edge, a.found->name, "at the edge");
    }
    weft_sim_report(c, "learning rates in the report", &w);
}

static void compare_means(const struct weft_sim_case *c, const struct weft_results *r)
{
    struct weft_sim_worst w = {.limit = rounding};
    for (int i = 0; i < c->of->arm_count; i++) {
        struct arm a = arm_at(c, r, i);
        const struct weft_finding *f = &a.found->found;
        weft_sim_note(&w, f->seeds, (double)a.expected->finished, a.found->name, "number of seeds");
        weft_sim_note(&w, f->loss, a.expected->loss, a.found->name, "mean test loss");
        weft_sim_note(&w, f->loss_sd, a.expected->sd, a.found->name, "standard deviation");
        for (int k = 0; k < f->seeds; k++) {
            double loss = weft_sim_test_loss(c->of, i, a.expected->rate, f->run[k].seed);
            weft_sim_note(&w, f->run[k].test_loss, loss, a.found->name, "test loss of a run");
            weft_sim_note(&w, f->run[k].lr, a.expected->rate, a.found->name, "learning rate of a run");
        }
    }
    weft_sim_report(c, "losses of the arms", &w);
}

/* ---- arms and the base */

static void compare_pairs(const struct weft_sim_case *c, const struct weft_results *r)
{
    struct weft_sim_worst w = {.limit = rounding};
    for (int i = 1; i < c->of->arm_count; i++) {
        struct arm a = arm_at(c, r, i);
        const struct weft_comparison *f = &a.found->found.against;
        weft_sim_note(&w, (double)f->seeds, (double)a.expected->pairs, a.found->name, "number of pairs");
        if (!a.expected->pairs)
            continue;
        weft_sim_note(&w, f->mean, a.expected->mean, a.found->name, "mean difference");
        weft_sim_note(&w, f->sd, a.expected->pair_sd, a.found->name, "standard deviation of differences");
        weft_sim_note(&w, f->over_noise, a.expected->over_noise, a.found->name, "difference over noise");
        weft_sim_note(&w, a.found->found.look, a.expected->look, a.found->name, "look");
    }
    weft_sim_report(c, "pairs and their differences", &w);
}

/* With several looks, the expected levels and the report's levels come from different simulations. */
static void compare_levels(const struct weft_sim_case *c, const struct weft_results *r)
{
    struct weft_sim_worst w = {.limit = c->of->look_count ? 0.02 : rounding};
    for (int i = 1; i < c->of->arm_count; i++) {
        struct arm a = arm_at(c, r, i);
        double level = c->of->look_count && a.expected->look ? c->expected->level[a.expected->look - 1]
                                                             : 0.05 / c->expected->comparisons;
        if (a.expected->pairs)
            weft_sim_note(&w, a.found->found.against.alpha / level, 1, a.found->name, "level over expected level");
    }
    for (int k = 0; k < c->of->look_count; k++)
        weft_sim_note(&w, r->looks.alpha[k] / c->expected->level[k], 1, "all arms", "level of a look over expected");
    weft_sim_report(c, "levels of the intervals", &w);
}

/* Returns half the width of the expected interval. With several looks, its level is the report's, which compare_levels
 * checks. */
static double half_of(const struct arm *a)
{
    const struct weft_comparison *f = &a->found->found.against;
    if (!a->c->of->look_count || isnan(a->expected->half))
        return a->expected->half;
    return weft_naive_limit(f->alpha, a->expected->pairs - 1) * a->expected->pair_sd / sqrt((double)a->expected->pairs);
}

static void compare_intervals(const struct weft_sim_case *c, const struct weft_results *r)
{
    struct weft_sim_worst w = {.limit = rounding};
    for (int i = 1; i < c->of->arm_count; i++) {
        struct arm a = arm_at(c, r, i);
        const struct weft_comparison *f = &a.found->found.against;
        const struct weft_expected_arm *e = a.expected;
        double half = half_of(&a);
        if (!e->pairs)
            continue;
        weft_sim_note(&w, f->family.low, e->mean - half, a.found->name, "low end of the interval");
        weft_sim_note(&w, f->family.high, e->mean + half, a.found->name, "high end of the interval");
        weft_sim_note(&w, f->alone.low, e->mean - e->alone, a.found->name, "low end of the interval alone");
        weft_sim_note(&w, f->alone.high, e->mean + e->alone, a.found->name, "high end of the interval alone");
        weft_sim_note(&w, f->p, e->p, a.found->name, "p");
        weft_sim_note(&w, f->p_holm, e->p_holm, a.found->name, "p, Holm");
    }
    weft_sim_report(c, "intervals and p values", &w);
}

/* ---- verdicts */

/* Compares the verdicts with the expected ones and, unless the failed run was trained again, with the study's known
 * answers. */
static void compare_verdicts(const struct weft_sim_case *c, const struct weft_results *r)
{
    struct weft_sim_worst w = {0};
    for (int i = 0; i < c->of->arm_count; i++) {
        struct arm a = arm_at(c, r, i);
        weft_sim_note_text(&w, a.found->found.verdict, a.expected->verdict, a.found->name, "verdict");
        if (c->of->arm[i].close) /* otherwise, the correction for several arms would have no visible effect */
            weft_sim_note(&w, a.expected->alone < fabs(a.expected->mean), 1, a.found->name, "resolved alone");
        if (!c->runs->retried)
            weft_sim_note_text(&w, a.found->found.verdict, c->of->arm[i].verdict, a.found->name, "known verdict");
    }
    int reproduced = -1;
    for (int i = 0; i < c->of->arm_count; i++)
        if (c->of->arm[i].repeats)
            reproduced = c->of->arm[i].quirk != WEFT_SIM_OTHER_BITS;
    weft_sim_note(&w, r->reproduced, reproduced, "all arms", "reproduced");
    weft_sim_report(c, "verdicts", &w);
}

/* Compares the numbers in the sentence, which are rounded to two significant digits of the interval's half-width. */
static void compare_resolved(const struct arm *a, struct weft_sim_worst *w)
{
    const struct weft_expected_arm *e = a->expected;
    double by = NAN, low = NAN, high = NAN, half = half_of(a), sign = e->mean < 0 ? -1 : 1;
    long long seeds = 0;
    char word[16] = "";
    sscanf(a->found->found.text, "%15s by %lf nats [%lf, %lf], %lld seeds", word, &by, &low, &high, &seeds);
    weft_sim_note(w, strcmp(word, sign < 0 ? "better" : "worse"), 0, a->found->name, "word in the sentence");
    weft_sim_note(w, by / half, fabs(e->mean) / half, a->found->name, "difference in the sentence");
    weft_sim_note(w, low / half, (sign * e->mean - half) / half, a->found->name, "low end in the sentence");
    weft_sim_note(w, high / half, (sign * e->mean + half) / half, a->found->name, "high end in the sentence");
    weft_sim_note(w, (double)seeds, (double)e->pairs, a->found->name, "seeds in the sentence");
}

static void compare_unresolved(const struct arm *a, struct weft_sim_worst *w)
{
    const struct weft_expected_arm *e = a->expected;
    double by = NAN, low = NAN, high = NAN, half = half_of(a);
    long long seeds = 0;
    sscanf(a->found->found.text, "not resolved: %lf nats [%lf, %lf], %lld seeds", &by, &low, &high, &seeds);
    weft_sim_note(w, by / half, e->mean / half, a->found->name, "difference in the sentence");
    weft_sim_note(w, low / half, (e->mean - half) / half, a->found->name, "low end in the sentence");
    weft_sim_note(w, high / half, (e->mean + half) / half, a->found->name, "high end in the sentence");
    weft_sim_note(w, (double)seeds, (double)e->pairs, a->found->name, "seeds in the sentence");
}

static void compare_sentences(const struct weft_sim_case *c, const struct weft_results *r)
{
    struct weft_sim_worst w = {.limit = 0.051};
    char start[200];
    for (int i = 1; i < c->of->arm_count; i++) {
        struct arm a = arm_at(c, r, i);
        const char *verdict = a.expected->verdict, *text = a.found->found.text;
        *start = '\0';
        if (strcmp(verdict, "better") == 0 || strcmp(verdict, "worse") == 0)
            compare_resolved(&a, &w);
        else if (strcmp(verdict, "not resolved") == 0)
            compare_unresolved(&a, &w);
        else if (strcmp(verdict, "too few seeds") == 0)
            snprintf(start, sizeof start, "not enough seeds: exactly %+.2g nats in each of %lld seeds",
                     a.expected->mean, (long long)a.expected->pairs);
        else if (strcmp(verdict, "edge of grid") == 0) {
            int edge = c->expected->arm[0].edge ? 0 : i;
            snprintf(start, sizeof start, "no verdict: the best learning rate of %s, %g, is at the edge",
                     c->of->arm[edge].name, c->expected->arm[edge].rate);
        } else if (strcmp(verdict, "unfinished") == 0)
            snprintf(start, sizeof start, "no verdict yet: ");
        weft_sim_note(&w, strncmp(text, start, strlen(start)) != 0, 0, a.found->name, start);
    }
    weft_sim_report(c, "sentences", &w);
}

void weft_sim_compare_results(const struct weft_sim_case *c, const struct weft_results *r)
{
    compare_counts(c, r);
    if (r->arm_count != c->of->arm_count)
        return;
    compare_rates(c, r);
    compare_means(c, r);
    compare_pairs(c, r);
    compare_levels(c, r);
    compare_intervals(c, r);
    compare_verdicts(c, r);
    compare_sentences(c, r);
}
