/* SPDX-License-Identifier: MIT
 *
 * ladder.c - parses the rungs of a ladder from the study's option "layers=2 width=32 | layers=2 width=48 | ...".
 */
#include "study/ladder.h"

#include "study/arms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum weft_status copy_settings(struct weft_settings *to, const struct weft_settings *from)
{
    for (int i = 0; from && i < from->count; i++)
        TRY(weft_settings_put(to, from->setting[i]));
    return WEFT_OK;
}

/* Adds the settings in a rung's text. */
static enum weft_status add_words(struct weft_rung *rung, const char *where, int number, const char *text, bool *steps)
{
    struct weft_settings *s = &rung->settings;
    const char *file = weft_arena_print(&s->arena, "%srung %d", where, number);
    if (!file)
        return FAIL(WEFT_NOMEM, "not enough memory for a ladder");
    int before = s->count;
    TRY(weft_settings_add_words(s, text));
    for (int i = before; i < s->count; i++) {
        *steps |= strcmp(s->setting[i].name, "steps") == 0;
        s->setting[i].file = file;
    }
    TRY(weft_settings_add(s, "ladder=none"));
    return WEFT_OK;
}

/* Sets the number of tokens in proportion to the parameters, as for compute-optimal training (Hoffmann et al. 2022). */
static enum weft_status grow_steps(struct weft_rung *rung, const struct weft_rung *first, const char *path)
{
    TRY(weft_study_plan(&rung->study));
    const struct weft_arm *arm = &rung->study.arm[0], *least = &first->study.arm[0];
    double tokens = weft_arm_tokens(least) * (double)arm->account.params / (double)least->account.params;
    double steps = round((double)arm->recipe.steps * tokens / weft_arm_tokens(arm));
    char setting[64];
    snprintf(setting, sizeof setting, "steps=%.0f", fmax(1, steps));
    TRY(weft_settings_add(&rung->settings, setting));
    weft_study_release(&rung->study);
    TRY(weft_study_init(&rung->study, path, &rung->settings));
    return WEFT_OK;
}

static enum weft_status add_rung(struct weft_study_ladder *l, const char *where, const char *text, const char *path,
                                 const struct weft_settings *over)
{
    bool steps = false;
    if (l->count == WEFT_MAX_RUNGS)
        return FAIL(WEFT_INVALID, "%smore than %d rungs", where, WEFT_MAX_RUNGS);
    struct weft_rung *rung = &l->rung[l->count++];
    TRY(copy_settings(&rung->settings, over));
    TRY(add_words(rung, where, l->count, text, &steps));
    TRY(weft_study_init(&rung->study, path, &rung->settings));
    if (l->count == 1)
        TRY(weft_study_plan(&rung->study));
    else if (!steps)
        TRY(grow_steps(rung, &l->rung[0], path));
    return WEFT_OK;
}

static enum weft_status read_rungs(struct weft_study_ladder *l, const struct weft_study *s, const char *path,
                                   const struct weft_settings *over)
{
    if (s->look_count > 1)
        return FAIL(
            WEFT_INVALID,
            "looks=%s is impossible, because the rungs of a ladder are compared over the same seeds: set seeds instead",
            s->looks_text);
    if (s->budget != 0)
        return FAIL(WEFT_INVALID,
                    "budget=%g is impossible, because the steps of a ladder's rungs follow from their parameters: set "
                    "steps instead",
                    s->budget);
    char where[512], *rest, *text = strdup(s->ladder_text);
    enum weft_status status = text ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a ladder");
    weft_study_where(s, "ladder", where, sizeof where);
    for (char *one = text ? strtok_r(text, "|", &rest) : NULL; one && status == WEFT_OK;
         one = strtok_r(NULL, "|", &rest))
        status = add_rung(l, where, one, path, over);
    free(text);
    if (status == WEFT_OK && l->count < WEFT_LEAST_RUNGS)
        status = FAIL(WEFT_INVALID, "%sa ladder cannot have %d rungs: expected at least %d sizes, separated by |",
                      where, l->count, WEFT_LEAST_RUNGS);
    return status;
}

enum weft_status weft_study_ladder_init(struct weft_study_ladder *l, const char *path, const struct weft_settings *over)
{
    *l = (struct weft_study_ladder){0};
    struct weft_study whole;
    enum weft_status status = weft_study_init(&whole, path, over);
    if (status == WEFT_OK && strcmp(whole.ladder_text, "none") != 0) {
        status = read_rungs(l, &whole, path, over);
        weft_study_release(&whole);
        return status;
    }
    l->count = 1;
    l->rung[0].study = whole;
    TRY(status);
    TRY(copy_settings(&l->rung[0].settings, over));
    return WEFT_OK;
}

void weft_study_ladder_release(struct weft_study_ladder *l)
{
    for (int i = 0; i < l->count; i++) {
        weft_study_release(&l->rung[i].study);
        weft_settings_release(&l->rung[i].settings);
    }
    l->count = 0;
}

enum weft_status weft_study_ladder_folder(const struct weft_study_ladder *l, int i, const char *folder, char path[4096])
{
    int n = l->count > 1 ? snprintf(path, 4096, "%s/rung-%d", folder, i + 1) : snprintf(path, 4096, "%s", folder);
    return n < 4096 ? WEFT_OK : FAIL(WEFT_INVALID, "the path of the folder is too long: %.100s...", folder);
}
