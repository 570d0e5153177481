/* SPDX-License-Identifier: MIT
 *
 * arms.c - parses a study's arms, "dot: geom=dot | w2: geom=w2 spread=full", or the steps of the RA-MLA study,
 * "0,1,2,3,4,5".
 */
#include "study/arms.h"

#include <math.h>
#include <string.h>

enum { LONGEST_NAME = 63 };

/* Splits off the text before `stop`, or all the rest, and returns it without surrounding spaces; NULL: nothing left. */
static char *cut(char **rest, char stop)
{
    char *from = *rest, *to;
    if (!from)
        return NULL;
    to = strchr(from, stop);
    *rest = to ? to + 1 : NULL;
    to = to ? to : from + strlen(from);
    while (to > from && to[-1] == ' ')
        to--;
    *to = '\0';
    return from + strspn(from, " ");
}

static enum weft_status add(struct weft_study *s, const char *where, const char *name, const char *settings,
                            int repeats)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    if (!*name || name[strspn(name, letters)] || strlen(name) > LONGEST_NAME)
        return FAIL(WEFT_INVALID,
                    "%sarm %d has the invalid name \"%s\": expected 1 to %d letters, digits, - and _ before the colon",
                    where, s->arm_count + 1, name, LONGEST_NAME);
    for (int i = 0; i < s->arm_count; i++)
        if (strcmp(s->arm[i].name, name) == 0)
            return FAIL(WEFT_INVALID, "%stwo arms have the name %s", where, name);
    if (s->arm_count == WEFT_MAX_ARMS)
        return FAIL(WEFT_INVALID, "%smore than %d arms", where, WEFT_MAX_ARMS);
    struct weft_arm *arm = &s->arm[s->arm_count++];
    arm->name = weft_arena_print(&s->arena, "%s", name);
    arm->settings_text = weft_arena_print(&s->arena, "%s", settings);
    arm->repeats = repeats;
    arm->lr = NAN;
    if (!arm->name || !arm->settings_text)
        return FAIL(WEFT_NOMEM, "not enough memory for a study's arms");
    return WEFT_OK;
}

/* ---- "name: setting setting | name: ..." */

/* Copies the settings, separated by one space. */
static enum weft_status tidy(const char *where, const char *name, char *settings)
{
    char *to = settings;
    for (char *rest = settings, *one; (one = cut(&rest, ' '));) {
        const char *is = strchr(one, '=');
        if (!*one)
            continue;
        if (!is || is == one || !is[1])
            return FAIL(WEFT_INVALID, "%sarm %s: \"%s\" is not a setting: write NAME=VALUE, for example layers=4",
                        where, name, one);
        size_t n = strlen(one);
        if (to > settings)
            *to++ = ' ';
        memmove(to, one, n);
        to += n;
    }
    *to = '\0';
    return WEFT_OK;
}

static enum weft_status read_arms(struct weft_study *s, const char *where, char *text)
{
    for (char *rest = text, *arm; (arm = cut(&rest, '|'));) {
        char *settings = arm;
        const char *name = cut(&settings, ':');
        if (!settings)
            return FAIL(WEFT_INVALID, "%s\"%s\" is not an arm: write NAME: SETTING SETTING, with | between arms", where,
                        name);
        TRY(tidy(where, name, settings));
        TRY(add(s, where, name, settings, -1));
    }
    return WEFT_OK;
}

/* ---- steps */

static const struct step {
    const char *settings;
    int again; /* step whose model this step repeats; -1: none */
} steps[] = {
    {"m1=no m2=no m3=no", -1},    {"m1=yes m2=no m3=no", -1}, {"m1=yes m2=yes m3=no", -1},
    {"m1=yes m2=yes m3=yes", -1}, {"m1=yes m2=yes m3=no", 2}, {"m1=yes m2=yes m3=yes", 3},
};
enum { STEPS = sizeof steps / sizeof steps[0] };

static enum weft_status add_step(struct weft_study *s, const char *where, const char *text)
{
    char name[16], again[16];
    int n = text[0] - '0', repeats = -1;
    if (n < 0 || n >= STEPS || text[1])
        return FAIL(WEFT_INVALID, "%sthere is no step \"%s\": expected numbers from 0 to %d, separated by commas",
                    where, text, STEPS - 1);
    snprintf(name, sizeof name, "step%d", n);
    snprintf(again, sizeof again, "step%d", steps[n].again);
    for (int i = 0; i < s->arm_count; i++)
        if (strcmp(s->arm[i].name, again) == 0)
            repeats = i;
    if (steps[n].again >= 0 && repeats < 0)
        return FAIL(WEFT_INVALID, "%sstep %d repeats step %d, which must precede it", where, n, steps[n].again);
    TRY(add(s, where, name, steps[n].settings, repeats));
    return WEFT_OK;
}

static enum weft_status read_steps(struct weft_study *s, const char *where, char *text)
{
    for (char *rest = text, *one; (one = cut(&rest, ','));)
        TRY(add_step(s, where, one));
    return WEFT_OK;
}

/* ---- */

const char *weft_study_where(const struct weft_study *s, const char *option, char *text, size_t size)
{
    *text = '\0';
    for (int i = 0; i < s->settings.count; i++)
        if (strcmp(s->settings.setting[i].name, option) == 0)
            weft_setting_where(&s->settings.setting[i], text, size);
    return text;
}

enum weft_status weft_arms_read(struct weft_study *s)
{
    char where[512];
    bool by_steps = *s->steps_text;
    weft_study_where(s, by_steps ? "ablation_steps" : "arms", where, sizeof where);
    if (by_steps && *s->arms_text)
        return FAIL(WEFT_INVALID, "%sablation_steps and arms both define the arms: keep one of them", where);
    char *text = weft_arena_print(&s->arena, "%s", by_steps ? s->steps_text : s->arms_text);
    s->arm = weft_arena_alloc(&s->arena, WEFT_MAX_ARMS * sizeof *s->arm);
    if (!text || !s->arm)
        return FAIL(WEFT_NOMEM, "not enough memory for a study's arms");
    if (!*text)
        return add(s, where, s->preset, "", -1);
    TRY((by_steps ? read_steps : read_arms)(s, where, text));
    return WEFT_OK;
}

bool weft_is_arm_name(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
    return n > 0 && n < 64 && !text[n];
}

enum weft_status weft_study_find_arm(struct weft_study *s, const char *name, const struct weft_arm **arm)
{
    const char *names[WEFT_MAX_ARMS];
    TRY(weft_study_match(s));
    for (int i = 0; i < s->arm_count; i++) {
        names[i] = s->arm[i].name;
        *arm = &s->arm[i];
        if (strcmp(names[i], name) == 0)
            return WEFT_OK;
    }
    const char *near = weft_suggest(name, names, s->arm_count);
    return FAIL(WEFT_INVALID, "%s has no arm \"%s\"%s%s%s", s->path, name, near ? ": did you mean " : "",
                near ? near : "", near ? "?" : "");
}
