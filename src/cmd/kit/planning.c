/* SPDX-License-Identifier: MIT
 *
 * planning.c - plans a study, or all rungs of a ladder, before training: time, gates and table.
 */
#include "cmd/kit/planning.h"

#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/kit/progress.h"

#include <math.h>

enum { A_DAY = 86400 };
#define SMALLER                                                                                                        \
    "configs/gpt2-ra-mla-small has the arms of the RA-MLA study at a size that takes minutes and needs no data, "      \
    "configs/gpt2-ra-mla-hour at one that takes about an hour"

#define NO_DATA                                                                                                        \
    "docs/data.md explains how to get the data; --stand-in DIR (make STAND_IN=book.txt) trains on different text "     \
    "instead, which the plan and the report mention. "

static FILE *output(const struct weft_planning *p) { return p->dry_run && !p->json ? stdout : stderr; }

/* ---- the estimate */

static void print_estimate(const struct weft_study *s, const struct weft_estimate *e, FILE *to)
{
    fprintf(to, "%lld runs, %d concurrently with %d %s each: about %s (%s)\n", (long long)weft_study_runs(s), e->slots,
            e->threads, e->threads == 1 ? "thread" : "threads", weft_duration(e->seconds).text,
            e->timed ? "steps of every arm were timed" : "if training reaches half of the machine's matmul speed");
}

static void print_stand_in(const struct weft_study *s, FILE *to)
{
    if (*s->stands_for)
        fprintf(to, "stand-in data: %s instead of %s\n", s->stand_in, s->stands_for);
}

static void print_budget(const struct weft_study *s, FILE *to)
{
    const struct weft_recipe *r = &s->arm[0].recipe;
    if (s->whole_steps == r->steps)
        fprintf(to, "all %lld steps fit into the budget of %g minutes\n", (long long)r->steps, s->budget);
    else if (s->whole_steps)
        fprintf(to, "%lld of %lld steps for every arm, including %lld warm-up steps: fixed by a budget of %g minutes\n",
                (long long)r->steps, (long long)s->whole_steps, (long long)r->warmup, s->budget);
}

static double total(const struct weft_study_ladder *l, const struct weft_estimate *e)
{
    double seconds = 0;
    for (int r = 0; r < l->count; r++)
        seconds += e[r].seconds;
    return seconds;
}

static void print_ladder(const struct weft_study_ladder *l, const struct weft_estimate *e, FILE *to)
{
    for (int r = 0; r < l->count; r++) {
        const struct weft_arm *arm = &l->rung[r].study.arm[0];
        if (l->count > 1)
            fprintf(to, "rung %d: %lld parameters, %lld steps, %.4g tokens; ", r + 1, (long long)arm->account.params,
                    (long long)arm->recipe.steps, weft_arm_tokens(arm));
        print_estimate(&l->rung[r].study, &e[r], to);
    }
    print_stand_in(&l->rung[0].study, to);
    print_budget(&l->rung[0].study, to);
    if (l->count > 1)
        fprintf(to, "all rungs: about %s\n", weft_duration(total(l, e)).text);
}

/* Returns the first obstacle, or NULL. */
static const struct weft_estimate *find_obstacle(const struct weft_study_ladder *l, const struct weft_estimate *e)
{
    for (int r = 0; r < l->count; r++)
        if (*e[r].obstacle)
            return &e[r];
    return NULL;
}

/* Fails if the study cannot run or would take too long; a dry run only prints the reason. */
static enum weft_status check_estimate(const struct weft_planning *p, const struct weft_study_ladder *l,
                                       const struct weft_estimate *e)
{
    const struct weft_estimate *obstacle = find_obstacle(l, e);
    bool endless = total(l, e) > A_DAY && !p->endless && !p->elsewhere && !l->rung[0].study.whole_steps;
    if (!obstacle && !endless)
        return WEFT_OK;
    enum weft_status status =
        obstacle ? FAIL(WEFT_INVALID, "the study cannot run here; %s. %s" SMALLER, obstacle->obstacle,
                        obstacle->no_data ? NO_DATA : "")
                 : FAIL(WEFT_INVALID,
                        "the study would take about %s on this machine: pass --long (make LONG=1) to run it anyway, or "
                        "--budget MINUTES (make BUDGET=60) to train fewer steps. " SMALLER,
                        weft_duration(total(l, e)).text);
    if (!p->dry_run)
        return status;
    fprintf(stderr, "%s\n", weft_error());
    weft_error_clear();
    return WEFT_OK;
}

enum weft_status weft_planning_estimate(const struct weft_planning *p, struct weft_study_ladder *l,
                                        const char folder[WEFT_MAX_RUNGS][4096],
                                        struct weft_estimate estimate[WEFT_MAX_RUNGS])
{
    for (int r = 0; r < l->count; r++) {
        TRY(weft_study_plan(&l->rung[r].study));
        TRY(weft_study_estimate(&l->rung[r].study, p->elsewhere, &estimate[r]));
        if (!*estimate[r].obstacle || p->dry_run)
            TRY(weft_study_fix_steps(&l->rung[r].study, folder[r], &estimate[r]));
    }
    print_ladder(l, estimate, output(p));
    TRY(check_estimate(p, l, estimate));
    return WEFT_OK;
}

/* ---- the gates */

