/* SPDX-License-Identifier: MIT
 *
 * opt.c - settings from the command line and from files, the owners that take them, and what is left over.
 */
#include "base/opt.h"
#include "base/json.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void weft_settings_release(struct weft_settings *s)
{
    weft_arena_release(&s->arena);
    *s = (struct weft_settings){0};
}

/* ---- collecting */

/* Puts a setting at a place of the list, which is also its rank: later ones win. */
static enum weft_status insert(struct weft_settings *s, int at, struct weft_setting setting)
{
    if (!setting.name || !setting.value)
        return FAIL(WEFT_NOMEM, "no memory left for settings");
    if (s->count == WEFT_MAX_SETTINGS)
        return FAIL(WEFT_INVALID, "more than %d settings", WEFT_MAX_SETTINGS);
    memmove(&s->setting[at + 1], &s->setting[at], (size_t)(s->count - at) * sizeof setting);
    s->setting[at] = setting;
    s->count++;
    return WEFT_OK;
}

enum weft_status weft_settings_add(struct weft_settings *s, const char *text)
{
    const char *is = strchr(text, '=');
    if (!is || is == text || !is[1])
        return FAIL(WEFT_INVALID, "\"%s\" is no setting: write NAME=VALUE, for example layers=4", text);
    struct weft_setting setting = {.name = weft_arena_print(&s->arena, "%.*s", (int)(is - text), text),
                                   .value = weft_arena_print(&s->arena, "%s", is + 1)};
    TRY(insert(s, s->count, setting));
    return WEFT_OK;
}

struct loading {
    struct weft_settings *s;
    const char *file;
};

static enum weft_status load_entry(void *context, const char *name, const char *value)
{
    const struct loading *l = context;
    struct weft_settings *s = l->s;
    const char *copy = weft_arena_print(&s->arena, "%s", value);
    if (strcmp(name, "preset") == 0) {
        s->preset_name = copy;
        return copy ? WEFT_OK : FAIL(WEFT_NOMEM, "no memory left for settings");
    }
    TRY(insert(s, s->loaded, (struct weft_setting){weft_arena_print(&s->arena, "%s", name), copy, l->file, false}));
    s->loaded++;
    return WEFT_OK;
}

enum weft_status weft_settings_load(struct weft_settings *s, const char *path)
{
    struct loading loading = {s, weft_arena_print(&s->arena, "%s", path)};
    if (!loading.file)
        return FAIL(WEFT_NOMEM, "no memory left for settings");
    TRY(weft_json_load(path, load_entry, &loading));
    return WEFT_OK;
}

/* ---- values */

