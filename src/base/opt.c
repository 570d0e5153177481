/* SPDX-License-Identifier: MIT
 *
 * opt.c - collects settings from the command line and from files, for their owners to read.
 */
#include "base/opt.h"
#include "base/json.h"

#include <assert.h>
#include <string.h>

void weft_settings_release(struct weft_settings *s)
{
    weft_arena_release(&s->arena);
    *s = (struct weft_settings){0};
}

/* ---- collecting */

/* Inserts a setting at index `at` of the list. Later settings take precedence. */
static enum weft_status insert(struct weft_settings *s, int at, struct weft_setting setting)
{
    if (!setting.name || !setting.value)
        return FAIL(WEFT_NOMEM, "not enough memory for settings");
    if (s->count == WEFT_MAX_SETTINGS)
        return FAIL(WEFT_INVALID, "more than %d settings", WEFT_MAX_SETTINGS);
    memmove(&s->setting[at + 1], &s->setting[at], (size_t)(s->count - at) * sizeof setting);
    s->setting[at] = setting;
    s->count++;
    return WEFT_OK;
}

enum weft_status weft_settings_add(struct weft_settings *s, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return FAIL(WEFT_INVALID, "\"%s\" is not a setting: write NAME=VALUE, for example layers=4", text);
    struct weft_setting setting = {.name = weft_arena_print(&s->arena, "%.*s", (int)(equals - text), text),
                                   .value = weft_arena_print(&s->arena, "%s", equals + 1)};
    TRY(insert(s, s->count, setting));
    return WEFT_OK;
}

enum weft_status weft_settings_add_words(struct weft_settings *s, const char *text)
{
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        size_t n = strcspn(text, " ");
        const char *word = weft_arena_print(&s->arena, "%.*s", (int)n, text);
        TRY(word ? weft_settings_add(s, word) : FAIL(WEFT_NOMEM, "not enough memory for settings"));
        text += n;
    }
    return WEFT_OK;
}

enum weft_status weft_settings_put(struct weft_settings *s, struct weft_setting setting)
{
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
        return copy ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for settings");
    }
    struct weft_setting setting = {weft_arena_print(&s->arena, "%s", name), copy, .file = l->file};
    TRY(insert(s, s->loaded, setting));
    s->loaded++;
    return WEFT_OK;
}

enum weft_status weft_settings_load(struct weft_settings *s, const char *path)
{
    struct loading loading = {s, weft_arena_print(&s->arena, "%s", path)};
    if (!loading.file)
        return FAIL(WEFT_NOMEM, "not enough memory for settings");
    TRY(weft_json_load(path, load_entry, &loading));
    return WEFT_OK;
}

/* ---- reading by owners */

static enum weft_status take_one(struct weft_settings *s, const struct weft_opt *opt, void *target)
{
    const char *of_preset = weft_preset_value(s->preset, opt->name);
    struct weft_setting setting = {.name = opt->name, .value = of_preset ? of_preset : opt->initial};
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->setting[i].name, opt->name) == 0) {
            s->setting[i].taken = true;
            setting = s->setting[i];
        }
    TRY(weft_opt_read(opt, &setting, (char *)target + opt->offset));
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

/* ---- listing and saving */

void weft_settings_each(const struct weft_settings *s, void *context,
                        void (*visit)(void *context, const struct weft_opt *opt, const char *value))
{
    char text[WEFT_MAX_VALUE];
    for (int o = 0; o < s->owner_count; o++)
        for (int i = 0; s->owner[o].target && i < s->owner[o].owner->count; i++) {
            const struct weft_opt *opt = &s->owner[o].owner->options[i];
            visit(context, opt, weft_opt_text(opt, (const char *)s->owner[o].target + opt->offset, text));
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
        return FAIL(WEFT_IO, "cannot write the config: the disk may be full or the pipe closed");
    return WEFT_OK;
}
