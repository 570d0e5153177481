/* SPDX-License-Identifier: MIT
 *
 * opt_left.c - finds settings that no owner read or that have no effect, and explains why.
 */
#include "base/opt.h"

#include <string.h>

bool weft_settings_overridden(const struct weft_settings *s, int i)
{
    for (int later = i + 1; later < s->count; later++)
        if (strcmp(s->setting[later].name, s->setting[i].name) == 0)
            return true;
    return false;
}

/* Options with the same name have the same type and default, whatever their owner. */
static const struct weft_opt *known(const struct weft_settings *s, const char *name)
{
    for (int o = 0; o < s->owner_count; o++)
        for (int i = 0; i < s->owner[o].owner->count; i++)
            if (strcmp(name, s->owner[o].owner->options[i].name) == 0)
                return &s->owner[o].owner->options[i];
    return NULL;
}

bool weft_settings_same(const struct weft_settings *s, const char *name, const char *value, const char *other)
{
    const struct weft_opt *opt = known(s, name);
    return opt && weft_opt_same(opt, value, other);
}

bool weft_settings_is_default(const struct weft_settings *s, const struct weft_setting *setting)
{
    const struct weft_opt *opt = known(s, setting->name);
    const char *of_preset = weft_preset_value(s->preset, setting->name);
    return opt && (weft_opt_same(opt, setting->value, opt->initial) ||
                   (of_preset && weft_opt_same(opt, setting->value, of_preset)));
}

const char *weft_settings_value(const struct weft_settings *s, const char *name, char text[WEFT_MAX_VALUE])
{
    for (int o = 0; o < s->owner_count; o++)
        for (int i = 0; s->owner[o].target && i < s->owner[o].owner->count; i++) {
            const struct weft_opt *opt = &s->owner[o].owner->options[i];
            if (strcmp(opt->name, name) == 0)
                return weft_opt_text(opt, (const char *)s->owner[o].target + opt->offset, text);
        }
    return NULL;
}

/* Like weft_settings_met, but for a condition without alternatives. */
static bool is_met(const struct weft_settings *s, const char *condition)
{
    char text[WEFT_MAX_VALUE], name[128];
    const char *equals = strchr(condition, '=');
    bool not = equals[-1] == '!';
    snprintf(name, sizeof name, "%.*s", (int)(equals - condition) - not, condition);
    const char *value = weft_settings_value(s, name, text);
    return value && weft_settings_same(s, name, value, equals + 1) != not ;
}

bool weft_settings_met(const struct weft_settings *s, const char *condition)
{
    static const char either[] = " or ";
    char one[128];
    const char *end = strstr(condition, either);
    snprintf(one, sizeof one, "%.*s", (int)(end ? (size_t)(end - condition) : strlen(condition)), condition);
    return is_met(s, one) || (end && weft_settings_met(s, end + strlen(either)));
}

/* "geom=w2 or geom=overlap" */
static void name_owners(const struct weft_settings *s, const char *name, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int o = 0; o < s->owner_count; o++)
        for (int i = 0; i < s->owner[o].owner->count && used < size; i++)
            if (strcmp(name, s->owner[o].owner->options[i].name) == 0)
                used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " or " : "", s->owner[o].owner->name);
}

bool weft_settings_unused(const struct weft_settings *s, const struct weft_setting *setting, struct weft_unused *why)
{
    *why = (struct weft_unused){.opt = known(s, setting->name), .absent = !setting->taken};
    if (!why->opt)
        return true;
    const char *needs = why->opt->needs;
    if (weft_settings_is_default(s, setting) || (!why->absent && (!needs || weft_settings_met(s, needs))))
        return false;
    if (why->absent)
        name_owners(s, setting->name, why->needs, sizeof why->needs);
    else
        snprintf(why->needs, sizeof why->needs, "%s", needs);
    return true;
}

/* Returns whether a list separated by spaces contains the word. */
static bool contains(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (; list && *list && n; list += strspn(list, " ")) {
        if (strncmp(list, word, n) == 0 && (!list[n] || list[n] == ' '))
            return true;
        list += strcspn(list, " ");
    }
    return false;
}

const struct weft_opt *weft_opt_suggest(const char *word, const struct weft_owner *const *owners, int count)
{
    const char *names[512] = {NULL};
    const struct weft_opt *opts[512];
    int n = 0;
    for (int o = 0; o < count; o++)
        for (int i = 0; i < owners[o]->count && n < 512; i++, n++) {
            opts[n] = &owners[o]->options[i];
            names[n] = opts[n]->name;
            if (contains(opts[n]->also, word))
                return opts[n];
        }
    const char *near = weft_suggest(word, names, n);
    for (int i = 0; near && i < n; i++)
        if (names[i] == near)
            return opts[i];
    return NULL;
}

/* Describes the suggested option: its name and, for a choice, its values. */
static void describe(const struct weft_opt *opt, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, ": did you mean %s", opt->name);
    bool choice = opt->type == WEFT_OPT_CHOICE;
    for (int i = 0; choice && used < size && weft_opt_choice(opt, i); i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : " (", weft_opt_choice(opt, i));
    if (used < size)
        snprintf(text + used, size - used, "%s", choice ? ")?" : "?");
}

static enum weft_status unknown_option(const struct weft_settings *s, const struct weft_setting *setting)
{
    const struct weft_owner *owners[WEFT_MAX_OWNERS];
    char where[512], meant[256] = ".";
    for (int o = 0; o < s->owner_count; o++)
        owners[o] = s->owner[o].owner;
    const struct weft_opt *near = weft_opt_suggest(setting->name, owners, s->owner_count);
    if (near)
        describe(near, meant, sizeof meant);
    return FAIL(WEFT_INVALID, "%sthere is no option \"%s\"%s `weft help options` lists all",
                weft_setting_where(setting, where, sizeof where), setting->name, meant);
}

static enum weft_status unused_option(const struct weft_setting *setting, const struct weft_unused *why)
{
    char where[512];
    const char *initial = *why->opt->initial ? why->opt->initial : "\"\"";
    weft_setting_where(setting, where, sizeof where);
    if (!why->absent)
        return FAIL(WEFT_INVALID,
                    "%s%s=%s has no effect without %s: set that option as well, or remove %s, or set it to %s", where,
                    setting->name, setting->value, why->needs, setting->name, initial);
    bool choosable = strchr(why->needs, '=');
    return FAIL(WEFT_INVALID, "%s%s is an option of %s, which is not used here: remove it or set it to %s%s%s", where,
                setting->name, why->needs, initial, choosable ? ", or set " : "", choosable ? why->needs : "");
}

enum weft_status weft_settings_finish(const struct weft_settings *s)
{
    struct weft_unused why;
    for (int i = 0; i < s->count; i++) {
        const struct weft_setting *setting = &s->setting[i];
        if (weft_settings_overridden(s, i) || !weft_settings_unused(s, setting, &why))
            continue;
        if (!why.opt)
            return unknown_option(s, setting);
        if (!setting->shared)
            return unused_option(setting, &why);
    }
    return WEFT_OK;
}
