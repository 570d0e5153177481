/* SPDX-License-Identifier: MIT
 *
 * ranked.c - compares steps of the trainer, with dropout, on several ranks with those on one, for the `exact` gate. The
 * ranks are threads of this process, so no MPI is needed; they exchange the same data as processes would. The groups do
 * not divide evenly among the ranks, so that ranks join parts of the tree in every way. One step uses the recipe's own
 * division into micro-batches and groups.
 */
#include "check/trainer/ranked.h"
#include "check/trainer/rehearsal.h"

#include <stdio.h>
#include <string.h>

enum { STEPS = 3, GROUPS = 5, MOST_RANKS = 4, LEAST = 32 /* minimum number of the recipe's micro-batches */ };
#define SHARE 0.03 /* fraction of the time limit, for additional micro-batches */
#define MOST_SECONDS 3.0

struct outcome {
    char weights[65], losses[65], stream[65];
    double norm;
};

struct ranked {
    const struct weft_nn *twin;
    int64_t micro_batches, groups, steps;
    struct outcome of[MOST_RANKS];
};

static enum weft_status take_steps(struct weft_rehearsal *s, int64_t steps, struct outcome *to)
{
    struct weft_losses losses;
    for (int64_t i = 0; i < steps; i++)
        TRY(weft_learner_step(s->trainer, &losses));
    weft_params_hash(&s->model.params, to->weights);
    memcpy(to->losses, s->trainer->loss_chain, sizeof to->losses);
    memcpy(to->stream, s->trainer->stream, sizeof to->stream);
    to->norm = s->trainer->grad_norm;
    return WEFT_OK;
}

static enum weft_status run_rank(struct weft_comm *c, void *context)
{
    struct ranked *r = context;
    struct weft_rehearsal s;
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, 1);
    enum weft_status status = weft_rehearsal_open(&s, r->twin, weft_optim_at(0), 0.1, r->micro_batches, r->groups, c);
    if (status == WEFT_OK)
        status = take_steps(&s, r->steps, &r->of[c->rank]);
    weft_rehearsal_close(&s);
    weft_threads_leave(&scope);
    return status;
}

static int count_differing(const struct ranked *some, int ranks, const struct outcome *alone, const char **what)
{
    int differing = 0;
    for (int i = 0; i < ranks; i++) {
        const struct outcome *one = &some->of[i];
        const char *first = strcmp(one->losses, alone->losses)     ? "losses"
                            : one->norm != alone->norm             ? "the norm of the gradient"
                            : strcmp(one->weights, alone->weights) ? "weights"
                            : strcmp(one->stream, alone->stream)   ? "samples"
                                                                   : NULL;
        *what = first ? first : *what;
        differing += first != NULL;
    }
    return differing;
}

/* Compares several ranks with one. `how` specifies the steps of each rank; `suffix` is appended to the names of the
 * checks. */
static enum weft_status compare_ranks(const struct weft_trial *t, const struct ranked *how, const char *suffix)
{
    struct ranked alone = *how, some = *how;
    TRY(weft_comm_loopback(1, run_rank, &alone));
    for (int ranks = 2; ranks <= weft_min(MOST_RANKS, how->groups); ranks += 2) {
        const char *what = "";
        char name[160];
        TRY(weft_comm_loopback(ranks, run_rank, &some));
        int differing = count_differing(&some, ranks, &alone.of[0], &what);
        snprintf(name, sizeof name, "ranks that differ from one alone, of %d%s", ranks, suffix);
        weft_trial_report(t, differing == 0, differing, 0, name, "%s", what);
    }
    return WEFT_OK;
}

enum weft_status weft_check_ranks(const struct weft_trial *t)
{
    return compare_ranks(t, &(struct ranked){t->model, GROUPS, GROUPS, STEPS}, "");
}

/* ---- the recipe's own division */

static enum weft_status divide(const struct weft_trial *t, int64_t micro_batches)
{
    const struct weft_recipe *r = t->itself->recipe;
    const int64_t groups = weft_min(micro_batches, weft_recipe_groups(r));
    char suffix[96];
    snprintf(suffix, sizeof suffix, " (%lld of %lld micro-batches, %lld groups)", (long long)micro_batches,
             (long long)r->micro_batches, (long long)groups);
    return compare_ranks(t, &(struct ranked){t->model, micro_batches, groups, 1}, suffix);
}

enum weft_status weft_check_ranks_division(const struct weft_trial *t)
{
    const int64_t all = t->itself->recipe->micro_batches, some = weft_min(all, LEAST);
    double start = weft_seconds();
    TRY(divide(t, some));
    int64_t more = weft_itself_fits(t->itself, SHARE, MOST_SECONDS, (weft_seconds() - start) / (double)some, all);
    return more > some ? divide(t, more) : WEFT_OK;
}
