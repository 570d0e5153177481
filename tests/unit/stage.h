/* SPDX-License-Identifier: MIT
 *
 * stage.h - a small model with its trainer, for tests that take steps or check a recipe.
 */
#ifndef WEFT_TESTS_STAGE_H
#define WEFT_TESTS_STAGE_H

#include "test.h"
#include "train/learner.h"
#include "train/record/record.h"

#include <math.h>

struct stage {
    struct weft_settings settings;
    struct weft_spec spec;
    struct weft_recipe recipe;
    struct weft_nn *model;
    struct weft_learner *t;
    struct weft_net net; /* a graph of the model, if a test builds one */
    struct weft_exec *exec;
};

static inline void set(struct stage *s, const char *setting) { check(weft_settings_add(&s->settings, setting)); }

/* The model of the settings; its weights are not drawn yet. */
static inline void open_recipe(struct stage *s, const char *preset)
{
    check(weft_spec_init(&s->spec, preset, &s->settings));
    check(weft_recipe_init(&s->recipe, &s->spec, &s->settings));
    check(weft_nn_create(&s->model, &s->spec));
}

/* `task`, when given, takes the place of the recipe's. */
static inline void open_settings(struct stage *s, const char *preset, const struct weft_task *task)
{
    open_recipe(s, preset);
    if (task)
        s->recipe.task = task;
    check(weft_nn_init(s->model));
    check(weft_learner_create(&s->t, s->model, &s->recipe, NULL));
}

/* Small, and f32; settings are one text, separated by spaces. */
static inline void open_stage(struct stage *s, const char *preset, const char *settings, const struct weft_task *task)
{
    *s = (struct stage){0};
    check(add_settings(&s->settings, "dtype=f32 layers=1 width=32 heads=2 ffn_width=64 context=16 recall_length=8"));
    check(add_settings(&s->settings, settings));
    open_settings(s, preset, task);
}

static inline void close_stage(struct stage *s)
{
    weft_exec_free(s->exec);
    weft_net_release(&s->net);
    weft_learner_free(s->t);
    weft_nn_free(s->model);
    weft_recipe_release(&s->recipe);
    weft_spec_release(&s->spec);
    weft_settings_release(&s->settings);
}

static inline size_t bytes(const struct stage *s) { return (size_t)s->model->params.total * sizeof(float); }

static inline float *copy_of(const struct stage *s, const float *array)
{
    float *copy = malloc(bytes(s));
    assert_non_null(copy);
    return memcpy(copy, array, bytes(s));
}

static inline void take_steps(struct stage *s, int64_t until)
{
    struct weft_losses losses;
    while (s->t->step < until) {
        check(weft_learner_step(s->t, &losses));
        assert_true(isfinite(losses.list[0].value));
    }
}

/* A run of gpt2 that prunes, stopped after a step and resumed, ends at step 20 with the bits of one that was not. */
static inline void check_resume_of_pruning(const char *settings, int64_t at, const char *folder)
{
    struct stage whole, parts;
    char hash[2][65], path[64];
    open_stage(&whole, "gpt2", settings, NULL);
    take_steps(&whole, at);
    write_file(in_scratch("config.json"), "{}", 2);
    check(weft_state_save_alone(whole.t, in_scratch(folder), "{}"));
    open_stage(&parts, "gpt2", settings, NULL);
    snprintf(path, sizeof path, "%s/step-%09d", folder, (int)at);
    check(weft_state_load_one(parts.t, in_scratch(path)));
    assert_int_equal(parts.t->pruned, whole.t->pruned);
    assert_true(parts.t->pruned > 0);
    take_steps(&whole, 20);
    take_steps(&parts, 20);
    weft_params_hash(&whole.model->params, hash[0]);
    weft_params_hash(&parts.model->params, hash[1]);
    assert_string_equal(hash[0], hash[1]);
    assert_memory_equal(whole.t->mask, parts.t->mask, (size_t)whole.t->span_count * WEFT_SPAN / 8);
    assert_memory_equal(whole.t->moments[0], parts.t->moments[0], bytes(&whole));
    assert_memory_equal(whole.t->moments[1], parts.t->moments[1], bytes(&whole));
    assert_string_equal(whole.t->loss_chain, parts.t->loss_chain);
    close_stage(&whole);
    close_stage(&parts);
}

#endif
