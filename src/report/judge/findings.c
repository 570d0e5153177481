/* SPDX-License-Identifier: MIT
 *
 * findings.c - compares every arm with the first arm, seed by seed, and every repeat with the arm that it repeats.
 *
 * Learning rates are chosen by validation loss; arms are compared by test loss. The family contains all comparisons in
 * the plan except repeats, so omitting arms later does not make intervals narrower. Verdicts are given only at the
 * planned looks, over the seeds of the look; further finished runs wait for the next look. Arms whose runs are not
 * pairs have no verdict, and arms that do not differ from the first at all have failed, because their settings had no
 * effect.
 */
#include "report/read/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    [WEFT_BETTER] = "better",
    [WEFT_WORSE] = "worse",
    [WEFT_NOT_RESOLVED] = "not resolved",
    [WEFT_TOO_FEW_SEEDS] = "too few seeds",
};

/* An arm with at least this accuracy has solved its task: its remaining loss measures how confident it is, not how
 * often it is right. */
static const double solved_accuracy = 0.995;

/* A decrease between the last two tenths of the steps counts if it exceeds this fraction of the loss and this number of
 * standard errors.
 */
static const double falling_fraction = 0.002, falling_errors = 3;

/* ---- a single arm */

static void add_up(struct weft_finding *f)
{
    double squares = 0;
    f->loss = f->tokens_per_s = 0;
    f->slowest = f->fastest = NAN;
    f->solved = f->seeds > 0;
    for (int i = 0; i < f->seeds; i++) {
        f->loss += f->run[i].test_loss / f->seeds;
        f->tokens_per_s += f->run[i].tokens_per_s / f->seeds;
        f->slowest = fmin(f->slowest, f->run[i].tokens_per_s);
        f->fastest = fmax(f->fastest, f->run[i].tokens_per_s);
        f->solved &= f->run[i].test_accuracy >= solved_accuracy;
    }
    for (int i = 0; i < f->seeds; i++)
        squares += (f->run[i].test_loss - f->loss) * (f->run[i].test_loss - f->loss);
    f->loss_sd = f->seeds > 1 ? sqrt(squares / (f->seeds - 1)) : NAN;
    if (!f->seeds)
        f->loss = f->tokens_per_s = NAN;
}

static void find_falling(struct weft_finding *f)
{
    double squares = 0;
    f->fall = 0;
    for (int i = 0; i < f->seeds; i++)
        f->fall += f->run[i].fall / f->seeds;
    for (int i = 0; i < f->seeds; i++)
        squares += (f->run[i].fall - f->fall) * (f->run[i].fall - f->fall);
    double error = f->seeds > 1 ? sqrt(squares / (f->seeds - 1) / f->seeds) : INFINITY;
    f->falling = !f->solved && f->fall > falling_fraction * f->loss && f->fall > falling_errors * error;
}

static enum weft_status conclude(struct weft_finding *f, const char *verdict, const char *text)
{
    f->verdict = verdict;
    f->text = text;
    return text ? WEFT_OK : WEFT_NOMEM;
}

/* ---- comparison with the first arm */

/* Returns whether the plan has the seed. Folders passed to `weft compare` have no plan. */
static bool is_planned(const struct weft_results *r, int64_t seed)
{
    int64_t first = r->arm[0].first_seed;
    return !r->name || (seed >= first && seed - first < r->seed_count);
}

/* Collects the losses of the seeds that both arms have, in seed order. */
static enum weft_status pair(struct weft_results *r, const struct weft_finding *base, struct weft_finding *f)
{
    double *losses = weft_arena_alloc(&r->arena, (size_t)(2 * f->seeds + 1) * sizeof *losses);
    if (!losses)
        return WEFT_NOMEM;
    f->against = (struct weft_comparison){.arm = losses, .base = losses + f->seeds};
    for (int i = 0, k = 0; i < f->seeds; i++) {
        while (k < base->seeds && base->run[k].seed < f->run[i].seed)
            k++;
        if (k < base->seeds && base->run[k].seed == f->run[i].seed && is_planned(r, f->run[i].seed)) {
            losses[f->against.seeds] = f->run[i].test_loss;
            losses[f->seeds + f->against.seeds++] = base->run[k].test_loss;
        }
    }
    return WEFT_OK;
}

static const struct weft_finished *find_seed(const struct weft_finding *f, int64_t seed)
{
    for (int i = 0; i < f->seeds; i++)
        if (f->run[i].seed == seed)
            return &f->run[i];
    return NULL;
}

