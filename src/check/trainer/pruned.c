/* SPDX-License-Identifier: MIT
 *
 * pruned.c - checks that pruning follows its definition. In each chosen matrix, and in no other, the number of pruned
 * weights follows the schedule. Pruned weights are the smallest ones, or belong to the least important units. They,
 * their moments and their gradients are 0 and stay 0.
 *
 * The masks are compared with the definition in plain code. In steps with a learning rate of 0, the masks are computed
 * from the weights before the step. In the steps between, all unmasked weights move.
 */
#include "check/trainer/stepped.h"
#include "train/prune/prune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 24, EVERY = 2 };

struct pruned {
    const struct weft_learner *trainer;
    struct weft_pruning by;
    bool rests;    /* weights do not move at a learning rate of 0, which holds for the built-in optimisers */
    float *before; /* weights before a step; 0 in the units that the step prunes */
    bool *mask;    /* elements pruned so far, indexed like the flat arrays */
    bool *unit;    /* elements of units to be pruned, indexed in the same way */
    double amount; /* largest error of a count, in elements */
    int64_t not_zero, larger, back, strange, missing; /* numbers of wrong weights */
    int amount_at, wrong_at;
};

/* ---- the definition */

/* Returns the fraction to prune at a step, given the final one. Counts of units are rounded to the nearest integer, so
 * even the last bit matters. */
static double plain_share(const struct weft_pruning *by, double target, int64_t steps, int64_t step)
{
    double begin = floor(by->begin * (double)steps), end = floor(by->end * (double)steps);
    if ((double)step >= end)
        return target;
    double left = (end - (double)step) / (end - begin);
    return (double)step <= begin ? 0 : target * (1 - left * left * left);
}

/* Returns whether a weight is chosen for pruning, judging by its name: blocks.LAYER.PART.NAME, or any other outside the
 * blocks. */
static bool plain_chosen(const struct weft_pruning *by, const struct weft_param *w)
{
    int layer;
    char part[64];
    if (by->target == 0 || !weft_plain_decays(w))
        return false;
    if (sscanf(w->name, "blocks.%d.%63[^.]", &layer, part) != 2)
        return by->embedding;
    return strcmp(part, "attn") == 0 ? by->attention : strcmp(part, "ffn") == 0 ? by->ffn : by->mechanisms;
}

/* ---- a step */

static enum weft_status open(struct pruned *p, const struct weft_learner *trainer)
{
    size_t total = (size_t)trainer->model->params.total;
    struct weft_plain plain;
    weft_plain_init(&plain, trainer->recipe->optim, trainer->recipe->optim_options);
    *p = (struct pruned){.trainer = trainer, .by = trainer->recipe->prune, .rests = plain.known};
    p->before = calloc(total, sizeof *p->before);
    p->mask = calloc(total, sizeof *p->mask);
    p->unit = calloc(total, sizeof *p->unit);
    return p->before && p->mask && p->unit ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory to check the model");
}

static void close(struct pruned *p)
{
    free(p->before);
    free(p->mask);
    free(p->unit);
}

static void remember(struct pruned *p)
{
    const struct weft_params *all = &p->trainer->model->params;
    memcpy(p->before, all->weights, (size_t)all->total * sizeof *p->before);
}

/* Returns the number of pruned weights that were larger before the step than a remaining one. */
static int64_t count_larger(const struct pruned *p, const struct weft_param *w, const uint32_t *mask)
{
    float least = INFINITY;
    int64_t n = 0;
    for (int64_t e = 0; e < w->count; e++)
        if (!(mask[e / 32] >> e % 32 & 1))
            least = fminf(least, fabsf(p->before[w->offset + e]));
    for (int64_t e = 0; e < w->count; e++)
        n += (mask[e / 32] >> e % 32 & 1) && fabsf(p->before[w->offset + e]) > least;
    return n;
}

