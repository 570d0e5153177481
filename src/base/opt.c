/* SPDX-License-Identifier: MIT
 *
 * opt.c - settings, the owners that take them, and help from the same tables.
 */
#include "base/opt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void weft_settings_release(struct weft_settings *s)
{
    weft_arena_release(&s->arena);
    *s = (struct weft_settings){0};
}

enum weft_status weft_settings_add(struct weft_settings *s, const char *text)
{
    const char *is = strchr(text, '=');
    if (!is || is == text || !is[1])
        return FAIL(WEFT_INVALID, "\"%s\" is no setting: write NAME=VALUE, for example layers=4", text);
    if (s->count == WEFT_MAX_SETTINGS)
        return FAIL(WEFT_INVALID, "more than %d settings", WEFT_MAX_SETTINGS);
    struct weft_setting *setting = &s->setting[s->count];
    setting->name = weft_arena_print(&s->arena, "%.*s", (int)(is - text), text);
    setting->value = weft_arena_print(&s->arena, "%s", is + 1);
    if (!setting->name || !setting->value)
        return FAIL(WEFT_NOMEM, "no memory left for settings");
    s->count++;
    return WEFT_OK;
}

static void describe_range(const struct weft_opt *opt, char *text, size_t size)
{
    size_t used = 0;
    if (opt->type == WEFT_OPT_BOOL)
        snprintf(text, size, "yes or no");
    else if (opt->type != WEFT_OPT_CHOICE)
        snprintf(text, size, "%.10g to %.10g", opt->min, opt->max);
    else
        for (int i = 0; opt->choices[i] && used < size; i++)
            used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", opt->choices[i]);
}

static enum weft_status refuse(const struct weft_opt *opt, const char *value)
{
    char range[256];
    describe_range(opt, range, sizeof range);
    int n = 0;
    while (opt->type == WEFT_OPT_CHOICE && opt->choices[n])
        n++;
    const char *near = weft_suggest(value, opt->choices, n);
    return FAIL(WEFT_INVALID, "%s=%s is not possible: give %s%s%s%s", opt->name, value, range,
                near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static bool parse_number(const struct weft_opt *opt, const char *text, char *target)
{
    char *end = NULL;
    errno = 0;
    if (opt->type == WEFT_OPT_INT) {
        long long n = strtoll(text, &end, 10);
        *(int64_t *)(target + opt->offset) = n;
        return !errno && *end == '\0' && (double)n >= opt->min && (double)n <= opt->max;
    }
    double x = strtod(text, &end);
    *(double *)(target + opt->offset) = x;
    return !errno && *end == '\0' && x >= opt->min && x <= opt->max;
}

static bool parse(const struct weft_opt *opt, const char *text, char *target)
{
    bool yes = strcmp(text, "yes") == 0;
    switch (opt->type) {
    case WEFT_OPT_BOOL:
        *(bool *)(target + opt->offset) = yes;
        return yes || strcmp(text, "no") == 0;
    case WEFT_OPT_CHOICE:
        for (int i = 0; opt->choices[i]; i++)
            if (strcmp(text, opt->choices[i]) == 0) {
                *(int *)(target + opt->offset) = i;
                return true;
            }
        return false;
    default:
        return parse_number(opt, text, target);
    }
}

static const char *preset_value(const char *const *preset, const char *name)
{
    size_t n = strlen(name);
    for (; preset && *preset; preset++)
        if (strncmp(*preset, name, n) == 0 && (*preset)[n] == '=')
            return *preset + n + 1;
    return NULL;
}

static enum weft_status take_one(struct weft_settings *s, const struct weft_opt *opt, void *target)
{
    const char *value = preset_value(s->preset, opt->name);
    if (!value)
        value = opt->initial;
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->setting[i].name, opt->name) == 0) {
            value = s->setting[i].value;
            s->setting[i].taken = true;
        }
    if (!parse(opt, value, target))
        return refuse(opt, value);
    return WEFT_OK;
}

enum weft_status weft_settings_take(struct weft_settings *s, const struct weft_owner *owner, void *target)
{
    if (s->owner_count == WEFT_MAX_OWNERS)
        return FAIL(WEFT_INVALID, "more than %d owners of options", WEFT_MAX_OWNERS);
    s->owner[s->owner_count++] = (struct weft_taken){owner, target};
    for (int i = 0; target && i < owner->count; i++)
        TRY(take_one(s, &owner->options[i], target));
    return WEFT_OK;
}

static const struct weft_owner *owner_of(const struct weft_settings *s, const char *name)
{
    for (int o = 0; o < s->owner_count; o++)
        for (int i = 0; i < s->owner[o].owner->count; i++)
            if (strcmp(name, s->owner[o].owner->options[i].name) == 0)
                return s->owner[o].owner;
    return NULL;
}

enum weft_status weft_settings_finish(const struct weft_settings *s)
{
    const char *names[512];
    int n = 0;
    for (int o = 0; o < s->owner_count; o++)
        for (int i = 0; i < s->owner[o].owner->count && n < 512; i++)
            names[n++] = s->owner[o].owner->options[i].name;
    for (int i = 0; i < s->count; i++) {
        const char *name = s->setting[i].name;
        if (s->setting[i].taken)
            continue;
        const struct weft_owner *owner = owner_of(s, name);
        if (owner)
            return FAIL(WEFT_INVALID, "%s is an option of %s, which has no part in this: leave it out%s%s", name,
                        owner->name, strchr(owner->name, '=') ? ", or set " : "",
                        strchr(owner->name, '=') ? owner->name : "");
        const char *near = weft_suggest(name, names, n);
        return FAIL(WEFT_INVALID, "there is no option \"%s\"%s%s%s `weft help options` lists all", name,
                    near ? ": did you mean " : "", near ? near : "", near ? "?" : ".");
    }
    return WEFT_OK;
}

static const char *value_text(const struct weft_opt *opt, const char *target, char *text, size_t size)
{
    const char *at = target + opt->offset;
    switch (opt->type) {
    case WEFT_OPT_INT:
        snprintf(text, size, "%lld", (long long)*(const int64_t *)at);
        return text;
    case WEFT_OPT_REAL:
        snprintf(text, size, "%.9g", *(const double *)at);
        return text;
    case WEFT_OPT_BOOL:
        return *(const bool *)at ? "yes" : "no";
    default:
        return opt->choices[*(const int *)at];
    }
}

void weft_settings_each(const struct weft_settings *s, void *context,
                        void (*visit)(void *context, const struct weft_opt *opt, const char *value))
{
    char text[32];
    for (int o = 0; o < s->owner_count; o++)
        for (int i = 0; s->owner[o].target && i < s->owner[o].owner->count; i++) {
            const struct weft_opt *opt = &s->owner[o].owner->options[i];
            visit(context, opt, value_text(opt, s->owner[o].target, text, sizeof text));
        }
}

void weft_owner_print(const struct weft_owner *owner, FILE *to)
{
    fprintf(to, "%s\n", owner->name);
    for (int i = 0; i < owner->count; i++) {
        const struct weft_opt *opt = &owner->options[i];
        char range[256];
        describe_range(opt, range, sizeof range);
        fprintf(to, "  %-14s %s\n  %-14s %s; default %s\n", opt->name, opt->help, "", range, opt->initial);
    }
}