static bool is_equal(const struct weft_finished *a, const struct weft_finished *b)
{
    bool scores = a->val_loss == b->val_loss && a->val_accuracy == b->val_accuracy && a->test_loss == b->test_loss &&
                  a->test_accuracy == b->test_accuracy;
    return scores || (*a->weights_sha256 && strcmp(a->weights_sha256, b->weights_sha256) == 0);
}

/* Returns whether all common seeds gave the same losses. */
static bool is_same(const struct weft_finding *base, const struct weft_finding *f)
{
    int both = 0, equal = 0;
    for (int i = 0; i < f->seeds; i++) {
        const struct weft_finished *first = find_seed(base, f->run[i].seed);
        both += first != NULL;
        equal += first && is_equal(first, &f->run[i]);
    }
    return both && equal == both;
}

/* Returns how many of the plan's seeds, from the first without a gap, both arms have finished. */
static int64_t count_complete(const struct weft_results *r, const struct weft_result_arm *arm)
{
    int64_t n = 0, first = r->arm[0].first_seed;
    while (n < r->seed_count && find_seed(&r->arm[0].found, first + n) && find_seed(&arm->found, first + n))
        n++;
    return n;
}

/* Restricts the comparison to the seeds of a look. Folders passed to `weft compare` have no plan: all of their seeds
 * count.
 */
static enum weft_status look(struct weft_results *r, struct weft_result_arm *arm, bool *complete)
{
    struct weft_finding *f = &arm->found;
    *complete = true;
    if (!r->name)
        return WEFT_OK;
    f->against.seeds = count_complete(r, arm);
    int64_t finished = f->against.seeds;
    TRY(weft_look(&r->looks, &f->against, &f->look));
    if (f->look)
        return WEFT_OK;
    *complete = false;
    f->against = (struct weft_comparison){0};
    return conclude(f, "unfinished",
                    weft_arena_print(&r->arena, "no verdict yet: both arms have finished %lld of the %lld seeds %s",
                                     (long long)finished, (long long)r->looks.seeds[0],
                                     r->looks.count > 1 ? "of the first look" : "of the plan"));
}

/* Checks whether the arm can be compared with the first arm, seed by seed; if not, records the reason as the
 * finding. */
static enum weft_status admit(struct weft_results *r, struct weft_result_arm *arm, bool *admitted)
{
    struct weft_finding *f = &arm->found, *base = &r->arm[0].found;
    const char *reason;
    *admitted = false;
    if (r->not_comparable)
        return conclude(f, "not comparable", "no verdict: the arms were scored on different samples");
    const struct weft_result_arm *edge = r->arm[0].lr_at_edge ? &r->arm[0] : arm->lr_at_edge ? arm : NULL;
    if (r->screen_seeds && edge)
        return conclude(f, "edge of grid",
                        weft_arena_print(&r->arena,
                                         "no verdict: the best learning rate of %s, %s, is at the edge of the grid, so "
                                         "a better one may lie beyond it: extend lrs",
                                         edge->name, weft_lr_text(edge->lr).text));
    TRY(weft_pairing_check(r, arm, &reason));
    if (reason)
        return conclude(f, "not paired", weft_arena_print(&r->arena, "no verdict: not paired, because %s", reason));
    TRY(pair(r, base, f));
    if (!f->against.seeds)
        return conclude(f, f->seeds ? "not paired" : "not run",
                        f->seeds ? "no seed in common with the first arm" : "no run is finished");
    TRY(look(r, arm, admitted));
    if (!*admitted)
        return WEFT_OK;
    *admitted = false;
    if (r->name && is_same(base, f)) { /* only in a study: two runs passed to `weft compare` may be the same */
        int64_t seeds = f->against.seeds;
        f->against = (struct weft_comparison){0};
        return conclude(
            f, "failed",
            weft_arena_print(
                &r->arena,
                "FAILED: the arm does not differ from %s in any of %lld seeds, so its settings have no effect",
                r->arm[0].name, (long long)seeds));
    }
    *admitted = true;
    return WEFT_OK;
}

static enum weft_status conclude_comparison(struct weft_results *r, struct weft_finding *f)
{
    char text[WEFT_VERDICT_TEXT];
    weft_verdict_text(&f->against, "nats", text);
    enum weft_verdict verdict = weft_verdict(&f->against);
    if (f->solved && r->arm[0].found.solved && (verdict == WEFT_BETTER || verdict == WEFT_WORSE))
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "; both arms solve the task (accuracy %.1f %% or more), so only the loss differs",
                 100 * solved_accuracy);
    if (r->looks.count > 1)
        snprintf(text + strlen(text), sizeof text - strlen(text), " (look %d of %d)", f->look, r->looks.count);
    f->bootstrap = weft_bootstrap(&f->against);
    return conclude(f, names[weft_verdict(&f->against)], weft_arena_print(&r->arena, "%s", text));
}

