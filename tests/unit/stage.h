/* SPDX-License-Identifier: MIT
 *
 * stage.h - a small model with its trainer, for tests that take steps.
 */
#ifndef WEFT_TESTS_STAGE_H
#define WEFT_TESTS_STAGE_H

#include "train/train.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct stage {
    struct weft_settings settings;
    struct weft_spec spec;
    struct weft_recipe recipe;
    struct weft_model *model;
    struct weft_trainer *t;
};

static inline void check(enum weft_status status)
{
    if (status != WEFT_OK)
        fail_msg("%s", weft_error());
}

static inline void set(struct stage *s, const char *setting) { check(weft_settings_add(&s->settings, setting)); }

/* `task`, when given, takes the place of the recipe's. */
static inline void open_settings(struct stage *s, const char *preset, const struct weft_task *task)
{
    check(weft_spec_init(&s->spec, preset, &s->settings));
    check(weft_recipe_init(&s->recipe, &s->spec, &s->settings));
    if (task)
        s->recipe.task = task;
    check(weft_model_create(&s->model, &s->spec));
    check(weft_model_init(s->model));
    check(weft_trainer_create(&s->t, s->model, &s->recipe));
}

/* Small, and f32; settings are one text, parted by spaces. */
static inline void open_stage(struct stage *s, const char *preset, const char *settings, const struct weft_task *task)
{
    char text[512], *rest = text;
    *s = (struct stage){0};
    snprintf(text, sizeof text, "dtype=f32 layers=1 width=32 heads=2 ffn_width=64 context=16 recall_length=8 %s",
             settings);
    for (char *one; (one = strtok_r(rest, " ", &rest));)
        set(s, one);
    open_settings(s, preset, task);
}

static inline void close_stage(struct stage *s)
{
    weft_trainer_free(s->t);
    weft_model_free(s->model);
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

#endif
