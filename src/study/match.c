/* SPDX-License-Identifier: MIT
 *
 * match.c - matches arms in size: finds the width at which an arm has as many parameters, or FLOPs, as the first.
 *
 * Both grow with the width, so bisection finds the smallest width that reaches the goal; that width or the next smaller
 * one is the nearest. Not every width is possible (it must be a multiple of the number of heads, and rotary embeddings
 * need even head widths): an impossible width is treated as the next possible one, which preserves the order.
 */
#include "study/study.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_TRIES = 8192, LARGEST = 1 << 20 };

const char *const weft_match_names[] = {"none", "params", "flops", NULL};
const char *const weft_match_by_names[] = {"ffn_width", "width", NULL};

/* ---- an arm with additional settings */

enum weft_status weft_arm_vary(struct weft_arm_twin *twin, const struct weft_arm *arm, const char *const *more)
{
    *twin = (struct weft_arm_twin){.settings = arm->settings}; /* the strings still belong to the arm */
    twin->settings.arena = (struct weft_arena){0};
    twin->settings.owner_count = 0;
    for (; *more; more++)
        TRY(weft_settings_add(&twin->settings, *more));
    TRY(weft_spec_init(&twin->spec, arm->spec.preset, &twin->settings));
    TRY(weft_recipe_init(&twin->recipe, &twin->spec, &twin->settings));
    return WEFT_OK;
}

void weft_arm_twin_release(struct weft_arm_twin *twin)
{
    weft_recipe_release(&twin->recipe);
    weft_spec_release(&twin->spec);
    weft_settings_release(&twin->settings);
}

enum weft_status weft_arm_set(struct weft_arm *arm, const char *const *more)
{
    const char *preset = arm->spec.preset;
    for (; *more; more++)
        TRY(weft_settings_add(&arm->settings, *more));
    weft_recipe_release(&arm->recipe);
    weft_spec_release(&arm->spec);
    arm->settings.owner_count = 0;
    TRY(weft_spec_init(&arm->spec, preset, &arm->settings));
    TRY(weft_recipe_init(&arm->recipe, &arm->spec, &arm->settings));
    return WEFT_OK;
}

/* ---- sizes */

static enum weft_status size_of(const struct weft_study *s, const struct weft_spec *spec, double *size)
{
    struct weft_nn *model = NULL;
    enum weft_status status = weft_nn_create(&model, spec);
    if (status == WEFT_OK && s->match == WEFT_MATCH_FLOPS)
        status = weft_account_flops(model, size);
    else if (status == WEFT_OK)
        *size = (double)model->params.elements;
    weft_nn_free(model);
    return status;
}

/* Computes the arm's size at a width; returns WEFT_INVALID if there is no model of this width. */
static enum weft_status size_at(const struct weft_study *s, const struct weft_arm *arm, int64_t width, double *size)
{
    char setting[64];
    struct weft_arm_twin twin;
    snprintf(setting, sizeof setting, "%s=%" PRId64, weft_match_by_names[s->match_by], width);
    enum weft_status status = weft_arm_vary(&twin, arm, (const char *const[]){setting, NULL});
    if (status == WEFT_OK)
        status = size_of(s, &twin.spec, size);
    weft_arm_twin_release(&twin);
    return status;
}

/* Raises *width to the smallest possible width and computes the arm's size there. */
static enum weft_status size_from(const struct weft_study *s, const struct weft_arm *arm, int64_t *width, double *size)
{
    for (int tries = 0; tries < MOST_TRIES; tries++, ++*width) {
        enum weft_status status = size_at(s, arm, *width, size);
        if (status != WEFT_INVALID)
            return status;
    }
    return WEFT_INVALID;
}

/* ---- solving */

struct match {
    int64_t width;
    double size;
};