static enum weft_status refuse(const struct weft_opt *opt, const char *value, const char *file)
{
    char range[256];
    weft_opt_range(opt, range, sizeof range);
    int n = 0;
    while (opt->type == WEFT_OPT_CHOICE && opt->choices[n])
        n++;
    const char *near = weft_suggest(value, opt->choices, n);
    return FAIL(WEFT_INVALID, "%s%s%s=%s is not possible: give %s%s%s%s", file ? file : "", file ? ": " : "", opt->name,
                value, range, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

bool weft_text_int(const char *text, int64_t *n)
{
    char *end = NULL;
    errno = 0;
    *n = strtoll(text, &end, 10);
    return *text && !text[strspn(text, "0123456789+-")] && !errno && !*end;
}

bool weft_text_real(const char *text, double *x)
{
    char *end = NULL;
    errno = 0;
    *x = strtod(text, &end);
    return *text && !text[strspn(text, "0123456789+-.eE")] && !errno && !*end;
}

static bool parse_number(const struct weft_opt *opt, const char *text, void *at)
{
    int64_t *n = at;
    double *x = at;
    if (opt->type == WEFT_OPT_INT)
        return weft_text_int(text, n) && (double)*n >= opt->min && (double)*n <= opt->max;
    return weft_text_real(text, x) && *x >= opt->min && *x <= opt->max;
}

static bool parse(const struct weft_opt *opt, const char *text, void *at)
{
    bool yes = strcmp(text, "yes") == 0;
    switch (opt->type) {
    case WEFT_OPT_BOOL:
        *(bool *)at = yes;
        return yes || strcmp(text, "no") == 0;
    case WEFT_OPT_CHOICE:
        for (int i = 0; opt->choices[i]; i++)
            if (strcmp(text, opt->choices[i]) == 0) {
                *(int *)at = i;
                return true;
            }
        return false;
    case WEFT_OPT_TEXT:
        *(const char **)at = text;
        return weft_json_holds(text);
    default:
        return parse_number(opt, text, at);
    }
}

enum { VALUE_TEXT = 40 };

static const char *value_text(const struct weft_opt *opt, const void *at, char text[VALUE_TEXT])
{
    switch (opt->type) {
    case WEFT_OPT_INT:
        snprintf(text, VALUE_TEXT, "%lld", (long long)*(const int64_t *)at);
        return text;
    case WEFT_OPT_REAL:
        weft_json_real(*(const double *)at, text, VALUE_TEXT);
        return text;
    case WEFT_OPT_BOOL:
        return *(const bool *)at ? "yes" : "no";
    case WEFT_OPT_TEXT:
        return *(const char *const *)at;
    default:
        return opt->choices[*(const int *)at];
    }
}

/* Equal as values: 1e4 is 10000. */
static bool same_value(const struct weft_opt *opt, const char *value, const char *other_value)
{
    union {
        int64_t n;
        double x;
        bool yes;
        int choice;
        const char *text;
    } one, other;
    char a[VALUE_TEXT], b[VALUE_TEXT];
    return parse(opt, value, &one) && parse(opt, other_value, &other) &&
           strcmp(value_text(opt, &one, a), value_text(opt, &other, b)) == 0;
}

static bool is_initial(const struct weft_opt *opt, const char *value) { return same_value(opt, value, opt->initial); }

/* ---- taking */

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
    const char *value = preset_value(s->preset, opt->name), *file = NULL;
    if (!value)
        value = opt->initial;
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->setting[i].name, opt->name) == 0) {
            value = s->setting[i].value;
            file = s->setting[i].file;
            s->setting[i].taken = true;
        }
    if (!parse(opt, value, (char *)target + opt->offset))
        return refuse(opt, value, file);
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

/* ---- what is left over */

static bool is_overruled(const struct weft_settings *s, int i)
{
    for (int later = i + 1; later < s->count; later++)
        if (strcmp(s->setting[later].name, s->setting[i].name) == 0)
            return true;
    return false;
}

static enum weft_status refuse_unknown(const struct weft_settings *s, const struct weft_setting *setting)
{
    const char *names[512];
    int n = 0;
    for (int o = 0; o < s->owner_count; o++)
        for (int i = 0; i < s->owner[o].owner->count && n < 512; i++)
            names[n++] = s->owner[o].owner->options[i].name;
    const char *near = weft_suggest(setting->name, names, n), *file = setting->file;
    return FAIL(WEFT_INVALID, "%s%sthere is no option \"%s\"%s%s%s `weft help options` lists all", file ? file : "",
                file ? ": " : "", setting->name, near ? ": did you mean " : "", near ? near : "", near ? "?" : ".");
}

/* Several owners may have an option of one name; here none of them has a part in the model. */
static enum weft_status check_unused(const struct weft_settings *s, const struct weft_setting *setting)
{
    char owners[256] = "";
    size_t used = 0;
    const struct weft_opt *opt = NULL;
    for (int o = 0; o < s->owner_count; o++)
        for (int i = 0; i < s->owner[o].owner->count && used < sizeof owners; i++)
            if (strcmp(setting->name, s->owner[o].owner->options[i].name) == 0) {
                opt = &s->owner[o].owner->options[i];
                if (is_initial(opt, setting->value))
                    return WEFT_OK;
                used += (size_t)snprintf(owners + used, sizeof owners - used, "%s%s", used ? " or " : "",
                                         s->owner[o].owner->name);
            }
    if (!opt)
        return refuse_unknown(s, setting);
    bool choosable = strchr(owners, '=');
    return FAIL(WEFT_INVALID, "%s%s%s is an option of %s, which has no part in this: leave it out or at %s%s%s",
                setting->file ? setting->file : "", setting->file ? ": " : "", setting->name, owners,
                *opt->initial ? opt->initial : "\"\"", choosable ? ", or set " : "", choosable ? owners : "");
}

