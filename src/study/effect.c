/* SPDX-License-Identifier: MIT
 *
 * effect.c - rejects mistakes in a study's config: a setting that no arm uses, two arms that are the same model trained
 * the same way (unless one repeats the other), and arms that would see data different from the first arm's. A .config
 * contains every existing symbol, so a setting at its default is always accepted, as is one that at least one arm uses.
 */
#define _GNU_SOURCE
#include "study/arms.h"

#include <stdlib.h>
#include <string.h>

/* Finds this setting among the arm's settings. */
static const struct weft_setting *find(const struct weft_arm *arm, const struct weft_setting *setting)
{
    for (int i = 0; i < arm->settings.count; i++)
        if (arm->settings.setting[i].name == setting->name)
            return &arm->settings.setting[i];
    return NULL;
}

/* Finds the last setting of this option, which is the one that counts. */
static const struct weft_setting *last(const struct weft_arm *arm, const char *name)
{
    const struct weft_setting *found = NULL;
    for (int i = 0; i < arm->settings.count; i++)
        if (strcmp(arm->settings.setting[i].name, name) == 0)
            found = &arm->settings.setting[i];
    return found;
}

/* Writes the values that an option has in the arms, such as "pos is learned" or "pos is learned or alibi". `condition`
 * begins with the option's name. */
static void describe_values(const struct weft_study *s, const char *condition, char *text, size_t size)
{
    char name[128], seen[8][WEFT_MAX_VALUE], room[WEFT_MAX_VALUE];
    int n = 0;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(condition, "!="), condition);
    snprintf(text, size, "%s is", name);
    for (int i = 0; i < s->arm_count && n < 8; i++) {
        const char *value = weft_settings_value(&s->arm[i].settings, name, room);
        bool known = !value;
        for (int k = 0; !known && k < n; k++)
            known = strcmp(seen[k], value) == 0;
        if (known)
            continue;
        size_t used = strlen(text);
        snprintf(seen[n], sizeof seen[n], "%s", value);
        snprintf(text + used, size - used, "%s %s", n ? " or" : "", value);
        n++;
    }
}

static enum weft_status refuse(const struct weft_study *s, const struct weft_setting *setting,
                               const struct weft_unused *lack)
{
    char where[512], text[256], values[256];
    weft_setting_where(setting, where, sizeof where);
    weft_setting_text(lack->opt, setting, text, sizeof text);
    if (!*lack->needs)
        return FAIL(WEFT_INVALID, "%s%s has no effect: every arm sets its own value; remove it", where, text);
    describe_values(s, lack->needs, values, sizeof values);
    return FAIL(WEFT_INVALID,
                "%s%s has no effect in any arm: it needs %s, but %s; remove it, keep it at %s, or change the latter",
                where, text, lack->needs, values, *lack->opt->initial ? lack->opt->initial : "\"\"");
}

/* Checks that the setting has an effect in at least one arm or is at its default. */
static enum weft_status check_setting(const struct weft_study *s, const struct weft_setting *setting)
{
    struct weft_unused lack, why = {0};
    for (int i = 0; i < s->arm_count; i++) {
        const struct weft_arm *arm = &s->arm[i];
        const struct weft_setting *own = find(arm, setting);
        bool lacks = weft_settings_unused(&arm->settings, own, &lack);
        bool stands = weft_settings_same(&arm->settings, own->name, own->value, last(arm, own->name)->value);
        if (!lacks && (stands || weft_settings_is_default(&arm->settings, own)))
            return WEFT_OK;
        if (lacks || !why.opt)
            why = lack;
    }
    return refuse(s, setting, &why);
}

/* Rejects lr in an arm if the study's learning rates override it. */
static enum weft_status check_rates(const struct weft_study *s)
{
    char where[512];
    for (int i = 0; s->lr_count && i < s->arm_count; i++) {
        const struct weft_setting *lr = last(&s->arm[i], "lr");
        if (lr && !weft_settings_is_default(&s->arm[i].settings, lr))
            return FAIL(WEFT_INVALID, "%slr=%s has no effect: lrs=\"%s\" sets the learning rates; remove one of them",
                        weft_setting_where(lr, where, sizeof where), lr->value, s->lrs_text);
    }
    return WEFT_OK;
}

/* ---- arms that cannot be compared */

static enum weft_status check_alike(const struct weft_study *s, const char *name)
{
    char where[512], first[WEFT_MAX_VALUE], room[WEFT_MAX_VALUE];
    const char *base = weft_settings_value(&s->arm[0].settings, name, first);
    for (int i = 1; i < s->arm_count; i++) {
        const char *value = weft_settings_value(&s->arm[i].settings, name, room);
        if (!base || !value || strcmp(base, value) != 0)
            return FAIL(WEFT_INVALID,
                        "%sarm %s has %s=%s and arm %s has %s: they would see different data, so their losses could "
                        "not be compared; set it for all arms",
                        weft_study_where(s, "arms", where, sizeof where), s->arm[i].name, name, value ? value : "none",
                        s->arm[0].name, base ? base : "none");
    }
    return WEFT_OK;
}

static int64_t sample_tokens(const struct weft_arm *arm) { return arm->recipe.task->length(arm->recipe.task_options); }

/* Checks that all arms see the same samples of the same task. */
static enum weft_status check_data(const struct weft_study *s)
{
    static const char *const names[] = {"seed", "task", "vocab", "eval_samples"};
    const struct weft_owner *task = &s->arm[0].recipe.task->owner;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        TRY(check_alike(s, names[i]));
    for (int i = 0; i < task->count; i++)
        TRY(check_alike(s, task->options[i].name));
    for (int i = 1; i < s->arm_count; i++)
        if (sample_tokens(&s->arm[i]) != sample_tokens(&s->arm[0])) /* the samples are windows of a text */
            TRY(check_alike(s, "context"));
    return WEFT_OK;
}

/* ---- arms that are the same */

static enum weft_status write_arm(const struct weft_arm *arm, char **text)
{
    size_t size;
    FILE *f = open_memstream(text, &size);
    enum weft_status status = f ? weft_settings_save(&arm->settings, f) : WEFT_OK;
    if (!f || !weft_output_close(f))
        return FAIL(WEFT_NOMEM, "not enough memory to compare arms");
    return status;
}

static enum weft_status compare(const struct weft_study *s, char *texts[WEFT_MAX_ARMS])
{
    char where[512];
    for (int i = 0; i < s->arm_count; i++) {
        TRY(write_arm(&s->arm[i], &texts[i]));
        for (int k = 0; k < i; k++)
            if (s->arm[i].repeats < 0 && strcmp(texts[i], texts[k]) == 0)
                return FAIL(WEFT_INVALID,
                            "%sarms %s and %s are the same model trained the same way: change a setting of one of them",
                            weft_study_where(s, "arms", where, sizeof where), s->arm[k].name, s->arm[i].name);
    }
    return WEFT_OK;
}

enum weft_status weft_arms_check(const struct weft_study *s)
{
    char *texts[WEFT_MAX_ARMS] = {0};
    for (int i = 0; i < s->settings.count; i++)
        if (!weft_settings_overridden(&s->settings, i) && find(&s->arm[0], &s->settings.setting[i]))
            TRY(check_setting(s, &s->settings.setting[i]));
    TRY(check_rates(s));
    TRY(check_data(s));
    enum weft_status status = compare(s, texts);
    for (int i = 0; i < s->arm_count; i++)
        free(texts[i]);
    return status;
}
