/* SPDX-License-Identifier: MIT
 *
 * restored.c - checks that a checkpoint restores the state of a trainer: weights, moments, masks, the step, and the
 * hashes of samples and losses.
 *
 * Work on weights is divided into spans, so the twin gets a vocabulary at which the embedding occupies more than two
 * spans, and a width at which a square matrix occupies more than one. Vectors of these sizes fill whole cache lines, as
 * in most models, so that a file of the weights can be mapped. The state is random, so that nothing is right by chance.
 */
#include "check/trainer/stepped.h"
#include "ckpt/ckpt.h"
#include "train/prune/mask.h"
#include "train/prune/prune.h"
#include "train/record/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_KEY = 91, STEP = 7, ARRAYS = 3, CHAIN = 64, WIDTH = 160 };

/* Returns the n-th array of the state; all arrays have the length of the weights. */
static float *array_of(const struct weft_learner *t, int n)
{
    return n == 0 ? t->model->params.weights : t->moments[n - 1];
}

static void fill_chain(char chain[CHAIN + 1], uint64_t key)
{
    for (uint64_t i = 0; i < CHAIN; i++)
        chain[i] = "0123456789abcdef"[weft_below(key, i, 16)];
}

/* Draws the state of a trainer. Pruned values are 0 in all arrays. */
static void draw_state(struct weft_learner *t)
{
    const struct weft_params *p = &t->model->params;
    for (int k = 0; k < p->count; k++) {
        const struct weft_param *w = &p->list[k];
        uint32_t *mask = weft_mask_of(t, w);
        for (int64_t i = 0; i < w->count; i++) {
            uint64_t at = (uint64_t)(w->offset + i);
            bool pruned = weft_mask_exists(t, k) && weft_below(STATE_KEY, at, 8) == 0;
            if (pruned)
                weft_mask_set(mask, i);
            for (int n = 0; n < ARRAYS; n++)
                array_of(t, n)[at] = pruned ? 0 : (float)weft_uniform(STATE_KEY + 1 + (uint64_t)n, at) + 0.01F;
        }
    }
    weft_masks_count(t);
    fill_chain(t->stream, STATE_KEY + 5);
    fill_chain(t->loss_chain, STATE_KEY + 6);
    t->step = STEP;
    t->loss = 1.25;
}

static int64_t count_masks(const struct weft_learner *a, const struct weft_learner *b)
{
    const struct weft_params *p = &a->model->params;
    int64_t differing = 0;
    for (int k = 0; k < p->count; k++) {
        const uint32_t *of_a = weft_mask_of(a, &p->list[k]), *of_b = weft_mask_of(b, &p->list[k]);
        for (int64_t i = 0; i < p->list[k].count; i++)
            differing += weft_mask_has(of_a, i) != weft_mask_has(of_b, i);
    }
    return differing;
}

/* Returns the number of values of an array that differ, and sets *name to the first weight with one. */
static int64_t count_values(const struct weft_params *p, const float *a, const float *b, const char **name)
{
    int64_t differing = 0;
    for (int k = 0; k < p->count; k++)
        for (int64_t i = p->list[k].offset; i < p->list[k].offset + p->list[k].count; i++)
            if (memcmp(&a[i], &b[i], sizeof *a) != 0 && differing++ == 0)
                *name = p->list[k].name;
    return differing;
}

static void compare_states(const struct weft_trial *t, const struct weft_learner *saved,
                           const struct weft_learner *loaded)
{
    static const char *const names[ARRAYS] = {"a checkpoint: weights that are not restored",
                                              "a checkpoint: first moments that are not restored",
                                              "a checkpoint: second moments that are not restored"};
    for (int n = 0; n < ARRAYS; n++) {
        const char *name = "";
        int64_t wrong = count_values(&saved->model->params, array_of(saved, n), array_of(loaded, n), &name);
        weft_trial_report(t, wrong == 0, (double)wrong, 0, names[n], "%s", name);
    }
    int64_t wrong = count_masks(saved, loaded);
    weft_trial_report(t, wrong == 0, (double)wrong, 0, "a checkpoint: masks of pruned weights that are not restored",
                      "%s", "");
    weft_trial_report(t, loaded->step == saved->step, (double)(loaded->step - saved->step), 0,
                      "a checkpoint: steps between the saved and the loaded one", "step %" PRId64 ", expected %" PRId64,
                      loaded->step, saved->step);
    bool same = strcmp(loaded->stream, saved->stream) == 0 && strcmp(loaded->loss_chain, saved->loss_chain) == 0 &&
                loaded->loss == saved->loss;
    weft_trial_report(t, same, !same, 0, "a checkpoint: hashes of samples or losses that are not restored", "%s", "");
}

static enum weft_status open_trainer(struct weft_rehearsal *s, const struct weft_trial *t, const struct weft_nn *wide)
{
    TRY(weft_rehearsal_open(s, wide, t->itself->recipe->optim, 0, 1, 1, NULL));
    s->settings.preset_name = wide->spec->preset;
    s->recipe.prune = (struct weft_pruning){
        .target = 0.5, .every = 1, .end = 1, .attention = true, .ffn = true, .mechanisms = true, .embedding = true};
    TRY(weft_masks_create(s->trainer));
    return WEFT_OK;
}

static enum weft_status save_and_load(const struct weft_trial *t, struct weft_rehearsal *s, struct weft_rehearsal *r,
                                      const char *folder)
{
    char *config = NULL, hash[65], checkpoint[320];
    draw_state(s->trainer);
    TRY(weft_record_config(&s->settings, &config, hash));
    enum weft_status status = weft_state_save_alone(s->trainer, folder, config);
    free(config);
    TRY(status);
    snprintf(checkpoint, sizeof checkpoint, "%s/step-%09d", folder, STEP);
    TRY(weft_state_load_one(r->trainer, checkpoint));
    compare_states(t, s->trainer, r->trainer);
    TRY(weft_check_opened(t, s, folder, checkpoint));
    return WEFT_OK;
}

static enum weft_status with_wide(const struct weft_trial *t, const struct weft_nn *wide)
{
    struct weft_rehearsal saved = {0}, loaded = {0};
    struct weft_scratch scratch;
    enum weft_status status = open_trainer(&saved, t, wide);
    if (status == WEFT_OK)
        status = open_trainer(&loaded, t, wide);
    if (status == WEFT_OK)
        status = weft_scratch_make(&scratch);
    if (status == WEFT_OK) {
        status = save_and_load(t, &saved, &loaded, scratch.folder);
        weft_scratch_remove(&scratch);
    }
    weft_rehearsal_close(&saved);
    weft_rehearsal_close(&loaded);
    return status;
}

static enum weft_status check(const struct weft_trial *t)
{
    struct weft_spec spec;
    struct weft_nn *wide = NULL;
    char sizes[80];
    int64_t of_twin = t->model->spec->width, width = of_twin * weft_div_up(WIDTH, of_twin);
    snprintf(sizes, sizeof sizes, "width=%" PRId64 " ffn_width=%" PRId64 " vocab=%" PRId64, width,
             2 * t->model->spec->ffn_width, 5 * WEFT_SPAN / 2 / width + 1);
    TRY(weft_spec_vary(&spec, t->model->spec, sizes));
    enum weft_status status = weft_twin_create(&wide, &spec);
    if (status == WEFT_OK)
        status = with_wide(t, wide);
    weft_nn_free(wide);
    weft_spec_release(&spec);
    return weft_trial_refused(t, status, "a checkpoint");
}

enum weft_status weft_check_restored(const struct weft_trial *t) { return weft_trial_on_twin(t, check); }
