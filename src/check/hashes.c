/* SPDX-License-Identifier: MIT
 *
 * hashes.c - small models, trained for a few steps from their first weights with dropout, have the same bits on every
 * machine: those that hashes.def lists. A hash is over the loss and the norm of the gradient of every step, and the
 * weights after the last.
 */
#include "check/check.h"

#include <string.h>

#define COMMON                                                                                                         \
    "layers=2 width=64 heads=4 ffn_width=128 context=80 vocab=64 batch=2 seed=7 dropout=0.1 steps=20 warmup=4 "        \
    "micro_batches=3 task=recall recall_length=40"

static const struct row {
    const char *model, *settings, *hash[2]; /* in bf16 and f32 */
} rows[] = {
#define HASHES(model, settings, bf16, f32) {model, settings, {bf16, f32}},
#include "check/hashes.def"
#undef HASHES
};
enum { ROWS = sizeof rows / sizeof *rows };

struct small {
    struct weft_settings settings;
    struct weft_spec spec;
    struct weft_recipe recipe;
    struct weft_model *model;
    struct weft_trainer *trainer;
};

static enum weft_status open_small(struct small *s, const struct row *row, const char *dtype)
{
    TRY(weft_settings_add_words(&s->settings, COMMON));
    TRY(weft_settings_add_words(&s->settings, row->settings));
    TRY(weft_settings_add(&s->settings, dtype));
    TRY(weft_spec_init(&s->spec, row->model, &s->settings));
    TRY(weft_recipe_init(&s->recipe, &s->spec, &s->settings));
    TRY(weft_recipe_open(&s->recipe, &s->spec));
    TRY(weft_model_create(&s->model, &s->spec));
    TRY(weft_model_init(s->model));
    TRY(weft_trainer_create(&s->trainer, s->model, &s->recipe));
    return WEFT_OK;
}

static void close_small(struct small *s)
{
    weft_trainer_free(s->trainer);
    weft_model_free(s->model);
    weft_recipe_release(&s->recipe);
    weft_spec_release(&s->spec);
    weft_settings_release(&s->settings);
}

static enum weft_status train(struct small *s, char hash[65])
{
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    while (s->trainer->step < s->recipe.steps) {
        struct weft_losses losses;
        TRY(weft_trainer_step(s->trainer, &losses));
        weft_sha256_add(&sha, &s->trainer->loss, sizeof s->trainer->loss);
        weft_sha256_add(&sha, &s->trainer->grad_norm, sizeof s->trainer->grad_norm);
    }
    weft_params_hash(&s->model->params, hash);
    weft_sha256_add(&sha, hash, 64);
    weft_sha256_hex(&sha, hash);
    return WEFT_OK;
}

enum weft_status weft_hashes_run(const char *preset, weft_hashes_fn *report, void *context)
{
    static const char *const dtypes[] = {"dtype=bf16", "dtype=f32"};
    for (int i = 0; i < 2 * ROWS; i++) {
        const struct row *row = &rows[i / 2];
        struct weft_hashes_case c = {row->model, row->settings, dtypes[i % 2] + 6, row->hash[i % 2], ""};
        struct small s = {0};
        if (preset && strcmp(preset, row->model) != 0)
            continue;
        enum weft_status status = open_small(&s, row, dtypes[i % 2]);
        if (status == WEFT_OK)
            status = train(&s, c.hash);
        close_small(&s);
        if (status != WEFT_OK)
            return status;
        report(context, &c);
    }
    return WEFT_OK;
}