/* The option of that name that has a part in this, and its value. */
static const struct weft_opt *taken(const struct weft_settings *s, const char *name, size_t length,
                                    char text[VALUE_TEXT], const char **value)
{
    for (int o = 0; o < s->owner_count; o++)
        for (int i = 0; s->owner[o].target && i < s->owner[o].owner->count; i++) {
            const struct weft_opt *opt = &s->owner[o].owner->options[i];
            if (strlen(opt->name) != length || strncmp(opt->name, name, length) != 0)
                continue;
            *value = value_text(opt, (const char *)s->owner[o].target + opt->offset, text);
            return opt;
        }
    return NULL;
}

bool weft_settings_met(const struct weft_settings *s, const char *condition)
{
    char text[VALUE_TEXT];
    const char *value, *is = strchr(condition, '=');
    bool not = is[-1] == '!';
    const struct weft_opt *opt = taken(s, condition, (size_t)(is - condition) - not, text, &value);
    return opt && same_value(opt, value, is + 1) != not ;
}

/* A value that was asked for and cannot matter. */
static enum weft_status check_idle(const struct weft_settings *s, const struct weft_setting *setting)
{
    char text[VALUE_TEXT];
    const char *value;
    const struct weft_opt *opt = taken(s, setting->name, strlen(setting->name), text, &value);
    if (!opt || !opt->needs || is_initial(opt, value) || weft_settings_met(s, opt->needs))
        return WEFT_OK;
    return FAIL(WEFT_INVALID, "%s%s%s=%s has no effect without %s: leave it out or at %s, or set that",
                setting->file ? setting->file : "", setting->file ? ": " : "", opt->name, value, opt->needs,
                opt->initial);
}

enum weft_status weft_settings_finish(const struct weft_settings *s)
{
    for (int i = 0; i < s->count; i++)
        if (!is_overruled(s, i))
            TRY((s->setting[i].taken ? check_idle : check_unused)(s, &s->setting[i]));
    return WEFT_OK;
}

/* ---- telling */

void weft_settings_each(const struct weft_settings *s, void *context,
                        void (*visit)(void *context, const struct weft_opt *opt, const char *value))
{
    char text[VALUE_TEXT];
    for (int o = 0; o < s->owner_count; o++)
        for (int i = 0; s->owner[o].target && i < s->owner[o].owner->count; i++) {
            const struct weft_opt *opt = &s->owner[o].owner->options[i];
            visit(context, opt, value_text(opt, (const char *)s->owner[o].target + opt->offset, text));
        }
}

static void save_text(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text; text++) {
        if (strchr("\"\\", *text))
            fputc('\\', to);
        fputc(*text, to);
    }
    fputc('"', to);
}

static void save_entry(void *context, const struct weft_opt *opt, const char *value)
{
    if (opt->type == WEFT_OPT_BOOL)
        value = strcmp(value, "yes") == 0 ? "true" : "false";
    fprintf(context, ",\n  \"%s\": ", opt->name);
    if (opt->type == WEFT_OPT_CHOICE || opt->type == WEFT_OPT_TEXT)
        save_text(context, value);
    else
        fputs(value, context);
}

enum weft_status weft_settings_save(const struct weft_settings *s, FILE *to)
{
    assert(s->preset_name);
    fprintf(to, "{\n  \"preset\": \"%s\"", s->preset_name);
    weft_settings_each(s, to, save_entry);
    fputs("\n}\n", to);
    if (fflush(to) || ferror(to))
        return FAIL(WEFT_IO, "the config could not be written: is the disk full or the pipe closed?");
    return WEFT_OK;
}
