/* SPDX-License-Identifier: MIT
 *
 * hashes.c - trains small models for a few steps with dropout and hashes the result, which must have the same bits on
 * every machine. The expected hashes of some models are in hashes.def; hashes of combinations can be compared between
 * machines. A hash covers the loss and gradient norm of every step, and the weights after the last.
 */
#include "check/check.h"
#include "train/learner.h"

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

static const double DROPOUT = 0.1; /* dropout rate of the combinations */
enum { STEPS = 20, WARMUP = 4 };

struct small {
    struct weft_settings settings;
    struct weft_spec spec;
    struct weft_recipe recipe;
    struct weft_nn *model;
    struct weft_learner *trainer;
};

static enum weft_status open_row(struct small *s, const struct row *row, const char *dtype)
{
    TRY(weft_settings_add_words(&s->settings, COMMON));
    TRY(weft_settings_add_words(&s->settings, row->settings));
    TRY(weft_settings_add(&s->settings, dtype));
    TRY(weft_spec_init(&s->spec, row->model, &s->settings));
    TRY(weft_recipe_init(&s->recipe, &s->spec, &s->settings));
    return WEFT_OK;
}

static enum weft_status open_combination(struct small *s, const char *settings, enum weft_dtype dtype)
{
    TRY(weft_combination_spec(&s->spec, settings, dtype));
    s->spec.dropout = DROPOUT;
    TRY(weft_recipe_plain(&s->recipe, &s->spec));
    s->recipe.steps = STEPS;
    s->recipe.warmup = WARMUP;
    return WEFT_OK;
}

static enum weft_status train(struct small *s, char hash[65])
{
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    TRY(weft_recipe_open(&s->recipe, &s->spec));
    TRY(weft_nn_create(&s->model, &s->spec));
    TRY(weft_nn_init(s->model));
    TRY(weft_learner_create(&s->trainer, s->model, &s->recipe, NULL));
    while (s->trainer->step < s->recipe.steps) {
        struct weft_losses losses;
        TRY(weft_learner_step(s->trainer, &losses));
        weft_sha256_add(&sha, &s->trainer->loss, sizeof s->trainer->loss);
        weft_sha256_add(&sha, &s->trainer->grad_norm, sizeof s->trainer->grad_norm);
    }
    weft_params_hash(&s->model->params, hash);
    weft_sha256_add(&sha, hash, 64);
    weft_sha256_hex(&sha, hash);
    return WEFT_OK;
}

static void close_small(struct small *s)
{
    weft_learner_free(s->trainer);
    weft_nn_free(s->model);
    weft_recipe_release(&s->recipe);
    weft_spec_release(&s->spec);
    weft_settings_release(&s->settings);
}

/* Trains the model and reports its hash if it was opened without an error; always closes it. */
static enum weft_status finish(struct small *s, enum weft_status status, struct weft_hashes_case *c,
                               weft_hashes_fn *report, void *context)
{
    if (status == WEFT_OK)
        status = train(s, c->hash);
    close_small(s);
    TRY(status);
    report(context, c);
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
        TRY(finish(&s, open_row(&s, row, dtypes[i % 2]), &c, report, context));
    }
    return WEFT_OK;
}

static enum weft_status run_combinations(const struct weft_combinations *list, int every, weft_hashes_fn *report,
                                         void *context)
{
    for (int i = 0; i < list->count; i += every)
        for (int k = 0; k < 2; k++) {
            enum weft_dtype dtype = k ? WEFT_F32 : WEFT_BF16;
            struct weft_hashes_case c = {"", list->rows[i], weft_dtype_name(dtype), NULL, ""};
            struct small s = {0};
            TRY(finish(&s, open_combination(&s, list->rows[i], dtype), &c, report, context));
        }
    return WEFT_OK;
}

enum weft_status weft_hashes_pairs(int every, weft_hashes_fn *report, void *context)
{
    static struct weft_combinations pairs;
    enum weft_status status = weft_combinations_cover(&pairs, 2, 1);
    if (status == WEFT_OK)
        status = run_combinations(&pairs, every, report, context);
    weft_combinations_release(&pairs);
    return status;
}