/* Finds the smallest possible width that reaches the goal, and the largest below it; 0: there is none. */
static enum weft_status bracket(const struct weft_study *s, const struct weft_arm *arm, double goal,
                                struct match *below, struct match *above)
{
    int64_t low = 0, high = 1;
    *below = (struct match){0, 0};
    for (;; high *= 2) { /* the size at `low` is below the goal */
        above->width = high;
        TRY(size_from(s, arm, &above->width, &above->size));
        if (above->size >= goal || high >= LARGEST)
            break;
        *below = *above;
        low = high;
    }
    while (high - low > 1) {
        struct match middle = {.width = low + (high - low) / 2};
        int64_t asked = middle.width;
        TRY(size_from(s, arm, &middle.width, &middle.size));
        if (middle.size >= goal) {
            *above = middle;
            high = asked;
        } else {
            *below = middle;
            low = asked;
        }
    }
    return WEFT_OK;
}

static double off(struct match m, double goal) { return fabs(m.size / goal - 1); }

static enum weft_status solve(const struct weft_study *s, const struct weft_arm *arm, double goal, struct match *best)
{
    struct match below, above;
    TRY(bracket(s, arm, goal, &below, &above));
    *best = below.width && off(below, goal) < off(above, goal) ? below : above;
    if (off(*best, goal) > WEFT_MATCH_LIMIT)
        return FAIL(WEFT_INVALID,
                    "arm %s cannot match %s: the nearest is %s=%" PRId64
                    ", which differs by %+.1f %% in %s, more than the %.0f %% allowed. Set match_by=%s, or match=none",
                    arm->name, s->arm[0].name, weft_match_by_names[s->match_by], best->width,
                    100 * (best->size / goal - 1), s->match == WEFT_MATCH_FLOPS ? "FLOPs" : "weights",
                    100 * WEFT_MATCH_LIMIT, weft_match_by_names[!s->match_by]);
    return WEFT_OK;
}

/* ---- the arms */

/* Checks that the arm does not set the width that matching determines. */
static enum weft_status check_free(const struct weft_study *s, const struct weft_arm *arm)
{
    const char *name = weft_match_by_names[s->match_by];
    size_t n = strlen(name);
    for (const char *at = arm->settings_text; (at = strstr(at, name)); at += n)
        if ((at == arm->settings_text || at[-1] == ' ') && at[n] == '=')
            return FAIL(WEFT_INVALID, "arm %s sets %s, which match determines: remove that setting, or set match=none",
                        arm->name, name);
    return WEFT_OK;
}

static enum weft_status set_width(const struct weft_study *s, struct weft_arm *arm, int64_t width)
{
    char setting[64];
    snprintf(setting, sizeof setting, "%s=%" PRId64, weft_match_by_names[s->match_by], width);
    TRY(weft_arm_set(arm, (const char *const[]){setting, NULL}));
    arm->matched = width;
    return WEFT_OK;
}

enum weft_status weft_study_match(struct weft_study *s)
{
    double goal;
    if (s->match == WEFT_MATCH_NONE)
        return WEFT_OK;
    TRY(size_of(s, &s->arm[0].spec, &goal));
    for (int i = 1; i < s->arm_count; i++) {
        struct weft_arm *arm = &s->arm[i];
        struct match best = {.width = arm->repeats >= 0 ? s->arm[arm->repeats].matched : 0};
        TRY(check_free(s, arm));
        if (arm->repeats != 0 && !best.width)
            TRY(solve(s, arm, goal, &best));
        if (best.width)
            TRY(set_width(s, arm, best.width));
    }
    weft_error_clear(); /* errors from impossible widths that were tried */
    return WEFT_OK;
}

double weft_study_mismatch(const struct weft_study *s, const struct weft_arm *arm)
{
    const struct weft_account *a = &arm->account, *first = &s->arm[0].account;
    return s->match == WEFT_MATCH_FLOPS ? a->flops_train / first->flops_train - 1
                                        : (double)a->params / (double)first->params - 1;
}