static void compare_weight(struct pruned *p, int i, bool moved)
{
    const struct weft_learner *t = p->trainer;
    const struct weft_param *w = &t->model->params.list[i];
    const uint32_t *mask = weft_mask_of(t, w);
    bool chosen = plain_chosen(&p->by, w);
    int64_t not_zero = 0, back = 0, strange = 0, missing = 0;
    for (int64_t e = 0; e < w->count; e++) {
        int64_t at = w->offset + e;
        bool pruned = mask[e / 32] >> e % 32 & 1;
        not_zero += pruned && (t->model->params.weights[at] != 0 || t->moments[0][at] != 0 || t->moments[1][at] != 0);
        not_zero += p->mask[at] && p->rests && t->sums[0].grads[at] != 0;
        back += p->mask[at] && !pruned;
        strange += pruned && !chosen && !p->unit[at];
        missing += p->unit[at] && !pruned;
        p->mask[at] = pruned;
    }
    int64_t larger = moved || !p->rests || !chosen ? 0 : count_larger(p, w, mask);
    if (not_zero || back || larger || strange || missing)
        p->wrong_at = i;
    p->not_zero += not_zero;
    p->back += back;
    p->larger += larger;
    p->strange += strange;
    p->missing += missing;
}

/* Between two increases, the count does not change. `least` is the number of weights that were pruned before or belong
 * to units; it may exceed the number that the fraction of single weights requires. */
static void compare_count(struct pruned *p, int i, int64_t grown, int64_t least)
{
    const struct weft_learner *t = p->trainer;
    const struct weft_param *w = &t->model->params.list[i];
    int64_t count = 0;
    for (int64_t e = 0; e < w->count; e++)
        count += p->mask[w->offset + e];
    double wanted = plain_chosen(&p->by, w) ? plain_share(&p->by, p->by.target, t->recipe->steps, grown) : 0;
    double error = fabs(wanted * (double)w->count - 0.5 - (double)count) - 0.5; /* counts are rounded down */
    if (wanted * (double)w->count < (double)least)
        error = fabs((double)(count - least));
    if (error > p->amount) {
        p->amount = error;
        p->amount_at = i;
    }
}

static int64_t count_least(const struct pruned *p, const struct weft_param *w)
{
    int64_t n = 0;
    for (int64_t at = w->offset; at < w->offset + w->count; at++)
        n += p->mask[at] || p->unit[at];
    return n;
}

/* Finds the units that an increase prunes. If the optimiser moves weights even at a learning rate of 0, only the
 * current weights are known: if exactly the required number of units is 0 in them, these units are used. */
static enum weft_status find_units(struct pruned *p, int64_t grown)
{
    int64_t steps = p->trainer->recipe->steps;
    const struct weft_shares shares = {plain_share(&p->by, p->by.units.heads, steps, grown),
                                       plain_share(&p->by, p->by.units.channels, steps, grown),
                                       plain_share(&p->by, p->by.units.ranks, steps, grown)};
    if (!p->rests)
        remember(p);
    return weft_plain_units(p->trainer, &shares, p->before, p->unit);
}

static enum weft_status compare(struct pruned *p, int64_t grown, bool moved)
{
    if (!moved)
        TRY(find_units(p, grown));
    for (int i = 0; i < p->trainer->model->params.count; i++) {
        int64_t least = count_least(p, &p->trainer->model->params.list[i]);
        compare_weight(p, i, moved);
        compare_count(p, i, grown, least);
    }
    return WEFT_OK;
}

static void report(const struct weft_trial *t, const struct pruned *p, const char *what)
{
    const struct weft_param *list = p->trainer->model->params.list;
    const struct {
        int64_t count;
        const char *text;
    } wrong[] = {{p->not_zero, "pruned weights that are not 0, or have gradients or moments"},
                 {p->back, "pruned weights that come back"},
                 {p->larger, "pruned weights that are larger than one that is kept"},
                 {p->strange, "pruned weights of matrices and units that are not to be"},
                 {p->missing, "weights of units to be pruned that are not"}};
    char name[160];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(name, sizeof name, "%s: %s", what, wrong[i].text);
        weft_trial_report(t, wrong[i].count == 0, (double)wrong[i].count, 0, name, "%s", list[p->wrong_at].name);
    }
    snprintf(name, sizeof name, "%s: weights pruned too many or too few", what);
    weft_trial_report(t, p->amount <= 1e-6, p->amount, 1e-6, name, "%s", list[p->amount_at].name);
}