static void print_doing(void *context, const struct weft_study *s, int arm)
{
    (void)context;
    weft_say(stderr, "%s: gates\n", s->arm[arm].name);
}

/* Prints a failed check and continues if that is allowed. */
static enum weft_status forgive(enum weft_status status, bool allowed)
{
    if (status != WEFT_CHECK || !allowed)
        return status;
    weft_say(stderr, "%s\n", weft_error());
    weft_error_clear();
    return WEFT_OK;
}

/* Returns whether the data exists, which a dry run does not need. */
static bool is_data_here(struct weft_study *s)
{
    bool here = weft_recipe_open(&s->arm[0].recipe, &s->arm[0].spec) == WEFT_OK;
    if (!here)
        weft_error_clear();
    return here;
}

static enum weft_status check_samples(const struct weft_planning *p, struct weft_study *s)
{
    struct weft_first_samples found;
    if (s->arm_count < 2 || (p->dry_run && !is_data_here(s)))
        return WEFT_OK;
    enum weft_status status = weft_study_first_samples(s, &found);
    if (status == WEFT_OK)
        weft_say(stderr, "first samples: the same for all %d arms (%lld seeds: %lld of training, %lld held out)\n",
                 s->arm_count, (long long)found.seeds, (long long)found.training, (long long)found.held_out);
    return forgive(status, p->unsafe);
}

/* Called before the gates, which take longer. A study that cannot reach a verdict may still be run, for a quick
 * look. */
static enum weft_status check_prospects(const struct weft_planning *p, struct weft_study *s, const char *folder)
{
    TRY(weft_study_fits(s, folder));
    TRY(forgive(weft_study_verdict_possible(s), p->unsafe || !p->dry_run));
    return check_samples(p, s);
}

/* A study that is trained on different hosts is checked only on small copies; its runs check the models themselves. */
enum weft_status weft_planning_check(const struct weft_planning *p, struct weft_study *s, const char *folder,
                                     struct weft_simulated *simulated)
{
    if (weft_gates_skipped())
        fputs("gates: not run because WEFT_TEST_SKIP_GATES is set, so there will be no report\n", stderr);
    TRY(check_prospects(p, s, folder));
    TRY(weft_simulate_once(folder, p->unsafe, simulated));
    if (simulated->checks)
        weft_say(stderr, "simulated studies: %d of %d checks of queue, ledger and report passed\n",
                 simulated->checks - simulated->failed, simulated->checks);
    TRY(weft_study_gates(s, !p->dry_run && !p->elsewhere, print_doing, NULL));
    weft_study_print(s, output(p));
    if (!p->unsafe)
        TRY(weft_study_passes(s));
    return WEFT_OK;
}

/* ---- as a flat JSON object */

static int add_arm(struct weft_result *r, const char *rung, const struct weft_arm *arm)
{
    const struct weft_account *a = &arm->account;
    const struct {
        const char *key;
        double value;
    } rows[] = {{"params", (double)a->params},
                {"flops", a->flops_train},
                {"peak_bytes", (double)(a->state_bytes + a->activation_bytes)},
                {"cache_bytes", (double)a->cache_bytes},
                {"matched", (double)arm->matched}};
    char name[128];
    int failed = 0;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        snprintf(name, sizeof name, "%s%s.%s", rung, arm->name, rows[k].key);
        weft_result_int(r, name, llround(rows[k].value));
    }
    for (int g = 0; g < arm->gate_count; g++)
        failed += arm->gate[g].failed;
    return failed;
}

/* The hash of a plan that cannot be made is empty; the run will report the reason. */
static int add_rung(struct weft_result *r, const struct weft_study *s, const char *rung)
{
    int failed = 0;
    char name[64], plan[65] = "";
    snprintf(name, sizeof name, "%splan_sha256", rung);
    if (weft_study_plan_hash(s, plan) != WEFT_OK)
        weft_error_clear();
    weft_result_text(r, name, plan);
    snprintf(name, sizeof name, "%ssteps", rung);
    weft_result_int(r, name, s->arm[0].recipe.steps);
    for (int i = 0; i < s->arm_count; i++)
        failed += add_arm(r, rung, &s->arm[i]);
    return failed;
}

enum weft_status weft_planning_json(const struct weft_study_ladder *l, const struct weft_estimate *estimate)
{
    struct weft_result *r = weft_result_create();
    int64_t runs = 0, failed = 0;
    for (int i = 0; i < l->count; i++)
        runs += weft_study_runs(&l->rung[i].study);
    weft_result_text(r, "study", l->rung[0].study.name);
    weft_result_int(r, "rungs", l->count);
    weft_result_int(r, "runs", runs);
    weft_result_int(r, "slots", estimate[0].slots);
    weft_result_real(r, "seconds", total(l, estimate));
    const struct weft_estimate *obstacle = find_obstacle(l, estimate);
    weft_result_text(r, "obstacle", obstacle ? obstacle->obstacle : "");
    for (int i = 0; i < l->count; i++) {
        char rung[32] = "";
        if (l->count > 1)
            snprintf(rung, sizeof rung, "rung_%d.", i + 1);
        failed += add_rung(r, &l->rung[i].study, rung);
    }
    weft_result_int(r, "gates_failed", failed);
    return weft_result_finish(r, stdout, true);
}