static enum weft_status compare_all(struct weft_results *r)
{
    struct weft_comparison family[WEFT_MAX_ARMS];
    struct weft_finding *of[WEFT_MAX_ARMS];
    int count = 0;
    for (int i = 1; i < r->arm_count; i++) {
        struct weft_finding *f = &r->arm[i].found;
        bool admitted;
        if (r->arm[i].repeats)
            continue;
        TRY(admit(r, &r->arm[i], &admitted));
        if (!admitted)
            continue;
        family[count] = f->against;
        of[count++] = f;
    }
    TRY(weft_compare(family, count, r->name ? r->looks.comparisons : count));
    for (int i = 0; i < count; i++) {
        of[i]->against = family[i];
        TRY(conclude_comparison(r, of[i]));
    }
    return WEFT_OK;
}

/* ---- repeats */

static const struct weft_result_arm *find_arm(const struct weft_results *r, const char *name)
{
    for (int i = 0; i < r->arm_count; i++)
        if (strcmp(r->arm[i].name, name) == 0)
            return &r->arm[i];
    return NULL;
}

static const struct weft_finished *find_run(const struct weft_result_arm *arm, double lr, int64_t seed)
{
    for (int i = 0; i < arm->run_count; i++)
        if (arm->run[i].lr == lr && arm->run[i].seed == seed)
            return &arm->run[i];
    return NULL;
}

/* A repeat with different seeds trains the same model again, so the difference is noise. */
static enum weft_status conclude_noise(struct weft_results *r, struct weft_finding *f, const struct weft_result_arm *of)
{
    const char *name = of->name;
    double difference = f->loss - of->found.loss;
    if (!f->seeds || !of->found.seeds)
        return conclude(f, "not run", "no run is finished");
    if (isnan(f->loss_sd))
        return conclude(
            f, "noise",
            weft_arena_print(
                &r->arena, "the same model as %s with a different seed; the loss differs by %+.4f nats, which is noise",
                name, difference));
    return conclude(f, "noise",
                    weft_arena_print(&r->arena,
                                     "the same model as %s with different seeds; the mean losses differ by %+.4f nats, "
                                     "which is noise; the standard deviation between seeds is %.4f",
                                     name, difference, f->loss_sd));
}

static enum weft_status judge_repeat(struct weft_results *r, struct weft_result_arm *arm)
{
    const struct weft_result_arm *of = find_arm(r, arm->repeats);
    struct weft_finding *f = &arm->found;
    int both = 0, equal = 0;
    for (int i = 0; i < arm->run_count; i++) {
        const struct weft_finished *first = find_run(of, arm->run[i].lr, arm->run[i].seed);
        both += first != NULL;
        equal += first && strcmp(first->weights_sha256, arm->run[i].weights_sha256) == 0;
    }
    if (!both)
        return conclude_noise(r, f, of);
    r->reproduced = r->reproduced != 0 && equal == both;
    if (equal == both)
        return conclude(f, "reproduced",
                        weft_arena_print(&r->arena,
                                         "reproduced: the weights of %d runs are the same as those of %s, bit for bit",
                                         both, of->name));
    return conclude(f, "not reproduced",
                    weft_arena_print(&r->arena,
                                     "NOT REPRODUCED: the weights of %d of %d runs differ from those of %s with the "
                                     "same seeds. Do not trust any result of this study until the cause is found",
                                     both - equal, both, of->name));
}

bool weft_results_open(const struct weft_results *r)
{
    static const char *const open[] = {"not resolved", "too few seeds", "unfinished", "not run"};
    for (int i = 1; i < r->arm_count; i++)
        for (size_t k = 0; k < sizeof open / sizeof *open && !r->arm[i].repeats; k++)
            if (strcmp(r->arm[i].found.verdict, open[k]) == 0)
                return true;
    return false;
}

enum weft_status weft_results_judge(struct weft_results *r)
{
    struct weft_finding *base = &r->arm[0].found;
    r->reproduced = -1;
    for (int i = 0; i < r->arm_count; i++) {
        add_up(&r->arm[i].found);
        find_falling(&r->arm[i].found);
    }
    TRY(conclude(base, base->seeds ? "base" : "not run", base->seeds ? "the baseline" : "no run is finished"));
    TRY(compare_all(r));
    for (int i = 1; i < r->arm_count; i++)
        if (r->arm[i].repeats)
            TRY(judge_repeat(r, &r->arm[i]));
    return WEFT_OK;
}