/* ---- on the twin: the whole schedule */

static enum weft_status follow_schedule(struct weft_rehearsal *s, struct pruned *p)
{
    struct weft_losses losses;
    double lr = 0.01;
    int64_t begin = (int64_t)(p->by.begin * STEPS), end = (int64_t)(p->by.end * STEPS), grown = 0;
    for (int64_t step = 1; step <= STEPS; step++) {
        bool due = step >= end || (step > begin && (step - begin) % EVERY == 0);
        grown = due ? step : grown;
        s->recipe.lr = due ? 0 : lr;
        remember(p);
        TRY(weft_learner_step(s->trainer, &losses));
        TRY(compare(p, grown, !due));
        if (!due)
            continue;
        s->recipe.lr = lr; /* the step again with the current masks: newly pruned weights must stay pruned */
        s->trainer->step--;
        TRY(weft_learner_step(s->trainer, &losses));
        TRY(compare(p, grown, true));
    }
    return WEFT_OK;
}

static enum weft_status rehearse(const struct weft_trial *t)
{
    struct weft_rehearsal s;
    struct pruned p = {0};
    enum weft_status status = weft_rehearsal_open(&s, t->model, t->itself->recipe->optim, 0, 1, 1, NULL);
    if (status == WEFT_OK) {
        s.recipe.prune = t->itself->pruning;
        s.recipe.prune.units = weft_plain_shares(&t->itself->pruning.units, &s.model);
        s.recipe.prune.every = EVERY;
        s.recipe.steps = STEPS;
        status = weft_masks_create(s.trainer);
    }
    bool any = weft_pruning_any(&s.recipe.prune); /* the twin may be too small for units to be pruned */
    if (status == WEFT_OK && any)
        status = open(&p, s.trainer);
    if (status == WEFT_OK && any)
        status = follow_schedule(&s, &p);
    if (status == WEFT_OK && any)
        report(t, &p, "pruning");
    close(&p);
    weft_rehearsal_close(&s);
    return status;
}

/* ---- on the model itself: everything in one step, followed by a second step */

static enum weft_status prune_at_once(struct weft_learner *trainer, struct weft_recipe *r, struct pruned *p)
{
    struct weft_losses losses;
    double lr = r->lr;
    r->lr = 0;
    trainer->step = r->steps - 1;
    remember(p);
    TRY(weft_learner_step(trainer, &losses));
    TRY(compare(p, r->steps, false));
    r->lr = lr;
    trainer->step = r->steps - 1;
    TRY(weft_learner_step(trainer, &losses));
    TRY(compare(p, r->steps, true));
    return WEFT_OK;
}

static enum weft_status check_itself(const struct weft_trial *t)
{
    struct weft_recipe recipe = *t->itself->recipe;
    struct weft_learner *trainer = NULL;
    struct pruned p = {0};
    recipe.prune = t->itself->pruning;
    recipe.micro_batches = 1;
    enum weft_status status = weft_learner_create(&trainer, t->itself->model, &recipe, NULL);
    if (status == WEFT_OK)
        status = open(&p, trainer);
    if (status == WEFT_OK)
        status = prune_at_once(trainer, &recipe, &p);
    if (status == WEFT_OK)
        report(t, &p, "pruning of the model itself");
    close(&p);
    weft_learner_free(trainer);
    return status;
}

enum weft_status weft_check_pruned(const struct weft_trial *t)
{
    if (!weft_pruning_any(&t->itself->pruning))
        return WEFT_OK;
    TRY(weft_trial_refused(t, weft_trial_on_twin(t, rehearse), "pruning"));
    enum weft_status status = weft_trial_refused(t, check_itself(t), "pruning of the model itself");
    TRY(weft_nn_init(t->itself->model));
    return status;
}
