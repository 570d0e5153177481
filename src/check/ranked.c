/* SPDX-License-Identifier: MIT
 *
 * ranked.c - for the gate `exact`: some steps of the trainer, with dropout, on several ranks against one alone. The
 * ranks are threads of this process, so this needs no MPI; what they send each other is the same. Their groups do not
 * divide evenly, so that they join parts of the tree in every way.
 */
#include "check/stepped.h"

#include <string.h>

enum { STEPS = 3, GROUPS = 5, MOST_RANKS = 4 };

struct outcome {
    char weights[65], losses[65], stream[65];
    double norm;
};

struct ranked {
    const struct weft_nn *twin;
    struct outcome of[MOST_RANKS];
};

static enum weft_status take_steps(struct weft_rehearsal *s, struct outcome *to)
{
    struct weft_losses losses;
    for (int i = 0; i < STEPS; i++)
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
    enum weft_status status = weft_rehearsal_open(&s, r->twin, weft_optim_at(0), 0.1, GROUPS, GROUPS, c);
    if (status == WEFT_OK)
        status = take_steps(&s, &r->of[c->rank]);
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

enum weft_status weft_check_ranks(const struct weft_trial *t)
{
    struct ranked alone = {t->model}, some = {t->model};
    TRY(weft_comm_loopback(1, run_rank, &alone));
    for (int ranks = 2; ranks <= MOST_RANKS; ranks += 2) {
        const char *what = "";
        char name[96];
        TRY(weft_comm_loopback(ranks, run_rank, &some));
        int differing = count_differing(&some, ranks, &alone.of[0], &what);
        snprintf(name, sizeof name, "ranks that differ from one alone, of %d", ranks);
        weft_trial_report(t, differing == 0, differing, 0, name, "%s", what);
    }
    return WEFT_OK;
}
